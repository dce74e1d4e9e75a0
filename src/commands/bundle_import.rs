//! `bundle import`: check a bundle with local keys and fill a store from it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kubepkg_core::bundle::Bundle;
use kubepkg_core::store::ReceiptIndex;
use kubepkg_core::time::Time;
use kubepkg_importer::{Imported, Options, Trusted, import, verify_head};
use kubepkg_mirror::bucket::{BucketMode, BucketStore};
use kubepkg_mirror::store::{FileStore, OpenMode};
use serde_json::json;

use super::{bucket_place, store_folder};
use crate::cli::{AsOf, BundleKeys, Format, Reporting, Trust};
use crate::interrupt;
use crate::printer::Printer;
use crate::progress::Meter;
use crate::summary;
use crate::units::{local_time, size, span};

/// Flags of `bundle import`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg bundle import site.tar --store /srv/mirror --public-key \
                  release.pub",
    after_long_help = "What is trusted: the keys given here or with an earlier import into this \
                       store, and what it accepted before; nothing in the file. What is written: \
                       content and names in the store, and who is trusted, all in one step \
                       after everything was checked. Later imports need no keys; other ones need \
                       --change-trust. A second run with the same file does nothing and says so; \
                       an interrupted one is simply run again.\n\nExample:\n  kubepkg bundle import site.tar --store /srv/mirror \
                       --public-key release.pub"
)]
pub struct Arguments {
    /// The bundle
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The mirror's store: a folder on this host, or s3://BUCKET/PREFIX; made if there is none
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: PathBuf,
    /// Accept images that no signed package pins by digest, and content of no package
    #[arg(long)]
    pub allow_unpinned_images: bool,
    /// Who may have signed the bundle itself.
    #[command(flatten)]
    pub bundle_keys: BundleKeys,
    /// Let a package move its tags back to an older version, or to fewer signatures of the same one
    #[arg(long)]
    pub allow_tag_back: bool,
    /// Take in versions their publisher has withdrawn
    #[arg(long)]
    pub allow_withdrawn: bool,
    /// How many processors are used; all of them when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Whom to trust.
    #[command(flatten)]
    pub trust: Trust,
    /// Let these flags take the place of who the store trusts for a repository
    #[arg(help_heading = "Trust", long)]
    pub change_trust: bool,
    /// When expiry is judged.
    #[command(flatten)]
    pub as_of: AsOf,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Imports the bundle.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let trusted = Trusted {
        given: arguments.trust.given()?,
        bundle_keys: arguments.bundle_keys.read()?,
        allow_unpinned_images: arguments.allow_unpinned_images,
        allow_tag_back: arguments.allow_tag_back,
        allow_withdrawn: arguments.allow_withdrawn,
        change_trust: arguments.change_trust,
        as_of: arguments.as_of.as_of,
        max_age: arguments.trust.max_age_seconds(),
    };
    let bucket = bucket_place::open(&arguments.store)?;
    let there = match &bucket {
        Some(bucket) => BucketStore::is_in_blocking(bucket)?,
        None => {
            store_folder::check(&arguments.store)?;
            FileStore::is_at(&arguments.store)?
        }
    };
    // a store may know whom to trust, a new one does not
    let nobody = arguments.trust.names_nobody() && !there;
    if nobody && trusted.bundle_keys.is_empty() && !trusted.allow_unpinned_images {
        arguments.trust.required()?;
    }
    let bundle = Bundle::open(&arguments.file)?;
    if nobody && !bundle.head().repositories.is_empty() {
        arguments.trust.required()?;
    }
    let options = Options {
        now: Time::now(),
        jobs: arguments.jobs.map(usize::from),
    };
    let meter = Meter::new(printer);
    // the last step may be on its way to the disk
    let again = "run the same command again: it continues, or finds nothing to do";
    let began = Instant::now();
    let imported = interrupt::run(printer, again, async {
        if let Some(bucket) = bucket {
            let new = !BucketStore::is_in(&bucket).await?;
            if new {
                verify_head(&bundle, &trusted, options.now)?;
            }
            let store = BucketStore::open(bucket, BucketMode::OpenOrCreate).await?;
            if new {
                printer.say(&made(&arguments));
            }
            let imported = import(&bundle, &store, &trusted, options, &meter).await;
            store.settle().await;
            return Ok(imported?);
        }
        let new = !FileStore::is_at(&arguments.store)?;
        if new {
            // a bundle that is refused leaves no store behind
            verify_head(&bundle, &trusted, options.now)?;
        }
        let store = FileStore::open(&arguments.store, OpenMode::OpenOrCreate)?;
        if new {
            printer.say(&made(&arguments));
        }
        Ok(import(&bundle, &store, &trusted, options, &meter).await?)
    })?;
    for warning in &imported.receipt.warnings {
        printer.warn(warning);
    }
    match arguments.reporting.output {
        Format::Json => printer.answer_json(&json!({
            "commit": imported.commit,
            "receipt": imported.receipt,
        })),
        Format::Table => {
            if let Some(time) = arguments.as_of.as_of {
                printer.say(&format!(
                    "judged as of {}: content and names of charts and images were taken in; what \
                     is accepted and the published repository files stay as they were",
                    local_time(time)
                ));
            }
            printer.answer(&told(&arguments, &bundle, &imported, began.elapsed()))?;
            for index in &imported.receipt.repositories {
                printer.say(&acceptable(index));
            }
            Ok(())
        }
    }
}

fn made(arguments: &Arguments) -> String {
    format!(
        "made a new store in {}; nothing was accepted here before",
        arguments.store.display()
    )
}

/// How long clusters behind this mirror can go on with an index.
fn acceptable(index: &ReceiptIndex) -> String {
    match index.acceptable_until {
        Some(time) => {
            let left = time.since(Time::now());
            let left = match u64::try_from(left) {
                Ok(left) => format!("for {}", span(Duration::from_secs(left))),
                Err(_) => "no more".to_owned(),
            };
            format!(
                "{} is acceptable until {} ({left})",
                index.url,
                local_time(time)
            )
        }
        None => format!(
            "{} does not expire: nobody notices when newer ones are held back",
            index.url
        ),
    }
}

fn told(arguments: &Arguments, bundle: &Bundle, imported: &Imported, took: Duration) -> String {
    let store = arguments.store.display();
    match imported.commit {
        None if imported.receipt.new_bytes > 0 => format!(
            "{store} had lost {} of bundle {}, which are there again; no name was changed",
            size(imported.receipt.new_bytes),
            bundle.id()
        ),
        None if arguments.as_of.as_of.is_some() => format!(
            "{store} holds all content and names of bundle {}; no name was changed",
            bundle.id()
        ),
        None => format!(
            "{store} holds all of bundle {} already; nothing was changed",
            bundle.id()
        ),
        Some(number) => format!(
            "imported {} into {store} as commit {number} in {}; {} are new\n\n{}\n\n{}",
            arguments.file.display(),
            span(took),
            size(imported.receipt.new_bytes),
            summary::short(bundle.head()),
            summary::counts(bundle.head()),
        ),
    }
}

//! `bundle import`: check a bundle with local keys and fill a store from it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kubepkg_core::bundle::Bundle;
use kubepkg_core::time::Time;
use kubepkg_importer::{Imported, Options, Trusted, import, verify_head};
use kubepkg_mirror::store::{FileStore, OpenMode};
use serde_json::json;

use super::store_folder;
use crate::cli::{Format, Reporting, Trust};
use crate::interrupt;
use crate::printer::Printer;
use crate::progress::Meter;
use crate::summary;
use crate::units::{size, span};

/// Flags of `bundle import`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg bundle import site.tar --store /srv/mirror --public-key \
                  release.pub",
    after_long_help = "What is trusted: the public keys given here and what this store accepted \
                       before, nothing in the file. What is\nwritten: content and names in the \
                       store, all in one step after everything was checked. A second run with \
                       the\nsame file does nothing and says so; an interrupted one is simply run \
                       again.\n\nExample:\n  kubepkg bundle import site.tar --store /srv/mirror \
                       --public-key release.pub"
)]
pub struct Arguments {
    /// The bundle
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The mirror's store on this host; made if there is none
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// Accept images that no signed package pins by digest
    #[arg(long)]
    pub allow_unpinned_images: bool,
    /// Let a package move its tags back to an older version
    #[arg(long)]
    pub allow_tag_back: bool,
    /// How many processors are used; all of them when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Whom to trust.
    #[command(flatten)]
    pub trust: Trust,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Imports the bundle.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    arguments.trust.required()?;
    let trusted = Trusted {
        given: arguments.trust.given()?,
        allow_unpinned_images: arguments.allow_unpinned_images,
        allow_tag_back: arguments.allow_tag_back,
    };
    store_folder::check(&arguments.store)?;
    let bundle = Bundle::open(&arguments.file)?;
    let options = Options {
        now: Time::now(),
        jobs: arguments.jobs.map(usize::from),
    };
    let meter = Meter::new(printer);
    // the last step may be on its way to the disk
    let again = "run the same command again: it continues, or finds nothing to do";
    let began = Instant::now();
    let imported = interrupt::run(printer, again, async {
        let new = !FileStore::is_at(&arguments.store)?;
        if new {
            // a bundle that is refused leaves no store behind
            verify_head(&bundle, &trusted, options.now)?;
        }
        let store = FileStore::open(&arguments.store, OpenMode::OpenOrCreate)?;
        if new {
            printer.say(&format!(
                "made a new store in {}; nothing was accepted here before",
                arguments.store.display()
            ));
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
        Format::Table => printer.answer(&told(&arguments, &bundle, &imported, began.elapsed())),
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
        None => format!(
            "{store} holds all of bundle {} already; nothing was changed",
            bundle.id()
        ),
        Some(number) => format!(
            "imported {} into {store} as commit {number} in {}; {} are new\n\n{}\n\n{}",
            arguments.file.display(),
            span(took),
            size(imported.receipt.new_bytes),
            summary::packages(bundle.head()),
            summary::counts(bundle.head()),
        ),
    }
}

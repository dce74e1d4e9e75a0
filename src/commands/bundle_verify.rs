//! `bundle verify`: everything that import checks, changing nothing.

use std::path::PathBuf;
use std::time::Instant;

use kubepkg_core::bundle::Bundle;
use kubepkg_core::time::Time;
use kubepkg_importer::{Checked, Judged, Trusted, Vouched, verify};
use serde_json::json;

use crate::cli::{AsOf, BundleKeys, Format, Reporting, Trust};
use crate::interrupt;
use crate::printer::Printer;
use crate::progress::Meter;
use crate::summary;
use crate::units::{size, span};

/// Flags of `bundle verify`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg bundle verify site.tar --public-key release.pub",
    after_long_help = "What is trusted: the public keys given here, nothing in the file. \
                       Signatures, packages, charts, images and the digest of every byte are \
                       checked. Nothing is written, so it can be run any number of times.\n\n\
                       Example:\n  kubepkg bundle verify site.tar --public-key release.pub"
)]
pub struct Arguments {
    /// The bundle
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Accept images that no signed package pins by digest, and content of no package
    #[arg(long)]
    pub allow_unpinned_images: bool,
    /// Who may have signed the bundle itself.
    #[command(flatten)]
    pub bundle_keys: BundleKeys,
    /// Accept versions their publisher has withdrawn
    #[arg(long)]
    pub allow_withdrawn: bool,
    /// How many processors are used; all of them when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Whom to trust.
    #[command(flatten)]
    pub trust: Trust,
    /// When expiry is judged.
    #[command(flatten)]
    pub as_of: AsOf,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Checks the bundle.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let trusted = Trusted {
        given: arguments.trust.given()?,
        bundle_keys: arguments.bundle_keys.read()?,
        allow_unpinned_images: arguments.allow_unpinned_images,
        allow_withdrawn: arguments.allow_withdrawn,
        as_of: arguments.as_of.as_of,
        max_age: arguments.trust.max_age_seconds(),
        ..Trusted::default()
    };
    if trusted.bundle_keys.is_empty() && !trusted.allow_unpinned_images {
        arguments.trust.required()?;
    }
    let bundle = Bundle::open(&arguments.file)?;
    if !bundle.head().repositories.is_empty() {
        arguments.trust.required()?;
    }
    let began = Instant::now();
    let jobs = arguments.jobs.map(usize::from);
    let meter = Meter::new(printer);
    let again = "nothing was changed; run the same command again";
    let (bundle, checked) = interrupt::run(printer, again, async {
        // it reads and hashes without pause, so it gets a thread of its own
        let work = move || {
            let checked = verify(&bundle, &trusted, Time::now(), jobs, &meter);
            checked.map(|checked| (bundle, checked))
        };
        Ok(tokio::task::spawn_blocking(work).await??)
    })?;
    for warning in &checked.warnings {
        printer.warn(warning);
    }
    let size_of_file = bundle.layout().len();
    match arguments.reporting.output {
        Format::Json => printer.answer_json(&json!({
            "bundle": bundle.id(),
            "size": size_of_file,
            "repositories": checked.judged.iter().map(|judged| json!({
                "url": judged.entry.url,
                "index": judged.offered,
                "generated": judged.verdict.index.generated,
                "expires": judged.verdict.index.expires,
                "signedBy": judged.verdict.signed_by.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "packages": bundle.head().packages,
            "vouchedBy": match &checked.vouched {
                Vouched::By(key) => Some(key.to_string()),
                _ => None,
            },
            "warnings": checked.warnings,
        })),
        Format::Table => printer.answer(&format!(
            "{} is {}: {} checked in {}\nbundle {}\n\n{}\n\n{}",
            arguments.file.display(),
            standing(&checked),
            size(size_of_file),
            span(began.elapsed()),
            bundle.id(),
            summary::short(bundle.head()),
            summary::counts(bundle.head()),
        )),
    }
}

/// What was found out, and no more than that.
fn standing(checked: &Checked) -> &'static str {
    let unsigned = |judged: &&Judged| judged.verdict.signed_by.is_empty();
    if checked.judged.is_empty() {
        return match checked.vouched {
            Vouched::By(_) => "whole, and signed by a key given for it",
            _ => "whole; nobody vouches for it",
        };
    }
    match (
        checked.judged.iter().filter(unsigned).count(),
        checked.judged.len(),
    ) {
        (0, _) => "whole and trusted",
        (1, 1) => "whole; its index is not signed",
        (unsigned, all) if unsigned == all => "whole; its indexes are not signed",
        _ => "whole; not all of its indexes are signed",
    }
}

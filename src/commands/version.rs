//! `version`: which formats this kubepkg reads and writes.

use serde::Serialize;

use crate::cli::{Format, Reporting};
use crate::printer::Printer;

/// Flags of `version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kubepkg version -o json")]
pub struct Arguments {
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// The answer. Members are only ever added.
#[derive(Debug, Serialize)]
struct Version {
    version: &'static str,
    formats: Formats,
    /// Optional features of the bundle format that are understood.
    features: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Formats {
    bundle: ReadsAndWrites,
    index: ReadsAndWrites,
}

#[derive(Debug, Serialize)]
struct ReadsAndWrites {
    reads: Vec<&'static str>,
    writes: &'static str,
}

/// `apiVersion` of an index file.
const INDEX_FORMAT: &str = "kubepkg.dev/v1alpha1";

/// Shows the version.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let bundle = kubepkg_core::bundle::head::FORMAT;
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        formats: Formats {
            bundle: ReadsAndWrites {
                reads: vec![bundle],
                writes: bundle,
            },
            index: ReadsAndWrites {
                reads: vec![INDEX_FORMAT],
                writes: INDEX_FORMAT,
            },
        },
        features: Vec::new(),
    };
    match arguments.reporting.output {
        Format::Json => printer.answer_json(&version),
        Format::Table => printer.answer(&format!(
            "kubepkg {}\nbundle format {}\nindex format {}",
            version.version, version.formats.bundle.writes, version.formats.index.writes
        )),
    }
}

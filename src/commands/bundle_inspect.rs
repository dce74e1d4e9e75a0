//! `bundle inspect`: what a bundle says it holds.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use kubepkg_core::bundle::open_head;
use serde_json::json;

use crate::cli::{Format, Reporting};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::summary;

/// Flags of `bundle inspect`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg bundle inspect site.tar",
    after_long_help = "Reads the head of the file only. Nothing is trusted and nothing is \
                       checked but the form: use bundle verify before you believe it. Nothing \
                       is written.\n\nExample:\n  kubepkg bundle inspect site.tar -o json"
)]
pub struct Arguments {
    /// The bundle; - for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Shows the head.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let path = &arguments.file;
    let failed = |error| CommandError::io("cannot read the bundle", error).at(path.display());
    let stdin = path.as_os_str() == "-";
    let file = match stdin {
        true => File::from(
            std::io::stdin()
                .as_fd()
                .try_clone_to_owned()
                .map_err(failed)?,
        ),
        false => File::open(path).map_err(failed)?,
    };
    let metadata = file.metadata().map_err(failed)?;
    // what comes through a pipe has no size, and stdin may stand anywhere in a file
    let len = (metadata.is_file() && !stdin).then_some(metadata.len());
    let opened = open_head(file).map_err(|error| error.in_file(path))?;
    if let Some(len) = len
        && opened.layout.len() != len
    {
        printer.warn(&format!(
            "the file has {len} bytes, and its head says {}; bundle verify refuses it",
            opened.layout.len()
        ));
    }
    let id = opened.layout.id();
    match arguments.reporting.output {
        Format::Json => printer.answer_json(&json!({
            "bundle": id,
            "size": opened.layout.len(),
            "head": opened.head,
        })),
        Format::Table => printer.answer(&summary::whole(&opened.head, &id, opened.layout.len())),
    }
}

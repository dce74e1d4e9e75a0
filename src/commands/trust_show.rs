//! `trust show`: who may sign what, until when, and what was accepted.

pub mod memory;
mod root;

use std::path::PathBuf;

use kubepkg_core::trust::{Anchor, Entry, KeySet};
use serde_json::{Value, json};

use super::repo_config::told;
use crate::cli::{Format, Reporting, read_trust_file};
use crate::error::CommandError;
use crate::printer::{Printer, table};
use crate::root_files;

/// Flags of `trust show`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg trust show root.yaml",
    after_long_help = "With FILE: a root of trust (who may sign what, how many must, until when, \
                       who has signed it) or a trust file. With --store: whom a mirror's store \
                       trusts and what it accepted. With neither: what this command remembers \
                       of the repositories it used. Nothing is judged, and nothing is \
                       written.\n\nExample:\n  kubepkg trust show root.yaml\n  kubepkg trust show \
                       --store /srv/mirror -o json"
)]
pub struct Arguments {
    /// A root or a trust file
    #[arg(value_name = "FILE", conflicts_with = "store")]
    pub file: Option<PathBuf>,
    /// A mirror's store: a folder on this host, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: Option<PathBuf>,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Shows it.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let format = arguments.reporting.output;
    let file = match (&arguments.file, &arguments.store) {
        (Some(file), _) => file,
        (None, Some(store)) => {
            return memory::show(&memory::of_store(store, printer)?, format, printer);
        }
        (None, None) => return memory::show(&memory::of_user(printer)?, format, printer),
    };
    if is_trust_file(file)? {
        let entries = read_trust_file(file)?;
        return show_entries(&entries, format, printer);
    }
    let read = root_files::read(file)?;
    root::show(file, &read, format, printer)
}

/// Whether a file says it is a trust file. All else is taken for a root, which says better what
/// is wrong with it.
fn is_trust_file(file: &std::path::Path) -> Result<bool, CommandError> {
    use std::io::Read as _;
    let failed = |error| CommandError::io("cannot read the file", error).at(file.display());
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(64 * 1024).read_to_end(&mut bytes))
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().any(|line| line.trim_end() == "kind: Trust"))
}

fn show_entries(entries: &[Entry], format: Format, printer: &Printer) -> anyhow::Result<()> {
    match format {
        Format::Json => {
            let list: Vec<Value> = entries.iter().map(entry_json).collect();
            printer.answer_json(&json!({ "entries": list }))
        }
        Format::Table => {
            let rows: Vec<Vec<String>> = entries
                .iter()
                .map(|entry| {
                    vec![
                        entry.id.clone(),
                        entry.url.to_string(),
                        told(&entry.anchor),
                        asked(entry),
                    ]
                })
                .collect();
            printer.answer(&table(&["ENTRY", "URL", "TRUSTED", "ALSO ASKED"], &rows))
        }
    }
}

/// What an entry asks besides signatures.
pub fn asked(entry: &Entry) -> String {
    let mut parts = Vec::new();
    let of = |set: &KeySet| format!("{} of {}", set.threshold(), set.keys().len());
    if let Some(set) = &entry.approvals {
        parts.push(format!("approvals by {}", of(set)));
    }
    if let Some(set) = &entry.bundle_signers {
        parts.push(format!("bundles signed by {}", of(set)));
    }
    if !entry.locations.is_empty() {
        let places: Vec<String> = entry.locations.iter().map(ToString::to_string).collect();
        parts.push(format!("only from {}", places.join(", ")));
    }
    if !entry.platforms.is_empty() {
        parts.push(format!("complete for {}", entry.platforms.join(", ")));
    }
    match parts.is_empty() {
        true => "-".to_owned(),
        false => parts.join("; "),
    }
}

/// Key ids and threshold of a set.
pub fn set_json(set: &KeySet) -> Value {
    let ids: Vec<String> = set.ids().iter().map(ToString::to_string).collect();
    json!({ "keyids": ids, "threshold": set.threshold() })
}

/// An entry as JSON.
pub fn entry_json(entry: &Entry) -> Value {
    let mut value = json!({ "id": entry.id, "url": entry.url });
    match &entry.anchor {
        Anchor::Root(set) => value["root"] = set_json(set),
        Anchor::Keys(set) => value["keys"] = set_json(set),
        Anchor::Unsigned => value["unsigned"] = true.into(),
    }
    if let Some(set) = &entry.approvals {
        value["approvals"] = set_json(set);
    }
    if let Some(set) = &entry.bundle_signers {
        value["bundleSigners"] = set_json(set);
    }
    if !entry.locations.is_empty() {
        let places: Vec<String> = entry.locations.iter().map(ToString::to_string).collect();
        value["locations"] = places.into();
    }
    if !entry.platforms.is_empty() {
        value["platforms"] = entry.platforms.clone().into();
    }
    value
}

//! `mirror wanted`: what clients asked a mirror for and did not get.

use std::path::PathBuf;

use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_mirror::wanted::{Tally, WantedTable};
use serde_json::json;

use super::{bucket_place, store_folder};
use crate::cli::{Format, Reporting};
use crate::interrupt;
use crate::printer::{Printer, table};
use crate::units::{count, local_time};

/// Flags of `mirror wanted`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror wanted --store /srv/mirror",
    after_long_help = "Lists the images that nodes and people asked for and that are not here, \
                       those asked for last first: what the next bundle should bring. A running \
                       server brings its counts into the store every 10 seconds. At most 10000 \
                       references are kept, those asked for least recently go first; 16 clients of \
                       each. Probes for signatures and referrers, for blobs and for names that \
                       cannot exist are only counted. What was imported or pushed since leaves the \
                       list. Nothing is changed.\n\nExample:\n  kubepkg mirror wanted --store \
                       /srv/mirror --references"
)]
pub struct Arguments {
    /// The mirror's store on this host
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// Only the references, one a line, to be carried to where bundles are made
    #[arg(long, conflicts_with = "output")]
    pub references: bool,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Lists them.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    bucket_place::refuse(
        &arguments.store,
        "mirror wanted",
        "each mirror on a bucket counts for itself what was asked for in vain, and forgets it when it \
         ends; how often that was says its /metrics",
    )?;
    store_folder::must_be_found(&arguments.store)?;
    let wanted = interrupt::run(printer, "run the same command again", async {
        let store = FileStore::open(&arguments.store, OpenMode::ReadOnly)?;
        Ok(store.wanted().await?)
    })?;
    let mut references: Vec<_> = wanted.references().collect();
    references.reverse();
    if arguments.references {
        let mut lines: Vec<String> = references.iter().map(|m| m.reference.to_string()).collect();
        lines.sort();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        return printer.raw_answer(text.as_bytes());
    }
    match arguments.reporting.output {
        Format::Json => printer.answer_json(&json!({
            "references": references,
            "counted": wanted.counted(),
        })),
        Format::Table => {
            let rows: Vec<Vec<String>> = references
                .iter()
                .map(|misses| {
                    let mut clients: Vec<String> = misses
                        .clients
                        .iter()
                        .take(3)
                        .map(ToString::to_string)
                        .collect();
                    if misses.clients.len() > clients.len() || misses.more_clients {
                        clients.push("…".to_owned());
                    }
                    vec![
                        misses.reference.to_string(),
                        misses.count.to_string(),
                        local_time(misses.last),
                        clients.join(", "),
                    ]
                })
                .collect();
            if rows.is_empty() {
                printer.say("nothing that could be carried was asked for in vain");
            } else {
                printer.answer(&table(&["REFERENCE", "TIMES", "LAST", "CLIENTS"], &rows))?;
            }
            if let Some(line) = only_counted(&wanted) {
                printer.say(&line);
            }
            Ok(())
        }
    }
}

fn only_counted(wanted: &WantedTable) -> Option<String> {
    let counted = wanted.counted();
    let parts = [
        ("signature tag", "signature tags", counted.signatures),
        ("list of referrers", "lists of referrers", counted.referrers),
        ("blob", "blobs", counted.blobs),
        ("illegal name", "illegal names", counted.illegal),
    ];
    let shown: Vec<String> = parts
        .iter()
        .filter(|(_, _, tally)| tally.count > 0)
        .map(|(one, many, Tally { count: n, .. })| {
            count(usize::try_from(*n).unwrap_or(usize::MAX), one, many)
        })
        .collect();
    (!shown.is_empty()).then(|| format!("besides, only counted: {}", shown.join(", ")))
}

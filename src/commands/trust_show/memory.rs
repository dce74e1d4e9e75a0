//! What was accepted, shown: of this command, or of a store.

use std::collections::BTreeMap;
use std::path::Path;

use kubepkg_core::trust::{KNOWN_ID, Memory, Remembered};
use kubepkg_mirror::store::OpenMode;
use serde_json::{Value, json};

use super::entry_json;
use crate::cli::Format;
use crate::commands::repo_config::told;
use crate::commands::some_store::SomeStore;
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::{Printer, table};
use crate::state::State;
use crate::units::local_time;

fn names(folder: &Path, printer: &Printer) -> anyhow::Result<BTreeMap<String, Value>> {
    let again = "run the same command again";
    interrupt::run(printer, again, async {
        let store = SomeStore::open(folder, OpenMode::ReadOnly).await?;
        Ok(store.names().await?.trust.clone())
    })
}

/// The ids of a store's entries, damaged ones included: those can be reset too.
pub fn ids_of_store(folder: &Path, printer: &Printer) -> anyhow::Result<Vec<String>> {
    let names = names(folder, printer)?;
    let ids = names.keys().filter(|id| *id != KNOWN_ID);
    Ok(ids.cloned().collect())
}

/// The memories of a store.
pub fn of_store(folder: &Path, printer: &Printer) -> anyhow::Result<Vec<Memory>> {
    let names = names(folder, printer)?;
    let records = names.iter().filter(|(id, _)| *id != KNOWN_ID);
    let memories = records.map(|(id, json)| {
        Memory::from_value(json).map_err(|error| {
            CommandError::refused(error.to_string())
                .at(format!("{}: entry {id}", folder.display()))
                .hint(format!(
                    "restore the store from a backup, or: kubepkg trust reset {id} --store {}",
                    folder.display()
                ))
        })
    });
    Ok(memories.collect::<Result<_, _>>()?)
}

/// The memories of this command.
pub fn of_user(printer: &Printer) -> anyhow::Result<Vec<Memory>> {
    let Remembered { memories, .. } = State::of_user(printer).read()?;
    Ok(memories.into_values().collect())
}

/// Shows them.
pub fn show(memories: &[Memory], format: Format, printer: &Printer) -> anyhow::Result<()> {
    match format {
        Format::Json => {
            let list: Vec<Value> = memories.iter().map(memory_json).collect();
            printer.answer_json(&json!({ "entries": list }))
        }
        Format::Table if memories.is_empty() => {
            printer.say("nothing was accepted here yet");
            Ok(())
        }
        Format::Table => {
            let rows: Vec<Vec<String>> = memories.iter().map(row).collect();
            printer.answer(&table(
                &[
                    "ENTRY",
                    "URL",
                    "TRUSTED",
                    "ROOT",
                    "INDEX OF",
                    "ACCEPTED",
                    "WITHDRAWN",
                ],
                &rows,
            ))
        }
    }
}

fn row(memory: &Memory) -> Vec<String> {
    let none = || "-".to_owned();
    let accepted = memory.accepted.as_ref();
    vec![
        memory.entry.clone(),
        memory.url.to_string(),
        memory
            .trust
            .as_ref()
            .map_or_else(none, |trust| told(&trust.anchor)),
        accepted
            .and_then(|accepted| accepted.root.as_ref())
            .map_or_else(none, |root| format!("version {}", root.version)),
        accepted
            .and_then(|accepted| accepted.generated)
            .map_or_else(none, local_time),
        accepted.map_or_else(none, |accepted| local_time(accepted.first_seen)),
        accepted.map_or_else(none, |accepted| accepted.withdrawn.len().to_string()),
    ]
}

fn memory_json(memory: &Memory) -> Value {
    let accepted = memory.accepted.as_ref().map(|accepted| {
        let signers: Vec<String> = accepted.signed_by.iter().map(ToString::to_string).collect();
        json!({
            "index": accepted.index,
            "generated": accepted.generated,
            "firstSeen": accepted.first_seen,
            "signedBy": signers,
            "root": accepted.root.as_ref().map(|root| json!({
                "version": root.version,
                "expires": root.expires,
                "digest": root.digest(),
            })),
            "withdrawnSeen": accepted.withdrawn.len(),
        })
    });
    json!({
        "id": memory.entry,
        "url": memory.url,
        "trust": memory.trust.as_ref().map(entry_json),
        "accepted": accepted,
    })
}

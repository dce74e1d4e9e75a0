//! `trust reset`: drop what was accepted under a trust entry.

use std::path::PathBuf;

use kubepkg_core::time::Time;
use kubepkg_importer::reset;
use kubepkg_mirror::store::OpenMode;

use super::some_store::SomeStore;
use super::trust_show::memory;
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;
use crate::state::State;

/// Flags of `trust reset`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg trust reset packages.example.com-7c3f7ad5a1f0 --store /srv/mirror",
    after_long_help = "Drops what was accepted under ENTRY: root, index, versions seen \
                       withdrawn. Who is trusted stays, and so do content and published files. \
                       After that an older index or another chain of roots can be accepted once: \
                       do it only when the publisher had to start anew, and said so by a way you \
                       trust. Without --store it is this command's own memory. What is written: \
                       the store's record of changes names the reset, or resets.jsonl beside the \
                       memory. A second run finds nothing to drop.\n\nExample:\n  kubepkg trust \
                       reset packages.example.com-7c3f7ad5a1f0 --store /srv/mirror"
)]
pub struct Arguments {
    /// Id of the entry, as `kubepkg trust show` lists it
    #[arg(value_name = "ENTRY")]
    pub entry: String,
    /// The mirror's store, a folder on this host or s3://BUCKET/PREFIX; the command's own memory when
    /// not given
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: Option<PathBuf>,
}

/// Drops it.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let entry = &arguments.entry;
    if let Some(folder) = &arguments.store {
        let memories = memory::ids_of_store(folder, printer)?;
        known(entry, memories)?;
        let again = "run the same command again";
        let number = interrupt::run(printer, again, async {
            let now = Time::now();
            Ok(
                match SomeStore::open(folder, OpenMode::OpenOrCreate).await? {
                    SomeStore::Folder(store) => reset(&store, entry, now).await?,
                    SomeStore::Bucket(store) => reset(&store, entry, now).await?,
                },
            )
        })?;
        match number {
            Some(number) => printer.say(&format!(
                "{} has dropped what was accepted under {entry} (commit {number}); the next index \
                 that is rightly signed is accepted, however old",
                folder.display()
            )),
            None => nothing_to_drop(entry, printer),
        }
        return Ok(());
    }
    let state = State::of_user(printer);
    known(entry, state.read()?.memories.into_keys().collect())?;
    match state.reset(entry, Time::now())? {
        true => printer.say(&format!(
            "dropped what was accepted under {entry}; the next index that is rightly signed is \
             accepted, however old"
        )),
        false => nothing_to_drop(entry, printer),
    }
    Ok(())
}

fn nothing_to_drop(entry: &str, printer: &Printer) {
    printer.say(&format!(
        "nothing to drop: nothing is accepted under {entry}"
    ));
}

/// Refuses an entry that is not among those there are.
fn known(entry: &str, ids: Vec<String>) -> Result<(), CommandError> {
    if ids.iter().any(|id| id == entry) {
        return Ok(());
    }
    let hint = match ids.as_slice() {
        [] => "nothing was accepted here yet".to_owned(),
        ids => format!("there are: {}", ids.join(", ")),
    };
    Err(CommandError::not_found("there is no such trust entry")
        .at(entry)
        .hint(hint))
}

//! `trust reset`: drop what was accepted under a trust entry.

use std::path::PathBuf;

use kubepkg_core::time::Time;
use kubepkg_importer::reset;
use kubepkg_mirror::store::{FileStore, OpenMode};

use super::store_folder;
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
    /// The mirror's store on this host; the command's own memory when not given
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
}

/// Drops it.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let entry = &arguments.entry;
    let nothing = |hint: String| {
        CommandError::not_found("nothing was accepted under this entry")
            .at(entry)
            .hint(hint)
    };
    if let Some(folder) = &arguments.store {
        store_folder::must_exist(folder)?;
        let again = "run the same command again";
        let number = interrupt::run(printer, again, async {
            let store = FileStore::open(folder, OpenMode::OpenOrCreate)?;
            Ok(reset(&store, entry, Time::now()).await?)
        })?;
        let number = number.ok_or_else(|| {
            nothing(format!(
                "kubepkg trust show --store {} lists them",
                folder.display()
            ))
        })?;
        printer.say(&format!(
            "{} has dropped what was accepted under {entry} (commit {number}); the next index \
             that is rightly signed is accepted, however old",
            folder.display()
        ));
        return Ok(());
    }
    let state = State::of_user(printer);
    if !state.reset(entry, Time::now())? {
        return Err(nothing("`kubepkg trust show` lists them".to_owned()).into());
    }
    printer.say(&format!(
        "dropped what was accepted under {entry}; the next index that is rightly signed is \
         accepted, however old"
    ));
    Ok(())
}

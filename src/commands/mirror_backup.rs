//! `mirror backup`: a copy of a store that is a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use kubepkg_mirror::store::{BackedUp, FileStore, OpenMode};
use serde_json::json;

use super::mirror_check::StopOnDrop;
use super::{bucket_place, store_folder};
use crate::cli::{Format, Reporting};
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;
use crate::progress::Meter;
use crate::units::{count, size, span};

/// Flags of `mirror backup`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror backup --store /srv/mirror /mnt/backup/mirror",
    after_long_help = "Copies a store while a server works and clients push: names, trust and \
                       records as of one commit, and all content they need. Into an earlier backup \
                       only what is new is copied. The copy is a store and can be served; it is \
                       whole at any time, because its names appear after their content. Users and \
                       the keys of TLS (users and tls in the store) are not copied. Content is \
                       hashed on the way, and what is damaged is told and not copied; only a file \
                       system that shares blocks between both stores is not read. Nothing is \
                       removed from the copy: kubepkg mirror gc does that. To restore, copy it back \
                       and serve it.\n\nExample:\n  kubepkg mirror backup --store /srv/mirror \
                       /mnt/backup/mirror"
)]
pub struct Arguments {
    /// The folder of the copy: empty, new, or an earlier backup of the same store
    #[arg(value_name = "DESTINATION")]
    pub destination: PathBuf,
    /// The mirror's store on this host
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// How many threads copy [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    pub jobs: Option<u16>,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Copies it.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    bucket_place::refuse(
        &arguments.store,
        "mirror backup",
        "copy the bucket with the tools of its server, first names/, then commits/, apart/ and the \
         rest; or let it keep versions",
    )?;
    bucket_place::refuse(
        &arguments.destination,
        "mirror backup",
        "copy the store into a bucket with `mirror copy --from DIR --to s3://BUCKET/PREFIX`",
    )?;
    store_folder::must_be_found(&arguments.store)?;
    store_folder::check(&arguments.destination)?;
    apart(&arguments.store, &arguments.destination)?;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let jobs = arguments.jobs.map_or(cores, usize::from);
    let began = Instant::now();
    let meter = Meter::new(printer);
    let stop = Arc::new(AtomicBool::new(false));
    let again = "run the same command again: what was copied is not copied twice";
    let done = interrupt::run(printer, again, async {
        let _stop = StopOnDrop(Arc::clone(&stop));
        let (from, to) = (arguments.store.clone(), arguments.destination.clone());
        let (stop, printer) = (Arc::clone(&stop), printer.clone());
        let work = tokio::task::spawn_blocking(move || {
            let store = source(&from, &printer)?;
            let copy = FileStore::open(to, OpenMode::OpenOrCreate)?;
            anyhow::Ok(store.backup(&copy, jobs, &meter, &stop)?)
        });
        work.await?
    })?;
    if arguments.reporting.output == Format::Json {
        let files =
            |c: kubepkg_mirror::store::check::Count| json!({"files": c.files, "bytes": c.bytes});
        printer.answer_json(&json!({
            "sequence": done.sequence,
            "copied": files(done.copied),
            "there": files(done.there),
            "missing": done.missing,
            "damaged": done.damaged,
        }))?;
    } else {
        printer.say(&format!(
            "{} is a copy as of commit {}: {} in {} copied in {}, {} were there",
            arguments.destination.display(),
            done.sequence,
            size(done.copied.bytes),
            count(usize::try_from(done.copied.files)?, "file", "files"),
            span(began.elapsed()),
            size(done.there.bytes),
        ));
    }
    let stays = [
        FileStore::users_file(&arguments.store),
        FileStore::tls_folder(&arguments.store),
        FileStore::token_key_file(&arguments.store),
    ];
    let stays: Vec<String> = stays
        .iter()
        .filter(|path| path.symlink_metadata().is_ok())
        .map(|path| path.display().to_string())
        .collect();
    if !stays.is_empty() {
        // standard error, whatever the form of the answer
        printer.say(&format!(
            "not in the copy, because secrets do not travel with content: {}; copy them apart",
            stays.join(" and ")
        ));
    }
    whole(&arguments, &done)
}

/// With a lease where the store may be written, so that nothing is collected meanwhile.
fn source(from: &Path, printer: &Printer) -> anyhow::Result<FileStore> {
    match FileStore::open(from, OpenMode::OpenOrCreate) {
        Ok(store) => Ok(store),
        Err(error) => {
            let store = FileStore::open(from, OpenMode::ReadOnly)?;
            printer.warn(&format!(
                "the store can only be read ({error}), so a collection that runs meanwhile is not \
                 held back"
            ));
            Ok(store)
        }
    }
}

/// A copy within the store, or the store within its copy, would never end.
fn apart(store: &Path, destination: &Path) -> Result<(), CommandError> {
    let real = |path: &Path| {
        let mut above = path.to_owned();
        // what is not there yet lies in what is
        let mut below = Vec::new();
        while !above.exists() {
            match (above.file_name(), above.parent()) {
                (Some(name), Some(parent)) => {
                    below.push(name.to_owned());
                    above = parent.to_owned();
                }
                _ => break,
            }
        }
        if above.as_os_str().is_empty() {
            above = PathBuf::from(".");
        }
        let above = above.canonicalize().unwrap_or(above);
        below.iter().rev().fold(above, |path, name| path.join(name))
    };
    let (store, destination) = (real(store), real(destination));
    if store.starts_with(&destination) || destination.starts_with(&store) {
        return Err(
            CommandError::usage("the copy and the store lie in each other")
                .at(destination.display())
                .hint("name a folder elsewhere, best on another disk"),
        );
    }
    Ok(())
}

fn whole(arguments: &Arguments, done: &BackedUp) -> anyhow::Result<()> {
    let lacking = done.missing.len() + done.damaged.len();
    if lacking == 0 {
        return Ok(());
    }
    Err(CommandError::failed(format!(
        "{} of the store are missing or damaged, and not in the copy",
        count(lacking, "file", "files")
    ))
    .at(arguments.store.display())
    .hint(format!(
        "see which: kubepkg mirror check --store {}",
        arguments.store.display()
    ))
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_lies_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (store, other) = (folder.path().join("store"), folder.path().join("other"));
        std::fs::create_dir(&store).unwrap();
        assert!(apart(&store, &other).is_ok());
        assert!(apart(&store, &store.join("below/further")).is_err());
        assert!(apart(&store, folder.path()).is_err());
    }
}

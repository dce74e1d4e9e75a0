//! A copy of a store that is a store, made while a server works and clients push.
//!
//! The names are read first, as of one commit; a lease keeps their content from collection.
//! Then content is copied, what is there already is left, and only when all of it is there
//! do records and names appear in the copy. So the copy is whole at any time: before, it is as
//! of the backup before. Content is hashed while it is copied, and what is damaged is not
//! copied but told; only where a file system gives both stores the same blocks is it not read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use kubepkg_core::Digest;
use kubepkg_core::progress::Progress;
use kubepkg_core::store::{StoreError, Unit};

use super::check::Count;
use super::disk::failed;
use super::intake::{Intake, Staged};
use super::lease::Lease;
use super::open::Writable;
use super::part::Part;
use super::sync::sync_folder;
use super::{FileStore, records, work};

/// How much is copied before it is made durable and gets its names.
const GROUP_BYTES: u64 = 256 * 1024 * 1024;
const GROUP_FILES: usize = 256;

/// How often the names are read anew when content went away meanwhile.
const TRIES: usize = 5;

/// What a backup did.
#[derive(Clone, Debug, Default)]
pub struct BackedUp {
    /// The commit the copy is as of.
    pub sequence: u64,
    /// Content that was copied.
    pub copied: Count,
    /// Content that was there already.
    pub there: Count,
    /// Content that names promise and that is not in the store.
    pub missing: Vec<Digest>,
    /// Content that is damaged in the store, and not copied.
    pub damaged: Vec<Digest>,
}

/// The names of a store at one commit.
struct Source {
    part: Part,
    sequence: u64,
    records: BTreeMap<u64, PathBuf>,
}

impl FileStore {
    /// Copies this store into `copy`, which is empty or an earlier copy of this store. Does
    /// file work for long: call it from a thread of its own.
    pub fn backup(
        &self,
        copy: &FileStore,
        jobs: usize,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> Result<BackedUp, StoreError> {
        let to = copy.opened.writable()?;
        let _lease = match &self.opened.writable {
            Some(writable) => {
                let _lock = writable.lock.hold()?;
                Some(Lease::take(
                    &writable.layout,
                    &writable.disk,
                    writable.ledger()?.round(),
                )?)
            }
            // nobody collects what cannot be written, at least not from here
            None => None,
        };
        let mut copied = Count::default();
        let mut tries = 1;
        loop {
            let source = self.names_to_copy()?;
            follows(&source, to)?;
            let mut done = self.copy_content(&source, copy, jobs, progress, stop)?;
            // what was condemned before the lease may have been collected meanwhile, and its
            // names with it: newer names do without
            let overtaken = records::numbers(&self.opened.layout)?.last() > Some(&source.sequence);
            if !done.missing.is_empty() && overtaken && tries < TRIES {
                tries += 1;
                copied.files += done.copied.files;
                copied.bytes += done.copied.bytes;
                continue;
            }
            done.there.files = done.there.files.saturating_sub(copied.files);
            done.there.bytes = done.there.bytes.saturating_sub(copied.bytes);
            done.copied.files += copied.files;
            done.copied.bytes += copied.bytes;
            done.sequence = source.sequence;
            to.take_names(&source)?;
            // there, too, clients are told that it is not here
            for digest in done.missing.iter().chain(&done.damaged) {
                to.note_missing(digest)?;
            }
            return Ok(done);
        }
    }

    fn names_to_copy(&self) -> Result<Source, StoreError> {
        let layout = &self.opened.layout;
        let first = *records::pending(layout, &self.opened.generation)?.start();
        let mut part = Part::load_all(layout)?;
        // after the files, so that none is younger than the records
        let mut paths = BTreeMap::new();
        for path in work::entries(&layout.commits())? {
            if let Some(number) = records::number(&path) {
                paths.insert(number, path);
            }
        }
        let sequence = paths.keys().next_back().copied().unwrap_or_default();
        for number in first..=sequence {
            let record = records::require(layout, number)?;
            for recorded in &record.changes {
                part.knows(&recorded.change.unit());
            }
            part.redo(&record);
        }
        part.check_ends(layout)?;
        Ok(Source {
            part,
            sequence,
            records: paths,
        })
    }

    fn copy_content(
        &self,
        source: &Source,
        copy: &FileStore,
        jobs: usize,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> Result<BackedUp, StoreError> {
        let names = &source.part.names;
        let mut wanted: BTreeMap<Digest, u64> = BTreeMap::new();
        for repository in names.repositories.values() {
            wanted.extend(
                repository
                    .manifests
                    .iter()
                    .map(|(d, entry)| (*d, entry.size)),
            );
            wanted.extend(
                repository
                    .blobs
                    .iter()
                    .map(|(digest, size)| (*digest, *size)),
            );
        }
        for file in names.sites.values().flat_map(|site| site.files.values()) {
            wanted.insert(file.digest, file.size);
        }
        progress.begin("copying", wanted.values().sum());
        let done = Mutex::new(BackedUp::default());
        let next = Mutex::new(wanted.into_iter());
        let worker = || -> Result<(), StoreError> {
            let mut group = Group::new(copy);
            loop {
                let taken = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((digest, size)) = taken else {
                    return group.publish();
                };
                if stop.load(Ordering::Relaxed) {
                    let interrupted = std::io::ErrorKind::Interrupted.into();
                    return Err(failed("copy", self.root())(interrupted));
                }
                let one = self.copy_one(copy, digest, size, &mut group, stop)?;
                progress.advance(size);
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                match one {
                    One::Copied => done.copied.add(size),
                    One::There => done.there.add(size),
                    One::Missing => done.missing.push(digest),
                    One::Damaged => done.damaged.push(digest),
                }
            }
        };
        let failure = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs.clamp(1, 16))
                .map(|_| scope.spawn(worker))
                .collect();
            let ends = threads.into_iter().map(|thread| match thread.join() {
                Ok(end) => end,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ends.collect::<Vec<_>>().into_iter().find_map(Result::err)
        });
        progress.end();
        match failure {
            Some(error) => Err(error),
            None => Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn copy_one(
        &self,
        copy: &FileStore,
        digest: Digest,
        size: u64,
        group: &mut Group<'_>,
        stop: &AtomicBool,
    ) -> Result<One, StoreError> {
        if copy.blob_size(&digest)? == Some(size) {
            return Ok(One::There);
        }
        let Some(range) = self.blob_range(&digest)? else {
            return Ok(One::Missing);
        };
        if range.len != size {
            return Ok(One::Damaged);
        }
        let to = copy.opened.writable()?;
        let mut temporary = to.work.file()?;
        let cloned = temporary.with(|file| Ok(rustix::fs::ioctl_ficlone(file, &range.file)?));
        let staged = if cloned.is_ok() {
            temporary.written()?;
            Staged {
                digest,
                size,
                file: temporary,
            }
        } else {
            drop(temporary);
            let mut intake = Intake::begin(&to.work, digest, size)?;
            intake.take_range(&range, stop)?;
            match intake.finish() {
                Ok(staged) => staged,
                Err(StoreError::Mismatch { .. }) => return Ok(One::Damaged),
                Err(error) => return Err(error),
            }
        };
        group.add(staged)?;
        Ok(One::Copied)
    }
}

/// What became of one piece of content.
enum One {
    Copied,
    There,
    Missing,
    Damaged,
}

/// Content that is made durable together.
struct Group<'s> {
    copy: &'s FileStore,
    staged: Vec<Staged>,
    bytes: u64,
}

impl<'s> Group<'s> {
    fn new(copy: &'s FileStore) -> Group<'s> {
        Group {
            copy,
            staged: Vec::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, staged: Staged) -> Result<(), StoreError> {
        self.bytes += staged.size;
        self.staged.push(staged);
        if self.bytes >= GROUP_BYTES || self.staged.len() >= GROUP_FILES {
            return self.publish();
        }
        Ok(())
    }

    fn publish(&mut self) -> Result<(), StoreError> {
        self.bytes = 0;
        match std::mem::take(&mut self.staged) {
            nothing if nothing.is_empty() => Ok(()),
            staged => self.copy.opened.writable()?.publish(staged),
        }
    }
}

/// Refuses a copy that went its own way: its commits must be commits of this store. Old records
/// are removed, here and there at different times, so only those that both have are compared;
/// where there are none, what the names are as of.
fn follows(source: &Source, to: &Writable) -> Result<(), StoreError> {
    let refuse = |why: String| {
        Err(StoreError::Unusable {
            path: to.layout.root().to_owned(),
            why: format!("{why}; name an empty folder, or an earlier backup of this store"),
        })
    };
    let numbers = records::numbers(&to.layout)?;
    let Some(newest) = numbers.last().copied() else {
        return Ok(());
    };
    if newest > source.sequence {
        return refuse(format!(
            "its commit {newest} is not in the store to be copied"
        ));
    }
    let mut compared = false;
    for number in numbers {
        let Some(original) = source.records.get(&number) else {
            continue;
        };
        let read = |path: &Path| fs::read(path).map_err(failed("read", path));
        if read(original)? != read(&to.layout.record(number))? {
            return refuse(format!(
                "its commit {number} is not that of the store to be copied"
            ));
        }
        compared = true;
    }
    if compared {
        return Ok(());
    }
    let mine = Part::load_all(&to.layout)?;
    for (unit, applied) in mine.applied() {
        let original = source.part.applied().get(unit).copied();
        let same = || -> Result<bool, StoreError> {
            let file = |part: &Part| part.file(&to.layout, unit);
            Ok(file(&mine)?.1 == file(&source.part)?.1)
        };
        if original.is_none_or(|original| original < *applied)
            || (original == Some(*applied) && !same()?)
        {
            return refuse(format!(
                "its commit {applied} is not one of the store to be copied"
            ));
        }
    }
    Ok(())
}

impl Writable {
    /// Takes over records and names. The records come first: who is interrupted after them
    /// leaves a store that brings itself up to them. Where records between those of the copy
    /// and those of the store were removed, that would pass over what they said; then the names
    /// come first, and until they are all there nothing can be committed to the copy.
    fn take_names(&self, source: &Source) -> Result<(), StoreError> {
        let _lock = self.lock.hold()?;
        let mine = records::numbers(&self.layout)?;
        // some may have been removed since they were listed
        let there: BTreeMap<&u64, &PathBuf> = source
            .records
            .iter()
            .filter(|(_, from)| from.exists())
            .collect();
        let first = records::unbroken(&there.keys().map(|number| **number).collect());
        let gap = first > mine.last().copied().unwrap_or_default() + 1;
        let missing = there.into_iter().filter(|(n, _)| !mine.contains(n));
        if gap {
            self.place_names(source)?;
            self.generation.write(source.sequence)?;
            self.generation.sync()?;
            return self.place_records(missing.rev());
        }
        self.place_records(missing)?;
        self.place_names(source)?;
        self.generation.write(source.sequence)
    }

    /// Puts records into their places, one after the other.
    fn place_records<'a>(
        &self,
        records: impl Iterator<Item = (&'a u64, &'a PathBuf)>,
    ) -> Result<(), StoreError> {
        let mut placing = Vec::new();
        for (number, from) in records {
            let bytes = fs::read(from).map_err(failed("read", from))?;
            placing.push((self.work.file_of(&bytes)?, self.layout.record(*number)));
        }
        self.work.sync(placing.iter().map(|(file, _)| file))?;
        for (file, to) in placing {
            file.place(&to)?;
        }
        sync_folder(&self.layout.commits())
    }

    fn place_names(&self, source: &Source) -> Result<(), StoreError> {
        let mine = Part::load(&self.layout, source.part.applied().keys().cloned())?;
        let errors = self.syncer.errors();
        let mut files = Vec::new();
        let mut sets = Vec::new();
        let mut folders = BTreeSet::new();
        let mut logs = Vec::new();
        for (unit, applied) in source.part.applied() {
            if mine.applied().get(unit).is_some_and(|mine| mine >= applied) {
                continue;
            }
            let (path, bytes) = source.part.file(&self.layout, unit)?;
            if let Some(folder) = path.parent() {
                folders.extend(self.disk.ensure_folder(self.layout.root(), folder)?);
                folders.insert(folder.to_owned());
            }
            files.push((self.work.file_of(&bytes)?, path));
            if let Unit::Repository(name) = unit {
                logs.push(self.layout.log(name));
            }
            if let Unit::Site(folder) = unit
                && let Some(entry) = source.part.names.sites.get(folder)
            {
                let place = self.layout.site_set(folder, entry.set);
                sets.push(self.site_set(entry, place)?);
            }
        }
        self.work.sync(files.iter().map(|(file, _)| file))?;
        for set in sets {
            folders.extend(set.folders.iter().filter(|folder| folder.exists()).cloned());
            self.syncer.folders(&set.folders, errors)?;
            set.set.place(&set.path)?;
        }
        for (file, path) in files {
            file.place(&path)?;
        }
        folders.retain(|folder| folder.exists());
        self.syncer.folders(&folders, errors)?;
        // the files say all now
        for log in &logs {
            work::ignore_missing(fs::remove_file(log)).map_err(failed("remove", log))?;
        }
        Ok(())
    }
}

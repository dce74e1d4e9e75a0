//! Commits. Everything a commit needs is written and synced before its record appears in
//! `commits/`; that one step is the commit. Sets of repository files and the files of names are
//! renamed into place after it, and lines are added to the logs of large repositories. Who is
//! interrupted in between leaves a record, and the next one to change or open the store brings
//! the rest up to it.
//!
//! Nothing is done to a final place before the record is there, so who comes second, even
//! where the lock does not hold it back (NFS), leaves the winner's files alone. A record is
//! never taken back: a server may have read it. When its sync fails the commit counts, its
//! durability is open, and the answer says so; [`Writable::redo`] writes the record again
//! before anybody builds on it, for a second sync of the same pages would prove nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use kubepkg_core::Digest;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{Batch, Change, Committed, Record, StoreError, Unit};

use super::collect::reserve::Released;
use super::disk::failed;
use super::generation::Generation;
use super::layout::Layout;
use super::lock::Held;
use super::log::{Append, Form};
use super::needed::{is_there, needed};
use super::open::Writable;
use super::part::{self, Part, Write};
use super::site_set::PreparedSet;
use super::sync::sync_folder;
use super::work::Temporary;
use super::{records, sealed, work};
use crate::told::told;

/// Files that are ready to be renamed into place, and lines to be written into logs.
#[derive(Default)]
struct Prepared {
    files: Vec<(Temporary, PathBuf)>,
    lines: Vec<Append>,
    /// Logs whose base file is written anew.
    logs: Vec<PathBuf>,
    /// How repositories lie on the disk when that is done.
    forms: BTreeMap<RepositoryName, Form>,
    sets: Vec<PreparedSet>,
    /// Folders to be synced before anything is renamed.
    before: BTreeSet<PathBuf>,
    /// Folders things are renamed into.
    into: BTreeSet<PathBuf>,
    /// Failed syncs before any of it was written.
    errors: u64,
}

impl Writable {
    /// Brings names, sites and trust up to the newest record. Call it under the lock.
    pub(super) fn redo(&self) -> Result<u64, StoreError> {
        let pending = records::pending(&self.layout, &self.generation)?;
        if !pending.is_empty() {
            self.forms().forget();
        }
        let mut newest = self.generation.read()?.unwrap_or_default();
        for number in pending {
            let prepared = self.prepare_again(number)?;
            self.sync_prepared(&prepared, None)?;
            self.bring_up(prepared, number)?;
            newest = number;
        }
        if self.generation.read()?.is_none() {
            self.generation.write(newest)?;
        }
        Ok(newest)
    }

    /// What has to be written for a record that is there, whatever of it was written before.
    fn prepare_again(&self, number: u64) -> Result<Prepared, StoreError> {
        let record = records::require(&self.layout, number)?;
        self.settle_record(number)?;
        let units = record.changes.iter().map(|recorded| recorded.change.unit());
        let mut part = Part::load(&self.layout, units)?;
        part.redo(&record);
        let mut prepared = self.prepare(&part, number)?;
        // sets are placed whole, and only after their record
        prepared.sets.retain(|set| !set.path.exists());
        // a log that is there already may be new: who made it may not have come to the sync of
        // its folder
        let logs = prepared.lines.iter();
        let folders = logs.filter_map(|line| Some(line.path.parent()?.to_owned()));
        prepared.into.extend(folders);
        Ok(prepared)
    }

    /// See [`kubepkg_core::store::Store::commit`].
    pub(super) fn commit(&self, expected: u64, batch: Batch) -> Result<Committed, StoreError> {
        batch.check()?;
        let lock = self.lock.hold()?;
        if !batch.changes.iter().all(takes_away) {
            return self.commit_held(&lock, expected, batch);
        }
        // taking names away is how a full disk becomes less full, and has to be written too
        let room = Released::where_full(self)?;
        match self.commit_held(&lock, expected, batch.clone()) {
            // what is counted as free is not always what can be written
            Err(error) if error.is_no_room() && room.is_none() => {
                let _room = Released::now(self)?;
                self.commit_held(&lock, expected, batch)
            }
            done => done,
        }
    }

    /// The same, under the lock; the batch was checked.
    pub(super) fn commit_held(
        &self,
        held: &Held<'_>,
        expected: u64,
        batch: Batch,
    ) -> Result<Committed, StoreError> {
        let newest = self.redo()?;
        if newest != expected {
            return Ok(Committed::Conflict { newest });
        }
        let number = newest + 1;
        let mut part = self.load(&batch.changes, newest)?;
        if let Some((unit, applied)) = part.newer_than(newest) {
            // its change would be passed over as one that was made already
            self.generation.doubt();
            let again = self.redo()?;
            if again != newest {
                return Ok(Committed::Conflict { newest: again });
            }
            let path = part::path(&self.layout, unit);
            let why = format!("this is as of commit {applied}, and the newest record is {newest}");
            return Err(StoreError::Mixed { path, why });
        }
        let changes = part.apply(&batch.changes, number);
        let content = self.check_content(&batch.changes, &part)?;
        // durably: a name of a blob that no manifest needs yet is itself what may be condemned
        self.rescue(held, content.iter().copied())?;

        let mut prepared = self.prepare(&part, number)?;
        let root = self.layout.root();
        let changed = self.generation.counters()?.content;
        let unsettled_folders = self.content.unsettled(&content, changed);
        for folder in &unsettled_folders {
            // who made the folder may not have come to the sync of what is above it either
            let above = self.disk.ensure_folder(root, folder)?;
            prepared.before.extend(above);
            prepared.before.insert(folder.clone());
        }
        let path = self.layout.record(number);
        let record = Record {
            number,
            at: batch.at,
            cause: batch.cause,
            changes,
        };
        let file = self.work.file_of(&sealed::encode(&path, &record)?)?;
        self.sync_prepared(&prepared, Some(&file))?;
        self.disk.settle(root, &unsettled_folders);

        let unsettled = |e| {
            let source = Box::new(e);
            Err(StoreError::Unsettled { number, source })
        };
        match file.place_new(&path) {
            Ok(true) => {}
            // only where the lock does not hold everybody back: the other one was first
            Ok(false) => return Ok(Committed::Conflict { newest: number }),
            Err(e) if path.exists() => return unsettled(e),
            Err(e) => return Err(e),
        }
        if let Err(e) = sync_folder(&self.layout.commits()) {
            return unsettled(e);
        }
        // it has happened: whatever fails from here on is made up for, now or by the next one
        self.snapshot.advance(&record);
        let forms = std::mem::take(&mut prepared.forms);
        let brought = self.bring_up(prepared, number);
        match &brought {
            Ok(()) => self.forms().note(&part, forms, number),
            Err(_) => self.forms().forget(),
        }
        if let Err(e) = brought {
            tracing::warn!(number, error = %told(&e), "bringing the names up to this commit again");
            if let Err(e) = self.redo() {
                tracing::warn!(
                    number,
                    error = %told(&e),
                    "the commit is made and shown when this store is opened or changed again"
                );
            }
        }
        Ok(Committed::Done(number))
    }

    /// Makes a record durable that somebody else wrote and perhaps could not sync.
    fn settle_record(&self, number: u64) -> Result<(), StoreError> {
        let path = self.layout.record(number);
        let bytes = fs::read(&path).map_err(failed("read", &path))?;
        let again = self.work.file_of(&bytes)?;
        self.work.sync([&again])?;
        again.place(&path)?;
        sync_folder(&self.layout.commits())
    }

    /// The tags of a repository that stand for this manifest. Call it under the lock, after
    /// [`Writable::redo`].
    pub(super) fn tags_of(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Vec<Tag>, StoreError> {
        let part = Part::load(&self.layout, [Unit::Repository(repository.clone())])?;
        let found = part.names.repositories.get(repository);
        let tags = found.into_iter().flat_map(|found| &found.tags);
        let tags = tags.filter(|(_, entry)| entry.digest == *digest);
        Ok(tags.map(|(tag, _)| tag.clone()).collect())
    }

    /// Checks that all content the changes name is here, and answers it.
    fn check_content(
        &self,
        changes: &[Change],
        after: &Part,
    ) -> Result<BTreeSet<Digest>, StoreError> {
        let needed = needed(changes, &after.names)?;
        for (digest, size) in &needed {
            is_there(*digest, *size, self.content.size(digest)?)?;
        }
        Ok(needed.into_iter().map(|(digest, _)| digest).collect())
    }

    /// Writes the files of all units that commit `number` changed last.
    fn prepare(&self, part: &Part, number: u64) -> Result<Prepared, StoreError> {
        let root = self.layout.root();
        let mut prepared = Prepared {
            errors: self.syncer.errors(),
            ..Prepared::default()
        };
        for unit in part.changed_by(number) {
            let write = part.write(&self.layout, unit, number)?;
            if let Unit::Repository(name) = unit {
                let form = part.form_after(name, &write, number);
                prepared.forms.extend(form.map(|form| (name.clone(), form)));
            }
            let (path, new) = match &write {
                Write::File { path, .. } => (path, true),
                Write::Line(append) => (&append.path, append.new),
            };
            if let Some(folder) = path.parent().filter(|_| new) {
                let parents = self.disk.ensure_folder(root, folder)?;
                prepared.before.extend(parents);
                prepared.into.insert(folder.to_owned());
            }
            match write {
                Write::File { path, bytes, log } => {
                    prepared.files.push((self.work.file_of(&bytes)?, path));
                    prepared.logs.extend(log);
                }
                Write::Line(append) => prepared.lines.push(append),
            }
            if let Unit::Site(folder) = unit
                && let Some(entry) = part.names.sites.get(folder)
            {
                let path = self.layout.site_set(folder, number);
                prepared.sets.push(self.site_set(entry, path)?);
            }
        }
        Ok(prepared)
    }

    /// Makes everything that is to be renamed durable, and the folders it is renamed into.
    fn sync_prepared(
        &self,
        prepared: &Prepared,
        record: Option<&Temporary>,
    ) -> Result<(), StoreError> {
        let files = prepared.files.iter().map(|(file, _)| file);
        self.work.sync(files.chain(record))?;
        let mut folders = prepared.before.clone();
        folders.extend(prepared.sets.iter().flat_map(|set| set.folders.clone()));
        self.syncer.folders(&folders, prepared.errors)
    }

    /// Renames sets and the files of names into place, durably, and counts the commit.
    fn bring_up(&self, prepared: Prepared, number: u64) -> Result<(), StoreError> {
        let errors = self.syncer.errors();
        for set in prepared.sets {
            set.set.place(&set.path)?;
        }
        for (file, path) in prepared.files {
            file.place(&path)?;
        }
        for line in &prepared.lines {
            line.write(&self.disk)?;
        }
        self.syncer.folders(&prepared.into, errors)?;
        self.disk.settle(self.layout.root(), &prepared.into);
        // only now that the new base file is durable. A log that stays is passed over
        for log in &prepared.logs {
            work::ignore_missing(fs::remove_file(log)).map_err(failed("remove", log))?;
        }
        self.generation.write(number)
    }
}

/// One unit as of the newest commit. Needs no lock: what is committed and not yet in the files
/// is added from the records.
pub(super) fn current(
    layout: &Layout,
    generation: &Generation,
    unit: Unit,
) -> Result<Part, StoreError> {
    let first = *records::pending(layout, generation)?.start();
    let mut part = Part::load(layout, [unit])?;
    // who commits while the files are read has written the record before
    let newest = *records::pending(layout, generation)?.end();
    for number in first..=newest {
        part.redo(&records::require(layout, number)?);
    }
    part.check_ends(layout)?;
    Ok(part)
}

/// Whether a change only takes a name away.
fn takes_away(change: &Change) -> bool {
    matches!(
        change,
        Change::Manifest { new: None, .. }
            | Change::Blob { new: None, .. }
            | Change::Tag { new: None, .. }
            | Change::Site { new: None, .. }
    )
}

#[cfg(test)]
mod tests {
    use kubepkg_core::store::TagEntry;

    use super::*;
    use crate::store::log::SMALL;
    use crate::store::testing::{commit, manifest, new_store, put};

    #[test]
    fn a_log_that_was_made_before_the_end_of_its_process_is_synced_into_its_folder() {
        let (_folder, store) = new_store();
        let digest = put(&store, b"{}");
        let tag = |n: usize| Change::Tag {
            repository: "a".parse().unwrap(),
            tag: format!("t{n}").parse().unwrap(),
            new: Some(TagEntry {
                digest,
                origin: None,
            }),
        };
        let tags = (0..=SMALL).map(tag);
        commit(
            &store,
            std::iter::once(manifest("a", digest, 2)).chain(tags),
        );
        let number = commit(&store, [tag(SMALL + 1)]);
        let writable = store.opened.writable().unwrap();
        let log = writable.layout.log(&"a".parse().unwrap());
        assert!(log.exists());

        // its process was killed before it counted the commit
        let _held = writable.lock.hold().unwrap();
        let prepared = writable.prepare_again(number).unwrap();
        assert_eq!(prepared.lines.len(), 1);
        assert!(prepared.into.contains(log.parent().unwrap()));
    }
}

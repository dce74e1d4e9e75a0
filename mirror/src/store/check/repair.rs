//! Mending what a check found.
//!
//! Damaged content is set aside, so that the mirror says "not here" instead of giving wrong
//! bytes, and takes the right ones when somebody brings them. Files of names are made anew from
//! the commit records, sets of repository files from the content. Nothing is thrown away.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kubepkg_core::store::{StoreError, Unit};

use super::super::FileStore;
use super::super::disk::failed;
use super::super::open::Writable;
use super::super::part::Part;
use super::super::records;
use super::super::sync::sync_folder;
use super::resolve::absolute;
use super::{Checked, Fault, Finding, Stamp};

/// What a finding is left with where nothing can be done here.
const NOT_REBUILT: &str = "it cannot be made anew: the records do not go back to its beginning; \
                           restore it from a backup of the store";

impl FileStore {
    /// Mends what can be mended of what [`FileStore::check`] found, and notes it there. Each
    /// step is made only if the file is still the one that was looked at.
    pub fn repair(&self, checked: &mut Checked) -> Result<(), StoreError> {
        let writable = self.opened.writable()?;
        for finding in &mut checked.findings {
            finding.repaired = match (finding.fault, &finding.unit) {
                (Fault::Damaged | Fault::Cut | Fault::Unreadable, None) => {
                    set_aside(writable, finding)?
                }
                (Fault::Missing, None) => note_missing(writable, finding)?,
                (Fault::Damaged | Fault::Missing, Some(Unit::Site(_)))
                    if finding.source.is_some() =>
                {
                    link_again(writable, finding)?
                }
                (Fault::Damaged, Some(unit)) => {
                    let unit = unit.clone();
                    let made = rebuild(writable, &unit, &absolute(&writable.layout, finding))?;
                    if made.is_none() {
                        NOT_REBUILT.clone_into(&mut finding.advice);
                    }
                    made
                }
                (Fault::Stale, Some(unit)) => bring_up(writable, unit)?,
                (Fault::Owner, _) => give_back(writable, finding),
                _ => None,
            };
        }
        Ok(())
    }
}

impl Finding {
    /// Whether it is still as it was found.
    pub fn is_open(&self) -> bool {
        self.repaired.is_none() || self.digest.is_some()
    }
}

fn set_aside(writable: &Writable, finding: &Finding) -> Result<Option<String>, StoreError> {
    let (Some(digest), Some(stamp)) = (finding.digest, finding.stamp) else {
        return Ok(None);
    };
    let aside = writable.quarantine(&digest, &stamp)?;
    Ok(aside.then(|| {
        let to = writable.layout.quarantined(&digest);
        let to = super::below(&writable.layout, &to);
        format!(
            "set aside as {}; it counts as not here until it is brought again",
            to.display()
        )
    }))
}

/// Content that names promise and that is gone counts as set aside from then on, so that who
/// asks whether it is here hears the same as who asks for it.
fn note_missing(writable: &Writable, finding: &Finding) -> Result<Option<String>, StoreError> {
    let Some(digest) = finding.digest else {
        return Ok(None);
    };
    let noted = writable.note_missing(&digest)?;
    Ok(noted.then(|| "clients are told that it is not here, until it is brought again".to_owned()))
}

/// Makes a file of a set anew from the content it is made of.
fn link_again(writable: &Writable, finding: &Finding) -> Result<Option<String>, StoreError> {
    let Some(digest) = finding.source else {
        return Ok(None);
    };
    let content = writable.layout.blob(&digest);
    let Ok(bytes) = fs::read(&content) else {
        return Ok(None);
    };
    if !digest.matches(&bytes) {
        return Ok(None);
    }
    let to = absolute(&writable.layout, finding);
    let _lock = writable.lock.hold()?;
    if let Some(folder) = to.parent() {
        let errors = writable.syncer.errors();
        let mut folders: BTreeSet<PathBuf> = BTreeSet::from([folder.to_owned()]);
        let parents = writable
            .disk
            .ensure_folder(writable.layout.root(), folder)?;
        let made = writable.work.file_of(&bytes)?;
        writable.work.sync([&made])?;
        made.place(&to)?;
        folders.extend(parents);
        writable.syncer.folders(&folders, errors)?;
    }
    Ok(Some("made anew from the content".to_owned()))
}

/// Makes the file of a unit anew from all records, if they go back to the first.
fn rebuild(writable: &Writable, unit: &Unit, path: &Path) -> Result<Option<String>, StoreError> {
    let layout = &writable.layout;
    let _lock = writable.lock.hold()?;
    let newest = writable.redo()?;
    let mut part = Part::of(unit);
    for number in 1..=newest {
        match records::read(layout, number) {
            Ok(Some(record)) => part.redo(&record),
            Ok(None) | Err(StoreError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    keep(writable, path)?;
    write(writable, &part, unit)?;
    Ok(Some(format!("made anew from {newest} commit records")))
}

/// Brings the file of a unit to the age of the records.
fn bring_up(writable: &Writable, unit: &Unit) -> Result<Option<String>, StoreError> {
    let layout = &writable.layout;
    let _lock = writable.lock.hold()?;
    let newest = writable.redo()?;
    let mut part = Part::load(layout, [unit.clone()])?;
    let applied = part.applied().get(unit).copied().unwrap_or_default();
    if applied > newest {
        // what it says stands; the next commit must count as newer than it. First without its
        // log, whose lines would be newer than the file: who ends in between leaves one or the
        // other, both whole
        write(writable, &part, unit)?;
        part.is_as_of(unit, newest);
        write(writable, &part, unit)?;
        return Ok(Some(format!(
            "counts as of commit {newest} now, as it stands"
        )));
    }
    for number in applied + 1..=newest {
        match records::read(layout, number) {
            Ok(Some(record)) => part.redo(&record),
            Ok(None) | Err(StoreError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    write(writable, &part, unit)?;
    Ok(Some(
        "brought up to the newest record that changed it".to_owned(),
    ))
}

fn write(writable: &Writable, part: &Part, unit: &Unit) -> Result<(), StoreError> {
    let (path, bytes) = part.file(&writable.layout, unit)?;
    let folder = path.parent().unwrap_or(writable.layout.root());
    let root = writable.layout.root();
    let errors = writable.syncer.errors();
    let mut folders: BTreeSet<PathBuf> = BTreeSet::from([folder.to_owned()]);
    folders.extend(writable.disk.ensure_folder(root, folder)?);
    let made = writable.work.file_of(&bytes)?;
    writable.work.sync([&made])?;
    made.place(&path)?;
    writable.syncer.folders(&folders, errors)?;
    writable.disk.settle(root, [&folder.to_owned()]);
    // the file says all now; a log that is left would be taken for what comes after it
    if let Unit::Repository(name) = unit {
        let log = writable.layout.log(name);
        if log.exists() {
            keep(writable, &log)?;
            fs::remove_file(&log).map_err(failed("remove", &log))?;
            // else it is back after a power loss, beside a file it does not go with
            sync_folder(folder)?;
        }
    }
    Ok(())
}

/// Keeps a damaged file of the store's own in the quarantine, for people to look at.
fn keep(writable: &Writable, path: &Path) -> Result<(), StoreError> {
    let layout = &writable.layout;
    let name = super::below(layout, path)
        .to_string_lossy()
        .replace('/', "_");
    let to = layout.quarantine().join(name);
    writable.make_quarantine()?;
    match fs::hard_link(path, &to) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(_) => {
            let copied = fs::copy(path, &to).and_then(|_| fs::File::open(&to)?.sync_all());
            copied.map_err(failed("copy", &to))?;
        }
    }
    // before what it is kept from is replaced
    sync_folder(&layout.quarantine())
}

/// Gives a file the owner of the store.
fn give_back(writable: &Writable, finding: &Finding) -> Option<String> {
    let path = absolute(&writable.layout, finding);
    let (uid, gid) = writable.disk.owner();
    crate::owner::give_entry(&path, uid, gid).ok()?;
    Some(format!("given to user {uid} and group {gid}"))
}

impl Writable {
    /// Makes the quarantine's folder, durably: what is renamed into a folder that is gone after
    /// a power loss is gone with it.
    fn make_quarantine(&self) -> Result<(), StoreError> {
        let (root, folder) = (self.layout.root(), self.layout.quarantine());
        let errors = self.syncer.errors();
        let parents = self.disk.ensure_folder(root, &folder)?;
        self.syncer
            .folders(&parents.into_iter().collect(), errors)?;
        self.disk.settle(root, [&folder]);
        Ok(())
    }

    /// Counts content that is gone as set aside; `false` where it is here, or was noted before.
    pub(in super::super) fn note_missing(
        &self,
        digest: &kubepkg_core::Digest,
    ) -> Result<bool, StoreError> {
        let _lock = self.lock.hold()?;
        let aside = self.layout.quarantined(digest);
        if self.layout.blob(digest).exists() || aside.exists() {
            return Ok(false);
        }
        self.make_quarantine()?;
        self.disk.create(&aside)?;
        sync_folder(&self.layout.quarantine())?;
        self.generation.content_changed()?;
        Ok(true)
    }

    /// Sets content aside, if it still is the file that was looked at; answers whether it was.
    /// From then on it is not here, for everybody who looks at the counter.
    pub(in super::super) fn quarantine(
        &self,
        digest: &kubepkg_core::Digest,
        stamp: &Stamp,
    ) -> Result<bool, StoreError> {
        let (from, to) = (self.layout.blob(digest), self.layout.quarantined(digest));
        let _lock = self.lock.hold()?;
        match fs::symlink_metadata(&from) {
            Ok(metadata) if Stamp::of(&metadata) == *stamp => {}
            Ok(_) => return Ok(false),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(failed("look at", &from)(e)),
        }
        self.make_quarantine()?;
        fs::rename(&from, &to).map_err(failed("set aside", &from))?;
        // it is gone for everybody, whether or not that would survive a power loss
        self.generation.content_changed()?;
        sync_folder(&self.layout.quarantine())?;
        sync_folder(&self.layout.blob_folder(digest))?;
        tracing::error!(%digest, "damaged content was set aside; bring it again");
        Ok(true)
    }
}

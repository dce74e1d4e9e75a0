//! What is known of content besides that a name promises it: kept in memory, read again when
//! the counter says that it changed.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use kubepkg_core::Digest;
use kubepkg_core::store::{Cause, StoreError};
use kubepkg_core::time::Time;

use super::super::disk::failed;
use super::super::layout::Layout;
use super::super::lock::Held;
use super::super::open::Writable;
use super::super::sync::sync_folder;
use super::super::work;
use super::ground::OnDisk;
use super::ledger::{Ledger, Line};
use super::list::{self, List};
use super::protocol;
use crate::source::Standing;

/// No count of changes comes to this.
const NEVER: u64 = u64::MAX;

/// What is condemned and what is quarantined, as this process knows it.
#[derive(Debug)]
pub(in super::super) struct Standings {
    /// Count of changes up to which it was read.
    read: AtomicU64,
    /// Whether there is anything at all.
    any: AtomicBool,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    list: List,
    quarantined: BTreeSet<Digest>,
}

impl Standings {
    pub(in super::super) fn new() -> Standings {
        Standings {
            read: AtomicU64::new(NEVER),
            any: AtomicBool::new(false),
            known: RwLock::default(),
        }
    }

    /// Whether this is as of that count of changes.
    pub(in super::super) fn is_fresh(&self, content: u64) -> bool {
        self.read.load(Ordering::Acquire) == content
    }

    /// As of the last refresh.
    pub(in super::super) fn of(&self, digest: &Digest) -> Standing {
        if !self.any.load(Ordering::Acquire) {
            return Standing::Sound;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.quarantined.contains(digest) {
            Standing::Quarantined
        } else if known.list.ledger.has(digest) {
            Standing::Condemned
        } else {
            Standing::Sound
        }
    }

    /// How much is set aside as damaged, as of the last refresh.
    pub(in super::super) fn quarantined(&self) -> usize {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.quarantined.len()
    }

    /// Reads what changed. `content` is the count of changes, read before.
    pub(in super::super) fn refresh(
        &self,
        layout: &Layout,
        content: u64,
    ) -> Result<(), StoreError> {
        self.reread(layout, content).map(drop)
    }

    fn reread(
        &self,
        layout: &Layout,
        content: u64,
    ) -> Result<RwLockWriteGuard<'_, Known>, StoreError> {
        // who sets something aside counts that; and what is not in a list looks at the folder
        let quarantine = match self.is_fresh(content) {
            true => None,
            false => Some(work::entries(&layout.quarantine())?),
        };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.list.refresh(&layout.condemned())?;
        if let Some(paths) = quarantine {
            known.quarantined = list::quarantined(&paths).collect();
        }
        self.note(&known);
        self.read.store(content, Ordering::Release);
        Ok(known)
    }

    fn note(&self, known: &Known) {
        let any = !known.list.ledger.is_empty() || !known.quarantined.is_empty();
        self.any.store(any, Ordering::Release);
    }
}

impl Writable {
    /// The list as it is. Call it under the lock.
    pub(in super::super) fn ledger(&self) -> Result<Arc<Ledger>, StoreError> {
        let content = self.generation.counters()?.content;
        let mut known = self.standings.reread(&self.layout, content)?;
        if known.list.unsynced {
            let ledger = Arc::clone(&known.list.ledger);
            self.write_list(&mut known.list, &ledger)?;
        }
        Ok(Arc::clone(&known.list.ledger))
    }

    /// Takes these off the list, durably. Call it under the lock.
    pub(in super::super) fn rescue(
        &self,
        held: &Held<'_>,
        digests: impl IntoIterator<Item = Digest>,
    ) -> Result<(), StoreError> {
        let on_disk = OnDisk {
            writable: self,
            at: Time::from_unix(0),
            cause: Cause::Collect,
        };
        protocol::rescue(&on_disk, held, digests)
    }

    /// Adds to the list, durably, and says so to everybody. Call it under the lock, after the list was
    /// read under it.
    pub(in super::super) fn add_lines(&self, lines: &[Line]) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        let path = self.layout.condemned();
        let mut known = self
            .standings
            .known
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if known.list.can_grow() {
            let file = OpenOptions::new()
                .write(true)
                .open(&path)
                .map_err(failed("open", &path))?;
            known.list.add(&path, &file, lines)?;
            known.list.unsynced = true;
            file.sync_data().map_err(failed("sync", &path))?;
            known.list.unsynced = false;
        } else {
            let mut ledger = Ledger::clone(&known.list.ledger);
            lines.iter().for_each(|line| ledger.apply(line));
            self.write_list(&mut known.list, &ledger)?;
        }
        let content = self.generation.content_changed()?;
        self.standings.note(&known);
        self.standings.read.store(content, Ordering::Release);
        Ok(())
    }

    /// Writes the list anew, durably, and says so to everybody. Call it under the lock.
    pub(in super::super) fn replace_list(&self, ledger: &Ledger) -> Result<(), StoreError> {
        let mut known = self
            .standings
            .known
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.write_list(&mut known.list, ledger)?;
        let content = self.generation.content_changed()?;
        self.standings.note(&known);
        self.standings.read.store(content, Ordering::Release);
        Ok(())
    }

    fn write_list(&self, list: &mut List, ledger: &Ledger) -> Result<(), StoreError> {
        let path = self.layout.condemned();
        let lines: Vec<Line> = ledger.lines().collect();
        let file = self.work.file_of(&list::encode(&path, &lines)?)?;
        self.work.sync([&file])?;
        list.unsynced = true;
        file.place(&path)?;
        sync_folder(self.layout.root())?;
        list.unsynced = false;
        list.refresh(&path)
    }

    /// Content that was brought anew is sound, whatever was kept aside, and nobody needs that
    /// any more; nor where no name asks for it. Call it under the lock,
    /// after the list was read under it.
    pub(in super::super) fn heal(&self, digest: &Digest) -> Result<(), StoreError> {
        let path = self.layout.quarantined(digest);
        let mut known = self
            .standings
            .known
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let noted = known.quarantined.remove(digest);
        // who set it aside may have ended before it counted that
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound && noted => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(failed("remove", &path)(e)),
        }
        // else it is back after a power loss, and the content counts as damaged again
        sync_folder(&self.layout.quarantine())?;
        let content = self.generation.content_changed()?;
        self.standings.note(&known);
        self.standings.read.store(content, Ordering::Release);
        Ok(())
    }
}

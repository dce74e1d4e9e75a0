//! `blobs/`: content by digest. What lies there under its final name is whole, right and
//! durable.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubepkg_core::Digest;
use kubepkg_core::store::{FileRange, StoreError};

use super::disk::{self, failed};
use super::intake::Staged;
use super::layout::Layout;
use super::open::Writable;
use super::work::ignore_missing;

/// How many digests this process remembers as durable. Forgetting costs a sync, no more.
const REMEMBERED: usize = 100_000;

/// How much content is brought into place under one hold of the lock: a few milliseconds.
const PLACED_AT_ONCE: usize = 64;

/// What this process knows of content beyond what the files say.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Published here, folder synced, and removed by nobody since.
    durable: HashSet<Digest>,
    /// The count of changes of content `durable` is as of. Who removes content counts one, and
    /// what is brought again afterwards may be there without the sync of its folder.
    changes: u64,
    /// In place, but the sync of its folder failed: it counts as absent until it is written
    /// again, for a second sync proves nothing.
    suspect: HashSet<Digest>,
}

impl Memory {
    /// Forgets what was durable before somebody changed which content is here.
    fn as_of(&mut self, changes: u64) {
        if self.changes < changes {
            self.durable.clear();
            self.changes = changes;
        }
    }
}

/// The content of a store.
#[derive(Debug)]
pub(super) struct Content {
    layout: Layout,
    memory: Mutex<Memory>,
}

impl Content {
    pub(super) fn new(layout: Layout) -> Content {
        Content {
            layout,
            memory: Mutex::default(),
        }
    }

    /// Size of some content, `None` when it is not here.
    pub(super) fn size(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        if self.memory().suspect.contains(digest) {
            return Ok(None);
        }
        disk::length(&self.layout.blob(digest))
    }

    /// The bytes of some content, `None` when it is not here.
    pub(super) fn range(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError> {
        if self.memory().suspect.contains(digest) {
            return Ok(None);
        }
        open_range(self.layout.blob(digest))
    }

    /// The same, if the file can be opened without asking a disk. `None` says nothing.
    pub(super) fn range_at_once(&self, digest: &Digest) -> Option<FileRange> {
        if self.memory().suspect.contains(digest) {
            return None;
        }
        at_once::open(&self.layout.blob(digest)).and_then(|file| whole(file).ok()?)
    }

    /// The folders that have to be synced before a commit may name this content: others may
    /// have brought it and not come to their sync. `changes` is the count of changes of content,
    /// read under the lock.
    pub(super) fn unsettled<'a>(
        &self,
        digests: impl IntoIterator<Item = &'a Digest>,
        changes: u64,
    ) -> BTreeSet<PathBuf> {
        let mut memory = self.memory();
        memory.as_of(changes);
        digests
            .into_iter()
            .filter(|digest| !memory.durable.contains(digest))
            .map(|digest| self.layout.blob_folder(digest))
            .collect()
    }

    /// Renames staged content into its place, unless it is there already.
    fn place(&self, staged: Staged) -> Result<(), StoreError> {
        let path = self.layout.blob(&staged.digest);
        let there = disk::length(&path)?;
        let sound = there == Some(staged.size) && !self.memory().suspect.contains(&staged.digest);
        if there.is_some() && !sound {
            tracing::warn!(digest = %staged.digest, "replacing damaged content");
            return staged.file.place(&path);
        }
        if !sound {
            staged.file.place_new(&path)?;
        }
        Ok(())
    }

    /// Notes how the sync of the folders of this content ended, which was put in place as of
    /// that count of changes.
    fn synced(&self, digests: Vec<Digest>, changes: u64, well: bool) {
        let mut memory = self.memory();
        if !well {
            memory.suspect.extend(digests);
            return;
        }
        memory.as_of(changes);
        if memory.durable.len() + digests.len() > REMEMBERED {
            memory.durable.clear();
        }
        for digest in &digests {
            memory.suspect.remove(digest);
        }
        if memory.changes == changes {
            memory.durable.extend(digests);
        }
    }

    /// Removes content. Answers how many bytes went. Its folder is still to be synced.
    pub(super) fn unlink(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        let path = self.layout.blob(digest);
        let Some(size) = disk::length(&path)? else {
            return Ok(None);
        };
        ignore_missing(fs::remove_file(&path)).map_err(failed("remove", &path))?;
        let mut memory = self.memory();
        memory.durable.remove(digest);
        memory.suspect.remove(digest);
        Ok(Some(size))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writable {
    /// Brings staged content into place, durably.
    ///
    /// "It is there already" is said under the lock only, and only of content that is then not
    /// condemned: who removes content holds the lock too, and looks at the list under it. So
    /// what a caller was told is there stays for a whole grace, and nobody's file is removed
    /// for that of another. The bytes are synced before the lock is taken, the folders after
    /// it is given back.
    pub(super) fn publish(&self, staged: Vec<Staged>) -> Result<(), StoreError> {
        self.sync_staged(&staged)?;
        self.place_staged(staged)
    }

    /// The first step of [`Writable::publish`]: makes the bytes durable.
    pub(super) fn sync_staged(&self, staged: &[Staged]) -> Result<(), StoreError> {
        self.work.sync(staged.iter().map(|staged| &staged.file))
    }

    /// The second one, under the lock for the most part. The bytes are durable.
    pub(super) fn place_staged(&self, staged: Vec<Staged>) -> Result<(), StoreError> {
        let errors = self.syncer.errors();
        let mut placed: Vec<(u64, Vec<Digest>)> = Vec::new();
        let mut to_sync = BTreeSet::new();
        let mut folders = BTreeSet::new();
        for staged in &staged {
            let folder = self.layout.blob_folder(&staged.digest);
            if folders.insert(folder.clone()) {
                to_sync.extend(self.disk.ensure_folder(self.layout.root(), &folder)?);
                to_sync.insert(folder);
            }
        }
        let mut staged = staged.into_iter();
        loop {
            let group: Vec<Staged> = staged.by_ref().take(PLACED_AT_ONCE).collect();
            if group.is_empty() {
                break;
            }
            let lock = self.lock.hold()?;
            let digests: Vec<Digest> = group.iter().map(|staged| staged.digest).collect();
            self.rescue(&lock, digests.iter().copied())?;
            for staged in group {
                let digest = staged.digest;
                self.content.place(staged)?;
                self.heal(&digest)?;
            }
            placed.push((self.generation.counters()?.content, digests));
        }
        let synced = self.syncer.folders(&to_sync, errors);
        for (changes, digests) in placed {
            self.content.synced(digests, changes, synced.is_ok());
        }
        synced?;
        self.disk.settle(self.layout.root(), &folders);
        Ok(())
    }
}

/// All of a file, `None` when there is none.
pub(super) fn open_range(path: PathBuf) -> Result<Option<FileRange>, StoreError> {
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed("open", &path)(e)),
    };
    whole(file).map_err(failed("look at", &path))
}

/// All of an open file, `None` when it is none.
fn whole(file: File) -> io::Result<Option<FileRange>> {
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then(|| FileRange {
        file: Arc::new(file),
        offset: 0,
        len: metadata.len(),
    }))
}

#[cfg(target_os = "linux")]
mod at_once {
    use std::fs::File;
    use std::path::Path;

    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

    /// Opens a file whose path and inode the system has in memory. Kernels that cannot tell
    /// (before 5.12) refuse, as does a filter of system calls. Nothing but a file is waited for.
    pub(super) fn open(path: &Path) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED);
        opened.ok().map(File::from)
    }
}

#[cfg(not(target_os = "linux"))]
mod at_once {
    use std::fs::File;
    use std::path::Path;

    pub(super) fn open(_: &Path) -> Option<File> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use kubepkg_core::store::{Claim, Collect as _, Garbage};
    use kubepkg_core::time::Time;

    use crate::store::testing::{new_store, now, put};
    use crate::store::{FileStore, OpenMode};

    #[test]
    fn what_another_process_removed_and_somebody_brought_again_is_synced_again() {
        let (folder, ours) = new_store();
        let digest = put(&ours, b"content");
        let unsettled = || {
            let changes = ours.opened.generation.counters().unwrap().content;
            ours.opened.content.unsettled([&digest], changes)
        };
        assert!(unsettled().is_empty());

        let theirs = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        let garbage: BTreeSet<Garbage> = BTreeSet::from([Garbage {
            digest,
            claim: Claim::Bytes,
        }]);
        now(theirs.condemn(garbage.clone())).unwrap();
        let swept = theirs.sweep(0, garbage, Duration::ZERO, Time::from_unix(0));
        assert_eq!(now(swept).unwrap().contents.len(), 1);
        put(&theirs, b"content");
        assert_eq!(unsettled().len(), 1);
    }

    #[test]
    fn what_was_received_before_a_failed_sync_is_not_published() {
        use kubepkg_core::store::{Body, Store as _};
        let (_folder, store) = new_store();
        let digest = kubepkg_core::Digest::sha256(b"content");
        let body = Body::Bytes(bytes::Bytes::from_static(b"content"));
        let staged = now(store.stage(digest, 7, body)).unwrap();
        store.opened.writable().unwrap().syncer.fail();
        assert!(now(store.publish(vec![staged])).is_err());
        put(&store, b"content");
    }
}

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
    /// Published here, folder synced.
    durable: HashSet<Digest>,
    /// In place, but the sync of its folder failed: it counts as absent until it is written
    /// again, for a second sync proves nothing.
    suspect: HashSet<Digest>,
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

    /// The folders that have to be synced before a commit may name this content: others may
    /// have brought it and not come to their sync.
    pub(super) fn unsettled<'a>(
        &self,
        digests: impl IntoIterator<Item = &'a Digest>,
    ) -> BTreeSet<PathBuf> {
        let memory = self.memory();
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

    /// Notes how the sync of the folders of this content ended.
    fn synced(&self, digests: Vec<Digest>, well: bool) {
        let mut memory = self.memory();
        if !well {
            memory.suspect.extend(digests);
            return;
        }
        if memory.durable.len() + digests.len() > REMEMBERED {
            memory.durable.clear();
        }
        for digest in &digests {
            memory.suspect.remove(digest);
        }
        memory.durable.extend(digests);
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
        let digests: Vec<Digest> = staged.iter().map(|staged| staged.digest).collect();
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
            self.rescue(&lock, group.iter().map(|staged| staged.digest), true)?;
            for staged in group {
                let digest = staged.digest;
                self.content.place(staged)?;
                self.heal(&digest)?;
            }
        }
        let synced = self.syncer.folders(&to_sync);
        self.content.synced(digests, synced.is_ok());
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
    let metadata = file.metadata().map_err(failed("look at", &path))?;
    if !metadata.is_file() {
        return Ok(None);
    }
    Ok(Some(FileRange {
        file: Arc::new(file),
        offset: 0,
        len: metadata.len(),
    }))
}

//! `blobs/`: content by digest. What lies there under its final name is whole, right and
//! durable.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubepkg_core::Digest;
use kubepkg_core::store::{FileRange, StoreError};

use super::disk::{self, Disk, failed};
use super::intake::Staged;
use super::layout::Layout;
use super::sync::Syncer;
use super::work::Work;

/// How many digests this process remembers as durable. Forgetting costs a sync, no more.
const REMEMBERED: usize = 100_000;

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

    /// Brings staged content into place, durably.
    pub(super) fn publish(
        &self,
        staged: Vec<Staged>,
        work: &Work,
        disk: &Disk,
        syncer: &Syncer,
    ) -> Result<(), StoreError> {
        work.sync(staged.iter().map(|staged| &staged.file))?;

        let digests: Vec<Digest> = staged.iter().map(|staged| staged.digest).collect();
        let mut by_folder: BTreeMap<PathBuf, Vec<Staged>> = BTreeMap::new();
        for staged in staged {
            let folder = self.layout.blob_folder(&staged.digest);
            by_folder.entry(folder).or_default().push(staged);
        }
        let mut to_sync = BTreeSet::new();
        let folders: Vec<PathBuf> = by_folder.keys().cloned().collect();
        for (folder, group) in by_folder {
            to_sync.extend(disk.ensure_folder(self.layout.root(), &folder)?);
            for staged in group {
                self.place(staged)?;
            }
            to_sync.insert(folder);
        }
        let synced = syncer.folders(&to_sync);
        let mut memory = self.memory();
        if let Err(e) = synced {
            memory.suspect.extend(digests);
            return Err(e);
        }
        if memory.durable.len() + digests.len() > REMEMBERED {
            memory.durable.clear();
        }
        for digest in &digests {
            memory.suspect.remove(digest);
        }
        memory.durable.extend(digests);
        drop(memory);
        disk.settle(self.layout.root(), &folders);
        Ok(())
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

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
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

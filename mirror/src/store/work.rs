//! Where things are made before they are renamed into place: one folder for each process that
//! has the store open for writing.
//!
//! The folder holds a locked file as long as its process lives. What a killed process left is
//! removed by the next one to open the store, and nothing else is.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use kubepkg_core::store::StoreError;

use super::disk::{Disk, failed, rename_new};
use super::layout::{Layout, TEMPORARY};
use super::sync::{Method, SMALL_GROUP, Syncer};

/// Temporaries that stay open until they are synced, so that small groups can be synced file
/// by file. Above it they are closed: a process may have 1024 files open.
const KEPT_OPEN: usize = 64;

/// Name of the locked file that says a folder's process lives.
const ALIVE: &str = "alive";

/// This process's folder of temporaries.
#[derive(Debug)]
pub(super) struct Work {
    path: PathBuf,
    disk: Arc<Disk>,
    syncer: Arc<Syncer>,
    next: AtomicU64,
    kept: AtomicUsize,
    _alive: File,
}

impl Work {
    /// Makes the folder. Call it under the store's lock: until `alive` is locked another
    /// process would take the folder for a dead one's.
    pub(super) fn create(
        layout: &Layout,
        disk: Arc<Disk>,
        syncer: Arc<Syncer>,
    ) -> Result<Work, StoreError> {
        let path = layout
            .root()
            .join(format!("{TEMPORARY}{}", random_name(layout.root())?));
        disk.make_folder(&path)?;
        let alive_at = path.join(ALIVE);
        let alive = disk.create(&alive_at)?;
        alive.lock().map_err(failed("lock", &alive_at))?;
        Ok(Work {
            path,
            disk,
            syncer,
            next: AtomicU64::new(0),
            kept: AtomicUsize::new(0),
            _alive: alive,
        })
    }

    fn next_path(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.path.join(number.to_string())
    }

    /// A new, empty temporary file.
    pub(super) fn file(self: &Arc<Work>) -> Result<Temporary, StoreError> {
        let errors = self.syncer.errors();
        let path = self.next_path();
        let file = self.disk.create(&path)?;
        self.kept.fetch_add(1, Ordering::Relaxed);
        Ok(Temporary {
            work: Arc::clone(self),
            path,
            file: Some(file),
            errors,
            placed: false,
        })
    }

    /// A file that was written elsewhere in the store, as a temporary that can be placed.
    /// `errors` was taken before the first byte was written ([`Syncer::errors`]).
    pub(super) fn adopt(
        self: &Arc<Work>,
        path: PathBuf,
        file: File,
        errors: u64,
    ) -> Result<Temporary, StoreError> {
        self.kept.fetch_add(1, Ordering::Relaxed);
        let mut temporary = Temporary {
            work: Arc::clone(self),
            path,
            file: Some(file),
            errors,
            placed: false,
        };
        temporary.written()?;
        Ok(temporary)
    }

    /// A temporary file with this content.
    pub(super) fn file_of(self: &Arc<Work>, content: &[u8]) -> Result<Temporary, StoreError> {
        let mut temporary = self.file()?;
        temporary.write(content)?;
        temporary.written()?;
        Ok(temporary)
    }

    /// A new, empty temporary folder.
    pub(super) fn folder(&self) -> Result<TemporaryFolder, StoreError> {
        let path = self.next_path();
        self.disk.make_folder(&path)?;
        Ok(TemporaryFolder {
            path,
            placed: false,
        })
    }

    /// Makes the content of all these files durable, with one sync where there are many.
    pub(super) fn sync<'a>(
        &self,
        files: impl IntoIterator<Item = &'a Temporary>,
    ) -> Result<(), StoreError> {
        if self.syncer.method() == Method::Each {
            return Ok(()); // each was synced when it was written
        }
        let files: Vec<&Temporary> = files.into_iter().collect();
        let Some(errors) = files.iter().map(|file| file.errors).min() else {
            return Ok(());
        };
        if files.len() > SMALL_GROUP || files.iter().any(|file| file.file.is_none()) {
            return self.syncer.everything(errors);
        }
        files.iter().try_for_each(|file| file.sync())?;
        self.syncer.unharmed(errors)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A file nobody reads yet; dropping it removes it.
#[derive(Debug)]
pub(super) struct Temporary {
    work: Arc<Work>,
    path: PathBuf,
    file: Option<File>,
    errors: u64,
    placed: bool,
}

impl Temporary {
    /// Adds bytes at the end.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.with(|file| file.write_all(bytes))
    }

    /// Does something to the file while it is being written.
    pub(super) fn with(
        &mut self,
        work: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        match &mut self.file {
            Some(file) => work(file).map_err(failed("write", &self.path)),
            None => Err(failed("write", &self.path)(io::Error::other(
                "it is closed",
            ))),
        }
    }

    /// Says that all is written.
    pub(super) fn written(&mut self) -> Result<(), StoreError> {
        let each = self.work.syncer.method() == Method::Each;
        if each {
            self.sync()?;
        }
        if each || self.work.kept.load(Ordering::Relaxed) > KEPT_OPEN {
            self.close();
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        match &self.file {
            Some(file) => {
                let synced = file.sync_all().map_err(failed("sync", &self.path));
                self.work.syncer.counted(synced)
            }
            None => Ok(()),
        }
    }

    fn close(&mut self) {
        if self.file.take().is_some() {
            self.work.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Renames it to `to`; where something is already, `false`.
    pub(super) fn place_new(mut self, to: &Path) -> Result<bool, StoreError> {
        self.placed = rename_new(&self.path, to).map_err(failed("create", to))?;
        Ok(self.placed)
    }

    /// Renames it to `to`, in place of what is there.
    pub(super) fn place(mut self, to: &Path) -> Result<(), StoreError> {
        fs::rename(&self.path, to).map_err(failed("replace", to))?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.close();
        if !self.placed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A folder that counts only once it is placed; dropping it before removes it.
#[derive(Debug)]
pub(super) struct TemporaryFolder {
    path: PathBuf,
    placed: bool,
}

impl TemporaryFolder {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to `to`. Where a folder is already it stays: whoever placed it made it of the
    /// same record.
    pub(super) fn place(mut self, to: &Path) -> Result<(), StoreError> {
        match fs::rename(&self.path, to) {
            Ok(()) => {
                self.placed = true;
                Ok(())
            }
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty
                ) =>
            {
                Ok(())
            }
            Err(e) => Err(failed("create", to)(e)),
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if !self.placed {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes what processes that are gone left behind. Call it under the store's lock.
///
/// Who was killed may have renamed content and not come to the sync of its folder. Everything
/// is synced *before* the traces of that are removed: who is killed in here leaves them to the
/// next one.
pub(super) fn sweep(layout: &Layout, syncer: &Syncer) -> Result<(), StoreError> {
    let mut abandoned = Vec::new();
    for path in entries(layout.root())? {
        let temporary = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(TEMPORARY));
        if temporary && is_abandoned(&path.join(ALIVE))? {
            abandoned.push(path);
        }
    }
    if !abandoned.is_empty() {
        syncer.everything(syncer.errors())?;
    }
    for path in abandoned {
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        ignore_missing(removed).map_err(failed("remove", &path))?;
    }
    for path in entries(&layout.leases())? {
        if is_abandoned(&path)? {
            ignore_missing(fs::remove_file(&path)).map_err(failed("remove", &path))?;
        }
    }
    Ok(())
}

/// Whether no living process holds the lock of this file.
pub(super) fn is_abandoned(path: &Path) -> Result<bool, StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(true);
        }
        Err(e) => return Err(failed("open", path)(e)),
    };
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(failed("lock", path)(e)),
    }
}

/// The paths in a folder, in order; none when there is no folder.
pub(super) fn entries(folder: &Path) -> Result<BTreeSet<PathBuf>, StoreError> {
    let list = match fs::read_dir(folder) {
        Ok(list) => list,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(e) => return Err(failed("list", folder)(e)),
    };
    list.map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()
        .map_err(failed("list", folder))
}

/// A name nobody else has.
pub(super) fn random_name(place: &Path) -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|e| failed("find a name in", place)(io::Error::other(e.to_string())))?;
    Ok(hex::encode(bytes))
}

pub(super) fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

//! The store's lock: one holder among all processes and threads, for changes of names.
//!
//! It is held while names change, never while content is received.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kubepkg_core::store::StoreError;

use super::disk::failed;

/// The lock file, opened once.
#[derive(Debug)]
pub(super) struct StoreLock {
    path: PathBuf,
    // a file lock belongs to the open file, so threads need the mutex beside it
    file: Mutex<File>,
}

/// Given back when dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    file: MutexGuard<'a, File>,
    path: &'a Path,
}

impl StoreLock {
    pub(super) fn new(path: &Path, file: File) -> StoreLock {
        StoreLock {
            path: path.to_owned(),
            file: Mutex::new(file),
        }
    }

    /// Waits until it is free.
    pub(super) fn hold(&self) -> Result<Held<'_>, StoreError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.lock().map_err(failed("lock", &self.path))?;
        let path = &self.path;
        Ok(Held { file, path })
    }
}

impl Held<'_> {
    /// Whether the lock keeps out who opened the lock file another time, here as `other`. Some
    /// network file systems, as they may be mounted, say yes to everybody, and some to nobody.
    pub(super) fn excludes(&self, other: &File) -> Result<bool, StoreError> {
        match other.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(true),
            Ok(()) => Ok(false),
            Err(TryLockError::Error(e)) => Err(failed("lock", self.path)(e)),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // the system gives it back at the latest when the file is closed
        if let Err(e) = self.file.unlock() {
            tracing::warn!(error = %e, "cannot give back the store's lock");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_keeps_nobody_out_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create_new(&path).unwrap();
        // the same open file: its lock is no obstacle to itself, as on a file system without
        let same = file.try_clone().unwrap();
        let lock = StoreLock::new(&path, file);
        let held = lock.hold().unwrap();
        assert!(held.excludes(&File::open(&path).unwrap()).unwrap());
        assert!(!held.excludes(&same).unwrap());
    }
}

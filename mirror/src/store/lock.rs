//! The store's lock: one holder among all processes and threads, for changes of names.
//!
//! It is held while names change, never while content is received.

use std::fs::File;
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
pub(super) struct Held<'a>(MutexGuard<'a, File>);

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
        Ok(Held(file))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // the system gives it back at the latest when the file is closed
        if let Err(e) = self.0.unlock() {
            tracing::warn!(error = %e, "cannot give back the store's lock");
        }
    }
}

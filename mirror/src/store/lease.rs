//! Leases: a locked file in `leases/`. It counts as long as its process lives and holds it.

use std::fs::{self, File};
use std::path::PathBuf;

use kubepkg_core::store::StoreError;

use super::disk::{Disk, failed};
use super::layout::Layout;
use super::work::random_name;

/// As long as this lives, collection removes nothing that was published since it was taken.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    _file: File,
}

impl Lease {
    /// Takes one. Call it under the store's lock: who sweeps must not see the file unlocked.
    pub(super) fn take(layout: &Layout, disk: &Disk) -> Result<Lease, StoreError> {
        let path = layout.leases().join(random_name(&layout.leases())?);
        let file = disk.create(&path)?;
        let lease = Lease { path, _file: file };
        lease._file.lock().map_err(failed("lock", &lease.path))?;
        Ok(lease)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

//! Leases: a locked file in `leases/`. It counts as long as its process lives and holds it, and
//! says which round of collection was the newest when it was taken.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use kubepkg_core::store::StoreError;

use super::disk::{Disk, failed};
use super::layout::{Layout, NUMBER_WIDTH};
use super::work::{self, random_name};

/// As long as this lives, collection removes nothing that was published since it was taken.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    _file: File,
}

impl Lease {
    /// Takes one, after this round. Call it under the store's lock: who sweeps must not see the
    /// file unlocked.
    pub(super) fn take(layout: &Layout, disk: &Disk, round: u64) -> Result<Lease, StoreError> {
        let path = layout.leases().join(random_name(&layout.leases())?);
        let file = disk.create(&path)?;
        let mut lease = Lease { path, _file: file };
        lease._file.lock().map_err(failed("lock", &lease.path))?;
        lease
            ._file
            .write_all(format!("{round:0NUMBER_WIDTH$}\n").as_bytes())
            .map_err(failed("write", &lease.path))?;
        Ok(lease)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The rounds after which the oldest and the newest of the living leases were taken. Call it
/// under the store's lock.
pub(super) fn living(layout: &Layout) -> Result<Option<(u64, u64)>, StoreError> {
    let mut rounds = None;
    for path in work::entries(&layout.leases())? {
        if work::is_abandoned(&path)? {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        // one that says nothing is older than everything
        let round: u64 = text.trim_end().parse().unwrap_or(0);
        let (oldest, newest) = rounds.unwrap_or((round, round));
        rounds = Some((oldest.min(round), newest.max(round)));
    }
    Ok(rounds)
}

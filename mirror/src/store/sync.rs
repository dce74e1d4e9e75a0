//! Making things survive a power loss, in groups.
//!
//! A failed sync leaves pages marked clean that never reached the disk, so a second sync would
//! succeed and lie. Therefore whoever gets an error from here has to give up what was written
//! and write it again. One `syncfs` reports an error to one caller only; what others were
//! writing meanwhile is refused too, by a count of errors.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kubepkg_core::store::StoreError;

use super::disk::failed;

/// Up to here files and folders are synced one by one: one push must not wait until all that
/// others are writing to the same file system is on disk.
pub(super) const SMALL_GROUP: usize = 8;

/// File systems whose `syncfs` writes everything and reports failed writes.
const GROUP_FILE_SYSTEMS: [u64; 5] = [
    0xef53,      // ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0xf2f5_2010, // f2fs
    0x0102_1994, // tmpfs
];

/// The first kernel whose `syncfs` reports failed writes of data.
const GROUP_KERNEL: (u32, u32) = (5, 8);

/// How files written together are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// One `syncfs` for all.
    Group,
    /// One `fsync` for each.
    Each,
}

/// The store's file system, to sync it.
#[derive(Debug)]
pub(super) struct Syncer {
    root: File,
    path: PathBuf,
    method: Method,
    errors: AtomicU64,
    running: Mutex<()>,
}

impl Syncer {
    /// For the file system `root` lies on. Errors before this are not reported.
    pub(super) fn new(path: &Path, root: File) -> Syncer {
        let method = match rustix::fs::fstatfs(&root) {
            Ok(stat) => method(stat.f_type as u64, kernel()),
            Err(_) => Method::Each,
        };
        Syncer {
            root,
            path: path.to_owned(),
            method,
            errors: AtomicU64::new(0),
            running: Mutex::new(()),
        }
    }

    pub(super) fn method(&self) -> Method {
        self.method
    }

    /// Taken before the first thing is written that a sync is to make durable, and given to that
    /// sync: taken later it would count an error as one from before.
    pub(super) fn errors(&self) -> u64 {
        self.errors.load(Ordering::SeqCst)
    }

    /// Syncs all that was written to the file system since `errors` was taken.
    pub(super) fn everything(&self, errors: u64) -> Result<(), StoreError> {
        // one after the other: an error is counted before the next caller can miss it
        let _running = self
            .running
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Err(e) = rustix::fs::syncfs(&self.root) {
            self.errors.fetch_add(1, Ordering::SeqCst);
            return Err(failed("sync", &self.path)(e.into()));
        }
        self.unharmed(errors)
    }

    /// Refuses what was written since `errors` was taken where a sync failed meanwhile: who got
    /// that error may have got the one of this, too.
    pub(super) fn unharmed(&self, errors: u64) -> Result<(), StoreError> {
        if self.errors() != errors {
            let lost = io::Error::other("the disk failed while this was being written");
            return Err(failed("sync", &self.path)(lost));
        }
        Ok(())
    }

    /// Makes the entries of these folders durable that were made since `errors` was taken.
    pub(super) fn folders(
        &self,
        folders: &BTreeSet<PathBuf>,
        errors: u64,
    ) -> Result<(), StoreError> {
        if folders.is_empty() {
            return Ok(());
        }
        if self.method == Method::Group && folders.len() > SMALL_GROUP {
            return self.everything(errors);
        }
        self.counted(folders.iter().try_for_each(|folder| sync_folder(folder)))?;
        self.unharmed(errors)
    }

    /// Counts the error of a sync of one file or folder: who wrote to the same one meanwhile
    /// may not get to hear of it.
    pub(super) fn counted<T>(&self, synced: Result<T, StoreError>) -> Result<T, StoreError> {
        if synced.is_err() {
            self.errors.fetch_add(1, Ordering::SeqCst);
        }
        synced
    }

    /// As if a sync had failed that somebody else asked for.
    #[cfg(test)]
    pub(super) fn fail(&self) {
        self.errors.fetch_add(1, Ordering::SeqCst);
    }
}

/// Makes the entries of one folder durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed("sync", folder))
}

fn method(file_system: u64, kernel: Option<(u32, u32)>) -> Method {
    let reports = kernel.is_some_and(|version| version >= GROUP_KERNEL);
    if reports && GROUP_FILE_SYSTEMS.contains(&file_system) {
        Method::Group
    } else {
        Method::Each
    }
}

fn kernel() -> Option<(u32, u32)> {
    version(rustix::system::uname().release().to_str().ok()?)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sync_for_all_only_where_it_reports_errors() {
        assert_eq!(method(0xef53, version("6.1.0-13-amd64")), Method::Group);
        assert_eq!(method(0xef53, version("5.8")), Method::Group);
        assert_eq!(method(0xef53, version("4.18.0-553.el8")), Method::Each);
        assert_eq!(method(0xef53, None), Method::Each);
        assert_eq!(method(0x6969, version("6.1")), Method::Each, "nfs");
    }

    #[test]
    fn content_written_before_anothers_failed_sync_is_given_up() {
        let root = tempfile::tempdir().unwrap();
        let syncer = Syncer::new(root.path(), File::open(root.path()).unwrap());
        let before = syncer.errors();
        syncer.fail();
        assert!(syncer.everything(before).is_err());
        syncer.everything(syncer.errors()).unwrap();
    }

    #[test]
    fn entries_made_before_anothers_failed_sync_are_given_up() {
        let root = tempfile::tempdir().unwrap();
        let syncer = Syncer::new(root.path(), File::open(root.path()).unwrap());
        for count in [1, SMALL_GROUP + 1] {
            let folders: BTreeSet<PathBuf> = (0..count)
                .map(|n| root.path().join(n.to_string()))
                .collect();
            let before = syncer.errors();
            for folder in &folders {
                std::fs::create_dir_all(folder).unwrap();
            }
            syncer.fail();
            assert!(syncer.folders(&folders, before).is_err(), "{count}");
            syncer.folders(&folders, syncer.errors()).unwrap();
        }
    }
}

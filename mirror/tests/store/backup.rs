//! A backup is a store, made while others push.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use kubepkg_core::progress::{Progress, Silent};
use kubepkg_core::store::StoreError;
use kubepkg_mirror::source::Standing;
use kubepkg_mirror::store::check::CheckSettings;
use kubepkg_mirror::store::{BackedUp, FileStore, OpenMode};

use crate::site::{APP, Site, bring};
use crate::support::{blob, commit, noise, now, put, tag};

fn backup(store: &FileStore, to: &Path) -> Result<BackedUp, StoreError> {
    let copy = FileStore::open(to, OpenMode::OpenOrCreate)?;
    store.backup(&copy, 2, &Silent, &AtomicBool::new(false))
}

#[track_caller]
fn assert_sound(root: &Path) -> u64 {
    let store = FileStore::open(root, OpenMode::ReadOnly).unwrap();
    let stop = AtomicBool::new(false);
    let checked = store
        .check(&CheckSettings::default(), &Silent, &stop)
        .unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
    checked.sequence
}

#[test]
fn a_backup_is_a_store_that_checks_clean() {
    let site = Site::new();
    let copy = tempfile::tempdir().unwrap();
    let done = backup(&site.store, copy.path()).unwrap();
    assert_eq!((done.sequence, done.copied.files), (3, 8));
    assert_eq!(assert_sound(copy.path()), 3);
    let there = FileStore::open(copy.path(), OpenMode::ReadOnly).unwrap();
    assert_eq!(
        *now(there.names()).unwrap(),
        *now(site.store.names()).unwrap()
    );
}

#[test]
fn the_next_backup_copies_what_is_new() {
    let site = Site::new();
    let copy = tempfile::tempdir().unwrap();
    backup(&site.store, copy.path()).unwrap();
    let (digest, mut changes) = bring(&site.store, APP, &noise(7, 10), &[&noise(8, 1000)]);
    changes.push(tag(APP, "2", digest));
    now(commit(&site.store, changes)).unwrap();
    let done = backup(&site.store, copy.path()).unwrap();
    assert_eq!((done.copied.files, done.there.files), (3, 8));
    assert_eq!(assert_sound(copy.path()), 4);
    let done = backup(&site.store, copy.path()).unwrap();
    assert_eq!((done.copied.files, done.sequence), (0, 4));
    // and it can be worked with like the store itself
    let there = FileStore::open(copy.path(), OpenMode::OpenOrCreate).unwrap();
    now(commit(&there, vec![tag(APP, "own", digest)])).unwrap();
    assert_eq!(assert_sound(copy.path()), 5);
}

#[test]
fn a_store_that_went_its_own_way_is_no_place_for_a_backup() {
    let (site, other) = (Site::new(), Site::new());
    now(commit(&other.store, vec![tag(APP, "3", other.other)])).unwrap();
    let before = now(other.store.names()).unwrap();
    let error = backup(&site.store, other.root()).unwrap_err();
    assert!(error.to_string().contains("commit 4"), "{error}");
    assert_eq!(*now(other.store.names()).unwrap(), *before);
    now(commit(&site.store, vec![tag(APP, "4", site.other)])).unwrap();
    assert!(backup(&site.store, other.root()).is_err());
}

#[test]
fn what_is_damaged_is_told_and_not_copied() {
    let site = Site::new();
    let mut bytes = fs::read(site.blob(&site.layer)).unwrap();
    bytes[0] ^= 1;
    fs::write(site.blob(&site.layer), bytes).unwrap();
    fs::remove_file(site.blob(&site.other)).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let done = backup(&site.store, copy.path()).unwrap();
    assert_eq!(done.missing, [site.other]);
    if done.damaged.is_empty() {
        println!("not run: this file system shares blocks, so content is not read");
    } else {
        assert_eq!(done.damaged, [site.layer]);
    }
}

#[test]
fn a_backup_beside_running_pushes_is_whole() {
    let site = Site::new();
    let stop = AtomicBool::new(false);
    let pushed = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let (digest, mut changes) =
                    bring(&site.store, APP, &noise(n, 30), &[&noise(n + 1, 900)]);
                changes.push(tag(APP, &format!("t{}", n % 5), digest));
                now(commit(&site.store, changes)).unwrap();
                pushed.fetch_add(1, Ordering::Relaxed);
            }
        });
        let copy = tempfile::tempdir().unwrap();
        let mut before = 0;
        for _ in 0..5 {
            let done = backup(&site.store, copy.path()).unwrap();
            assert!(done.missing.is_empty() && done.damaged.is_empty());
            let sequence = assert_sound(copy.path());
            assert!(sequence == done.sequence && sequence >= before);
            before = sequence;
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(pushed.into_inner() > 0);
}

#[test]
fn what_is_not_in_the_store_counts_as_not_here_in_the_copy() {
    let site = Site::new();
    fs::remove_file(site.blob(&site.layer)).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let done = backup(&site.store, copy.path()).unwrap();
    assert_eq!(done.missing, [site.layer]);
    let there = FileStore::open(copy.path(), OpenMode::OpenOrCreate).unwrap();
    let standing = || {
        now(there.names()).unwrap();
        there.standing(&site.layer)
    };
    assert_eq!(standing(), Standing::Quarantined);

    // the next backup brings it
    now(put(&site.store, &noise(1, 300_000))).unwrap();
    let done = backup(&site.store, copy.path()).unwrap();
    assert!(done.missing.is_empty());
    assert_eq!(standing(), Standing::Sound);
    assert_sound(copy.path());
}

/// Collects as soon as copying begins.
struct Collects<'s>(&'s FileStore);

impl Progress for Collects<'_> {
    fn begin(&self, _: &str, _: u64) {
        crate::collection::collect(self.0, &crate::collection::at_once());
    }

    fn advance(&self, _: u64) {}

    fn end(&self) {}
}

#[test]
fn what_is_collected_while_a_backup_runs_is_not_in_it() {
    let site = Site::new();
    let bytes = noise(30, 500);
    let garbage = now(put(&site.store, &bytes)).unwrap();
    now(commit(&site.store, vec![blob(APP, garbage, 500)])).unwrap();
    // condemned before the backup took its lease
    crate::collection::collect(&site.store, &crate::collection::at_once());
    let copy = tempfile::tempdir().unwrap();
    let to = FileStore::open(copy.path(), OpenMode::OpenOrCreate).unwrap();
    let stop = AtomicBool::new(false);
    let done = site.store.backup(&to, 2, &Collects(&site.store), &stop);
    let done = done.unwrap();
    assert_eq!(done.missing, []);
    assert_eq!((done.copied.files, done.there.files), (8, 0));
    assert!(done.sequence > 4);
    drop(to);
    assert_sound(copy.path());
}

//! Commit records: read backwards, and removed when nothing needs them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use kubepkg_core::progress::Silent;
use kubepkg_core::store::StoreError;
use kubepkg_core::store::{Batch, Cause, Committed, Store};
use kubepkg_mirror::store::check::CheckSettings;
use kubepkg_mirror::store::{BackedUp, FileStore, OpenMode};

use crate::large::open;
use crate::site::{APP, Site};
use crate::support::{batch, commit, manifest, noise, now, put, tag};

/// Newest records that are never removed.
const KEPT: u64 = 1000;

/// A store with an import at each of these numbers, and pushes up to `newest`.
fn store_with(root: &Path, imports: &[u64], newest: u64) -> FileStore {
    let store = open(root);
    let digest = now(put(&store, &noise(1, 10))).unwrap();
    now(commit(&store, vec![manifest("a", digest, 10)])).unwrap();
    for number in 2..=newest {
        let cause = match imports.contains(&number) {
            true => Cause::Import(Box::default()),
            false => Cause::Push,
        };
        let changes = vec![tag("a", &format!("t{}", number % 5), digest)];
        let batch = Batch {
            cause,
            ..batch(changes)
        };
        let done = now(store.commit(number - 1, batch)).unwrap();
        assert_eq!(done, Committed::Done(number));
    }
    store
}

/// A folder for a thousand commits: where syncing costs nothing, if there is such a place.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn numbers(store: &FileStore) -> BTreeSet<u64> {
    let records = store.records_back().unwrap();
    let numbers: Vec<u64> = records.map(|record| record.unwrap().number).collect();
    assert!(numbers.is_sorted_by(|a, b| a > b), "newest first");
    numbers.into_iter().collect()
}

#[test]
fn records_of_old_pushes_go_and_imports_stay() {
    let root = in_memory();
    let newest = KEPT + 40;
    let store = store_with(root.path(), &[5, 10, 20], newest);
    let before = now(store.names()).unwrap();
    assert_eq!(now(store.trim_records(2)).unwrap(), 8);
    let left: BTreeSet<u64> = [5].into_iter().chain(10..=newest).collect();
    assert_eq!(numbers(&store), left);
    assert_eq!(now(store.trim_records(2)).unwrap(), 0);
    assert_eq!(now(store.trim_records(1)).unwrap(), 9);
    assert_eq!(now(store.trim_records(0)).unwrap(), 20);
    let left: BTreeSet<u64> = [5, 10, 20].into_iter().chain(41..=newest).collect();
    assert_eq!(numbers(&store), left);
    assert!(matches!(
        now(store.record(5)).unwrap().unwrap().cause,
        Cause::Import(_)
    ));

    // with the counter and without it
    for _ in 0..2 {
        let again = open(root.path());
        assert_eq!(now(again.sequence()).unwrap(), newest);
        assert_eq!(*now(again.names()).unwrap(), *before);
        std::fs::write(root.path().join("generation"), "").unwrap();
        let reading = FileStore::open(root.path(), OpenMode::ReadOnly).unwrap();
        assert_eq!(*now(reading.names()).unwrap(), *before);
    }
    let digest = before.repositories["a"].tags["t1"].digest;
    let number = now(commit(&open(root.path()), vec![tag("a", "new", digest)])).unwrap();
    assert_eq!(number, newest + 1);

    // walking back as far as there is no gap, and not further
    let mut names = (*now(open(root.path()).names()).unwrap()).clone();
    let records: Vec<_> = store.records_back().unwrap().map(Result::unwrap).collect();
    let mut undone = 0;
    for record in &records {
        match names.undo_record(record) {
            Ok(()) => undone += 1,
            Err(e) => {
                assert_eq!((e.number, names.sequence), (20, 40));
                break;
            }
        }
    }
    assert_eq!(undone, newest + 1 - 40);
    std::fs::remove_file(root.path().join(format!("commits/{}.json", newest - 5))).unwrap();
    std::fs::write(root.path().join("generation"), "").unwrap();
    let error = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap_err();
    assert!(error.to_string().contains("it is missing"), "{error}");
}

#[test]
fn a_reader_that_missed_removed_records_reads_all_names() {
    let root = in_memory();
    let store = store_with(root.path(), &[], 5);
    let reader = FileStore::open(root.path(), OpenMode::ReadOnly).unwrap();
    assert_eq!(now(reader.names()).unwrap().sequence, 5);
    let digest = now(store.names()).unwrap().repositories["a"].tags["t2"].digest;
    for n in 0..KEPT + 5 {
        let changes = vec![tag("a", &format!("n{}", n % 3), digest)];
        now(commit(&store, changes)).unwrap();
    }
    assert!(now(store.trim_records(3)).unwrap() > 5);
    assert_eq!(*now(reader.names()).unwrap(), *now(store.names()).unwrap());
}

#[test]
fn a_counter_behind_removed_records_loses_no_push() {
    let root = in_memory();
    let newest = KEPT + 40;
    let store = store_with(root.path(), &[5], newest);
    assert_eq!(now(store.trim_records(0)).unwrap(), 39);
    let digest = now(store.names()).unwrap().repositories["a"].tags["t1"].digest;
    let put_back = |number: u64| {
        let old = format!("{number:020}\n{:020}\n", 0);
        std::fs::write(root.path().join("generation"), old).unwrap();
    };
    let push = |store: &FileStore, name: &str| {
        let number = now(commit(store, vec![tag("a", name, digest)])).unwrap();
        let reader = FileStore::open(root.path(), OpenMode::ReadOnly).unwrap();
        for store in [store, &reader] {
            let names = now(store.names()).unwrap();
            assert_eq!(names.sequence, number, "{name}");
            assert!(names.repositories["a"].tags.contains_key(name), "{name}");
        }
        number
    };
    // while it is open, then after a restart: where a record is beside the counter and where not
    put_back(5);
    assert_eq!(push(&store, "open"), newest + 1);
    drop(store);
    for (n, old) in [5, 7, 0].into_iter().enumerate() {
        put_back(old);
        let reader = FileStore::open(root.path(), OpenMode::ReadOnly).unwrap();
        let names = now(reader.names()).unwrap();
        assert_eq!(names.sequence, newest + 1 + n as u64);
        let again = open(root.path());
        assert_eq!(push(&again, &format!("back-{old}")), newest + 2 + n as u64);
    }
}

#[test]
fn a_push_above_names_newer_than_the_records_is_refused_and_not_lost() {
    let site = Site::new();
    now(commit(&site.store, vec![tag(APP, "3", site.other)])).unwrap();
    std::fs::remove_file(site.root().join("commits/4.json")).unwrap();
    std::fs::write(site.root().join("generation"), format!("{:020}\n", 3)).unwrap();
    let store = FileStore::open(site.root(), OpenMode::OpenOrCreate).unwrap();
    let error = now(commit(&store, vec![tag(APP, "4", site.other)])).unwrap_err();
    assert!(matches!(error, StoreError::Mixed { .. }), "{error}");
    assert!(!site.root().join("commits/4.json").exists());
}

fn backup(store: &FileStore, to: &Path) -> Result<BackedUp, StoreError> {
    let copy = FileStore::open(to, OpenMode::OpenOrCreate)?;
    store.backup(&copy, 2, &Silent, &AtomicBool::new(false))
}

/// What a check finds that is not about content.
fn own_findings(root: &Path) -> Vec<PathBuf> {
    let store = FileStore::open(root, OpenMode::ReadOnly).unwrap();
    let stop = AtomicBool::new(false);
    let checked = store
        .check(&CheckSettings::default(), &Silent, &stop)
        .unwrap();
    let own = checked.findings.into_iter().filter(|f| f.digest.is_none());
    own.map(|finding| finding.path).collect()
}

#[test]
fn a_gap_of_removed_records_is_no_damage_and_no_end_of_backups() {
    let (root, early, late) = (in_memory(), in_memory(), in_memory());
    let store = store_with(root.path(), &[], 10);
    backup(&store, early.path()).unwrap();
    let digest = now(store.names()).unwrap().repositories["a"].tags["t1"].digest;
    let push = |number: u64| {
        let changes = vec![tag("a", &format!("t{}", number % 5), digest)];
        let cause = match number {
            15 => Cause::Import(Box::default()),
            _ => Cause::Push,
        };
        let batch = Batch {
            cause,
            ..batch(changes)
        };
        now(store.commit(number - 1, batch)).unwrap();
    };
    let newest = KEPT + 40;
    (11..=30).for_each(push);
    backup(&store, late.path()).unwrap();
    (31..=newest).for_each(push);
    assert_eq!(now(store.trim_records(0)).unwrap(), 39);
    assert_eq!(own_findings(root.path()), Vec::<PathBuf>::new());

    // one has a record in common with the store, the other none
    for copy in [&early, &late] {
        backup(&store, copy.path()).unwrap();
        assert_eq!(own_findings(copy.path()), Vec::<PathBuf>::new());
        let copied = open(copy.path());
        assert_eq!(*now(copied.names()).unwrap(), *now(store.names()).unwrap());
        assert_eq!(backup(&store, copy.path()).unwrap().sequence, newest);
    }

    // what is missing among the newest still is
    let record = PathBuf::from(format!("commits/{}.json", newest - 3));
    std::fs::remove_file(root.path().join(&record)).unwrap();
    assert_eq!(own_findings(root.path()), [record]);
}

#[test]
fn a_copy_that_went_its_own_way_is_refused_by_the_number_that_differs() {
    let (root, other) = (in_memory(), in_memory());
    let store = store_with(root.path(), &[], KEPT + 10);
    let copy = store_with(other.path(), &[], 9);
    let digest = now(copy.names()).unwrap().repositories["a"].tags["t1"].digest;
    now(commit(&copy, vec![manifest("b", digest, 10)])).unwrap();
    drop(copy);
    // the oldest record of the store is that of 11: none to compare, but it has no such name
    now(store.trim_records(0)).unwrap();
    let error = backup(&store, other.path()).unwrap_err();
    assert!(error.to_string().contains("commit 10 "), "{error}");
    now(commit(&open(other.path()), vec![tag("a", "own", digest)])).unwrap();
    let error = backup(&store, other.path()).unwrap_err();
    assert!(error.to_string().contains("commit 11 "), "{error}");
}

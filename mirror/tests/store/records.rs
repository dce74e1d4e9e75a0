//! Commit records: read backwards, and removed when nothing needs them.

use std::collections::BTreeSet;
use std::path::Path;

use kubepkg_core::store::{Batch, Cause, Committed, Store};
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::large::open;
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

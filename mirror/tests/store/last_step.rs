//! Faults at the record of a commit and after it: a commit that was made is never denied, one
//! whose outcome is open says so, and who comes second takes nothing from the first.

use std::path::Path;

use kubepkg_core::Digest;
use kubepkg_core::error::Classify;
use kubepkg_core::store::{Change, Committed, Store, StoreError};
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_test_support::can_trace;

use crate::scenario::{URL, temporaries};
use crate::support::{batch, manifest, noise, now, put, site, tag};
use crate::traced::{given_root, run_with_fault_at};

fn open(root: &Path) -> FileStore {
    FileStore::open(root, OpenMode::OpenOrCreate).unwrap()
}

/// A reader that knows nothing sees this commit as the newest, with the repository in it.
fn check_seen(root: &Path, number: u64, repository: &str) {
    let reading = FileStore::open(root, OpenMode::ReadOnly).unwrap();
    assert_eq!(now(reading.sequence()).unwrap(), number);
    let names = now(reading.names()).unwrap();
    assert!(names.repositories.contains_key(repository));
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn process_that_cannot_sync_a_record() {
    let root = given_root().unwrap();
    let store = open(&root);
    let digest = now(put(&store, &noise(1, 10))).unwrap();
    let change = |name| batch(vec![manifest(name, digest, 10)]);
    let error = now(store.commit(0, change("a"))).unwrap_err();
    assert!(
        matches!(error, StoreError::Unsettled { number: 1, .. }),
        "{error:?}"
    );
    assert!(error.place().unwrap().ends_with("commits"));
    check_seen(&root, 1, "a");
    // its number is taken for good
    let second = now(store.commit(0, change("b"))).unwrap();
    assert_eq!(second, Committed::Conflict { newest: 1 });
    let second = now(store.commit(1, change("b"))).unwrap();
    assert_eq!(second, Committed::Done(2));
    check_seen(&root, 2, "a");
}

#[test]
fn a_record_that_cannot_be_synced_is_not_taken_back() {
    if !can_trace() {
        return;
    }
    let test = "last_step::process_that_cannot_sync_a_record";
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let fault = "inject=fsync:error=EIO:when=1";
    let status = run_with_fault_at(test, &root, &root.join("commits"), fault);
    assert!(status.success(), "{status}");
    assert_eq!(now(open(&root).sequence()).unwrap(), 2);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn process_that_cannot_sync_names() {
    let root = given_root().unwrap();
    let store = open(&root);
    let digest = now(put(&store, &noise(1, 10))).unwrap();
    let change = vec![manifest("a", digest, 10), tag("a", "1", digest)];
    let done = now(store.commit(0, batch(change))).unwrap();
    assert_eq!(done, Committed::Done(1));
    check_seen(&root, 1, "a");
}

#[test]
fn a_commit_is_made_when_its_record_is() {
    if !can_trace() {
        return;
    }
    let test = "last_step::process_that_cannot_sync_names";
    // the first time only, and for as long as the process lives
    for when in ["1", "1+"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let names = root.join("names").join(&Digest::sha256("a").hex()[..2]);
        let fault = format!("inject=fsync:error=EIO:when={when}");
        let status = run_with_fault_at(test, &root, &names, &fault);
        assert!(status.success(), "{when}: {status}");
        let counted = || std::fs::read_to_string(root.join("generation")).unwrap();
        let healed = counted().ends_with("1\n");
        assert_eq!(healed, when == "1", "once is made up for at once");
        check_seen(&root, 1, "a");
        drop(open(&root));
        assert!(counted().ends_with("1\n"), "who opens it next finishes it");
        check_seen(&root, 1, "a");
        assert!(temporaries(&root).is_empty());
    }
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn process_that_comes_second() {
    let root = given_root().unwrap();
    let store = open(&root);
    let index = noise(1, 10);
    now(put(&store, &index)).unwrap();
    let change = site(URL, &[("index.yaml", &index)]);
    let Change::Site { folder, .. } = &change else {
        unreachable!()
    };
    let set = root.join("sites").join(folder).join("1");
    std::fs::create_dir_all(&set).unwrap();
    std::fs::write(set.join("index.yaml"), "of the first").unwrap();
    let second = now(store.commit(0, batch(vec![change]))).unwrap();
    assert_eq!(second, Committed::Conflict { newest: 1 });
    let kept = std::fs::read(set.join("index.yaml")).unwrap();
    assert_eq!(kept, b"of the first");
}

#[test]
fn who_comes_second_leaves_the_files_of_the_first_alone() {
    if !can_trace() {
        return;
    }
    let test = "last_step::process_that_comes_second";
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    // where the lock holds nobody back, the record of the other one is found at the last step
    let fault = "inject=renameat2:error=EEXIST:when=1";
    let status = run_with_fault_at(test, &root, &root.join("commits/1.json"), fault);
    assert!(status.success(), "{status}");
}

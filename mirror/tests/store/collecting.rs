//! A collection killed at any system call: nothing that is named is lost, and the next one
//! finishes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use kubepkg_core::Digest;
use kubepkg_mirror::store::{Collecting, FileStore, OpenMode};
use kubepkg_test_support::can_trace;

use crate::collection::{at_once, collect, image, open, untag};
use crate::scenario::temporaries;
use crate::support::{blob, commit, content, noise, now, put, site};
use crate::traced::{count_at, given_root, run_with_fault};

/// What changes a disk or comes before a change, and at how many of these calls at most the
/// process is killed; the rest of them is alike.
const CALLS: [(&str, usize); 9] = [
    ("unlink", 16),
    ("rename", 12),
    ("renameat2", 6),
    ("mkdir", 6),
    ("fsync", 16),
    ("fdatasync", 12),
    ("syncfs", 2),
    ("pwrite64", 20),
    ("openat", 16),
];

const URL: &str = "https://packages.example/index.yaml";

fn untagged() -> Collecting {
    Collecting {
        untagged: true,
        ..at_once()
    }
}

/// A store with something to keep, something condemned, and something to condemn. Answers what is
/// to be there in the end.
fn prepare(root: &Path) -> BTreeSet<Digest> {
    let store = open(root);
    let (kept, lost) = (image(&store, 1), image(&store, 2));
    now(commit(&store, kept.tagged("r", "1"))).unwrap();
    now(commit(&store, lost.tagged("r", "2"))).unwrap();
    now(commit(&store, lost.tagged("s", "2"))).unwrap();
    let orphan = now(put(&store, &noise(30, 300))).unwrap();
    now(commit(&store, vec![blob("s", orphan, 300)])).unwrap();
    now(put(&store, &noise(31, 300))).unwrap();
    let files = [noise(40, 100), noise(41, 100)];
    for bytes in &files {
        now(put(&store, bytes)).unwrap();
        let changes = vec![site(URL, &[("index.yaml", bytes)])];
        now(commit(&store, changes)).unwrap();
    }
    let gone = vec![untag("r", "2"), untag("s", "2")];
    now(commit(&store, gone)).unwrap();
    collect(&store, &untagged());
    // the next round finds this
    now(put(&store, &noise(32, 300))).unwrap();
    let mut left: BTreeSet<Digest> = kept.all().into_iter().collect();
    left.insert(Digest::sha256(&files[1]));
    left
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn collecting_process() {
    let Some(root) = given_root() else { return };
    collect(&open(&root), &untagged());
}

/// `from` as it is, but for the reserve, which is as good when it is made anew.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&from, &to);
        } else if entry.file_name() != "reserve" {
            fs::copy(from, to).unwrap();
        }
    }
}

/// All that is named is here and right.
fn check_named(store: &FileStore, left: &BTreeSet<Digest>, what: &str) {
    let names = now(store.names()).unwrap();
    let repositories = names.repositories.values();
    let named = repositories.flat_map(|repository| repository.content());
    for digest in named.chain(left.iter().copied()) {
        let bytes = now(content(store, &digest));
        let right = bytes.is_some_and(|bytes| digest.matches(bytes));
        assert!(right, "{what}: {digest} is lost");
    }
    assert_eq!(names.repositories["r"].tags.len(), 1, "{what}");
}

/// Digests of all content there is.
fn all(store: &FileStore) -> BTreeSet<Digest> {
    let mut all = BTreeSet::new();
    let blobs = store.root().join("blobs/sha256");
    for folder in fs::read_dir(blobs).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            let hex = file.unwrap().file_name().into_string().unwrap();
            all.insert(format!("sha256:{hex}").parse().unwrap());
        }
    }
    all
}

#[test]
fn a_collection_killed_at_any_point_loses_nothing_and_the_next_one_finishes_it() {
    if !can_trace() {
        return;
    }
    let test = "collecting::collecting_process";
    let folder = tempfile::tempdir().unwrap();
    let prepared = folder.path().join("prepared");
    let left = prepare(&prepared);
    let mut kills = 0;
    for (call, most) in CALLS {
        let counted = folder.path().join(format!("count-{call}"));
        copy(&prepared, &counted);
        let count = count_at(test, &counted, call);
        for number in (1..=count).step_by(count.div_ceil(most).max(1)) {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("store");
            copy(&prepared, &root);
            let fault = format!("inject={call}:signal=KILL:when={number}");
            let status = run_with_fault(test, &root, &fault);
            let what = format!("killed at {call} {number} of {count}");
            assert!(!status.success(), "{what}: it did not come to that");
            kills += 1;
            let reading = FileStore::open(&root, OpenMode::ReadOnly).unwrap();
            check_named(&reading, &left, &what);
            let store = open(&root);
            check_named(&store, &left, &what);
            assert!(temporaries(&root).is_empty(), "{what}");
            for _ in 0..2 {
                collect(&store, &untagged());
                check_named(&store, &left, &what);
            }
            assert_eq!(all(&store), left, "{what}: what stays");
            let names = now(store.names()).unwrap();
            let blobs = names.repositories["r"].blobs.len();
            let others = names.repositories["s"].content().len();
            assert_eq!((blobs, others), (2, 0), "{what}: names that stay");
        }
    }
    println!("{kills} kills");
    assert!(kills >= 50, "{kills} kills");
}

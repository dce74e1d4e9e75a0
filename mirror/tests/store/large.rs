//! Repositories above 1000 entries: a base file and a log.

use std::path::{Path, PathBuf};

use futures_util::FutureExt;
use kubepkg_core::Digest;
use kubepkg_core::store::{Change, Names, Store, StoreError};
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_test_support::can_trace;
use proptest::prelude::*;

use crate::support::{commit, manifest, noise, now, put, tag};
use crate::traced::{count_at, given_root, run_with_fault, run_with_fault_at};

/// Entries up to which a repository is one file.
const SMALL: usize = 1000;

pub fn open(root: &Path) -> FileStore {
    FileStore::open(root, OpenMode::OpenOrCreate).unwrap()
}

fn digest() -> Digest {
    Digest::sha256(noise(1, 10))
}

/// A store with the repository `a`, of a manifest and `tags` tags.
pub fn filled(root: &Path, tags: usize) -> FileStore {
    let store = open(root);
    now(put(&store, &noise(1, 10))).unwrap();
    let tags = (0..tags).map(|n| tag("a", &format!("t{n}"), digest()));
    let changes = [manifest("a", digest(), 10)].into_iter().chain(tags);
    now(commit(&store, changes.collect())).unwrap();
    store
}

fn push(store: &FileStore, name: &str) {
    now(commit(store, vec![tag("a", name, digest())])).unwrap();
}

fn base(root: &Path) -> PathBuf {
    let hex = Digest::sha256("a").hex();
    root.join("names")
        .join(&hex[..2])
        .join(format!("{hex}.json"))
}

fn log(root: &Path) -> PathBuf {
    let base = base(root);
    let hash = base.file_stem().unwrap().to_str().unwrap();
    base.with_file_name(format!("{hash}-log.jsonl"))
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

fn tags(store: &FileStore) -> usize {
    let name = "a".parse().unwrap();
    let read = now(store.repository(&name)).unwrap().unwrap();
    assert_eq!(read, *now(store.names()).unwrap().repositories[&name]);
    read.tags.len()
}

/// Names as the records say.
fn replayed(store: &FileStore) -> Names {
    let mut names = Names::default();
    for number in 1..=now(store.sequence()).unwrap() {
        names.apply_record(&now(store.record(number)).unwrap().unwrap());
    }
    names
}

/// Sets the counter back, as a process does that was killed before it counted.
fn count_back(root: &Path, to: u64) {
    let path = root.join("generation");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{to:020}{}", &text[20..])).unwrap();
}

#[test]
fn a_push_to_a_large_repository_adds_a_line() {
    let root = tempfile::tempdir().unwrap();
    let store = filled(root.path(), SMALL);
    let before = std::fs::read(base(root.path())).unwrap();
    assert_eq!(length(&log(root.path())), 0);
    for n in 0..5 {
        push(&store, &format!("new{n}"));
        let text = std::fs::read_to_string(log(root.path())).unwrap();
        assert_eq!(text.lines().count(), n + 1);
        assert!(std::fs::read(base(root.path())).unwrap() == before);
    }
    // another process sees it, and adds to it
    let other = open(root.path());
    assert_eq!(tags(&other), SMALL + 5);
    push(&other, "theirs");
    push(&store, "ours");
    push(&other, "theirs-again");
    let text = std::fs::read_to_string(log(root.path())).unwrap();
    assert_eq!(text.lines().count(), 8);
    for store in [&store, &other, &open(root.path())] {
        assert_eq!(tags(store), SMALL + 8);
    }
}

#[test]
fn a_log_does_not_outgrow_its_base_and_goes_with_the_size() {
    let root = tempfile::tempdir().unwrap();
    let store = filled(root.path(), SMALL);
    let mut compacted = 0;
    for n in 0..12 {
        let before = length(&log(root.path()));
        let changes = (0..100).map(|t| tag("a", &format!("new{n}-{t}"), digest()));
        now(commit(&store, changes.collect())).unwrap();
        assert!(length(&log(root.path())) <= length(&base(root.path())));
        compacted += usize::from(length(&log(root.path())) < before);
    }
    assert!(compacted > 0);
    assert_eq!(tags(&open(root.path())), SMALL + 1200);
    push(&store, "last");
    assert!(log(root.path()).exists());
    let gone = now(store.names()).unwrap().repositories["a"].tags.clone();
    let gone = gone.keys().skip(5).map(|tag| Change::Tag {
        repository: "a".parse().unwrap(),
        tag: tag.clone(),
        new: None,
    });
    now(commit(&store, gone.collect())).unwrap();
    assert!(!log(root.path()).exists(), "one small file again");
    push(&store, "after");
    assert_eq!(tags(&store), 6);
    assert_eq!(tags(&open(root.path())), 6);
}

#[test]
fn a_line_that_was_cut_short_is_made_again_from_its_record() {
    let root = tempfile::tempdir().unwrap();
    let store = filled(root.path(), SMALL);
    push(&store, "one");
    push(&store, "two");
    drop(store);
    let whole = std::fs::read(log(root.path())).unwrap();
    let first = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    for end in [first, first + 1, first + 50, whole.len() - 1, whole.len()] {
        let mut torn = whole[..end].to_vec();
        std::fs::write(log(root.path()), &torn).unwrap();
        count_back(root.path(), 2);
        let reading = FileStore::open(root.path(), OpenMode::ReadOnly).unwrap();
        assert_eq!(tags(&reading), SMALL + 2);
        assert_eq!(tags(&open(root.path())), SMALL + 2);
        assert!(std::fs::read(log(root.path())).unwrap() == whole, "{end}");
        // as a file system may leave it: longer, and not what was written
        torn.resize(whole.len() + 500, 0);
        std::fs::write(log(root.path()), &torn).unwrap();
        count_back(root.path(), if end == whole.len() { 2 } else { 1 });
        assert_eq!(tags(&open(root.path())), SMALL + 2);
        assert!(std::fs::read(log(root.path())).unwrap() == whole, "{end}");
    }
}

#[test]
fn damage_in_a_log_is_named() {
    let root = tempfile::tempdir().unwrap();
    let store = filled(root.path(), SMALL);
    for name in ["one", "two", "three"] {
        push(&store, name);
    }
    drop(store);
    let whole = std::fs::read(log(root.path())).unwrap();
    let check = |bytes: &[u8], line: &str| {
        std::fs::write(log(root.path()), bytes).unwrap();
        let store = open(root.path());
        for error in [
            now(store.names()).unwrap_err(),
            now(store.repository(&"a".parse().unwrap())).unwrap_err(),
            now(commit(&store, vec![tag("a", "four", digest())])).unwrap_err(),
        ] {
            let StoreError::Damaged { path, why } = &error else {
                panic!("{error:?}");
            };
            assert_eq!(*path, log(root.path()));
            assert!(why.contains(line), "{why}");
        }
    };
    for (n, line) in ["line 1 ", "line 2 ", "line 3 "].into_iter().enumerate() {
        let mut changed = whole.clone();
        changed[whole.len() * n / 3 + 20] ^= 1;
        check(&changed, line);
    }
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    check(
        &[lines[0], lines[2]].concat(),
        "line 2 goes on from commit 3",
    );
    std::fs::write(log(root.path()), &whole).unwrap();
    assert_eq!(tags(&open(root.path())), SMALL + 3);
    std::fs::remove_file(base(root.path())).unwrap();
    let error = now(open(root.path()).repository(&"a".parse().unwrap())).unwrap_err();
    assert!(error.to_string().contains("it is missing"), "{error}");
}

#[test]
fn a_log_and_a_base_of_different_ages_are_told_apart() {
    let root = tempfile::tempdir().unwrap();
    let store = filled(root.path(), SMALL);
    let old_base = std::fs::read(base(root.path())).unwrap();
    push(&store, "one");
    let old_log = std::fs::read(log(root.path())).unwrap();
    while log(root.path()).exists() {
        let n = now(store.sequence()).unwrap();
        let changes = (0..200).map(|t| tag("a", &format!("n{n}-{t}"), digest()));
        now(commit(&store, changes.collect())).unwrap();
    }
    let expected = tags(&store);
    // killed between the new base and the end of the old log
    std::fs::write(log(root.path()), &old_log).unwrap();
    assert_eq!(tags(&open(root.path())), expected);
    push(&open(root.path()), "two");
    assert_eq!(tags(&open(root.path())), expected + 1);
    // a base from an older copy: what was in between is missed
    std::fs::write(base(root.path()), &old_base).unwrap();
    std::fs::write(log(root.path()), {
        let text = std::fs::read(log(root.path())).unwrap();
        text[old_log.len()..].to_vec()
    })
    .unwrap();
    let error = now(open(root.path()).names()).unwrap_err();
    assert!(error.to_string().contains("line 1 goes on"), "{error}");
}

#[tokio::test]
async fn who_reads_names_never_waits_for_a_commit_of_this_process() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let digest = put(&store, &noise(1, 10)).await.unwrap();
    commit(&store, vec![manifest("a", digest, 10)])
        .await
        .unwrap();
    store.names().await.unwrap();
    for n in 0..5 {
        let number = commit(&store, vec![tag("a", &format!("t{n}"), digest)])
            .await
            .unwrap();
        let names = store.names().now_or_never().expect("from memory").unwrap();
        assert_eq!(names.sequence, number);
        assert_eq!(names.repositories["a"].tags.len(), n + 1);
    }
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn process_that_pushes_to_a_large_repository() {
    let store = open(&given_root().unwrap());
    now(store.names()).unwrap();
    for n in 0..10 {
        push(&store, &format!("new{n}"));
    }
}

#[test]
fn a_push_to_a_large_repository_does_not_read_it() {
    if !can_trace() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    drop(filled(root.path(), SMALL));
    // once for the names in memory, once for the first push of the process
    let fault = "inject=openat:error=EIO:when=3+";
    let test = "large::process_that_pushes_to_a_large_repository";
    let status = run_with_fault_at(test, root.path(), &base(root.path()), fault);
    assert!(status.success(), "{status}");
    assert_eq!(tags(&open(root.path())), SMALL + 10);
}

/// Everything that changes a disk, or comes before a change.
const CHANGING: [&str; 9] = [
    "fsync",
    "fdatasync",
    "ftruncate",
    "rename",
    "renameat2",
    "unlink",
    "pwrite64",
    "write",
    "openat",
];

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn compacting_process() {
    let store = open(&given_root().unwrap());
    for name in ["last1", "last2", "last3", "last4"] {
        push(&store, name);
    }
}

/// A store whose repository `a` is about to be compacted, in `root`.
fn almost_full(root: &Path) -> usize {
    let store = filled(root, SMALL);
    let mut tags = SMALL;
    for size in [100, 10, 1] {
        let room = 250 * (size as u64 + 1) + 250;
        while length(&base(root)) - length(&log(root)) > room {
            let names = (tags..tags + size).map(|n| tag("a", &format!("t{n}"), digest()));
            now(commit(&store, names.collect())).unwrap();
            tags += size;
        }
    }
    tags
}

fn copy(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp")
        .args(["-a", from.to_str().unwrap(), to.to_str().unwrap()])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn a_process_killed_while_it_compacts_loses_nothing() {
    if !can_trace() {
        return;
    }
    let test = "large::compacting_process";
    let folder = tempfile::tempdir().unwrap();
    let prepared = folder.path().join("prepared");
    let before = almost_full(&prepared);
    let (sequence, old_base) = (sequence(&prepared), length(&base(&prepared)));
    for call in CHANGING {
        let counted = folder.path().join("counted");
        copy(&prepared, &counted);
        let calls = count_at(test, &counted, call);
        assert!(length(&base(&counted)) > old_base, "it was compacted");
        assert!(log(&counted).exists(), "and added to afterwards");
        std::fs::remove_dir_all(&counted).unwrap();
        for number in 1..=calls {
            let root = folder.path().join("store");
            copy(&prepared, &root);
            let fault = format!("inject={call}:signal=KILL:when={number}");
            assert!(!run_with_fault(test, &root, &fault).success());
            let reading = FileStore::open(&root, OpenMode::ReadOnly).unwrap();
            let seen = tags(&reading);
            let store = open(&root);
            let made = (now(store.sequence()).unwrap() - sequence) as usize;
            assert_eq!(tags(&store), before + made, "{call} {number}");
            assert_eq!(seen, before + made, "{call} {number}");
            push(&store, "after");
            assert_eq!(tags(&open(&root)), before + made + 1, "{call} {number}");
            std::fs::remove_dir_all(&root).unwrap();
        }
    }
}

fn sequence(root: &Path) -> u64 {
    now(open(root).sequence()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn small_and_large_form_say_the_same(
        batches in prop::collection::vec(
            prop::collection::vec((0..40usize, prop::bool::weighted(0.6), 0..30usize), 1..4),
            1..8,
        ),
        lost in 0..3u8,
    ) {
        let root = tempfile::tempdir().unwrap();
        let mut store = filled(root.path(), SMALL - 30);
        for (n, batch) in batches.iter().enumerate() {
            let mut changes = Vec::new();
            for (from, there, count) in batch {
                for at in *from..from + count {
                    let mut change = tag("a", &format!("x{at}"), digest());
                    if let (Change::Tag { new, .. }, false) = (&mut change, there) {
                        *new = None;
                    }
                    changes.push(change);
                }
            }
            changes.push(tag("b", &format!("{n}"), digest()));
            changes.push(manifest("b", digest(), 10));
            now(commit(&store, changes)).unwrap();
            if n % 3 == 2 {
                store = open(root.path());
            }
        }
        let expected = replayed(&store);
        prop_assert_eq!(&*now(store.names()).unwrap(), &expected);
        match lost {
            0 => {}
            1 => std::fs::write(root.path().join("generation"), "").unwrap(),
            _ => count_back(root.path(), expected.sequence / 2),
        }
        let reading = FileStore::open(root.path(), OpenMode::ReadOnly).unwrap();
        prop_assert_eq!(&*now(reading.names()).unwrap(), &expected);
        let again = open(root.path());
        prop_assert_eq!(&*now(again.names()).unwrap(), &expected);
        let name = "a".parse().unwrap();
        prop_assert_eq!(&now(again.repository(&name)).unwrap().unwrap(), &*expected.repositories[&name]);
    }
}

//! A process killed at any system call, and disks that fail or are full: what is shown
//! afterwards is whole, and doing it again completes it.

use kubepkg_core::error::Classify;
use kubepkg_core::store::StoreError;
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_test_support::can_trace;

use crate::scenario::{check_done, check_whole, import, import_into, temporaries};
use crate::traced::{count, given_root, run_with_fault};

/// Everything that changes a disk, or comes before a change.
const CHANGING: [&str; 10] = [
    "syncfs",
    "fsync",
    "rename",
    "renameat2",
    "link",
    "linkat",
    "mkdir",
    "unlink",
    "pwrite64",
    "openat",
];

#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn importing_process() {
    import(&given_root().unwrap()).unwrap();
}

#[test]
fn a_process_killed_at_any_point_leaves_a_whole_store() {
    if !can_trace() {
        return;
    }
    let test = "crash::importing_process";
    for call in CHANGING {
        for number in 1..=count(test, call) {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("store");
            let fault = format!("inject={call}:signal=KILL:when={number}");
            let status = run_with_fault(test, &root, &fault);
            assert!(
                !status.success(),
                "{call} {number} of the count did not come"
            );

            if root.join("kubepkg-store.json").exists() {
                let reading = FileStore::open(&root, OpenMode::ReadOnly).unwrap();
                check_whole(&reading);
            }
            let store = FileStore::open(&root, OpenMode::OpenOrCreate).unwrap();
            check_whole(&store);
            assert!(temporaries(&root).is_empty(), "{call} {number}");
            import_into(&store).unwrap();
            check_done(&store);
        }
    }
}

#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn process_with_a_failing_disk() {
    let root = given_root().unwrap();
    std::fs::write(root.with_extension("began"), "").unwrap();
    let mut failures = 0;
    let store = loop {
        match FileStore::open(&root, OpenMode::OpenOrCreate) {
            Ok(store) => break store,
            Err(e) => failures += check_failure(&e),
        }
    };
    while let Err(e) = import_into(&store) {
        failures += check_failure(&e);
        assert_eq!(temporaries(&root), Default::default(), "left after {e:?}");
        check_whole(&store);
    }
    assert!(failures <= 1, "only one call failed");
    // the call that fails may be this one
    let ended = root.with_extension("ended");
    std::fs::write(&ended, "")
        .or_else(|_| std::fs::write(&ended, ""))
        .unwrap();
}

/// A full disk says what to do.
fn check_failure(error: &StoreError) -> usize {
    if let StoreError::Unsettled { source, .. } = error {
        assert!(error.hint().unwrap().contains("run the same command again"));
        return check_failure(source);
    }
    let StoreError::Io { source, .. } = error else {
        panic!("{error:?}");
    };
    if source.kind() == std::io::ErrorKind::StorageFull {
        assert!(error.hint().unwrap().contains("disk is full"));
    }
    assert!(error.place().is_some());
    1
}

fn fail_everywhere(calls: &[&str], error: &str) {
    if !can_trace() {
        return;
    }
    let test = "crash::process_with_a_failing_disk";
    for call in calls {
        for number in 1..=count(test, call) {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("store");
            let fault = format!("inject={call}:error={error}:when={number}");
            let status = run_with_fault(test, &root, &fault);
            // the call that failed may be one of the process outside the test
            let began = root.with_extension("began").exists();
            let ended = root.with_extension("ended").exists();
            assert!(ended || !began, "{call} {number}: {status}");
            let store = FileStore::open(&root, OpenMode::OpenOrCreate).unwrap();
            import_into(&store).unwrap();
            check_done(&store);
        }
    }
}

#[test]
fn a_full_disk_stops_the_import_and_nothing_else() {
    fail_everywhere(
        &[
            "write",
            "mkdir",
            "openat",
            "renameat2",
            "rename",
            "linkat",
            "fallocate",
        ],
        "ENOSPC",
    );
}

#[test]
fn after_a_failed_sync_content_is_written_again() {
    fail_everywhere(&["syncfs", "fsync"], "EIO");
}

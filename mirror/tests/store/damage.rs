//! Files of the store that are not as they were written, and folders that are no store.

use std::path::{Path, PathBuf};

use kubepkg_core::error::Classify;
use kubepkg_core::store::{Store, StoreError};
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::scenario::{check_done, import};
use crate::support::now;

fn imported() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    import(root.path()).unwrap();
    root
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn change_a_byte(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_file_of_names_is_named() {
    let all = imported();
    let folders = ["names", "trust", "sites"].map(|folder| all.path().join(folder));
    let names = folders.iter().flat_map(|folder| files(folder));
    for path in names.filter(|path| path.extension().is_some_and(|e| e == "json")) {
        let root = imported();
        let path = root.path().join(path.strip_prefix(all.path()).unwrap());
        change_a_byte(&path);
        let store = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
        let error = now(store.names()).unwrap_err();
        assert!(matches!(&error, StoreError::Damaged { path: p, .. } if *p == path));
        assert_eq!(error.place().unwrap(), path.display().to_string());
    }
}

#[test]
fn a_damaged_record_is_named() {
    let root = imported();
    let path = root.path().join("commits/2.json");
    change_a_byte(&path);
    let store = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
    let error = now(store.record(2)).unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { path: p, .. } if *p == path));
    // where it still has to be brought into the names, the store is not opened
    std::fs::write(root.path().join("generation"), format!("{:020}\n", 1)).unwrap();
    let error = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { path: p, .. } if *p == path));
}

#[test]
fn a_record_under_another_number_is_refused() {
    let root = imported();
    let commits = root.path().join("commits");
    std::fs::copy(commits.join("1.json"), commits.join("3.json")).unwrap();
    let error = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap_err();
    let wrong = commits.join("3.json");
    assert!(
        matches!(&error, StoreError::Damaged { path, .. } if *path == wrong),
        "{error}"
    );
}

#[test]
fn a_file_of_names_in_anothers_place_is_refused() {
    let root = imported();
    let files = files(&root.path().join("names"));
    std::fs::copy(&files[0], &files[1]).unwrap();
    let store = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
    let error = now(store.names()).unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { path, .. } if *path == files[1]));
}

#[test]
fn a_lost_counter_is_found_again() {
    for content in ["", "garbage that is no number", "99999999999999999999\n"] {
        let root = imported();
        std::fs::write(root.path().join("generation"), content).unwrap();
        let reading = FileStore::open(root.path(), OpenMode::ReadOnly).unwrap();
        check_done(&reading);
        check_done(&FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap());
        let counter = std::fs::read(root.path().join("generation")).unwrap();
        assert!(counter.starts_with(format!("{:020}\n", 2).as_bytes()));
    }
}

#[test]
fn damaged_content_is_replaced_when_it_is_brought_again() {
    let root = imported();
    let path = &files(&root.path().join("blobs"))[0];
    std::fs::write(path, "cut").unwrap();
    let store = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
    let bytes = (0..).map(|seed| crate::support::noise(seed, 2000));
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let bytes = bytes
        .take(100)
        .find(|bytes| kubepkg_core::Digest::sha256(bytes).hex() == name)
        .unwrap();
    now(crate::support::put(&store, &bytes)).unwrap();
    assert!(std::fs::read(path).unwrap() == bytes);
}

#[test]
fn a_newer_store_is_refused() {
    let root = imported();
    let marker = root.path().join("kubepkg-store.json");
    std::fs::write(
        &marker,
        r#"{"format":"kubepkg store","version":2,"more":1}"#,
    )
    .unwrap();
    for mode in [OpenMode::OpenOrCreate, OpenMode::ReadOnly] {
        let error = FileStore::open(root.path(), mode).unwrap_err();
        assert!(error.to_string().contains("newer kubepkg"), "{error}");
    }
}

#[test]
fn a_folder_with_other_files_is_refused_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("thesis.tex"), "").unwrap();
    let error = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap_err();
    assert!(error.to_string().contains("thesis.tex"), "{error}");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);

    let file = root.path().join("thesis.tex");
    let error = FileStore::open(&file, OpenMode::OpenOrCreate).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
}

#[test]
fn a_store_that_must_be_there_is_not_made() {
    let root = tempfile::tempdir().unwrap();
    let nothing = root.path().join("nothing");
    for mode in [OpenMode::ReadOnly, OpenMode::Writable] {
        for folder in [&*nothing, root.path()] {
            let error = FileStore::open(folder, mode).unwrap_err();
            assert!(error.to_string().contains("no store"), "{error}");
        }
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    import(root.path()).unwrap();
    check_done(&FileStore::open(root.path(), OpenMode::Writable).unwrap());
}

//! One import in small: what a process does that is killed or fails at any point.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::store::{Body, Change, Store, StoreError};
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::support::{blob, commit, manifest, noise, now, read_range, site, tag, trust};

/// More than are synced one by one, so that the group sync is in it.
const CONTENTS: u64 = 12;

pub const URL: &str = "https://packages.example/index.yaml";

fn contents() -> Vec<Bytes> {
    (0..CONTENTS).map(|seed| noise(seed, 2000)).collect()
}

fn changes() -> Vec<Change> {
    let contents = contents();
    let mut changes = vec![
        site(
            URL,
            &[("index.yaml", &contents[0]), ("root/1.yaml", &contents[1])],
        ),
        trust("packages", serde_json::json!({"index": "1"})),
    ];
    for (at, bytes) in contents.iter().enumerate() {
        let repository = format!("docker.io/library/r{}", at % 3);
        let digest = Digest::sha256(bytes);
        changes.push(manifest(&repository, digest, bytes.len()));
        changes.push(blob(&repository, digest, bytes.len()));
        changes.push(tag(&repository, &format!("t{at}"), digest));
    }
    changes
}

/// Opens the store and imports into it; does only what is not done yet.
pub fn import(root: &Path) -> Result<(), StoreError> {
    import_into(&FileStore::open(root, OpenMode::OpenOrCreate)?)
}

/// The import itself.
pub fn import_into(store: &FileStore) -> Result<(), StoreError> {
    let _lease = now(store.lease())?;
    let mut staged = Vec::new();
    for bytes in contents() {
        let digest = Digest::sha256(&bytes);
        if now(store.stat(&digest))?.is_none() {
            let size = bytes.len() as u64;
            staged.push(now(store.stage(digest, size, Body::Bytes(bytes)))?);
        }
    }
    now(store.publish(staged))?;
    let names = now(store.names())?;
    if changes().iter().any(|change| names.differs(change)) {
        now(commit(store, changes()))?;
    }
    // a push afterwards
    let digest = Digest::sha256(&contents()[0]);
    let pushed = tag("docker.io/library/r0", "latest", digest);
    if now(store.names())?.differs(&pushed) {
        now(commit(store, vec![pushed]))?;
    }
    Ok(())
}

/// Whatever happened before: the store shows all of each commit or nothing of it, and every
/// byte it shows is right.
pub fn check_whole(store: &FileStore) {
    let sequence = now(store.sequence()).unwrap();
    let names = now(store.names()).unwrap();
    assert_eq!(names.sequence, sequence);
    let imported = changes()
        .iter()
        .filter(|change| !names.differs(change))
        .count();
    match sequence {
        0 => assert_eq!(imported, 0, "names without a commit"),
        _ => assert_eq!(imported, changes().len(), "half an import"),
    }
    for (name, repository) in &names.repositories {
        for digest in repository.content() {
            check_content(store, &digest);
        }
        let again = now(store.repository(name)).unwrap().unwrap();
        assert_eq!(again, **repository, "file and memory say the same");
    }
    for (folder, entry) in &names.sites {
        for (path, file) in &entry.files {
            let range = store.site_file(folder, entry, path).unwrap().unwrap();
            assert!(file.digest.matches(read_range(&range)), "{path}");
        }
    }
    for bytes in contents() {
        let digest = Digest::sha256(&bytes);
        if now(store.stat(&digest)).unwrap().is_some() {
            check_content(store, &digest);
        }
    }
}

/// The import is in the store, whole, and no temporaries are.
pub fn check_done(store: &FileStore) {
    check_whole(store);
    assert_eq!(now(store.sequence()).unwrap(), 2);
    let names = now(store.names()).unwrap();
    assert_eq!(names.repositories.len(), 3);
    assert_eq!(temporaries(store.root()), BTreeSet::new());
}

/// What lies in the folders of temporaries, besides the sign that their process lives.
pub fn temporaries(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if !path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(".tmp-")
        {
            continue;
        }
        for file in std::fs::read_dir(&path).unwrap() {
            let name = file.unwrap().file_name().to_string_lossy().into_owned();
            if name != "alive" {
                found.insert(name);
            }
        }
    }
    found
}

fn check_content(store: &FileStore, digest: &Digest) {
    let range = store.blob_range(digest).unwrap();
    let bytes = read_range(&range.unwrap_or_else(|| panic!("{digest} is named and not here")));
    assert!(digest.matches(bytes), "{digest} is damaged");
}

//! Several processes on one store.

use kubepkg_core::Digest;
use kubepkg_core::store::Store;
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::support::{commit, manifest, noise, now, put, tag};
use crate::traced::{given_root, process};

const TAGS: usize = 25;

#[test]
#[ignore = "run by the test below, in processes of their own"]
fn committing_process() {
    let store = FileStore::open(given_root().unwrap(), OpenMode::OpenOrCreate).unwrap();
    let digest = Digest::sha256(noise(1, 10));
    let me = std::process::id();
    for number in 0..TAGS {
        let changes = vec![tag("a", &format!("p{me}-{number}"), digest)];
        now(commit(&store, changes)).unwrap();
    }
}

#[test]
fn processes_that_commit_together_lose_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
    let digest = now(put(&store, &noise(1, 10))).unwrap();
    now(commit(&store, vec![manifest("a", digest, 10)])).unwrap();

    let mut children: Vec<_> = (0..3)
        .map(|_| {
            let mut command = process("processes::committing_process", root.path());
            command.stdout(std::process::Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    // a reader meanwhile sees the number of tags that goes with the sequence
    let name = "a".parse().unwrap();
    while children
        .iter_mut()
        .any(|child| child.try_wait().unwrap().is_none())
    {
        let names = now(store.names()).unwrap();
        let tags = names.repositories[&name].tags.len() as u64;
        assert_eq!(tags + 1, names.sequence);
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(now(store.sequence()).unwrap(), 3 * TAGS as u64 + 1);
    let a = now(store.repository(&name)).unwrap().unwrap();
    assert_eq!(a.tags.len(), 3 * TAGS);
}

#[test]
fn who_opens_a_store_leaves_the_work_of_the_living_alone() {
    let root = tempfile::tempdir().unwrap();
    let first = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
    let bytes = noise(2, 1000);
    let digest = Digest::sha256(&bytes);
    let body = kubepkg_core::store::Body::Bytes(bytes);
    let staged = now(first.stage(digest, 1000, body)).unwrap();
    let lease = now(first.lease()).unwrap();

    let dead = root.path().join(".tmp-0123456789abcdef");
    std::fs::create_dir(&dead).unwrap();
    std::fs::write(dead.join("1"), "half").unwrap();
    std::fs::write(root.path().join("leases/dead"), "").unwrap();
    let second = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
    assert!(!dead.exists(), "what nobody owns is removed");
    assert_eq!(
        std::fs::read_dir(root.path().join("leases"))
            .unwrap()
            .count(),
        1
    );

    now(first.publish(vec![staged])).unwrap();
    assert_eq!(second.blob_size(&digest).unwrap(), Some(1000));
    drop(lease);
    assert_eq!(
        std::fs::read_dir(root.path().join("leases"))
            .unwrap()
            .count(),
        0
    );
}

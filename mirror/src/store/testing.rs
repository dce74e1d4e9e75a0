//! Small makers of content and names, for tests of what only this crate sees.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::store::{Batch, Body, Cause, Change, Committed, ManifestEntry, Store};
use kubepkg_core::time::Time;

use super::{FileStore, OpenMode};

/// A new store in a folder of its own.
pub(super) fn new_store() -> (tempfile::TempDir, FileStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
    (folder, store)
}

/// Runs a future of a store where there is no runtime: it does its work in place.
pub(super) fn now<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("without a runtime a store never waits"),
    }
}

/// Publishes content.
pub(super) fn put(store: &FileStore, bytes: &[u8]) -> Digest {
    let digest = Digest::sha256(bytes);
    let body = Body::Bytes(Bytes::copy_from_slice(bytes));
    let staged = now(store.stage(digest, bytes.len() as u64, body)).unwrap();
    now(store.publish(vec![staged])).unwrap();
    digest
}

/// Commits on top of the newest commit.
pub(super) fn commit(store: &FileStore, changes: impl IntoIterator<Item = Change>) -> u64 {
    let expected = now(store.sequence()).unwrap();
    let batch = Batch {
        at: Time::from_unix(1_796_000_000),
        cause: Cause::Push,
        changes: changes.into_iter().collect(),
    };
    match now(store.commit(expected, batch)).unwrap() {
        Committed::Done(number) => number,
        Committed::Conflict { newest } => panic!("commit {newest} was first"),
    }
}

/// The change that makes content a manifest of a repository.
pub(super) fn manifest(repository: &str, digest: Digest, size: u64) -> Change {
    Change::Manifest {
        repository: repository.parse().unwrap(),
        digest,
        new: Some(ManifestEntry {
            media_type: "application/vnd.oci.image.manifest.v1+json".into(),
            size,
            subject: None,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }),
    }
}

//! Small makers of content and changes.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::store::{
    Batch, Body, Cause, Change, Committed, FileRange, ManifestEntry, SiteEntry, SiteFile, Store,
    StoreError, TagEntry,
};
use kubepkg_core::time::Time;

/// Runs a future of a store where there is no runtime: it does its work in place.
pub fn now<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("without a runtime a store never waits"),
    }
}

/// `len` bytes that look random and depend on `seed`.
pub fn noise(seed: u64, len: usize) -> Bytes {
    Bytes::from(kubepkg_test_support::noise(seed, len))
}

/// `bytes` as the middle part of a local file.
pub fn range_of(bytes: &[u8]) -> FileRange {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"before").unwrap();
    file.write_all(bytes).unwrap();
    file.write_all(b"after").unwrap();
    FileRange {
        file: Arc::new(file),
        offset: 6,
        len: bytes.len() as u64,
    }
}

/// `bytes` in pieces of `piece` bytes.
pub fn stream_of(bytes: &Bytes, piece: usize) -> Body {
    let pieces: Vec<std::io::Result<Bytes>> = (0..bytes.len())
        .step_by(piece)
        .map(|at| Ok(bytes.slice(at..bytes.len().min(at + piece))))
        .collect();
    Body::Stream(Box::pin(futures_util::stream::iter(pieces)))
}

pub async fn put<S: Store>(store: &S, bytes: &Bytes) -> Result<Digest, StoreError> {
    let digest = Digest::sha256(bytes);
    let body = Body::Bytes(bytes.clone());
    let staged = store.stage(digest, bytes.len() as u64, body).await?;
    store.publish(vec![staged]).await?;
    Ok(digest)
}

pub async fn content<S: Store>(store: &S, digest: &Digest) -> Option<Vec<u8>> {
    use futures_util::StreamExt;
    match store.read(digest).await.unwrap()? {
        Body::Bytes(bytes) => Some(bytes.to_vec()),
        Body::Range(range) => Some(read_range(&range)),
        Body::Stream(mut stream) => {
            let mut all = Vec::new();
            while let Some(piece) = stream.next().await {
                all.extend_from_slice(&piece.unwrap());
            }
            Some(all)
        }
    }
}

pub fn read_range(range: &FileRange) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; usize::try_from(range.len).unwrap()];
    range.file.read_exact_at(&mut bytes, range.offset).unwrap();
    bytes
}

pub fn batch(changes: Vec<Change>) -> Batch {
    Batch {
        at: Time::from_unix(1_796_000_000),
        cause: Cause::Push,
        changes,
    }
}

/// Commits on top of whatever is newest, trying again when somebody else was faster.
pub async fn commit<S: Store>(store: &S, changes: Vec<Change>) -> Result<u64, StoreError> {
    let mut expected = store.sequence().await?;
    loop {
        match store.commit(expected, batch(changes.clone())).await? {
            Committed::Done(number) => return Ok(number),
            Committed::Conflict { newest } => expected = newest,
        }
    }
}

pub fn manifest(repository: &str, digest: Digest, size: usize) -> Change {
    Change::Manifest {
        repository: repository.parse().unwrap(),
        digest,
        new: Some(ManifestEntry {
            media_type: "application/vnd.oci.image.manifest.v1+json".into(),
            size: size as u64,
            subject: None,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }),
    }
}

pub fn blob(repository: &str, digest: Digest, size: usize) -> Change {
    Change::Blob {
        repository: repository.parse().unwrap(),
        digest,
        new: Some(size as u64),
    }
}

pub fn tag(repository: &str, tag: &str, digest: Digest) -> Change {
    Change::Tag {
        repository: repository.parse().unwrap(),
        tag: tag.parse().unwrap(),
        new: Some(TagEntry {
            digest,
            origin: None,
        }),
    }
}

pub fn site(url: &str, files: &[(&str, &Bytes)]) -> Change {
    let url: CanonicalUrl = url.parse().unwrap();
    let files = files
        .iter()
        .map(|(path, bytes)| {
            let file = SiteFile {
                digest: Digest::sha256(bytes),
                size: bytes.len() as u64,
            };
            ((*path).to_owned(), file)
        })
        .collect();
    Change::Site {
        folder: url.folder(),
        new: Some(SiteEntry { url, set: 0, files }),
    }
}

pub fn trust(entry: &str, memory: serde_json::Value) -> Change {
    Change::Trust {
        entry: entry.to_owned(),
        new: Some(memory),
    }
}

//! The trait between who fills a mirror (importer, push) and who keeps it (a file store,
//! later an object store), and the data both sides speak.
//!
//! Two steps make content appear. First bytes: [`Store::stage`] takes them in while hashing,
//! [`Store::publish`] makes them readable by digest; nobody sees them by name yet. Then names:
//! one [`Store::commit`] changes manifests, tags, repository files and the memory of trust
//! together, or not at all. There is no rename, append, lock or modification time here, so
//! that an object store can implement it. Source: design page "mirror", "Store".

mod garbage;
mod interned;
mod legal;
mod map;
mod names;
mod record;
mod undo;
mod upstream;

use std::collections::BTreeSet;
use std::fs::File;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;

use crate::digest::Digest;
use crate::error::{Classify, Kind};
use crate::name::RepositoryName;

pub use garbage::{Claim, Collect, Garbage, Swept, Wait};
pub use interned::Interned;
pub(crate) use legal::{is_folder, repository_files};
pub use map::{Iter, SortedMap};
pub use names::{ManifestEntry, Names, Origin, Repository, SiteEntry, SiteFile, TagEntry};
pub use record::{
    Batch, Cause, Change, Receipt, ReceiptIndex, ReceiptPackage, Record, Recorded, Unit,
};
pub use undo::CannotUndo;
pub use upstream::{OtherUpstream, check_upstream};

/// Some bytes of an open file. The file is never written while a range of it is in use.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The open file.
    pub file: Arc<File>,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// A stream of bytes that fails like a file does.
pub type ByteStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// Content on its way into or out of a store.
pub enum Body {
    /// All of it, in memory.
    Bytes(Bytes),
    /// A part of a local file: it can be cloned or sent without passing through memory.
    Range(FileRange),
    /// Piece by piece.
    Stream(ByteStream),
}

/// Why a store cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The bytes are not what was announced.
    #[error("content announced as {digest} is {found}")]
    Mismatch {
        /// The digest announced.
        digest: Digest,
        /// What arrived: another digest, or a wrong number of bytes.
        found: String,
    },
    /// A file or folder of the store cannot be used.
    #[error("cannot {action}")]
    Io {
        /// What was tried, e.g. "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The store's own files are not as they were written.
    #[error("the store is damaged: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The store's own files are each as they were written, and not of one time.
    #[error("the store is of parts of different age: {why}")]
    Mixed {
        /// The file that is of another time.
        path: PathBuf,
        /// Of which, and of which the others are.
        why: String,
    },
    /// The content given could not be read to its end.
    #[error("the content of {digest} cannot be read")]
    Source {
        /// The digest announced.
        digest: Digest,
        /// Why.
        source: std::io::Error,
    },
    /// A change names content that is not in the store.
    #[error("{digest} is not in the store")]
    Missing {
        /// The content's digest.
        digest: Digest,
    },
    /// A change that no store may take, whatever is in it.
    #[error("{what}: {why}")]
    Illegal {
        /// The name the change is about.
        what: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// The disk failed while the record of a commit was made durable. The record is there and
    /// counts unless the machine fails too; who looks next makes it durable before building
    /// on it.
    #[error("the last step of commit {number} failed: it may have been made or not")]
    Unsettled {
        /// Number of the commit.
        number: u64,
        /// What failed.
        source: Box<StoreError>,
    },
    /// The server that keeps a store's objects did not do what it was asked.
    #[error("cannot {action} the bucket")]
    Bucket {
        /// What was tried, e.g. "write".
        action: &'static str,
        /// The object or bucket, as a URL.
        place: String,
        /// What to do.
        hint: Option<&'static str>,
        /// Its answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The folder or bucket is not a store, or one of a newer kubepkg, or its files cannot get the right
    /// owner. `why` says what to do.
    #[error("this cannot be used as a store: {why}")]
    Unusable {
        /// The store's folder or bucket.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
}

impl StoreError {
    /// Whether there was no room to write: the disk is full, or the quota of who writes.
    pub fn is_no_room(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, StoreError::Io { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// Whether the file system can only be read, which it does to itself when its disk fails.
    pub fn is_read_only(&self) -> bool {
        match self {
            StoreError::Io { source, .. } => {
                source.kind() == std::io::ErrorKind::ReadOnlyFilesystem
            }
            StoreError::Unsettled { source, .. } => source.is_read_only(),
            _ => false,
        }
    }
}

impl Classify for StoreError {
    fn kind(&self) -> Kind {
        match self {
            StoreError::Mismatch { .. } | StoreError::Illegal { .. } => Kind::Refused,
            StoreError::Bucket { .. } => Kind::Remote,
            _ => Kind::Failed,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            StoreError::Io { path, .. }
            | StoreError::Damaged { path, .. }
            | StoreError::Mixed { path, .. }
            | StoreError::Unusable { path, .. } => Some(path.display().to_string()),
            StoreError::Illegal { what, .. } => Some(what.clone()),
            StoreError::Bucket { place, .. } => Some(place.clone()),
            StoreError::Unsettled { source, .. } => source.place(),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            error if error.is_no_room() => {
                Some("the disk is full, or this user's quota; free some space and run the same command again, nothing is lost".to_owned())
            }
            StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Some("run this as the user who owns the store's folder".to_owned())
            }
            StoreError::Bucket { hint, .. } => hint.map(ToOwned::to_owned),
            StoreError::Unsettled { .. } => Some(
                "look at the disk, then run the same command again: it finishes the commit or \
                 finds nothing to do"
                    .to_owned(),
            ),
            StoreError::Damaged { .. } => Some(
                "restore this file from a backup of the store; nothing was changed".to_owned(),
            ),
            StoreError::Mixed { .. } => Some(
                "it was copied while it changed, or restored in parts: run `kubepkg mirror check \
                 --repair`, which makes files anew from the commit records; nothing was changed"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is durable and visible, as the record of this number.
    Done(u64),
    /// Something else was committed since `expected`; nothing changed. Look again and retry.
    Conflict {
        /// The number of the newest commit.
        newest: u64,
    },
}

/// How often a commit is made again that others got in before, and that they do not concern.
const BESIDE: usize = 100;

/// A mirror's content and names. Every future is `Send` and needs no particular runtime.
pub trait Store: Send + Sync {
    /// Bytes taken in and verified, not yet readable. Dropping it gives up the bytes.
    type Staged: Send;

    /// As long as it lives, collection leaves alone what was published since it was taken.
    type Lease: Send;

    /// Takes a lease.
    fn lease(&self) -> impl Future<Output = Result<Self::Lease, StoreError>> + Send;

    /// Number of the newest commit, 0 in an empty store. All records up to it are applied.
    fn sequence(&self) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Size of the content with this digest, `None` when it is not here. Who is told that it is
    /// wants it: collection leaves it alone for a while, and as long as a lease lives.
    fn stat(&self, digest: &Digest)
    -> impl Future<Output = Result<Option<u64>, StoreError>> + Send;

    /// The content with this digest: a local file range or a stream. `None` when it is not here.
    fn read(
        &self,
        digest: &Digest,
    ) -> impl Future<Output = Result<Option<Body>, StoreError>> + Send;

    /// Bytes that may still be stored; `None` where that cannot be known.
    fn room(&self) -> impl Future<Output = Result<Option<u64>, StoreError>> + Send;

    /// Takes `body` in, hashing while it is written. Anything but exactly `size` bytes with
    /// this digest is a [`StoreError::Mismatch`] and leaves nothing behind.
    fn stage(
        &self,
        digest: Digest,
        size: u64,
        body: Body,
    ) -> impl Future<Output = Result<Self::Staged, StoreError>> + Send;

    /// Makes staged content durable and readable by digest, with one sync for all of it.
    /// Content that is already here is left as it is.
    fn publish(
        &self,
        staged: Vec<Self::Staged>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// One repository as of the newest commit, `None` when nothing was ever in it.
    fn repository(
        &self,
        name: &RepositoryName,
    ) -> impl Future<Output = Result<Option<Repository>, StoreError>> + Send;

    /// The repository files of one index, by folder name ([`crate::location::CanonicalUrl::folder`]).
    fn site(
        &self,
        folder: &str,
    ) -> impl Future<Output = Result<Option<SiteEntry>, StoreError>> + Send;

    /// What was accepted under a trust entry: the JSON last committed for it.
    fn trust(
        &self,
        entry: &str,
    ) -> impl Future<Output = Result<Option<serde_json::Value>, StoreError>> + Send;

    /// A commit record.
    fn record(
        &self,
        number: u64,
    ) -> impl Future<Output = Result<Option<Record>, StoreError>> + Send;

    /// Makes all changes of `batch` visible at once and durable, if `expected` is still the
    /// newest commit. Content the changes name must be published ([`StoreError::Missing`]) and
    /// have the size they say ([`StoreError::Mismatch`]); a tag's manifest must be in the tag's
    /// repository afterwards.
    ///
    /// After an error nothing has changed, but for [`StoreError::Unsettled`]: then the next
    /// [`Store::sequence`] tells.
    fn commit(
        &self,
        expected: u64,
        batch: Batch,
    ) -> impl Future<Output = Result<Committed, StoreError>> + Send;

    /// [`Store::commit`] of a batch that was judged by nothing but what `judged_by` says of: what
    /// others committed to other names since `expected` is no conflict. So what takes long to
    /// judge comes through beside others that never rest. What the batch itself changes
    /// always counts.
    fn commit_beside(
        &self,
        expected: u64,
        batch: Batch,
        judged_by: &(dyn Fn(&Unit) -> bool + Sync),
    ) -> impl Future<Output = Result<Committed, StoreError>> + Send {
        async move {
            let touched: BTreeSet<Unit> = batch.changes.iter().map(Change::unit).collect();
            let mut expected = expected;
            for _ in 0..BESIDE {
                let newest = match self.commit(expected, batch.clone()).await? {
                    Committed::Conflict { newest } if newest > expected => newest,
                    done => return Ok(done),
                };
                for number in expected + 1..=newest {
                    // one that is there no more may have changed anything
                    let record = self.record(number).await?;
                    let counts = record.is_none_or(|record| {
                        let mut changes = record.changes.iter();
                        changes.any(|recorded| {
                            let unit = recorded.change.unit();
                            touched.contains(&unit) || judged_by(&unit)
                        })
                    });
                    if counts {
                        return Ok(Committed::Conflict { newest });
                    }
                }
                expected = newest;
            }
            Ok(Committed::Conflict { newest: expected })
        }
    }
}

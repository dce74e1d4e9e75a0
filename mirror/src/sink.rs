//! What the server needs of a store to take what clients push.
//!
//! Bytes first, names later: an [`Upload`] collects bytes that nobody can read until they were
//! found to have their digest; [`Sink::commit`] then gives them a name. Nothing here is about
//! files, so that a store of objects can stand behind it: there an upload is one of parts, and
//! lives with the replica that began it.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Batch, Committed, StoreError};
use kubepkg_core::{Algorithm, Digest};

use crate::access::Client;

/// An answer on its way from a store.
pub type SinkFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SinkError>> + Send + 'a>>;

/// Why a store did not take something.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The bytes are not those of the digest.
    #[error("content announced as {announced} is {found}")]
    Mismatch {
        /// The digest announced.
        announced: Digest,
        /// The digest of what arrived.
        found: Box<Digest>,
    },
    /// There is no room for it, and nothing that may go.
    #[error("there is too little free space")]
    Full,
    /// Another process works on the same upload.
    #[error("another request works on this upload")]
    Busy,
    /// There are too many uploads, all of them lately begun or gone on with.
    #[error("there are too many uploads at once")]
    TooMany,
    /// There are many uploads, and too many of them are this client's.
    #[error("there are too many uploads of this client at once")]
    TooManyOfOne,
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for SinkError {
    fn from(error: StoreError) -> SinkError {
        match error.is_no_room() {
            true => SinkError::Full,
            false => SinkError::Store(error),
        }
    }
}

impl Classify for SinkError {
    fn kind(&self) -> Kind {
        match self {
            SinkError::Mismatch { .. } => Kind::Refused,
            SinkError::Store(error) => error.kind(),
            SinkError::Full | SinkError::Busy | SinkError::TooMany | SinkError::TooManyOfOne => {
                Kind::Failed
            }
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            SinkError::Store(error) => error.place(),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            SinkError::Store(error) => error.hint(),
            _ => None,
        }
    }

    fn retry(&self) -> bool {
        matches!(
            self,
            SinkError::Full | SinkError::Busy | SinkError::TooMany | SinkError::TooManyOfOne
        )
    }
}

/// Keeps what was published while it lives, until it has a name.
pub trait Kept: Send + Sync {}

/// The write side of a store.
pub trait Sink: Send + Sync + 'static {
    /// Begins an upload into `repository` and answers its id. Digests of `algorithm` are
    /// found without reading the bytes again. About `expected` bytes will follow. It counts
    /// for `client`.
    fn begin<'a>(
        &'a self,
        repository: &'a RepositoryName,
        algorithm: Algorithm,
        expected: u64,
        client: Client,
    ) -> SinkFuture<'a, String>;

    /// How many bytes of an upload are kept; `None` when `repository` has no such upload.
    fn received<'a>(
        &'a self,
        repository: &'a RepositoryName,
        id: &'a str,
    ) -> SinkFuture<'a, Option<u64>>;

    /// Takes hold of an upload to go on with it. Who held it before is told
    /// ([`Upload::superseded`]) and waited for. About `expected` bytes will follow.
    fn resume<'a>(
        &'a self,
        repository: &'a RepositoryName,
        id: &'a str,
        expected: u64,
    ) -> SinkFuture<'a, Option<Box<dyn Upload>>>;

    /// What to say of an upload that is not here, where it may be at another server of the same
    /// store.
    fn elsewhere(&self) -> Option<&'static str> {
        None
    }

    /// What an upload of `repository` became, if it ended well a short while ago.
    fn finished(&self, _repository: &RepositoryName, _id: &str) -> Option<(Digest, u64)> {
        None
    }

    /// Publishes something small that was already found to have its digest.
    fn put(&self, digest: Digest, bytes: Bytes) -> SinkFuture<'_, Box<dyn Kept>>;

    /// Keeps from now on whatever is published, until it has a name.
    fn keep(&self) -> SinkFuture<'_, Box<dyn Kept>>;

    /// Changes names, if `expected` is still the newest commit
    /// ([`kubepkg_core::store::Store::commit`]).
    fn commit(&self, expected: u64, batch: Batch) -> SinkFuture<'_, Committed>;
}

/// An upload, held by one request. Dropping it is not enough to give it back in order: end it
/// with one of the methods that consume it.
pub trait Upload: Send {
    /// Bytes received so far, by this request and those before.
    fn received(&self) -> u64;

    /// Done when somebody else wants to go on with this upload.
    fn superseded(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Says which digest will be asked for at the end, as soon as that is known.
    fn expect(&mut self, algorithm: Algorithm);

    /// Adds bytes. After an error the upload is at the last byte it could keep.
    fn write(&mut self, bytes: Bytes) -> SinkFuture<'_, ()>;

    /// Keeps what was received, to be resumed; answers how much that is.
    fn pause(self: Box<Self>) -> SinkFuture<'static, u64>;

    /// Goes back to where this request began; answers where that is.
    fn undo(self: Box<Self>) -> SinkFuture<'static, u64>;

    /// Publishes what was received under its digest and ends the upload, also when it has
    /// another digest. Answers its size.
    fn finish(self: Box<Self>, digest: Digest) -> SinkFuture<'static, u64>;

    /// Ends the upload and forgets its bytes.
    fn cancel(self: Box<Self>) -> SinkFuture<'static, ()>;
}

//! The bucket itself: objects by key, on a server or, for tests, in memory or in a folder.
//!
//! Everything it does happens on threads of its own, whatever runtime asks, or none: requests
//! that share a connection must not depend on who asked first.

use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, TryStreamExt as _};
use kubepkg_core::store::{ByteStream, StoreError};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutMode,
    PutOptions, PutPayload,
};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;

use super::said::{is_no_bucket, said};

/// Threads at most that talk to the server: they wait, encrypt and copy.
const THREADS: usize = 4;

/// How much of an object is handed on at once: pieces arrive smaller, and each costs a step
/// between threads.
const PIECE: usize = 128 * 1024;

/// Objects listed at a time: what a server answers at once.
const LISTED: usize = 1000;

/// Pieces read ahead of who takes them.
const AHEAD: usize = 4;

/// Bytes of a request that need no patience: in the minute a server has they are sent over a line
/// of 20 kB/s.
const QUICK: usize = 1024 * 1024;

/// How long a part may take, over a line that others use too: 8 MiB have five minutes.
fn patience(bytes: usize) -> Duration {
    Duration::from_secs(60 + bytes as u64 / SLOW)
}

/// Bytes in a second of a part on a slow line.
const SLOW: u64 = 32 * 1024;

/// A bucket, or the part of one below a prefix. Clones are the same bucket.
#[derive(Clone)]
pub struct Bucket {
    stores: Arc<Stores>,
    io: Arc<Io>,
    /// How errors name it, e.g. `s3://mirror/site-a`.
    place: Arc<str>,
}

/// The same bucket twice.
struct Stores {
    store: Arc<dyn ObjectStore>,
    /// For large requests: it waits longer for an answer.
    patient: Arc<dyn ObjectStore>,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Bucket").field(&self.place).finish()
    }
}

/// The threads.
struct Io {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl Drop for Io {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // this may be a thread that must not wait
            runtime.shutdown_background();
        }
    }
}

/// An object in parts that is not there yet.
pub(super) type Parts = Box<dyn MultipartUpload>;

/// Whether a failed request may all the same have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The server said no.
    Refused,
    /// Nobody knows.
    Open,
}

impl Bucket {
    /// A bucket in memory, which is gone with the last clone.
    pub fn in_memory() -> Result<Bucket, StoreError> {
        let store = Arc::new(object_store::memory::InMemory::new());
        Bucket::of(store, "memory://".into())
    }

    /// A folder as if it were a bucket.
    pub fn in_folder(folder: &std::path::Path) -> Result<Bucket, StoreError> {
        let place = format!("file://{}", folder.display());
        let store = object_store::local::LocalFileSystem::new_with_prefix(folder)
            .map_err(|error| failure("open", place.clone(), error))?
            .with_fsync(true);
        Bucket::of(Arc::new(store), place)
    }

    pub(super) fn of(store: Arc<dyn ObjectStore>, place: String) -> Result<Bucket, StoreError> {
        Bucket::with_patient(Arc::clone(&store), store, place)
    }

    /// A bucket whose large objects and parts are written with `patient`.
    pub(super) fn with_patient(
        store: Arc<dyn ObjectStore>,
        patient: Arc<dyn ObjectStore>,
        place: String,
    ) -> Result<Bucket, StoreError> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads(cores.min(THREADS))
            .thread_name("bucket")
            .enable_all()
            .build()
            .map_err(|source| StoreError::Io {
                action: "start threads for",
                path: place.clone().into(),
                source,
            })?;
        Ok(Bucket {
            stores: Arc::new(Stores { store, patient }),
            io: Arc::new(Io {
                handle: runtime.handle().clone(),
                runtime: Some(runtime),
            }),
            place: place.into(),
        })
    }

    /// The bucket as errors name it.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Where an object lies, as errors name it.
    pub(super) fn place_of(&self, key: &str) -> String {
        format!("{}/{key}", self.place.trim_end_matches('/'))
    }

    /// Runs work on the bucket's threads; it goes on when nobody waits any more.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.io.handle.spawn(work)
    }

    /// Runs work that hashes or reads files.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.io.handle.spawn_blocking(work).await;
        done.map_err(|error| self.ended(error))
    }

    /// Waits for `work` with this thread, which must not be one of the bucket's own.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = blocking::sync_channel(1);
        self.spawn(async move { sender.send(work.await).is_ok() });
        match receiver.recv() {
            Ok(done) => done,
            Err(error) => Err(self.ended(error)),
        }
    }

    fn ended(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
        StoreError::Io {
            action: "use",
            path: self.place.to_string().into(),
            source: std::io::Error::other(error),
        }
    }

    /// Asks the server; what is not there is `None`.
    async fn ask<T, F>(
        &self,
        action: &'static str,
        key: &str,
        work: impl FnOnce(Arc<dyn ObjectStore>, Path) -> F,
    ) -> Result<Option<T>, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        self.ask_of(&self.stores.store, action, key, work).await
    }

    /// [`Bucket::ask`] of one that waits longer, or not.
    async fn ask_of<T, F>(
        &self,
        store: &Arc<dyn ObjectStore>,
        action: &'static str,
        key: &str,
        work: impl FnOnce(Arc<dyn ObjectStore>, Path) -> F,
    ) -> Result<Option<T>, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let work = work(Arc::clone(store), Path::from(key));
        match self.spawn(work).await.map_err(|error| self.ended(error))? {
            Ok(done) => Ok(Some(done)),
            Err(error @ Error::NotFound { .. }) if is_no_bucket(&error) => {
                Err(self.no_bucket(action, key))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(action, self.place_of(key), error)),
        }
    }

    /// A whole object, none of which has more than `most` bytes.
    pub(super) async fn get(&self, key: &str, most: u64) -> Result<Option<Bytes>, StoreError> {
        match self.get_small(key, most).await? {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(size)) => Err(StoreError::Damaged {
                path: self.place_of(key).into(),
                why: format!("it has {size} bytes, and such an object has at most {most}"),
            }),
        }
    }

    /// A whole object, or its size where that is more than `most`.
    pub(super) async fn get_small(
        &self,
        key: &str,
        most: u64,
    ) -> Result<Option<Result<Bytes, u64>>, StoreError> {
        let got = self.ask("read", key, |store, path| async move {
            let got = store.get(&path).await?;
            match got.meta.size > most {
                true => Ok(Err(got.meta.size)),
                false => got.bytes().await.map(Ok),
            }
        });
        got.await
    }

    /// The one that writes so many bytes.
    fn writer(&self, bytes: usize) -> &Arc<dyn ObjectStore> {
        match bytes > QUICK {
            true => &self.stores.patient,
            false => &self.stores.store,
        }
    }

    /// Size of an object.
    pub(super) async fn size(&self, key: &str) -> Result<Option<u64>, StoreError> {
        let meta = self.ask("look at", key, |store, path| async move {
            store.head(&path).await
        });
        Ok(meta.await?.map(|meta| meta.size))
    }

    /// Size of an object, and the bytes of it in `span`, or all.
    pub(super) async fn stream(
        &self,
        key: &str,
        span: Option<Range<u64>>,
    ) -> Result<Option<(u64, ByteStream)>, StoreError> {
        let options = GetOptions {
            range: span.map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let got = self.ask("read", key, |store, path| async move {
            store.get_opts(&path, options).await
        });
        let Some(got) = got.await? else {
            return Ok(None);
        };
        let size = got.meta.size;
        let (sender, mut receiver) = mpsc::channel(AHEAD);
        let mut pieces = got.into_stream();
        self.spawn(async move {
            let mut gathered = BytesMut::new();
            while let Some(piece) = pieces.next().await {
                let piece = match piece {
                    Ok(piece) => piece,
                    Err(error) => {
                        let error = std::io::Error::other(said(&error));
                        let _ = sender.send(Err(error)).await;
                        return;
                    }
                };
                if gathered.is_empty() && piece.len() >= PIECE {
                    if sender.send(Ok(piece)).await.is_err() {
                        return;
                    }
                    continue;
                }
                gathered.extend_from_slice(&piece);
                if gathered.len() >= PIECE
                    && sender.send(Ok(gathered.split().freeze())).await.is_err()
                {
                    return;
                }
            }
            if !gathered.is_empty() {
                let _ = sender.send(Ok(gathered.freeze())).await;
            }
        });
        let stream = futures_util::stream::poll_fn(move |context| receiver.poll_recv(context));
        Ok(Some((size, Box::pin(stream))))
    }

    /// Writes an object, in one step for who reads it.
    pub(super) async fn put(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let store = self.writer(bytes.len());
        let put = self.ask_of(store, "write", key, |store, path| async move {
            store.put(&path, PutPayload::from_bytes(bytes)).await
        });
        match put.await? {
            Some(_) => Ok(()),
            None => Err(self.no_bucket("write", key)),
        }
    }

    /// Writes an object if there is none of this key. `false` when there is.
    pub(super) async fn create(
        &self,
        key: &str,
        bytes: Bytes,
    ) -> Result<bool, (Doubt, StoreError)> {
        let store = Arc::clone(self.writer(bytes.len()));
        let path = Path::from(key);
        let put = self.spawn(async move {
            let options = PutOptions::from(PutMode::Create);
            let payload = PutPayload::from_bytes(bytes);
            store.put_opts(&path, payload, options).await
        });
        match put.await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(Error::AlreadyExists { .. } | Error::Precondition { .. })) => Ok(false),
            Ok(Err(Error::NotFound { .. })) => Err((Doubt::Refused, self.no_bucket("write", key))),
            Ok(Err(error)) => {
                let doubt = match error {
                    Error::Generic { .. } => Doubt::Open,
                    _ => Doubt::Refused,
                };
                Err((doubt, failure("write", self.place_of(key), error)))
            }
            Err(error) => Err((Doubt::Open, self.ended(error))),
        }
    }

    /// Removes an object, if it is there.
    pub(super) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let deleted = self.ask("remove", key, |store, path| async move {
            store.delete(&path).await
        });
        deleted.await.map(drop)
    }

    /// Keys and sizes of the objects below a folder, in some order, a thousand at a time: there
    /// may be millions.
    pub(super) fn list_all(
        &self,
        folder: &str,
    ) -> mpsc::Receiver<Result<Vec<(String, u64)>, StoreError>> {
        let (sender, receiver) = mpsc::channel(1);
        let (store, path, place) = (
            Arc::clone(&self.stores.store),
            Path::from(folder),
            self.place_of(folder),
        );
        self.spawn(async move {
            let mut listed = store.list(Some(&path)).chunks(LISTED);
            while let Some(some) = listed.next().await {
                let some: object_store::Result<Vec<_>> = (some.into_iter())
                    .map(|meta| meta.map(|meta| (meta.location.to_string(), meta.size)))
                    .collect();
                let some = some.map_err(|error| failure("list", place.clone(), error));
                if sender.send(some).await.is_err() {
                    return;
                }
            }
        });
        receiver
    }

    /// Keys and sizes of the few objects below a folder, in order.
    pub(super) async fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let listed = self.ask("list", folder, |store, path| async move {
            let listed = store.list(Some(&path));
            let listed = listed.map_ok(|meta| (meta.location.to_string(), meta.size));
            listed.try_collect::<Vec<_>>().await
        });
        let mut listed = listed.await?.unwrap_or_default();
        listed.sort_unstable();
        Ok(listed)
    }

    /// Begins an object in parts.
    pub(super) async fn begin(&self, key: &str) -> Result<Parts, StoreError> {
        let begun = self.ask_of(
            &self.stores.patient,
            "write",
            key,
            |store, path| async move { store.put_multipart(&path).await },
        );
        begun.await?.ok_or_else(|| self.no_bucket("write", key))
    }

    /// Adds a part.
    pub(super) async fn part(
        &self,
        key: &str,
        parts: &mut Parts,
        bytes: Bytes,
    ) -> Result<tokio::task::JoinHandle<Result<(), StoreError>>, StoreError> {
        let patience = patience(bytes.len());
        // made where the threads are: some stores begin at once
        let put = {
            let _inside = self.io.handle.enter();
            parts.put_part(PutPayload::from_bytes(bytes))
        };
        let place = self.place_of(key);
        Ok(self.spawn(async move {
            let action = "write a part of";
            match tokio::time::timeout(patience, put).await {
                Ok(put) => put.map_err(|error| failure(action, place, error)),
                Err(_) => Err(StoreError::Bucket {
                    action,
                    place,
                    hint: Some("the server took it too slowly, or not at all; run it again"),
                    source: format!("it was not taken within {} seconds", patience.as_secs())
                        .into(),
                }),
            }
        }))
    }

    /// Makes the object of all parts, in one step for who reads it.
    pub(super) async fn complete(&self, key: &str, mut parts: Parts) -> Result<(), StoreError> {
        let completed = self.spawn(async move { parts.complete().await });
        match completed.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(failure("complete", self.place_of(key), error)),
            Err(error) => Err(self.ended(error)),
        }
    }

    /// Gives parts up. What cannot be given up costs room until the bucket's own rules remove
    /// it.
    pub(super) fn abort(&self, mut parts: Parts) {
        let place = Arc::clone(&self.place);
        self.spawn(async move {
            if let Err(error) = parts.abort().await {
                let error = said(&error);
                tracing::debug!(%place, error, "parts of an upload stay behind");
            }
        });
    }

    fn no_bucket(&self, action: &'static str, key: &str) -> StoreError {
        StoreError::Bucket {
            action,
            place: self.place_of(key),
            hint: Some("is there such a bucket? Make it first; nothing is made here but objects"),
            source: "the server knows no such bucket".into(),
        }
    }
}

/// The error, with what to do about it.
pub(super) fn failure(action: &'static str, place: String, error: Error) -> StoreError {
    let hint = match &error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Some(
            "look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, and what this key \
             may do in the bucket: it has to list, read, write and remove",
        ),
        Error::NotImplemented { .. } | Error::NotSupported { .. } => Some(
            "the server has to know conditional writes (If-None-Match: *), as replicas agree by \
             them",
        ),
        _ => Some("is the server of AWS_ENDPOINT_URL well? Run the same command again"),
    };
    StoreError::Bucket {
        action,
        place,
        hint,
        source: said(&error).into(),
    }
}

//! The store as a server reads from it and pushes into it.

use std::future::Future;
use std::io::{Seek as _, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use kubepkg_core::index::MAX_INDEX;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{
    Batch, Body, ByteStream, Committed, FileRange, SiteEntry, Store as _, StoreError,
};
use kubepkg_core::{Algorithm, Digest};

use super::content::PART;
use super::spool::Spool;
use super::{AT_ONCE, BucketStore, FRESH, Lease, keys};
use crate::access::Client;
use crate::facts::Facts;
use crate::sink::{Kept, Sink, SinkError, SinkFuture, Upload};
use crate::source::{
    Age, DoneFuture, FactsFuture, NamesFuture, PiecesFuture, Remote, SizesFuture, Source, Standing,
};
use crate::store::Receiver;
use crate::told::told;

/// Content at most that is read whole: manifests and configs of charts. Layers are sent piece
/// by piece. Files of sites, among which are indexes, have the size that names give them, and at
/// most [`MAX_INDEX`].
const SMALL: u64 = 16 * 1024 * 1024;

/// For how long those who come share a lease.
const SHARED: Duration = Duration::from_secs(10);

impl BucketStore {
    /// Size of content, and the bytes of it in `span`, or all.
    pub(super) async fn stream(
        &self,
        digest: &Digest,
        span: Option<Range<u64>>,
    ) -> Result<Option<(u64, ByteStream)>, StoreError> {
        let removed = |store: &BucketStore| store.log.known().removed(digest);
        let key = removed(self);
        let found = self
            .bucket
            .stream(&keys::blob(digest, key), span.clone())
            .await?;
        if found.is_some() {
            return Ok(found);
        }
        // another replica may have given it up, and brought it again
        self.log.read_on(Duration::ZERO).await?;
        self.contents.doubt(digest);
        match removed(self) {
            same if same == key => Ok(None),
            other => self.bucket.stream(&keys::blob(digest, other), span).await,
        }
    }

    /// What is on its way on its own is one request up to the size of a part.
    async fn in_memory(&self, digest: Digest, range: FileRange) -> Result<Body, StoreError> {
        let Ok(len) = usize::try_from(range.len) else {
            return Ok(Body::Range(range));
        };
        let read = self.bucket.blocking(move || {
            let mut bytes = vec![0; len];
            let read = range.file.read_exact_at(&mut bytes, range.offset);
            read.map(|()| Body::Bytes(bytes.into()))
        });
        read.await?
            .map_err(|source| StoreError::Source { digest, source })
    }

    /// The whole of some content, in a file without a name: of as many bytes as names promise, or
    /// of at most [`SMALL`].
    async fn small(
        &self,
        digest: &Digest,
        promised: Option<u64>,
    ) -> Result<Option<FileRange>, StoreError> {
        let most = promised.unwrap_or(SMALL);
        let mut removed = self.log.known().removed(digest);
        let mut key = keys::blob(digest, removed);
        let mut got = self.bucket.get_small(&key, most).await?;
        if got.is_none() {
            removed = self.log.read_on(Duration::ZERO).await?.removed(digest);
            self.contents.doubt(digest);
            key = keys::blob(digest, removed);
            got = self.bucket.get_small(&key, most).await?;
        }
        let bytes = match got {
            None => return Ok(None),
            Some(Ok(bytes)) => bytes,
            Some(Err(size)) => {
                let path = self.bucket.place_of(&key).into();
                return Err(match promised {
                    None => self.too_large(&key, size),
                    Some(promised) => StoreError::Damaged {
                        path,
                        why: format!("it has {size} bytes, and names promise {promised}"),
                    },
                });
            }
        };
        let len = bytes.len() as u64;
        let written = self.bucket.blocking(move || {
            let mut file = tempfile::tempfile()?;
            file.write_all(&bytes)?;
            file.rewind()?;
            Ok(file)
        });
        let file = written.await?.map_err(|source| StoreError::Io {
            action: "write a temporary file for",
            path: self.bucket.place_of(&key).into(),
            source,
        })?;
        Ok(Some(FileRange {
            file: Arc::new(file),
            offset: 0,
            len,
        }))
    }

    /// Nothing is known to be wrong with it.
    fn too_large(&self, key: &str, size: u64) -> StoreError {
        StoreError::Illegal {
            what: format!("{} of {size} bytes", self.bucket.place_of(key)),
            why: "it is too large to be read whole: an index has at most 512 MiB, everything else \
                  16 MiB",
        }
    }
}

impl Remote for BucketStore {
    fn pieces(&self, digest: Digest, span: Option<Range<u64>>) -> PiecesFuture {
        let store = self.clone();
        Box::pin(async move { store.stream(&digest, span).await })
    }
}

impl Source for BucketStore {
    fn names(&self, age: Age) -> NamesFuture<'_> {
        Box::pin(async move {
            let state = match age {
                Age::Known => self.log.read_or_known(FRESH).await,
                Age::Moment => self.log.read_soon(FRESH).await?,
                Age::Now => self.log.read_soon(Duration::ZERO).await?,
            };
            Ok(Arc::clone(&state.names))
        })
    }

    fn standing(&self, digest: &Digest) -> Standing {
        match self.log.known().is_condemned(digest) {
            true => Standing::Condemned,
            false => Standing::Sound,
        }
    }

    fn rescue(&self, digests: Vec<Digest>) -> DoneFuture<'_> {
        Box::pin(async move {
            // a bucket that is away is found out sooner so
            self.log.read_soon(Duration::ZERO).await?;
            BucketStore::rescue(self, digests).await
        })
    }

    fn facts(&self, before: Arc<Facts>, sequence: u64) -> FactsFuture<'_> {
        Box::pin(BucketStore::facts(self, before, sequence))
    }

    fn probe(&self) -> DoneFuture<'_> {
        Box::pin(self.bucket.put(keys::PROBE, Bytes::from_static(b"ok\n")))
    }

    fn blob(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError> {
        let (store, digest) = (self.clone(), *digest);
        self.bucket
            .wait(async move { store.small(&digest, None).await })
    }

    fn sizes(&self, digests: Vec<Digest>) -> SizesFuture<'_> {
        Box::pin(async move {
            let state = &self.log.known();
            let looking = digests.into_iter();
            let looking =
                looking.map(|digest| async move { self.contents.size(state, &digest).await });
            let looked = futures_util::stream::iter(looking).buffered(AT_ONCE);
            looked.try_collect().await
        })
    }

    fn doubt(&self, digest: &Digest, _size: u64) {
        self.contents.doubt(digest);
    }

    fn site_file(
        &self,
        _folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError> {
        let Some(file) = site.files.get(path) else {
            return Ok(None);
        };
        let (store, digest, size) = (self.clone(), file.digest, file.size);
        self.bucket.wait(async move {
            match size > MAX_INDEX {
                true => {
                    let removed = store.log.known().removed(&digest);
                    Err(store.too_large(&keys::blob(&digest, removed), size))
                }
                false => store.small(&digest, Some(size)).await,
            }
        })
    }

    fn remote(&self) -> Option<Arc<dyn Remote>> {
        Some(Arc::new(self.clone()))
    }
}

/// A lease that others share while somebody holds it, and when it was taken.
type Held = Option<(Instant, Weak<Lease>)>;

/// What one replica pushes through: the bucket, and its own folder for uploads under way.
#[derive(Clone, Debug)]
pub struct Replica {
    store: BucketStore,
    spool: Spool,
    /// The lease the newest pushes share.
    lease: Arc<Mutex<Held>>,
}

/// A lease that several pushes share.
struct Shared {
    _lease: Arc<Lease>,
}

impl Kept for Shared {}

impl Replica {
    /// A replica that takes pushes into `store`.
    pub fn new(store: BucketStore, spool: Spool) -> Replica {
        Replica {
            store,
            spool,
            lease: Arc::default(),
        }
    }

    async fn shared_lease(&self) -> Result<Box<dyn Kept>, SinkError> {
        let current = || self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        let young = current()
            .as_ref()
            .filter(|(taken, _)| taken.elapsed() < SHARED)
            .and_then(|(_, lease)| Weak::upgrade(lease));
        let lease = match young {
            Some(lease) => lease,
            None => {
                let lease = Arc::new(self.store.lease().await?);
                *current() = Some((Instant::now(), Arc::downgrade(&lease)));
                lease
            }
        };
        Ok(Box::new(Shared { _lease: lease }))
    }

    /// Brings content into the bucket. What is small is in memory meanwhile, and waits until
    /// there is room.
    async fn bring(&self, digest: Digest, size: u64, body: Body) -> Result<(), StoreError> {
        let small = size <= PART || matches!(body, Body::Bytes(_));
        let _room = match small {
            true => self.store.contents.room_soon(size).await?,
            // each of its parts
            false => None,
        };
        let body = match body {
            Body::Range(range) if small => self.store.in_memory(digest, range).await?,
            body => body,
        };
        let staged = self.store.stage(digest, size, body).await?;
        self.store.publish(vec![staged]).await
    }
}

impl Sink for Replica {
    fn begin<'a>(
        &'a self,
        repository: &'a RepositoryName,
        algorithm: Algorithm,
        expected: u64,
        client: Client,
    ) -> SinkFuture<'a, String> {
        let spool = self.spool.files();
        spool.begin(repository, algorithm, expected, client)
    }

    fn received<'a>(
        &'a self,
        repository: &'a RepositoryName,
        id: &'a str,
    ) -> SinkFuture<'a, Option<u64>> {
        self.spool.files().received(repository, id)
    }

    fn resume<'a>(
        &'a self,
        repository: &'a RepositoryName,
        id: &'a str,
        expected: u64,
    ) -> SinkFuture<'a, Option<Box<dyn Upload>>> {
        Box::pin(async move {
            let resumed = self.spool.files().receive(repository, id, expected).await?;
            Ok(resumed.map(|upload| {
                let replica = self.clone();
                Box::new(Receiving { upload, replica }) as Box<dyn Upload>
            }))
        })
    }

    fn elsewhere(&self) -> Option<&'static str> {
        Some(
            "an upload goes on only with the mirror that began it: where several share a store, a \
             client has to stay with one of them while it pushes",
        )
    }

    fn finished(&self, repository: &RepositoryName, id: &str) -> Option<(Digest, u64)> {
        self.spool.files().finished(repository, id)
    }

    fn put(&self, digest: Digest, bytes: Bytes) -> SinkFuture<'_, Box<dyn Kept>> {
        Box::pin(async move {
            let kept = self.shared_lease().await?;
            let size = bytes.len() as u64;
            self.bring(digest, size, Body::Bytes(bytes)).await?;
            Ok(kept)
        })
    }

    fn keep(&self) -> SinkFuture<'_, Box<dyn Kept>> {
        Box::pin(self.shared_lease())
    }

    fn commit(&self, expected: u64, batch: Batch) -> SinkFuture<'_, Committed> {
        Box::pin(async move { Ok(self.store.commit(expected, batch).await?) })
    }
}

/// An upload into the folder, whose content goes on into the bucket.
struct Receiving {
    upload: Receiver,
    replica: Replica,
}

impl Receiving {
    fn boxed(self) -> Box<dyn Upload> {
        Box::new(self.upload)
    }
}

impl Upload for Receiving {
    fn received(&self) -> u64 {
        self.upload.received()
    }

    fn superseded(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.upload.superseded()
    }

    fn expect(&mut self, algorithm: Algorithm) {
        self.upload.expect(algorithm);
    }

    fn write(&mut self, bytes: Bytes) -> SinkFuture<'_, ()> {
        self.upload.write(bytes)
    }

    fn pause(self: Box<Self>) -> SinkFuture<'static, u64> {
        self.boxed().pause()
    }

    fn undo(self: Box<Self>) -> SinkFuture<'static, u64> {
        self.boxed().undo()
    }

    fn finish(self: Box<Self>, digest: Digest) -> SinkFuture<'static, u64> {
        Box::pin(async move {
            let replica = self.replica;
            // it stays in the folder until its content is in the bucket
            let whole = self.upload.whole(digest).await?;
            let range = whole.range();
            match replica.bring(digest, range.len, Body::Range(range)).await {
                Ok(()) => whole.done().await,
                Err(error) => {
                    // the request may be made again as it was
                    if let Err(error) = whole.undo().await {
                        tracing::warn!(error = %told(&error), "an upload cannot go on");
                    }
                    Err(error.into())
                }
            }
        })
    }

    fn cancel(self: Box<Self>) -> SinkFuture<'static, ()> {
        self.boxed().cancel()
    }
}

//! The file store as the server pushes into it.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Batch, Body, Committed, Store as _, StoreError};
use kubepkg_core::{Algorithm, Digest};
use tokio::time::Instant;

use crate::access::Client;
use crate::sink::{Kept, Sink, SinkError, SinkFuture, Upload};
use crate::store::FileStore;
use crate::store::lease::Lease;

/// For how long those who come share a lease. A lease costs two changes of a folder; one that
/// is shared for ever would keep for ever.
const SHARED: Duration = Duration::from_secs(10);

/// A lease that several pushes share.
struct Shared {
    _lease: Arc<Lease>,
}

impl Kept for Shared {}

impl FileStore {
    /// Drops the uploads to which nothing was added for `idle`; answers how many, and how many
    /// bytes they held.
    pub async fn expire_uploads(&self, idle: Duration) -> Result<(usize, u64), StoreError> {
        let uploads = Arc::clone(&self.uploads);
        self.work(move |opened| opened.writable()?.expire_uploads(&uploads, idle))
            .await
    }

    /// Sets how much of the disk stays free: below that nothing is taken any more.
    #[must_use]
    pub fn min_free(self, per_mille: u32) -> FileStore {
        self.uploads.set_min_free(per_mille);
        self
    }

    async fn shared_lease(&self) -> Result<Box<dyn Kept>, SinkError> {
        let young = {
            let current = self
                .uploads
                .lease
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            current
                .as_ref()
                .filter(|(taken, _)| taken.elapsed() < SHARED)
                .and_then(|(_, lease)| Weak::upgrade(lease))
        };
        let lease = match young {
            Some(lease) => lease,
            None => {
                let lease = Arc::new(self.lease().await?);
                let mut current = self
                    .uploads
                    .lease
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *current = Some((Instant::now(), Arc::downgrade(&lease)));
                lease
            }
        };
        Ok(Box::new(Shared { _lease: lease }))
    }

    async fn put_small(&self, digest: Digest, bytes: Bytes) -> Result<Box<dyn Kept>, SinkError> {
        let size = bytes.len() as u64;
        let uploads = Arc::clone(&self.uploads);
        let room = self.work(move |opened| Ok(opened.writable()?.make_room(&uploads, size)));
        room.await??;
        let kept = self.shared_lease().await?;
        let staged = self.stage(digest, size, Body::Bytes(bytes)).await?;
        self.publish(vec![staged]).await?;
        Ok(kept)
    }
}

impl Sink for FileStore {
    fn begin<'a>(
        &'a self,
        repository: &'a RepositoryName,
        algorithm: Algorithm,
        expected: u64,
        client: Client,
    ) -> SinkFuture<'a, String> {
        let uploads = Arc::clone(&self.uploads);
        let repository = repository.clone();
        let begun = self.work(move |opened| {
            let writable = opened.writable()?;
            if let Err(full) = writable.make_room(&uploads, expected) {
                return Ok(Err(full));
            }
            Ok(writable.begin_upload(&uploads, &repository, algorithm, client))
        });
        Box::pin(async move { begun.await? })
    }

    fn received<'a>(
        &'a self,
        repository: &'a RepositoryName,
        id: &'a str,
    ) -> SinkFuture<'a, Option<u64>> {
        let uploads = Arc::clone(&self.uploads);
        let (repository, id) = (repository.clone(), id.to_owned());
        let found = self.work(move |opened| opened.writable()?.upload(&uploads, &repository, &id));
        Box::pin(async move { Ok(found.await?.map(|session| session.received())) })
    }

    fn resume<'a>(
        &'a self,
        repository: &'a RepositoryName,
        id: &'a str,
        expected: u64,
    ) -> SinkFuture<'a, Option<Box<dyn Upload>>> {
        Box::pin(async move {
            let received = self.receive(repository, id, expected).await?;
            Ok(received.map(|receiver| Box::new(receiver) as Box<dyn Upload>))
        })
    }

    fn finished(&self, repository: &RepositoryName, id: &str) -> Option<(Digest, u64)> {
        let became = self.uploads.finished.of(id, std::time::Instant::now())?;
        (became.repository == *repository).then_some((became.digest, became.size))
    }

    fn put(&self, digest: Digest, bytes: Bytes) -> SinkFuture<'_, Box<dyn Kept>> {
        Box::pin(self.put_small(digest, bytes))
    }

    fn keep(&self) -> SinkFuture<'_, Box<dyn Kept>> {
        Box::pin(self.shared_lease())
    }

    fn commit(&self, expected: u64, batch: Batch) -> SinkFuture<'_, Committed> {
        Box::pin(
            async move { Ok(kubepkg_core::store::Store::commit(self, expected, batch).await?) },
        )
    }
}

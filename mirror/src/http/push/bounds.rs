//! How much is written at once. A write goes on without its client, so the number of
//! connections bounds neither tasks nor memory: these do.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Writes under way. A push has a handful at a time, and each upload gathers 64 KiB.
const WRITES: usize = 1024;

/// Bytes of manifests that are being received and entered; real ones have some KiB.
const MANIFESTS: usize = 64 * 1024 * 1024;

/// For how long a request waits for others before it is sent away.
const PATIENCE: Duration = Duration::from_secs(3);

/// What writes take, until they end.
pub(super) struct Bounds {
    writes: Arc<Semaphore>,
    manifests: Arc<Semaphore>,
    patience: Duration,
}

/// A part of it, given back when dropped.
pub(super) type Share = OwnedSemaphorePermit;

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds::new(WRITES, MANIFESTS, PATIENCE)
    }
}

impl Bounds {
    fn new(writes: usize, manifests: usize, patience: Duration) -> Bounds {
        Bounds {
            writes: Arc::new(Semaphore::new(writes)),
            manifests: Arc::new(Semaphore::new(manifests)),
            patience,
        }
    }

    /// The right to one more write; `None` when there are too many.
    pub(super) async fn write(&self) -> Option<Share> {
        self.take(&self.writes, 1).await
    }

    /// Room for a manifest; `None` when others have all of it.
    pub(super) async fn manifest(&self, bytes: u64) -> Option<Share> {
        let bytes = u32::try_from(bytes).ok()?;
        self.take(&self.manifests, bytes).await
    }

    async fn take(&self, of: &Arc<Semaphore>, share: u32) -> Option<Share> {
        let taking = Arc::clone(of).acquire_many_owned(share);
        tokio::time::timeout(self.patience, taking).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_one_too_many_is_sent_away_until_another_has_ended() {
        let bounds = Bounds::new(2, 10, Duration::ZERO);
        let first = bounds.write().await;
        let _second = bounds.write().await.unwrap();
        assert!(bounds.write().await.is_none());
        drop(first);
        assert!(bounds.write().await.is_some());

        let large = bounds.manifest(8).await;
        assert!(bounds.manifest(3).await.is_none());
        assert!(bounds.manifest(2).await.is_some());
        drop(large);
        assert!(bounds.manifest(10).await.is_some());
        assert!(bounds.manifest(u64::MAX).await.is_none());
    }
}

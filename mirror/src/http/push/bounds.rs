//! How much is written at once. A write goes on without its client, so the number of
//! connections bounds neither tasks nor memory: these do.

use std::time::Duration;

use super::shares::{Share, Shares};
use crate::access::Client;

/// Writes under way. A push has a handful at a time, and each upload gathers 64 KiB.
const WRITES: usize = 1024;

/// Bytes of manifests that are being received and entered; real ones have some KiB.
const MANIFESTS: usize = 64 * 1024 * 1024;

/// For how long a request waits for others before it is sent away.
const PATIENCE: Duration = Duration::from_secs(3);

/// What writes take, until they end.
pub(super) struct Bounds {
    writes: Shares,
    manifests: Shares,
    patience: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds::new(WRITES, MANIFESTS, PATIENCE)
    }
}

impl Bounds {
    fn new(writes: usize, manifests: usize, patience: Duration) -> Bounds {
        Bounds {
            writes: Shares::of(writes),
            manifests: Shares::of(manifests),
            patience,
        }
    }

    /// The right to one more write; `None` when there are too many.
    pub(super) async fn write(&self, client: &Client) -> Option<Share> {
        self.writes.take(client, 1, self.patience).await
    }

    /// Room for a manifest; `None` when others have all of it.
    pub(super) async fn manifest(&self, client: &Client, bytes: u64) -> Option<Share> {
        let bytes = u32::try_from(bytes).ok()?;
        self.manifests.take(client, bytes, self.patience).await
    }
}

#[cfg(test)]
mod tests {
    use kubepkg_core::manifest::MAX_MANIFEST;

    use super::*;

    #[tokio::test]
    async fn who_is_one_too_many_is_sent_away_until_another_has_ended() {
        let one = Client::Unknown;
        let bounds = Bounds::new(16, 64, Duration::ZERO);
        let mut taken = Vec::new();
        while let Some(share) = bounds.write(&one).await {
            taken.push(share);
        }
        assert_eq!(taken.len(), 10);
        taken.pop();
        assert!(bounds.write(&one).await.is_some());

        let large = bounds.manifest(&one, 32).await;
        assert!(bounds.manifest(&one, 9).await.is_none());
        assert!(bounds.manifest(&one, 8).await.is_some());
        drop(large);
        assert!(bounds.manifest(&one, 32).await.is_some());
        assert!(bounds.manifest(&one, u64::MAX).await.is_none());
    }

    #[tokio::test]
    async fn the_largest_manifest_is_taken_of_every_client() {
        let bounds = Bounds::default();
        let user = |name: &str| Client::User(name.into());
        let largest = u32::try_from(MAX_MANIFEST).unwrap();
        let mut taken = Vec::new();
        for name in ["a", "b"] {
            while let Some(share) = bounds
                .manifests
                .take(&user(name), largest, Duration::ZERO)
                .await
            {
                taken.push(share);
            }
        }
        assert!(bounds.manifest(&user("c"), MAX_MANIFEST).await.is_some());
    }
}

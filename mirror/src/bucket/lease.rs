//! `leases/<id>.json`: what was published since it was taken stays. It says the newest commit
//! there was then, and until when it counts; who holds it writes it anew before that is over.
//! So a replica that was killed keeps nothing for long.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubepkg_core::store::StoreError;
use kubepkg_core::time::Time;
use serde::{Deserialize, Serialize};
use tokio::task::{AbortHandle, JoinHandle};

use super::keys;
use super::log::random;
use super::objects::Bucket;
use crate::store::{decode_sealed, encode_sealed};
use crate::told::told;

/// For how many seconds a lease counts that is not renewed: so long a mirror that was killed holds
/// up collection. Where one is lost, content at worst has to be brought again.
const SECONDS: i64 = 180;

/// How often it is renewed.
const RENEWED: Duration = Duration::from_secs(45);

/// Bytes of such an object at most.
const MOST: u64 = 4096;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    /// The newest commit when it was taken.
    number: u64,
    until: Time,
}

/// The leases this replica gave back: their objects may be there for a moment.
#[derive(Clone, Default)]
pub(super) struct Leases {
    given_back: Arc<Mutex<HashSet<String>>>,
    /// The removals of these objects that are on their way.
    ending: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// As long as this lives, collection removes nothing that was published since it was taken.
pub struct Lease {
    bucket: Bucket,
    leases: Leases,
    id: String,
    renewing: AbortHandle,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lease").field(&self.id).finish()
    }
}

fn encode(key: &str, number: u64) -> Result<Vec<u8>, StoreError> {
    let until = Time::now().plus(SECONDS);
    encode_sealed(std::path::Path::new(key), &Written { number, until })
}

impl Leases {
    /// Takes one, after commit `number`.
    pub(super) async fn take(&self, bucket: &Bucket, number: u64) -> Result<Lease, StoreError> {
        let id = random(bucket)?;
        let key = keys::lease(&id);
        bucket.put(&key, encode(&key, number)?.into()).await?;
        let renewing = bucket.spawn({
            let bucket = bucket.clone();
            async move {
                loop {
                    tokio::time::sleep(RENEWED).await;
                    let renewed = match encode(&key, number) {
                        Ok(bytes) => bucket.put(&key, bytes.into()).await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = renewed {
                        tracing::warn!(error = %told(&error), "a lease is renewed another time");
                    }
                }
            }
        });
        Ok(Lease {
            bucket: bucket.clone(),
            leases: self.clone(),
            id,
            renewing: renewing.abort_handle(),
        })
    }

    /// Waits until leases that were given back are gone for others too. A process that ends before
    /// would hold up collection for minutes.
    pub(super) async fn settle(&self) {
        let ending = || self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let removals = std::mem::take(&mut *ending());
        for removal in removals {
            // each is bounded by how often a request is made again
            if let Err(error) = removal.await {
                tracing::debug!(%error, "a lease stays until its time is over");
            }
        }
    }

    /// The commit after which the oldest of the living leases was taken. Removes those that
    /// count no more.
    pub(super) async fn oldest(&self, bucket: &Bucket) -> Result<Option<u64>, StoreError> {
        let now = Time::now();
        let mut oldest: Option<u64> = None;
        for (key, _) in bucket.list(keys::LEASES).await? {
            let given_back = || {
                self.given_back
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
            };
            if given_back().iter().any(|id| keys::lease(id) == key) {
                continue;
            }
            let Some(bytes) = bucket.get(&key, MOST).await? else {
                continue;
            };
            let written = decode_sealed::<Written>(&bytes);
            match written {
                Ok(lease) if lease.until < now => bucket.delete(&key).await?,
                Ok(lease) => oldest = Some(oldest.map_or(lease.number, |o| o.min(lease.number))),
                // one that says nothing is older than everything
                Err(why) => {
                    tracing::warn!(key, why, "nothing is collected while this lease is there");
                    oldest = Some(0);
                }
            }
        }
        Ok(oldest)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
        let all = &self.leases.given_back;
        let id = std::mem::take(&mut self.id);
        let inserted = all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone());
        debug_assert!(inserted);
        let (bucket, leases) = (self.bucket.clone(), self.leases.clone());
        let ending = Arc::clone(&self.leases.ending);
        let removal = self.bucket.spawn(async move {
            // where that fails it counts for a few minutes more, for other replicas
            if bucket.delete(&keys::lease(&id)).await.is_ok() {
                let all = &leases.given_back;
                all.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(&id);
            }
        });
        let mut ending = ending.lock().unwrap_or_else(PoisonError::into_inner);
        ending.retain(|removal| !removal.is_finished());
        ending.push(removal);
    }
}

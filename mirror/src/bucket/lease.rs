//! `leases/<id>.json`: what was published since it was taken stays. It says the newest commit
//! there was then, and until when it counts; who holds it writes it anew before that is over.
//! So a replica that was killed keeps nothing for long.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kubepkg_core::store::StoreError;
use kubepkg_core::time::Time;
use serde::{Deserialize, Serialize};
use tokio::task::{AbortHandle, JoinHandle};

use super::keys;
use super::log::random;
use super::objects::Bucket;
use super::state::APART;
use crate::store::{decode_sealed, encode_sealed};
use crate::told::told;

/// For how many seconds a lease counts that is not renewed: so long a mirror that was killed holds
/// up collection. Where one is lost, content at worst has to be brought again.
const SECONDS: i64 = 180;

/// One whose end is further ahead than that was written by a clock that is wrong. It counts as
/// long as it is renewed: for so long after it was seen to be written anew.
const SEEN: Duration = Duration::from_secs(SECONDS.unsigned_abs());

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
    /// Of leases from clocks that are wrong: until when they say they count, and when that
    /// was seen first.
    ahead: Arc<Mutex<HashMap<String, (Time, Instant)>>>,
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
        self.oldest_at(bucket, Time::now(), Instant::now()).await
    }

    async fn oldest_at(
        &self,
        bucket: &Bucket,
        now: Time,
        instant: Instant,
    ) -> Result<Option<u64>, StoreError> {
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
                Ok(lease) if self.is_dead(&key, lease.until, now, instant) => {
                    tracing::warn!(key, until = %lease.until, "a lease of a clock that is wrong");
                    bucket.delete(&key).await?;
                }
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

    /// Whether a lease from a clock far ahead was not renewed for long.
    fn is_dead(&self, key: &str, until: Time, now: Time, instant: Instant) -> bool {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if until <= now.plus(SECONDS + APART) {
            ahead.remove(key);
            return false;
        }
        let first = (until, instant);
        let seen = ahead.entry(key.to_owned()).or_insert(first);
        if seen.0 != until {
            *seen = first;
        }
        let dead = instant.duration_since(seen.1) > SEEN;
        if dead {
            ahead.remove(key);
        }
        dead
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lease_of_a_clock_far_ahead_counts_only_while_it_is_renewed() {
        let bucket = Bucket::in_memory().unwrap();
        let leases = Leases::default();
        let (now, began) = (Time::from_unix(1_796_000_000), Instant::now());
        let key = keys::lease("far");
        let write = async |number: u64, until: i64| {
            let until = now.plus(until);
            let bytes = encode_sealed(std::path::Path::new(&key), &Written { number, until });
            bucket.put(&key, bytes.unwrap().into()).await.unwrap();
        };
        let later = |seconds| began + Duration::from_secs(seconds);
        let oldest = async |instant| leases.oldest_at(&bucket, now, instant).await.unwrap();

        let year = 365 * 24 * 3600;
        write(7, year).await;
        assert_eq!(oldest(began).await, Some(7));
        assert_eq!(oldest(later(100)).await, Some(7));
        // it lives: it was written anew
        write(7, year + 45).await;
        assert_eq!(oldest(later(200)).await, Some(7));
        assert_eq!(oldest(later(300)).await, Some(7));
        assert_eq!(oldest(later(401)).await, None);
        assert!(bucket.list(keys::LEASES).await.unwrap().is_empty());

        // those of clocks that are right count until they say
        write(8, SECONDS).await;
        assert_eq!(oldest(later(10_000)).await, Some(8));
        write(8, -1).await;
        assert_eq!(oldest(later(10_000)).await, None);
    }
}

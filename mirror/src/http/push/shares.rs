//! Something of which there is so much, such that no client can have all of it.
//!
//! One half is for whoever comes. Of the other half each client has at most a share, so that one
//! that has more than its share leaves that half to the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::access::Client;

/// The part of the whole that a client has besides what is for whoever comes: with half of it
/// for these it takes four clients to keep the others out.
const SHARE: usize = 8;

/// All of it.
pub(super) struct Shares {
    common: Arc<Semaphore>,
    kept: Arc<Semaphore>,
    share: usize,
    clients: Arc<Clients>,
}

/// What clients have left of their shares; those that have or want something of it.
#[derive(Default)]
struct Clients(Mutex<HashMap<Client, Arc<Semaphore>>>);

/// A part of it, given back when dropped.
pub(super) struct Share {
    // before the client's entry, which goes with the last of them
    _permits: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
    _entry: Option<Entry>,
}

/// A client that has something of its share, or waits for it.
struct Entry {
    clients: Arc<Clients>,
    client: Client,
    left: Arc<Semaphore>,
}

impl Shares {
    /// `all` of it.
    pub(super) fn of(all: usize) -> Shares {
        Shares {
            common: Arc::new(Semaphore::new(all / 2)),
            kept: Arc::new(Semaphore::new(all - all / 2)),
            share: (all / SHARE).max(1),
            clients: Arc::default(),
        }
    }

    /// `much` of it for `client`; `None` where that is not to be had within `patience`.
    pub(super) async fn take(
        &self,
        client: &Client,
        much: u32,
        patience: Duration,
    ) -> Option<Share> {
        // nearly always there is enough
        if let Ok(common) = Arc::clone(&self.common).try_acquire_many_owned(much) {
            return Some(Share {
                _permits: (common, None),
                _entry: None,
            });
        }
        let entry = self.entry(client);
        let common = Arc::clone(&self.common).acquire_many_owned(much);
        let kept = async {
            let own = Arc::clone(&entry.left).acquire_many_owned(much).await?;
            let kept = Arc::clone(&self.kept).acquire_many_owned(much).await?;
            Ok::<_, AcquireError>((kept, Some(own)))
        };
        let taking = async {
            tokio::select! {
                common = common => common.map(|common| (common, None)),
                kept = kept => kept,
            }
        };
        let permits = tokio::time::timeout(patience, taking).await.ok()?.ok()?;
        Some(Share {
            _permits: permits,
            _entry: Some(entry),
        })
    }

    fn entry(&self, client: &Client) -> Entry {
        let mut clients = self.clients.locked();
        let left = clients
            .entry(client.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(self.share)));
        Entry {
            clients: Arc::clone(&self.clients),
            client: client.clone(),
            left: Arc::clone(left),
        }
    }
}

impl Clients {
    fn locked(&self) -> MutexGuard<'_, HashMap<Client, Arc<Semaphore>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut clients = self.clients.locked();
        // the table's and this one
        if Arc::strong_count(&self.left) <= 2 {
            clients.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Client {
        Client::User(name.into())
    }

    /// All a client gets.
    async fn all(shares: &Shares, client: &Client) -> Vec<Share> {
        let mut taken = Vec::new();
        while let Some(share) = shares.take(client, 1, Duration::ZERO).await {
            taken.push(share);
        }
        taken
    }

    #[tokio::test]
    async fn who_takes_all_leaves_others_their_share() {
        let shares = Shares::of(64);
        let greedy = all(&shares, &user("greedy")).await;
        assert_eq!(greedy.len(), 32 + 8);
        let mut others = Vec::new();
        for name in ["a", "b", "c"] {
            let taken = all(&shares, &user(name)).await;
            assert_eq!(taken.len(), 8, "{name}");
            others.push(taken);
        }
        assert!(all(&shares, &user("d")).await.is_empty());
        drop(greedy);
        assert_eq!(all(&shares, &user("d")).await.len(), 40);
        drop(others);
        assert!(shares.clients.locked().is_empty());
    }

    #[tokio::test]
    async fn what_is_given_back_goes_to_who_waits() {
        let shares = Shares::of(16);
        let a = user("a");
        let mut taken = all(&shares, &a).await;
        // one that is for whoever comes, and one of the share
        for give_back in [0, 8] {
            let waiting = shares.take(&a, 1, Duration::from_secs(60));
            tokio::pin!(waiting);
            tokio::select! {
                biased;
                _ = &mut waiting => panic!("there was one more"),
                () = tokio::task::yield_now() => {}
            }
            drop(taken.remove(give_back));
            taken.push(waiting.await.unwrap());
        }
        drop(taken);
        assert!(shares.clients.locked().is_empty());
    }
}

//! How many requests run at the same time, and pauses that a host asked everybody to make.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits of one client.
pub(crate) struct Hosts {
    all: Arc<Semaphore>,
    per_host: usize,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
}

struct Host {
    slots: Arc<Semaphore>,
    paused_until: Mutex<Option<Instant>>,
}

/// Permission for one request; given back when its answer is dropped.
pub(crate) struct Slot {
    _host: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
}

impl Hosts {
    pub(crate) fn new(jobs: usize, per_host: usize) -> Hosts {
        Hosts {
            all: Arc::new(Semaphore::new(jobs.max(1))),
            per_host: per_host.max(1),
            hosts: Mutex::default(),
        }
    }

    fn host(&self, name: &str) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = hosts.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(Host {
                slots: Arc::new(Semaphore::new(self.per_host)),
                paused_until: Mutex::default(),
            })
        });
        Arc::clone(host)
    }

    /// Waits for a free place at `host`. The place at the host comes first, so that those
    /// who queue for a busy host do not take places from other hosts.
    pub(crate) async fn slot(&self, host: &str) -> Slot {
        let slots = Arc::clone(&self.host(host).slots);
        // The semaphores are never closed, so there is always a permit in the end.
        Slot {
            _host: slots.acquire_owned().await.ok(),
            _all: Arc::clone(&self.all).acquire_owned().await.ok(),
        }
    }

    /// `host` asks for a pause: everybody makes it.
    pub(crate) fn pause(&self, host: &str, time: Duration) {
        let host = self.host(host);
        let mut until = host
            .paused_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let new = Instant::now().checked_add(time);
        if *until < new {
            *until = new;
        }
    }

    /// What is left of a pause at `host`.
    pub(crate) fn pause_left(&self, host: &str) -> Option<Duration> {
        let host = self.host(host);
        let until = host
            .paused_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        until
            .and_then(|until| until.checked_duration_since(Instant::now()))
            .filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_host_gets_no_more_than_its_share() {
        let hosts = Hosts::new(3, 2);
        let first = hosts.slot("a").await;
        let _second = hosts.slot("a").await;
        assert!(hosts.slot("a").now_or_never().is_none());
        let _other = hosts.slot("b").now_or_never().unwrap();
        assert!(hosts.slot("c").now_or_never().is_none(), "three in all");
        drop(first);
        assert!(hosts.slot("a").now_or_never().is_some());
    }

    #[test]
    fn a_pause_holds_for_one_host_and_only_grows() {
        let hosts = Hosts::new(1, 1);
        hosts.pause("a", Duration::from_secs(1000));
        hosts.pause("a", Duration::from_secs(1));
        assert!(hosts.pause_left("a").unwrap() > Duration::from_secs(900));
        assert_eq!(hosts.pause_left("b"), None);
    }
}

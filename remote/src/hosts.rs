//! What all requests to one host share: how many run at the same time, and the pauses that are
//! made when the host is in trouble or asks for one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::options::PerHost;
use crate::retry::Retry;

/// The limits of one client.
pub(crate) struct Hosts {
    all: Arc<Semaphore>,
    per_host: PerHost,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
}

struct Host {
    slots: Arc<Semaphore>,
    limits: PerHost,
    health: Mutex<Health>,
}

/// How a host does.
#[derive(Default)]
struct Health {
    /// Failures since its last good answer.
    failures: u32,
    /// Good answers.
    answers: u64,
    /// Nobody asks it before.
    paused_until: Option<Instant>,
    /// Counts the failures that counted. Of requests that were under way together only the
    /// first to fail says anything new: eight of them are one moment of trouble, not eight.
    moment: u64,
    /// Slots there are beyond the first ones, because the host kept up.
    grown: usize,
    /// Slots of these that end when they come back: it did not keep up any more.
    ending: usize,
    /// It refused once because it had too much to do; it gets no more than at first.
    full: bool,
    /// Slots that are not given out: the host had more to do than it could.
    withheld: Vec<OwnedSemaphorePermit>,
    /// Good answers since the number of slots changed.
    calm: u32,
}

/// Good answers after which a host gets one request more at a time.
const CALM: u32 = 4;

/// Permission for one request; given back when its answer is dropped.
pub(crate) struct Slot {
    host: Arc<Host>,
    moment: u64,
    /// The host had too much to do.
    refused: AtomicBool,
    place: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
}

impl Hosts {
    pub(crate) fn new(jobs: usize, per_host: PerHost) -> Hosts {
        Hosts {
            all: Arc::new(Semaphore::new(jobs.max(1))),
            per_host: PerHost {
                first: per_host.first.max(1),
                most: per_host.most.max(per_host.first).max(1),
            },
            hosts: Mutex::default(),
        }
    }

    fn host(&self, name: &str) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = hosts.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(Host {
                slots: Arc::new(Semaphore::new(self.per_host.first)),
                limits: self.per_host,
                health: Mutex::default(),
            })
        });
        Arc::clone(host)
    }

    /// Waits for a free place at `host`. The place at the host comes first, so that those
    /// who queue for a busy host do not take places from other hosts.
    pub(crate) async fn slot(&self, host: &str) -> Slot {
        let host = self.host(host);
        // The semaphores are never closed, so there is always a permit in the end.
        let place = Arc::clone(&host.slots).acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        let moment = host.health().moment;
        Slot {
            host,
            moment,
            refused: AtomicBool::new(false),
            place,
            _all: all,
        }
    }

    /// When a pause of `host` ends, where there is one now.
    pub(crate) fn paused_until(&self, host: &str) -> Option<Instant> {
        let until = self.host(host).health().paused_until;
        until.filter(|until| *until > Instant::now())
    }
}

impl Host {
    fn health(&self) -> std::sync::MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The host did what it was asked.
    pub(crate) fn went_well(&self) {
        let mut health = self.host.health();
        health.answers += 1;
        health.calm += 1;
        if health.calm >= CALM {
            health.calm = 0;
            let limits = self.host.limits;
            if health.withheld.pop().is_none()
                && !health.full
                && limits.first + health.grown < limits.most
            {
                health.grown += 1;
                self.host.slots.add_permits(1);
            }
        }
        if health.moment == self.moment {
            health.failures = 0;
        }
    }

    /// Good answers of the host so far.
    pub(crate) fn answers(&self) -> u64 {
        self.host.health().answers
    }

    /// The host failed in a way that may pass, and may have asked for a pause. All requests
    /// to it make this pause. One that refused because it has too much to do gets, for each such
    /// moment, one request less at a time, down to one, until it has answered for a while.
    pub(crate) fn failed(&self, policy: &Retry, asked: Option<Duration>, busy: bool) -> Duration {
        let mut health = self.host.health();
        if health.moment == self.moment {
            self.refused.store(busy, Ordering::Relaxed);
            if busy {
                // what was given beyond the first slots comes back at once, one by one
                health.full = true;
                health.ending += std::mem::take(&mut health.grown);
            }
            health.moment += 1;
            health.failures = health.failures.saturating_add(1);
        }
        let own = policy.backoff(health.failures.max(1));
        let pause = asked
            .filter(|asked| *asked <= policy.patience)
            .map_or(own, |asked| asked.max(own));
        let until = Instant::now().checked_add(pause);
        if health.paused_until < until {
            health.paused_until = until;
        }
        pause
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut health = self.host.health();
        if health.ending > 0 {
            health.ending -= 1;
            if let Some(place) = self.place.take() {
                place.forget();
            }
        }
        if self.refused.load(Ordering::Relaxed) {
            health.calm = 0;
            if health.withheld.len() + 1 < self.host.limits.first {
                health.withheld.extend(self.place.take());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn fixed(count: usize) -> PerHost {
        PerHost {
            first: count,
            most: count,
        }
    }

    #[tokio::test]
    async fn a_host_that_keeps_up_gets_more_until_it_refuses() {
        let limits = PerHost { first: 2, most: 4 };
        let (hosts, policy) = (Hosts::new(99, limits), Retry::default());
        let free = || {
            let slots: Vec<Slot> = std::iter::from_fn(|| hosts.slot("a").now_or_never()).collect();
            slots.len()
        };
        assert_eq!(free(), 2);
        for more in [3, 4, 4] {
            let slot = hosts.slot("a").await;
            (0..CALM).for_each(|_| slot.went_well());
            drop(slot);
            assert_eq!(free(), more);
        }
        hosts.slot("a").await.failed(&policy, None, true);
        // it goes back to what it had at first as slots come back, less the one it refused
        (0..4).for_each(|_| drop(hosts.slot("a").now_or_never()));
        let mut last = 0;
        for _ in 0..8 {
            let slot = hosts.slot("a").await;
            (0..CALM).for_each(|_| slot.went_well());
            drop(slot);
            last = free();
        }
        assert_eq!(last, 2, "and no further");
    }

    #[tokio::test]
    async fn a_host_with_too_much_to_do_gets_less_at_a_time() {
        let (hosts, policy) = (Hosts::new(99, fixed(3)), Retry::default());
        let free = || {
            let slots: Vec<Slot> = std::iter::from_fn(|| hosts.slot("a").now_or_never()).collect();
            slots.len()
        };
        // refused together is refused once
        let together = [hosts.slot("a").await, hosts.slot("a").await];
        for slot in together {
            slot.failed(&policy, None, true);
        }
        assert_eq!(free(), 2);
        for _ in 0..5 {
            hosts.slot("a").await.failed(&policy, None, true);
        }
        assert_eq!(free(), 1, "one is left, whatever was refused");
        let only = hosts.slot("a").await;
        (0..CALM).for_each(|_| only.went_well());
        drop(only);
        assert_eq!(free(), 2);
    }

    #[tokio::test]
    async fn a_host_gets_no_more_than_its_share() {
        let hosts = Hosts::new(3, fixed(2));
        let first = hosts.slot("a").await;
        let _second = hosts.slot("a").await;
        assert!(hosts.slot("a").now_or_never().is_none());
        let _other = hosts.slot("b").now_or_never().unwrap();
        assert!(hosts.slot("c").now_or_never().is_none(), "three in all");
        drop(first);
        assert!(hosts.slot("a").now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_pause_holds_for_one_host_and_only_grows() {
        let (hosts, policy) = (Hosts::new(4, fixed(4)), Retry::default());
        let slot = hosts.slot("a").await;
        slot.failed(&policy, Some(Duration::from_secs(500)), false);
        slot.failed(&policy, Some(Duration::from_secs(1)), false);
        let until = hosts.paused_until("a").unwrap();
        assert!(until > Instant::now() + Duration::from_secs(400));
        assert_eq!(hosts.paused_until("b"), None);
    }

    #[tokio::test]
    async fn requests_that_fail_together_are_one_moment_of_trouble() {
        let (hosts, policy) = (Hosts::new(99, fixed(99)), Retry::default());
        let mut together = Vec::new();
        for _ in 0..8 {
            together.push(hosts.slot("a").await);
        }
        for slot in &together {
            assert!(slot.failed(&policy, None, false) <= policy.first);
        }
        let next = hosts.slot("a").await;
        let pause = next.failed(&policy, None, false);
        assert!(
            pause >= policy.first && pause <= policy.first * 2,
            "{pause:?}"
        );
        // one of those from before that comes through late says nothing of now
        together[0].went_well();
        let third = hosts.slot("a").await.failed(&policy, None, false);
        assert!(third >= policy.first * 2, "{third:?}");
        hosts.slot("a").await.went_well();
        assert!(hosts.slot("a").await.failed(&policy, None, false) <= policy.first);
    }
}

//! What all requests to one host share: how many run at the same time, and the pauses that are
//! made when the host is in trouble or asks for one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    first: usize,
    health: Mutex<Health>,
}

/// How a host does.
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
    /// Requests it gets at a time now.
    share: usize,
    /// What that grows to: less than at first thought once it refused.
    bound: usize,
    /// Places that end when they come back, because the share has shrunk.
    ending: usize,
    /// It refused because it had too much to do, and is not pressed any more.
    refused: bool,
    /// Good answers since the share changed.
    calm: u32,
}

/// Good answers after which a host that refused gets one request more at a time.
const CALM: u32 = 4;

/// Permission for one request; given back when its answer is dropped.
pub(crate) struct Slot {
    host: Arc<Host>,
    moment: u64,
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
                first: self.per_host.first,
                health: Mutex::new(Health::new(self.per_host)),
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

impl Health {
    fn new(limits: PerHost) -> Health {
        Health {
            failures: 0,
            answers: 0,
            paused_until: None,
            moment: 0,
            share: limits.first,
            bound: limits.most,
            ending: 0,
            refused: false,
            calm: 0,
        }
    }
}

impl Host {
    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A good answer makes place for one request more, so that the share doubles in the time an
    /// answer takes; of a host that refused, several do. What is not used does not grow.
    fn grow(&self, health: &mut Health) {
        health.calm = health.calm.saturating_add(1);
        let enough = !health.refused || health.calm >= CALM;
        if !enough || health.share >= health.bound || self.slots.available_permits() > 0 {
            return;
        }
        health.calm = 0;
        health.share += 1;
        match health.ending {
            0 => self.slots.add_permits(1),
            _ => health.ending -= 1,
        }
    }

    /// In trouble a host gets half of what it had, but not less than at first. One that was `busy`
    /// gets no more than that from then on, and of what it had at first one less, down to one.
    fn shrink(&self, health: &mut Health, busy: bool) {
        let share = match health.share > self.first {
            true => (health.share / 2).max(self.first),
            false => health.share.saturating_sub(usize::from(busy)).max(1),
        };
        if busy {
            health.refused = true;
            health.bound = share.max(self.first);
        }
        health.calm = 0;
        let less = health.share - share;
        health.share = share;
        health.ending += less - self.slots.forget_permits(less);
    }
}

impl Slot {
    /// The host did what it was asked.
    pub(crate) fn went_well(&self) {
        let mut health = self.host.health();
        health.answers += 1;
        // what was asked for before the last trouble says nothing of now
        if health.moment == self.moment {
            health.failures = 0;
            self.host.grow(&mut health);
        }
    }

    /// Good answers of the host so far.
    pub(crate) fn answers(&self) -> u64 {
        self.host.health().answers
    }

    /// The host failed in a way that may pass, and may have asked for a pause. All requests
    /// to it make this pause, and for each such moment it gets fewer at a time.
    pub(crate) fn failed(&self, policy: &Retry, asked: Option<Duration>, busy: bool) -> Duration {
        let mut health = self.host.health();
        if health.moment == self.moment {
            self.host.shrink(&mut health, busy);
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
        if health.ending > 0
            && let Some(place) = self.place.take()
        {
            health.ending -= 1;
            place.forget();
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

    /// What a wait has come to by now, whatever else this task has done.
    fn now<T>(wait: impl Future<Output = T>) -> Option<T> {
        tokio::task::unconstrained(wait).now_or_never()
    }

    /// Takes all places there are.
    fn all(hosts: &Hosts) -> Vec<Slot> {
        std::iter::from_fn(|| now(hosts.slot("a"))).collect()
    }

    /// More wait than may ask, and all that may are answered. How many may ask after that.
    fn round(hosts: &Hosts) -> usize {
        let mut waiting: Vec<_> = (0..99).map(|_| Box::pin(hosts.slot("a"))).collect();
        let mut asked = Vec::new();
        waiting.retain_mut(|one| {
            let slot = now(one.as_mut());
            let waits = slot.is_none();
            asked.extend(slot);
            waits
        });
        asked.iter().for_each(Slot::went_well);
        drop(asked);
        let next = waiting.iter_mut().map(|one| now(one.as_mut()));
        next.flatten().collect::<Vec<Slot>>().len()
    }

    #[tokio::test]
    async fn a_host_that_keeps_up_gets_twice_as_much_with_each_round_trip() {
        let hosts = Hosts::new(999, PerHost { first: 3, most: 20 });
        assert_eq!(all(&hosts).len(), 3);
        let grown: Vec<usize> = (0..4).map(|_| round(&hosts)).collect();
        assert_eq!(grown, [6, 12, 20, 20]);
        // one after the other is no reason for more at a time
        let hosts = Hosts::new(999, PerHost { first: 3, most: 20 });
        for _ in 0..20 {
            hosts.slot("a").await.went_well();
        }
        assert_eq!(all(&hosts).len(), 3);
    }

    #[tokio::test]
    async fn a_host_that_refused_is_not_pressed_any_more() {
        let (hosts, policy) = (
            Hosts::new(999, PerHost { first: 2, most: 16 }),
            Retry::default(),
        );
        for share in [4, 8, 16] {
            assert_eq!(round(&hosts), share);
        }
        let asked = all(&hosts);
        assert_eq!(asked.len(), 16);
        asked[0].failed(&policy, None, true);
        // those that are under way come to their end, and the next ones are half as many
        assert_eq!(all(&hosts).len(), 0);
        asked.iter().for_each(Slot::went_well);
        drop(asked);
        assert_eq!(all(&hosts).len(), 8);
        let later: Vec<usize> = (0..9).map(|_| round(&hosts)).collect();
        assert_eq!(later, [8; 9], "and no more from then on");
        for share in [4, 2, 1, 1] {
            hosts.slot("a").await.failed(&policy, None, true);
            assert_eq!(all(&hosts).len(), share);
        }
        let later: Vec<usize> = (0..9).map(|_| round(&hosts)).collect();
        assert_eq!(later, [1, 1, 1, 2, 2, 2, 2, 2, 2], "what it had at first");
    }

    #[tokio::test]
    async fn trouble_of_another_kind_halves_what_a_host_gets_until_it_is_over() {
        let (hosts, policy) = (
            Hosts::new(999, PerHost { first: 2, most: 16 }),
            Retry::default(),
        );
        for share in [4, 8, 16] {
            assert_eq!(round(&hosts), share);
        }
        for share in [8, 4, 2, 2] {
            hosts.slot("a").await.failed(&policy, None, false);
            assert_eq!(all(&hosts).len(), share);
        }
        let later: Vec<usize> = (0..4).map(|_| round(&hosts)).collect();
        assert_eq!(later, [4, 8, 16, 16]);
    }

    #[tokio::test]
    async fn a_host_with_too_much_to_do_gets_less_at_a_time() {
        let (hosts, policy) = (Hosts::new(99, fixed(3)), Retry::default());
        // refused together is refused once
        let together = [hosts.slot("a").await, hosts.slot("a").await];
        for slot in together {
            slot.failed(&policy, None, true);
        }
        assert_eq!(all(&hosts).len(), 2);
        for _ in 0..5 {
            hosts.slot("a").await.failed(&policy, None, true);
        }
        assert_eq!(all(&hosts).len(), 1, "one is left, whatever was refused");
        for _ in 0..CALM {
            hosts.slot("a").await.went_well();
        }
        assert_eq!(all(&hosts).len(), 2);
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

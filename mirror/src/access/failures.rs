//! How many wrong passwords one address may try.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Addresses remembered; where there are more the ones that have waited longest are forgotten.
const MAX_ADDRESSES: usize = 10_000;

/// Wrong passwords until an address has to wait, unless said otherwise: somebody who mistypes
/// never notices.
pub const PER_MINUTE: u32 = 20;

/// Wrong logins by address.
#[derive(Debug)]
pub(super) struct Failures {
    /// How many an address may have in a minute; 0 for any number.
    per_minute: u32,
    by_address: Mutex<HashMap<IpAddr, Bucket>>,
}

/// Runs full with wrong logins and empties with time.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: f64,
    at: Instant,
}

impl Failures {
    pub(super) fn new(per_minute: u32) -> Failures {
        Failures {
            per_minute,
            by_address: Mutex::default(),
        }
    }

    /// How long this address has to wait before it may try again; `None` when it may.
    pub(super) fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let all = f64::from(self.per_minute);
        let buckets = self.buckets();
        let level = buckets.get(&group(address))?.level_at(now, all);
        let above = level - (all - 1.0);
        (above > 0.0).then(|| Duration::from_secs_f64((above * 60.0 / all).max(1.0)))
    }

    /// Notes a wrong login.
    pub(super) fn note(&self, address: IpAddr, now: Instant) {
        if self.per_minute == 0 {
            return;
        }
        let all = f64::from(self.per_minute);
        let mut buckets = self.buckets();
        let address = group(address);
        if buckets.len() >= MAX_ADDRESSES && !buckets.contains_key(&address) {
            buckets.retain(|_, bucket| bucket.level_at(now, all) > 0.0);
            if buckets.len() >= MAX_ADDRESSES {
                // as many attackers as that are not stopped by counting each
                buckets.clear();
            }
        }
        let bucket = buckets.entry(address).or_insert(Bucket {
            level: 0.0,
            at: now,
        });
        *bucket = Bucket {
            level: (bucket.level_at(now, all) + 1.0).min(all),
            at: now,
        };
    }

    fn buckets(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, Bucket>> {
        self.by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket {
    fn level_at(&self, now: Instant, all: f64) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.level - passed * all / 60.0).max(0.0)
    }
}

/// Who has one IPv6 address has 2^64 of them.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_waits_after_too_many_and_others_do_not() {
        let failures = Failures::new(3);
        let start = Instant::now();
        let [one, same, other]: [IpAddr; 3] =
            ["fd00::1", "fd00::2", "fd00:0:0:1::1"].map(|a| a.parse().unwrap());
        for _ in 0..2 {
            failures.note(one, start);
            assert_eq!(failures.wait(one, start), None);
        }
        failures.note(same, start);
        let wait = failures.wait(one, start).unwrap();
        assert!(wait <= Duration::from_secs(20), "{wait:?}");
        assert!(failures.wait(other, start).is_none());
        assert!(
            failures
                .wait(one, start + Duration::from_secs(21))
                .is_none()
        );
        // a minute later all is forgotten
        let later = start + Duration::from_secs(61);
        failures.note(one, later);
        assert!(failures.wait(one, later).is_none());
    }

    #[test]
    fn memory_is_bounded_and_no_limit_is_none() {
        let failures = Failures::new(1);
        let now = Instant::now();
        for n in 0..=MAX_ADDRESSES as u32 {
            failures.note(IpAddr::from(n.to_be_bytes()), now);
        }
        assert!(failures.buckets().len() <= MAX_ADDRESSES);
        let open = Failures::new(0);
        open.note(IpAddr::from([127, 0, 0, 1]), now);
        assert!(open.wait(IpAddr::from([127, 0, 0, 1]), now).is_none());
    }
}

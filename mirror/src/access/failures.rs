//! How many wrong passwords may be tried.
//!
//! They are counted for each name from each address: many clients may have one address, behind
//! NAT or a proxy, and who does not know the password of one of them does not hold up the others.
//! A name counts whether somebody has it or not, or the answers would tell. Besides, an address
//! has a bound for all names together, or it could try one password with every name.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counts kept; where there are more those that are nearest to empty are forgotten, which are
/// not those of somebody who has to wait.
const MAX_COUNTS: usize = 20_000;

/// Wrong passwords for a name from an address until it has to wait, unless said otherwise:
/// somebody who mistypes never notices.
pub const PER_MINUTE: u32 = 20;

/// As many times as many for all names of an address together.
const ALL_NAMES: f64 = 10.0;

/// And no more than these, however many a name may have: a look at a password takes a tenth of a
/// second, so with 200 in a minute one address has a third of a processor and leaves room among
/// the logins that wait for one.
const MOST_FOR_ALL_NAMES: f64 = 200.0;

/// What is counted: wrong logins of an address, for one name (its hash under a key of this
/// process, so that a count has one size) or for all.
type Counted = (IpAddr, Option<u64>);

/// Wrong logins.
#[derive(Debug)]
pub(super) struct Failures {
    /// How many a name may have in a minute; 0 for any number.
    per_minute: u32,
    names: RandomState,
    counts: Mutex<HashMap<Counted, Bucket>>,
}

/// Runs full with wrong logins and empties with time.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: f64,
    /// What it holds, which is what it loses in a minute.
    all: f64,
    at: Instant,
}

impl Failures {
    pub(super) fn new(per_minute: u32) -> Failures {
        Failures {
            per_minute,
            names: RandomState::new(),
            counts: Mutex::default(),
        }
    }

    /// What a login of `user` counts for, and how many of these are a bucket full.
    fn counted(&self, address: IpAddr, user: &str) -> [(Counted, f64); 2] {
        let all = f64::from(self.per_minute);
        let address = group(address);
        [
            ((address, Some(self.names.hash_one(user))), all),
            ((address, None), (all * ALL_NAMES).min(MOST_FOR_ALL_NAMES)),
        ]
    }

    /// How long this address has to wait before it may try to be `user` again; `None` when it
    /// may.
    pub(super) fn wait(&self, address: IpAddr, user: &str, now: Instant) -> Option<Duration> {
        let counts = self.counts();
        let waits = self.counted(address, user).map(|(counted, all)| {
            let level = counts.get(&counted)?.level_at(now);
            let above = level - (all - 1.0);
            (above > 0.0).then(|| Duration::from_secs_f64((above * 60.0 / all).max(1.0)))
        });
        waits.into_iter().flatten().max()
    }

    /// Notes a wrong login.
    pub(super) fn note(&self, address: IpAddr, user: &str, now: Instant) {
        if self.per_minute == 0 {
            return;
        }
        let mut counts = self.counts();
        for (counted, all) in self.counted(address, user) {
            if counts.len() >= MAX_COUNTS && !counts.contains_key(&counted) {
                forget_some(&mut counts, now);
            }
            let bucket = counts.entry(counted).or_insert(Bucket {
                level: 0.0,
                all,
                at: now,
            });
            *bucket = Bucket {
                level: (bucket.level_at(now) + 1.0).min(all),
                all,
                at: now,
            };
        }
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, HashMap<Counted, Bucket>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes room: what is empty goes, and else the half that is nearest to it.
fn forget_some(counts: &mut HashMap<Counted, Bucket>, now: Instant) {
    counts.retain(|_, bucket| bucket.level_at(now) > 0.0);
    if counts.len() < MAX_COUNTS {
        return;
    }
    let mut all: Vec<(Counted, Bucket)> = counts.drain().collect();
    all.select_nth_unstable_by(MAX_COUNTS / 2, |(_, a), (_, b)| {
        b.share_at(now).total_cmp(&a.share_at(now))
    });
    all.truncate(MAX_COUNTS / 2);
    counts.extend(all);
}

impl Bucket {
    fn level_at(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.level - passed * self.all / 60.0).max(0.0)
    }

    /// How full it is, 1 for to the brim.
    fn share_at(&self, now: Instant) -> f64 {
        self.level_at(now) / self.all
    }
}

/// Who has one IPv6 address has 2^64 of them.
pub(super) fn group(address: IpAddr) -> IpAddr {
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
    fn a_name_at_an_address_waits_after_too_many_and_others_do_not() {
        let failures = Failures::new(3);
        let start = Instant::now();
        let [one, same, other]: [IpAddr; 3] =
            ["fd00::1", "fd00::2", "fd00:0:0:1::1"].map(|a| a.parse().unwrap());
        for _ in 0..2 {
            failures.note(one, "alice", start);
            assert_eq!(failures.wait(one, "alice", start), None);
        }
        failures.note(same, "alice", start);
        let wait = failures.wait(one, "alice", start).unwrap();
        assert!(wait <= Duration::from_secs(21), "{wait:?}");
        assert!(failures.wait(other, "alice", start).is_none());
        // nobody else behind that address is held up
        assert!(failures.wait(one, "bob", start).is_none());
        let soon = start + Duration::from_secs(22);
        assert!(failures.wait(one, "alice", soon).is_none());
        // a minute later all is forgotten
        let later = start + Duration::from_secs(61);
        failures.note(one, "alice", later);
        assert!(failures.wait(one, "alice", later).is_none());
    }

    #[test]
    fn one_password_with_every_name_has_an_end() {
        let (now, address) = (Instant::now(), IpAddr::from([10, 0, 0, 1]));
        for (per_minute, want) in [(3, 30), (20, 200), (1000, 200)] {
            let failures = Failures::new(per_minute);
            let tried = (0..1000).take_while(|n| {
                let name = format!("user-{n}");
                let may = failures.wait(address, &name, now).is_none();
                failures.note(address, &name, now);
                may
            });
            assert_eq!(tried.count(), want, "{per_minute}");
        }
    }

    #[test]
    fn memory_is_bounded_and_who_has_to_wait_is_not_forgotten() {
        let failures = Failures::new(2);
        let now = Instant::now();
        let attacker = IpAddr::from([192, 0, 2, 1]);
        for _ in 0..2 {
            failures.note(attacker, "alice", now);
        }
        for n in 0..=MAX_COUNTS as u32 {
            failures.note(IpAddr::from((n + 1).to_be_bytes()), "eve", now);
        }
        assert!(failures.counts().len() <= MAX_COUNTS);
        assert!(failures.wait(attacker, "alice", now).is_some());
        let open = Failures::new(0);
        let address = IpAddr::from([127, 0, 0, 1]);
        open.note(address, "alice", now);
        assert!(open.wait(address, "alice", now).is_none());
    }
}

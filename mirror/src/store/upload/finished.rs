//! Uploads that ended well, remembered for a while: a client whose answer was lost asks again,
//! perhaps before the first request has given the blob its name.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;

/// For how long: clients that try again do so within a minute or two.
const REMEMBERED_FOR: Duration = Duration::from_secs(10 * 60);

/// How many at most, the newest: 300 bytes each. Who finishes more in ten minutes and loses the
/// answer of an older one sends that blob again.
const REMEMBERED: usize = 10_000;

/// What an upload became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Became {
    pub(super) repository: RepositoryName,
    pub(super) digest: Digest,
    pub(super) size: u64,
}

/// Finished uploads by their ids.
#[derive(Debug, Default)]
pub(super) struct Finished(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_id: HashMap<String, Became>,
    /// The oldest first.
    order: VecDeque<(Instant, String)>,
}

impl Finished {
    pub(super) fn note(&self, id: &str, became: Became, now: Instant) {
        let mut kept = self.kept(now);
        kept.by_id.insert(id.to_owned(), became);
        kept.order.push_back((now, id.to_owned()));
        if kept.order.len() > REMEMBERED {
            kept.forget_oldest();
        }
    }

    pub(super) fn of(&self, id: &str, now: Instant) -> Option<Became> {
        self.kept(now).by_id.get(id).cloned()
    }

    fn kept(&self, now: Instant) -> MutexGuard<'_, Kept> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = |at: &Instant| now.saturating_duration_since(*at) >= REMEMBERED_FOR;
        while kept.order.front().is_some_and(|(at, _)| old(at)) {
            kept.forget_oldest();
        }
        kept
    }
}

impl Kept {
    fn forget_oldest(&mut self) {
        if let Some((_, id)) = self.order.pop_front() {
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_there_is_room_for_and_for_ten_minutes() {
        let finished = Finished::default();
        let became = Became {
            repository: "a".parse().unwrap(),
            digest: Digest::sha256("x"),
            size: 1,
        };
        let start = Instant::now();
        for n in 0..=REMEMBERED {
            finished.note(&n.to_string(), became.clone(), start);
        }
        assert_eq!(finished.of("0", start), None);
        assert_eq!(finished.of("1", start), Some(became.clone()));
        let later = start + REMEMBERED_FOR;
        finished.note("new", became.clone(), later);
        assert_eq!(finished.of("1", later), None);
        assert_eq!(finished.of("new", later), Some(became));
        assert_eq!(finished.kept(later).order.len(), 1);
    }
}

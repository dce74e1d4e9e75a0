//! Who collects: one replica at a time, as the log says. That only saves work; nothing is lost
//! where two do.

use std::convert::Infallible;
use std::time::Duration;

use kubepkg_core::store::{Cause, StoreError};
use kubepkg_core::time::Time;

use super::BucketStore;
use super::log::Appended;
use super::state::{APART, Collector};
use crate::store::{Collected, Collecting};
use crate::told::told;

/// For how many seconds nobody else begins, unless that is renewed: so long a mirror that was
/// killed holds up collection.
pub(super) const ALONE: i64 = 3 * 60;

/// What is said about a collection.
#[derive(Clone, Copy)]
enum Claiming {
    Begin,
    Renew,
    End { gave_up: bool },
}

impl BucketStore {
    /// When this store was collected last; `None` where nobody knows.
    pub fn last_collected(&self) -> Option<Time> {
        self.log.known().collected
    }

    /// Collects: takes what an earlier collection condemned and nobody wanted since, and
    /// condemns what nothing reaches now. `None` while another replica does.
    pub async fn collect(&self, collecting: Collecting) -> Result<Option<Collected>, StoreError> {
        if collecting.dry_run {
            return self.collect_now(&collecting).await.map(Some);
        }
        let by = super::log::random(&self.bucket)?;
        if !self.claim(&by, Claiming::Begin).await? {
            return Ok(None);
        }
        let collected = tokio::select! {
            collected = self.collect_now(&collecting) => collected,
            never = self.go_on_claiming(&by) => match never {},
        };
        // also where it failed, so that another replica can try
        let gave_up = collected.is_err();
        let ended = self.claim(&by, Claiming::End { gave_up }).await;
        let collected = collected?;
        ended?;
        Ok(Some(collected))
    }

    /// Says again and again that this one collects, as long as others believe it.
    async fn go_on_claiming(&self, by: &str) -> Infallible {
        loop {
            tokio::time::sleep(self.limits.renewed).await;
            match self.claim(by, Claiming::Renew).await {
                Ok(true) => {}
                // two at once only do the same work twice
                Ok(false) => return std::future::pending().await,
                Err(error) => {
                    tracing::warn!(error = %told(&error), "that this mirror collects is said later");
                }
            }
        }
    }

    /// Says who collects; `false` when another replica does.
    async fn claim(&self, by: &str, claiming: Claiming) -> Result<bool, StoreError> {
        let mut state = self.log.read_on(Duration::ZERO).await?;
        for _ in 0..super::TRIES {
            let now = Time::now();
            let other = state.collector.as_ref();
            let free = match claiming {
                Claiming::Begin => other.is_none_or(|other| is_over(other.until, now)),
                Claiming::Renew | Claiming::End { .. } => other.is_some_and(|other| other.by == by),
            };
            if !free {
                return Ok(false);
            }
            let (seconds, gave_up) = match claiming {
                Claiming::Begin | Claiming::Renew => (ALONE, false),
                Claiming::End { gave_up } => (0, gave_up),
            };
            let mut entry = self.log.empty(&state, Cause::Collect, now)?;
            entry.collector = Some(Collector {
                by: by.to_owned(),
                until: now.plus(seconds),
                gave_up,
            });
            match self.log.append(&state, entry).await? {
                Appended::Done(_) => return Ok(true),
                Appended::Conflict(newer) => state = newer,
            }
        }
        Err(self.crowded())
    }
}

/// Whether a claim counts no more. Nobody whose clock is right claims further ahead.
fn is_over(until: Time, now: Time) -> bool {
    until <= now || until > now.plus(ALONE + APART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_of_a_clock_far_ahead_holds_nobody_up() {
        let now = Time::from_unix(1_796_000_000);
        assert!(!is_over(now.plus(1), now));
        assert!(!is_over(now.plus(ALONE + APART), now));
        assert!(is_over(now.plus(ALONE + APART + 1), now));
        assert!(is_over(now, now));
    }
}

//! What is known of the newest try to read on in the log: when it began, and why it failed. One
//! failure is told to all who wait for it, and to those who ask within a moment after it, so
//! that a bucket that is away costs each request little and the bucket nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kubepkg_core::error::Classify as _;
use kubepkg_core::store::StoreError;

/// For how long a failure counts for those who come after it.
const TOLD: Duration = Duration::from_secs(1);

/// For how long a request waits for names. An entry of a large import may take longer over a
/// slow line; reading it goes on, and who was sent away finds it when they come again. Clients
/// wait for a minute.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of reading on.
#[derive(Debug)]
pub(super) struct Outage {
    /// For how long a request waits.
    pub(super) patience: Duration,
    tries: Mutex<Tries>,
}

impl Default for Outage {
    fn default() -> Outage {
        Outage {
            patience: PATIENCE,
            tries: Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Tries {
    /// Since when somebody tries.
    under_way: Option<Instant>,
    /// When the newest one that ended failed, and why; `None` where it did not.
    failed: Option<(Instant, StoreError)>,
}

/// A try to read on. One that is given up tells nothing.
pub(super) struct Try<'o>(&'o Outage);

impl Drop for Try<'_> {
    fn drop(&mut self) {
        self.0.tries().under_way = None;
    }
}

impl Try<'_> {
    /// It ended.
    pub(super) fn ended<T>(self, read: &Result<T, StoreError>) {
        let failed = read.as_ref().err().map(again);
        self.0.tries().failed = failed.map(|error| (Instant::now(), error));
    }
}

impl Outage {
    /// Somebody begins to read on; nobody else does.
    pub(super) fn begin(&self) -> Try<'_> {
        self.tries().under_way = Some(Instant::now());
        Try(self)
    }

    /// The failure of a try that ended after `came`.
    pub(super) fn since(&self, came: Instant) -> Result<(), StoreError> {
        match &self.tries().failed {
            Some((at, error)) if *at >= came => Err(again(error)),
            _ => Ok(()),
        }
    }

    /// Whether there is any use in waiting at the time `now`: the error is that of a try that
    /// failed a moment ago, or says that one takes too long already.
    pub(super) fn is_worth_waiting(&self, now: Instant, place: &str) -> Result<(), StoreError> {
        let tries = self.tries();
        if let Some((at, error)) = &tries.failed
            && now.saturating_duration_since(*at) < TOLD
        {
            return Err(again(error));
        }
        match tries.under_way {
            Some(since) if self.is_too_long(since, now) => Err(self.overdue(place)),
            _ => Ok(()),
        }
    }

    /// Whether the newest try that ended failed, or one takes too long.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        let tries = self.tries();
        let too_long = |since| self.is_too_long(since, now);
        tries.failed.is_some() || tries.under_way.is_some_and(too_long)
    }

    fn is_too_long(&self, since: Instant, now: Instant) -> bool {
        now.saturating_duration_since(since) >= self.patience
    }

    /// Whether it is time for another try.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let tries = self.tries();
        let told = |at: &Instant| now.saturating_duration_since(*at) < TOLD;
        tries.under_way.is_none() && !tries.failed.as_ref().is_some_and(|(at, _)| told(at))
    }

    fn tries(&self) -> MutexGuard<'_, Tries> {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bucket does not answer in time.
    pub(super) fn overdue(&self, place: &str) -> StoreError {
        StoreError::Bucket {
            action: "read",
            place: place.to_owned(),
            hint: Some("is the server of AWS_ENDPOINT_URL well, and the line to it?"),
            source: format!("it has not answered for {} s", self.patience.as_secs()).into(),
        }
    }
}

/// The same error for somebody else.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Damaged { path, why } => StoreError::Damaged {
            path: path.clone(),
            why: why.clone(),
        },
        StoreError::Bucket {
            action,
            place,
            hint,
            source,
        } => StoreError::Bucket {
            action,
            place: place.clone(),
            hint: *hint,
            source: source.to_string().into(),
        },
        other => StoreError::Bucket {
            action: "read",
            place: other.place().unwrap_or_default(),
            hint: None,
            source: crate::told::told(other).to_string().into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> StoreError {
        StoreError::Bucket {
            action: "read",
            place: "s3://x".to_owned(),
            hint: None,
            source: "nobody is there".into(),
        }
    }

    #[test]
    fn a_failure_is_told_to_who_waited_and_for_a_moment_after() {
        let outage = Outage::default();
        let came = Instant::now();
        outage.begin().ended::<()>(&Err(failure()));
        let told = outage.since(came).unwrap_err();
        assert!(
            crate::told::told(&told).to_string().contains("nobody"),
            "{told}"
        );
        let now = Instant::now();
        assert!(outage.since(now + TOLD).is_ok());
        assert!(outage.is_worth_waiting(now, "s3://x").is_err() && !outage.is_due(now));
        let later = now + TOLD;
        assert!(outage.is_worth_waiting(later, "s3://x").is_ok());
        assert!(outage.is_on(later) && outage.is_due(later));
        outage.begin().ended(&Ok(()));
        assert!(!outage.is_on(now) && outage.is_worth_waiting(now, "s3://x").is_ok());
    }

    #[test]
    fn who_comes_when_a_try_takes_too_long_does_not_wait_for_it() {
        let outage = Outage::default();
        let under_way = outage.begin();
        let now = Instant::now();
        assert!(outage.is_worth_waiting(now, "s3://x").is_ok() && !outage.is_on(now));
        let later = now + PATIENCE;
        let error = outage.is_worth_waiting(later, "s3://x").unwrap_err();
        assert!(matches!(error, StoreError::Bucket { .. }));
        assert!(outage.is_on(later) && !outage.is_due(later));
        drop(under_way);
        assert!(outage.is_worth_waiting(later, "s3://x").is_ok());
    }
}

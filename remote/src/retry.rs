//! When a request is tried again, and after which pause: one policy for all requests.
//!
//! How often one thing is tried is counted for itself ([`Tries`]). How long is waited before
//! is a matter of the host: everybody who talks to a host in trouble waits together, and the
//! longer the trouble lasts the longer they wait (see `hosts`).

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use kubepkg_core::time::Time;

/// The policy. The defaults give up after about four seconds of pauses, unless the other
/// side asks for longer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often one thing is tried in all. A download that got on by at least a mebibyte
    /// starts to count anew.
    pub tries: u32,
    /// The first pause; each following one is twice as long.
    pub first: Duration,
    /// The longest pause of our own choice.
    pub cap: Duration,
    /// The longest pause that is made because the other side asks for it (`Retry-After`).
    /// Registries that count pulls ask for minutes; hours are better spent by the user.
    pub patience: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            tries: 5,
            first: Duration::from_millis(250),
            cap: Duration::from_secs(20),
            patience: Duration::from_secs(600),
        }
    }
}

/// Whether a status says that the same request may succeed later.
pub(crate) fn is_transient(status: u16) -> bool {
    // 501 and 505 say "never"; everything else above 500 is somebody's bad moment.
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504 | 506..)
}

/// How often one thing was tried.
#[derive(Clone, Debug)]
pub(crate) struct Tries {
    most: u32,
    failed: u32,
    /// Refusals of a busy host that were not counted.
    waited: u32,
    /// How many good answers the host had given at the last refusal.
    answers: u64,
}

/// Most refusals of a busy host that are not counted against one thing.
const MOST_WAITED: u32 = 60;

impl Tries {
    pub(crate) fn new(policy: Retry) -> Tries {
        Tries {
            most: policy.tries,
            failed: 0,
            waited: 0,
            answers: 0,
        }
    }

    /// One try only: there is somebody else to ask.
    pub(crate) fn once() -> Tries {
        Tries::new(Retry {
            tries: 1,
            ..Retry::default()
        })
    }

    /// Takes note of a refusal by a host that has too much to do, and had given `answers` good
    /// answers by then. While it goes on answering others the queue moves, and our turn comes:
    /// that is no failure. Whether there is another try.
    pub(crate) fn again_when_busy(&mut self, answers: u64) -> bool {
        if self.most > 1 && answers > self.answers && self.waited < MOST_WAITED {
            self.answers = answers;
            self.waited += 1;
            return true;
        }
        self.again()
    }

    /// Takes note of one more failure. Whether there is another try.
    pub(crate) fn again(&mut self) -> bool {
        self.failed += 1;
        self.failed < self.most
    }

    /// Something worth while was achieved since the last failure.
    pub(crate) fn start_anew(&mut self) {
        self.failed = 0;
    }
}

impl Retry {
    /// The pause after so many failures in a row: doubling with a cap. The upper half is left
    /// to chance, so that many clients do not come back in the same moment.
    pub(crate) fn backoff(&self, failures: u32) -> Duration {
        let doubled = 1u32
            .checked_shl(failures.saturating_sub(1))
            .and_then(|factor| self.first.checked_mul(factor))
            .map_or(self.cap, |pause| pause.min(self.cap));
        let chance = RandomState::new().hash_one(failures) % 1024;
        let half = doubled / 2;
        half + half * u32::try_from(chance).unwrap_or(0) / 1024
    }
}

/// The pause a `Retry-After` header asks for: seconds, or a date (RFC 9110, section 10.2.3).
pub(crate) fn retry_after(value: &str, now: Time) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?;
    let seconds = date.timestamp().as_second().saturating_sub(now.unix());
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_stop_at_the_cap() {
        let policy = Retry::default();
        for n in 1..40u32 {
            let full = (policy.first * 2u32.pow((n - 1).min(10))).min(policy.cap);
            let pause = policy.backoff(n);
            assert!(pause >= full / 2 && pause <= full, "{n}: {pause:?}");
        }
    }

    #[test]
    fn a_thing_is_tried_so_often_and_anew_after_progress() {
        let mut tries = Tries::new(Retry {
            tries: 3,
            ..Retry::default()
        });
        assert!(tries.again() && tries.again() && !tries.again());
        tries.start_anew();
        assert!(tries.again());
    }

    #[test]
    fn both_forms_of_retry_after() {
        let now: Time = "1994-11-06T08:49:00Z".parse().unwrap();
        for (text, want) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(37)),
            ("Sun, 06 Nov 1994 08:48:00 GMT", Some(0)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("soon", None),
            ("-5", None),
            ("", None),
        ] {
            assert_eq!(
                retry_after(text, now),
                want.map(Duration::from_secs),
                "{text}"
            );
        }
    }

    #[test]
    fn which_statuses_are_worth_another_try() {
        for status in [408, 429, 500, 502, 503, 504, 520] {
            assert!(is_transient(status), "{status}");
        }
        for status in [200, 206, 301, 400, 401, 403, 404, 416, 501, 505] {
            assert!(!is_transient(status), "{status}");
        }
    }
}

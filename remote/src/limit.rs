//! What a registry says of its limits: in `Retry-After`, and in the headers by which Docker
//! Hub, GitHub and others tell how many requests are allowed and when the count begins anew.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, header};
use kubepkg_core::time::Time;

use crate::retry::retry_after;

/// Larger numbers are moments of a clock, not seconds from now.
const A_YEAR: u64 = 366 * 86_400;

/// What is known of a limit that was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Requests that are allowed in [`Limit::window`].
    pub requests: Option<u64>,
    /// The time they are counted over.
    pub window: Option<Duration>,
    /// How long to wait.
    pub wait: Option<Duration>,
    /// When that is over.
    pub until: Option<Time>,
}

impl Limit {
    /// Reads the headers of an answer that came at `now`. `refused` says that it is the limit
    /// that was reached: some servers tell with every answer when their count begins anew.
    pub(crate) fn read(headers: &HeaderMap, now: Time, refused: bool) -> Limit {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let first = |names: &[&str]| names.iter().find_map(|name| text(name));
        let (mut requests, mut window) = (None, None);
        // Docker Hub: `100;w=21600`
        if let Some(value) = first(&["ratelimit-limit", "x-ratelimit-limit"]) {
            let mut parts = value.split([';', ',']);
            requests = parts.next().and_then(number);
            window = parts
                .find_map(|part| part.trim().strip_prefix("w=").and_then(number))
                .map(Duration::from_secs);
        }
        let asked = text(header::RETRY_AFTER.as_str()).and_then(|value| retry_after(value, now));
        let remaining = first(&["ratelimit-remaining", "x-ratelimit-remaining"]);
        let remaining = remaining.and_then(|value| number(value.split([';', ',']).next()?));
        let reset = first(&["ratelimit-reset", "x-ratelimit-reset"]).and_then(number);
        let reset = reset.filter(|_| refused || remaining == Some(0));
        let reset = reset.map(|seconds| match seconds > A_YEAR {
            true => seconds.saturating_sub(u64::try_from(now.unix()).unwrap_or(0)),
            false => seconds,
        });
        let wait = asked.or(reset.map(Duration::from_secs));
        let until = wait
            .and_then(|wait| i64::try_from(wait.as_secs()).ok())
            .filter(|seconds| u64::try_from(*seconds).is_ok_and(|s| s < A_YEAR))
            .map(|seconds| now.plus(seconds));
        Limit {
            requests,
            window,
            wait,
            until,
        }
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// `: 100 requests in 6 h are allowed; it asks to wait 1 h 5 min, until …`
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.requests, self.window) {
            (Some(requests), Some(window)) => {
                write!(f, ": {requests} requests in {} are allowed", Span(window))?;
            }
            (Some(requests), None) => write!(f, ": {requests} requests are allowed")?,
            (None, _) => {}
        }
        if let Some(wait) = self.wait {
            write!(f, "; it asks to wait {}", Span(wait))?;
        }
        match self.until {
            Some(until) => write!(f, ", until {until}"),
            None => Ok(()),
        }
    }
}

/// A time as people say it.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, s) => write!(f, "{s} s"),
            (0, m, 0) => write!(f, "{m} min"),
            (0, m, s) => write!(f, "{m} min {s} s"),
            (h, 0, _) => write!(f, "{h} h"),
            (h, m, _) => write!(f, "{h} h {m} min"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&'static str, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.insert(*name, value.parse().unwrap());
        }
        Limit::read(&headers, "2026-11-30T12:00:00Z".parse().unwrap(), true).to_string()
    }

    #[test]
    fn a_count_that_is_told_with_every_answer_is_no_pause() {
        let mut headers = HeaderMap::new();
        headers.insert("x-ratelimit-reset", "3000".parse().unwrap());
        headers.insert("x-ratelimit-remaining", "17".parse().unwrap());
        let now = "2026-11-30T12:00:00Z".parse().unwrap();
        assert_eq!(Limit::read(&headers, now, false).wait, None);
        headers.insert("x-ratelimit-remaining", "0".parse().unwrap());
        assert!(Limit::read(&headers, now, false).wait.is_some());
    }

    #[test]
    fn what_registries_say_of_their_limits() {
        for (lines, want) in [
            (
                &[
                    ("ratelimit-limit", "100;w=21600"),
                    ("ratelimit-remaining", "0;w=21600"),
                    ("retry-after", "3900"),
                ][..],
                ": 100 requests in 6 h are allowed; it asks to wait 1 h 5 min, until \
                 2026-11-30T13:05:00Z",
            ),
            (
                &[
                    ("x-ratelimit-limit", "5000"),
                    ("x-ratelimit-reset", "1796040060"),
                ],
                ": 5000 requests are allowed; it asks to wait 1 min, until 2026-11-30T12:01:00Z",
            ),
            (
                &[("retry-after", "Mon, 30 Nov 2026 12:00:09 GMT")],
                "; it asks to wait 9 s, until 2026-11-30T12:00:09Z",
            ),
            (&[("ratelimit-limit", "many")], ""),
            (&[], ""),
        ] {
            assert_eq!(read(lines), want);
        }
    }
}

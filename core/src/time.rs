//! Points in time as the formats write them: RFC 3339, whole seconds, UTC.

use std::fmt;
use std::str::FromStr;

/// A point in time with a resolution of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// A text is not RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no time: write it like 2026-11-30T12:00:00Z")]
pub struct ParseTimeError(String);

impl Time {
    /// The clock of this machine. Read it once per run and pass it on.
    pub fn now() -> Time {
        Time(jiff::Timestamp::now().as_second())
    }

    /// From seconds since 1970-01-01T00:00:00Z.
    pub fn from_unix(seconds: i64) -> Time {
        Time(seconds)
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    pub fn unix(self) -> i64 {
        self.0
    }

    /// This time moved by `seconds`.
    #[must_use]
    pub fn plus(self, seconds: i64) -> Time {
        Time(self.0.saturating_add(seconds))
    }

    /// Seconds from `earlier` to this time; negative when it is later.
    pub fn since(self, earlier: Time) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl FromStr for Time {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        // jiff also reads a time without a zone offset's colon and a space for the T; Go does
        // not, and a signed index must mean the same to both.
        let bytes = text.as_bytes();
        let strict = bytes.len() >= 20
            && bytes[10] == b'T'
            && (bytes[bytes.len() - 1] == b'Z' || bytes[bytes.len() - 3] == b':');
        match text.parse::<jiff::Timestamp>() {
            Ok(time) if strict => Ok(Time(time.as_second())),
            _ => Err(ParseTimeError(text.chars().take(64).collect())),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_second(self.0) {
            Ok(time) => write!(f, "{time}"),
            Err(_) => write!(f, "{}s", self.0),
        }
    }
}

crate::serde_by_text!(Time);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_rfc3339() {
        let time: Time = "2026-11-30T12:00:00Z".parse().unwrap();
        assert_eq!(time.to_string(), "2026-11-30T12:00:00Z");
        assert_eq!("2026-11-30T13:00:00+01:00".parse::<Time>().unwrap(), time);
        for bad in ["", "2026-11-30", "2026-11-30 12:00:00Z", "tomorrow"] {
            assert!(bad.parse::<Time>().is_err(), "{bad}");
        }
    }
}

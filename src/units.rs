//! Sizes, times and durations as people read and write them.

use std::time::Duration;

use kubepkg_core::time::Time;
pub use kubepkg_core::units::{count, size};

/// A span of time, coarse: `45 s`, `3 min 20 s`, `2 h 5 min`.
pub fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A point in time for people: local, with its zone.
pub fn local_time(time: Time) -> String {
    match jiff::Timestamp::from_second(time.unix()) {
        Ok(stamp) => stamp
            .to_zoned(jiff::tz::TimeZone::system())
            .strftime("%Y-%m-%d %H:%M:%S %Z")
            .to_string(),
        Err(_) => time.to_string(),
    }
}

/// A duration as given to a flag: numbers with `d`, `h`, `m` or `s`, e.g. `90d` or `1h30m`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("\"{text}\" is no duration: write it like 90d, 12h or 1h30m");
    let mut seconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit = match rest.as_bytes()[digits] {
            b'd' => 86_400,
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return Err(wrong()),
        };
        let part = number.checked_mul(unit).ok_or_else(wrong)?;
        seconds = seconds.checked_add(part).ok_or_else(wrong)?;
        rest = &rest[digits + 1..];
    }
    // a thousand years, so that adding it to a time stays within what RFC 3339 can write
    if seconds == 0 || seconds > 365_000 * 86_400 {
        return Err(wrong());
    }
    Ok(Duration::from_secs(seconds))
}

/// A duration as given to a flag that may be zero, `0` or `0s`.
pub fn parse_duration_or_zero(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        _ => parse_duration(text),
    }
}

/// A size as given to a flag: a number of bytes, or one with `KiB`, `MiB`, `GiB` or `TiB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no size: write it like 500KiB, 20MiB or 1GiB");
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let factor: u64 = match text[digits..].trim_start() {
        "" | "B" => 1,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        "TiB" | "T" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, want) in [
            ("0", 0),
            ("512", 512),
            ("20MiB", 20 << 20),
            ("1 GiB", 1 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(want));
        }
        for text in ["", "MiB", "1MB", "-1", "1.5MiB", "99999999999TiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_are_short() {
        assert_eq!(span(Duration::from_secs(5)), "5 s");
        assert_eq!(span(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(span(Duration::from_secs(7500)), "2 h 5 min");
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration_or_zero("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration_or_zero("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_duration_or_zero("1s"), Ok(Duration::from_secs(1)));
        for bad in [
            "",
            "90",
            "d",
            "1x",
            "0d",
            "-1d",
            "1.5h",
            "99999999999999999999d",
            "é",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}

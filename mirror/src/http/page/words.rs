//! Numbers and times as people read them.

use kubepkg_core::time::Time;
pub(super) use kubepkg_core::units::size;

/// A number with its thousands apart.
pub(super) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// `1 thing` or `n things`.
pub(super) fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(n), if n == 1 { one } else { many })
}

/// A time without its seconds.
pub(super) fn minute(time: Time) -> String {
    let text = time.to_string();
    match (text.get(..10), text.get(11..16)) {
        (Some(day), Some(minute)) => format!("{day} {minute} UTC"),
        _ => text,
    }
}

/// How far `time` is from `now`: `in 12 days`, `3 hours ago`.
pub(super) fn distance(time: Time, now: Time) -> String {
    let seconds = time.since(now);
    let (n, one, many) = match seconds.unsigned_abs() {
        0..60 => {
            return if seconds > 0 {
                "in a moment"
            } else {
                "just now"
            }
            .to_owned();
        }
        s @ 60..3600 => (s / 60, "minute", "minutes"),
        s @ 3600..172_800 => (s / 3600, "hour", "hours"),
        s => (s / 86_400, "day", "days"),
    };
    let span = count(n, one, many);
    match seconds > 0 {
        true => format!("in {span}"),
        false => format!("{span} ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_well() {
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((number(0), number(999)), ("0".to_owned(), "999".to_owned()));
        let now: Time = "2026-11-30T12:00:00Z".parse().unwrap();
        assert_eq!(minute(now), "2026-11-30 12:00 UTC");
        for (seconds, text) in [
            (0, "just now"),
            (30, "in a moment"),
            (-60, "1 minute ago"),
            (7200, "in 2 hours"),
            (-86_400 * 12, "12 days ago"),
        ] {
            assert_eq!(distance(now.plus(seconds), now), text);
        }
        assert!(minute(Time::from_unix(i64::MAX)).len() > 4);
    }
}

//! The `Range` header: which bytes of something are wanted (RFC 9110, section 14).

use http::HeaderMap;
use http::header::RANGE;

/// Most ranges answered in one response. Partial pulls of zstd:chunked and eStargz layers ask
/// for up to 1 024 at once; above that the whole is sent, which every client accepts.
pub const MAX_RANGES: usize = 1024;

/// First and last byte, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub first: u64,
    /// Last byte, at or after the first.
    pub last: u64,
}

impl Span {
    /// Number of bytes, at least 1.
    pub fn len(self) -> u64 {
        self.last - self.first + 1
    }
}

/// What a `Range` header comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Everything: no range, or one that is better ignored.
    Whole,
    /// These parts, in the order asked for; they do not overlap.
    Parts(Vec<Span>),
    /// Only what is not there: 416.
    Nothing,
}

/// Reads the header for something of `len` bytes.
pub fn wanted(headers: &HeaderMap, len: u64) -> Wanted {
    let mut lines = headers.get_all(RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return Wanted::Whole;
    };
    line.to_str().map_or(Wanted::Whole, |text| parse(text, len))
}

fn parse(text: &str, len: u64) -> Wanted {
    let Some((unit, specs)) = text.split_once('=') else {
        return Wanted::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::Whole;
    }
    let mut spans = Vec::new();
    let mut count = 0;
    for spec in specs.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        count += 1;
        match one(spec, len) {
            _ if count > MAX_RANGES => return Wanted::Whole,
            Spec::Illegal => return Wanted::Whole,
            Spec::Outside => {}
            Spec::Inside(span) => spans.push(span),
        }
    }
    match (count, spans.is_empty()) {
        (0, _) => Wanted::Whole,
        (_, true) => Wanted::Nothing,
        // sending bytes twice would let a short request cause any amount of work
        _ if overlap(&spans) => Wanted::Whole,
        _ => Wanted::Parts(spans),
    }
}

enum Spec {
    Illegal,
    Outside,
    Inside(Span),
}

fn one(spec: &str, len: u64) -> Spec {
    let Some((first, last)) = spec.split_once('-') else {
        return Spec::Illegal;
    };
    let number = |text: &str| match text {
        _ if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) => None,
        // more digits than fit lie beyond every end
        _ => Some(text.parse().unwrap_or(u64::MAX)),
    };
    let span = match (first, last) {
        ("", suffix) => match number(suffix) {
            None => return Spec::Illegal,
            Some(0) => return Spec::Outside,
            Some(count) => Span {
                first: len.saturating_sub(count),
                last: len.saturating_sub(1),
            },
        },
        (first, "") => match number(first) {
            None => return Spec::Illegal,
            Some(first) => Span {
                first,
                last: len.saturating_sub(1),
            },
        },
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) => Span {
                first,
                last: last.min(len.saturating_sub(1)),
            },
            _ => return Spec::Illegal,
        },
    };
    if span.first >= len || span.last < span.first {
        return Spec::Outside;
    }
    Spec::Inside(span)
}

fn overlap(spans: &[Span]) -> bool {
    let mut sorted = spans.to_vec();
    sorted.sort_by_key(|span| span.first);
    sorted.windows(2).any(|pair| pair[0].last >= pair[1].first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(spans: &[(u64, u64)]) -> Wanted {
        Wanted::Parts(
            spans
                .iter()
                .map(|&(first, last)| Span { first, last })
                .collect(),
        )
    }

    #[test]
    fn single_ranges() {
        for (text, want) in [
            ("bytes=500-1499", parts(&[(500, 1499)])),
            ("bytes=500-", parts(&[(500, 2047)])),
            ("bytes=-500", parts(&[(1548, 2047)])),
            ("bytes=-5000", parts(&[(0, 2047)])),
            ("bytes=2000-5000", parts(&[(2000, 2047)])),
            ("bytes=0-", parts(&[(0, 2047)])),
            ("Bytes = 0-0", parts(&[(0, 0)])),
            ("bytes=0-99999999999999999999999999", parts(&[(0, 2047)])),
            ("bytes=500-0", Wanted::Nothing),
            ("bytes=5000-10000", Wanted::Nothing),
            ("bytes=2048-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=99999999999999999999999999-", Wanted::Nothing),
            ("lines=1-2", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes", Wanted::Whole),
        ] {
            assert_eq!(parse(text, 2048), want, "{text}");
        }
    }

    #[test]
    fn many_ranges_keep_their_order_and_lose_what_is_outside() {
        for (text, want) in [
            ("bytes=0-99,200-299", parts(&[(0, 99), (200, 299)])),
            ("bytes=200-299, 0-99", parts(&[(200, 299), (0, 99)])),
            ("bytes=0-99,5000-6000", parts(&[(0, 99)])),
            ("bytes=0-99,,200-", parts(&[(0, 99), (200, 2047)])),
            ("bytes=5000-,6000-", Wanted::Nothing),
            ("bytes=0-99,50-149", Wanted::Whole),
            ("bytes=0-99,x", Wanted::Whole),
        ] {
            assert_eq!(parse(text, 2048), want, "{text}");
        }
        let many = |n: u64| {
            let specs: Vec<String> = (0..n).map(|i| format!("{}-{}", 2 * i, 2 * i)).collect();
            format!("bytes={}", specs.join(","))
        };
        assert!(matches!(parse(&many(1024), 1 << 20), Wanted::Parts(p) if p.len() == 1024));
        assert_eq!(parse(&many(1025), 1 << 20), Wanted::Whole);
    }

    #[test]
    fn nothing_of_nothing() {
        for text in ["bytes=0-", "bytes=-1", "bytes=0-0"] {
            assert_eq!(parse(text, 0), Wanted::Nothing, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parts_lie_inside_and_never_exceed_the_whole(
            text in "bytes=([0-9]{0,4}-[0-9]{0,4}){1}(,[0-9]{0,4}-[0-9]{0,4}){0,6}",
            len in 0_u64..3000,
        ) {
            if let Wanted::Parts(spans) = parse(&text, len) {
                prop_assert!(spans.iter().all(|s| s.first <= s.last && s.last < len));
                prop_assert!(spans.iter().map(|s| s.len()).sum::<u64>() <= len);
            }
        }
    }
}

//! `Content-Range` of a chunk: which bytes of the blob a request carries.

use http::HeaderMap;
use http::header::CONTENT_RANGE;

/// The bytes from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) first: u64,
    pub(super) last: u64,
}

/// A header that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

impl Chunk {
    /// The chunk a request says it is; `None` when it says nothing. The specification writes
    /// `<first>-<last>`; the form of HTTP, `bytes <first>-<last>/<all>`, is understood too.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Chunk>, Unreadable> {
        let mut values = headers.get_all(CONTENT_RANGE).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        match (value.to_str(), values.next()) {
            (Ok(text), None) => Chunk::parse(text).map(Some).ok_or(Unreadable),
            _ => Err(Unreadable),
        }
    }

    fn parse(text: &str) -> Option<Chunk> {
        let text = text.trim();
        let text = text
            .strip_prefix("bytes")
            .map_or(text, |rest| rest.trim_start_matches([' ', '=']));
        let text = text.split_once('/').map_or(text, |(range, _)| range);
        let (first, last) = text.split_once('-')?;
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse().ok())?
        };
        let chunk = Chunk {
            first: number(first)?,
            last: number(last)?,
        };
        (chunk.first <= chunk.last && chunk.last < u64::MAX).then_some(chunk)
    }

    /// Number of bytes.
    pub(super) fn len(self) -> u64 {
        self.last - self.first + 1
    }
}

/// `Range` of an answer: what was received. There is no way to write nothing; `0-0` is what
/// all registries say.
pub(super) fn received(bytes: u64) -> String {
    format!("0-{}", bytes.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_spellings_are_read_and_nothing_else() {
        let want = Some(Chunk { first: 5, last: 9 });
        for text in [
            "5-9",
            "bytes 5-9",
            "bytes 5-9/10",
            "bytes 5-9/*",
            " 5-9 ",
            "bytes=5-9",
        ] {
            assert_eq!(Chunk::parse(text), want, "{text}");
        }
        for text in [
            "",
            "5",
            "5-",
            "-9",
            "9-5",
            "a-b",
            "+5-9",
            "5--9",
            "5-9-10",
            "18446744073709551616-18446744073709551617",
            "0-18446744073709551615",
            "bytes */10",
        ] {
            assert_eq!(Chunk::parse(text), None, "{text}");
        }
    }

    #[test]
    fn nothing_received_is_written_like_one_byte() {
        assert_eq!(
            [received(0), received(1), received(2)],
            ["0-0", "0-0", "0-1"]
        );
    }

    proptest! {
        #[test]
        fn what_was_received_is_the_chunk_before_the_next(first in 0..u64::MAX / 4, len in 1..u64::MAX / 4) {
            let text = format!("{first}-{}", first + len - 1);
            let chunk = Chunk::parse(&text).unwrap();
            prop_assert_eq!((chunk.first, chunk.len()), (first, len));
            let so_far = Chunk::parse(&received(first + len)).unwrap();
            prop_assert_eq!(so_far.len(), first + len);
        }

        #[test]
        fn never_panics(text in ".{0,40}") {
            if let Some(chunk) = Chunk::parse(&text) {
                prop_assert!(chunk.len() > 0);
            }
        }
    }
}

//! The spec of a listed version: held, or decoded from the text of the index when it is asked
//! for.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::api::PackageSourceSpec;
use crate::yaml::Value;
use crate::yaml::block::{Block, raw_contains};
use crate::yaml::go::Text;
use crate::yaml::scalar::resolve;

/// A spec, shared between copies of its version.
#[derive(Clone)]
pub(super) struct LazySpec {
    spec: OnceLock<Arc<PackageSourceSpec>>,
    source: Option<Part>,
}

/// Lines of an index that hold nothing but one spec.
#[derive(Clone)]
pub(super) struct Part {
    /// The whole text.
    pub(super) text: Arc<Bytes>,
    /// Where its first line begins.
    pub(super) start: u32,
    /// Where its last line ends.
    pub(super) end: u32,
}

impl LazySpec {
    pub(super) fn of(spec: PackageSourceSpec) -> LazySpec {
        LazySpec {
            spec: Arc::new(spec).into(),
            source: None,
        }
    }

    /// The spec in a part of a text that was read and checked before.
    pub(super) fn part(part: Part) -> LazySpec {
        LazySpec {
            spec: OnceLock::new(),
            source: Some(part),
        }
    }

    pub(super) fn get(&self) -> &PackageSourceSpec {
        let decode = || {
            let spec = self.source.as_ref().and_then(Part::decode);
            // What was read once reads again, so this is never empty.
            Arc::new(spec.unwrap_or_default())
        };
        self.spec.get_or_init(decode)
    }

    /// The spec, without keeping it once it is decoded.
    pub(super) fn decoded(&self) -> Cow<'_, PackageSourceSpec> {
        match (self.spec.get(), &self.source) {
            (None, Some(part)) => Cow::Owned(part.decode().unwrap_or_default()),
            _ => Cow::Borrowed(self.get()),
        }
    }

    pub(super) fn source(&self) -> Option<&Part> {
        self.source.as_ref()
    }

    /// See [`super::IndexVersion::may_mention`].
    pub(super) fn may_mention(&self, word: &str) -> bool {
        self.source
            .as_ref()
            .is_none_or(|part| part.may_mention(word))
    }
}

impl Part {
    fn text(&self) -> Option<&str> {
        let bytes = self.text.get(self.start as usize..self.end as usize)?;
        str::from_utf8(bytes).ok()
    }

    fn decode(&self) -> Option<PackageSourceSpec> {
        let text = self.text()?;
        let node = Block::part(text, 0)
            .and_then(|mut block| block.map(0))
            .ok()?;
        Some(Text::new(text).decode(&node).ok()?.value)
    }

    fn may_mention(&self, word: &str) -> bool {
        // Text that Go made of a number or boolean stands there in another form, an escape
        // can stand for any character, and words may be folded over lines.
        let as_written = matches!(resolve(word), Value::Text(_))
            && !word.contains([' ', '\'', '\n'])
            && !matches!(word, "NaN" | "+Inf" | "-Inf");
        match self.text() {
            Some(text) if as_written => raw_contains(text, word) || raw_contains(text, "\\"),
            _ => true,
        }
    }
}

impl fmt::Debug for LazySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

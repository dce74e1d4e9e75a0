//! The JSON of a spec that its digest is over: what Go's `encoding/json` writes for the
//! struct (not RFC 8785), members in order of declaration, HTML characters escaped.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

use super::PackageSourceSpec;
use crate::Digest;

/// Writes what Go escapes beyond JSON's needs.
struct Go;

impl Formatter for Go {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let ascii = fragment.is_ascii();
        let mut rest = fragment;
        while let Some(at) = special(rest, ascii) {
            let (plain, tail) = rest.split_at(at);
            out.write_all(plain.as_bytes())?;
            let Some(c) = tail.chars().next() else { break };
            write!(out, "\\u{:04x}", u32::from(c))?;
            rest = &tail[c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

/// The first character of `text` that Go escapes beyond JSON's needs. Most texts are ASCII
/// without any, and an index has hundreds of megabytes of them.
fn special(text: &str, ascii: bool) -> Option<usize> {
    match ascii {
        true => memchr::memchr3(b'<', b'>', b'&', text.as_bytes()),
        false => text.find(['<', '>', '&', '\u{2028}', '\u{2029}']),
    }
}

/// What most specs take as JSON.
const USUAL_LEN: usize = 2048;

/// `value` as Go's `encoding/json` writes it.
pub(crate) fn go_json(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(USUAL_LEN);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Go);
    match value.serialize(&mut serializer) {
        Ok(()) => out,
        // Writing structs of text, numbers and lists into memory has no way to fail.
        Err(_) => Vec::new(),
    }
}

impl PackageSourceSpec {
    /// The JSON text the spec's digest is over.
    pub fn canonical_json(&self) -> Vec<u8> {
        go_json(self)
    }

    /// The digest of this spec, as an index lists it.
    pub fn digest(&self) -> Digest {
        Digest::sha256(self.canonical_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{PolicyRule, SourceRef};

    fn json(spec: &PackageSourceSpec) -> String {
        String::from_utf8(spec.canonical_json()).unwrap()
    }

    #[test]
    fn empty_members_are_left_out_and_required_ones_are_not() {
        let mut spec = PackageSourceSpec::default();
        assert_eq!(json(&spec), "{}");
        spec.source_ref = Some(SourceRef::default());
        spec.rollback = Some(Default::default());
        spec.permissions = Some(Default::default());
        spec.permissions.as_mut().unwrap().rules = vec![PolicyRule::default()];
        assert_eq!(
            json(&spec),
            r#"{"sourceRef":{"kind":""},"permissions":{"rules":[{"verbs":null}]},"rollback":{}}"#
        );
    }

    #[test]
    fn html_characters_and_line_separators_are_escaped() {
        let spec = PackageSourceSpec {
            provides: vec!["a<b>&\u{2028}\u{2029}\u{85}\"\\/\u{8}\u{b}\u{7f}é".to_owned()],
            ..Default::default()
        };
        assert_eq!(
            json(&spec),
            "{\"provides\":[\"a\\u003cb\\u003e\\u0026\\u2028\\u2029\u{85}\\\"\\\\/\\b\\u000b\u{7f}é\"]}"
        );
    }
}

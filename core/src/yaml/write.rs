//! Writing YAML that every reader reads the same: block style, keys sorted, text quoted
//! wherever Go or a YAML 1.1 or 1.2 reader would take it for something else.

use serde::Serialize;
use serde_json::Value;

use super::node::Value as Read;
use super::scalar::resolve;

/// The YAML text of `value`.
///
/// # Errors
/// Fails where the value has no JSON form (a map whose keys are not text, a float that is
/// not finite).
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let value = serde_json::to_value(value)?;
    let mut out = String::new();
    match &value {
        Value::Object(map) if !map.is_empty() => members(&mut out, map, 0, false),
        Value::Array(items) if !items.is_empty() => elements(&mut out, items, 0),
        scalar => {
            inline(&mut out, scalar, 0);
            out.push('\n');
        }
    }
    Ok(out)
}

fn indent(out: &mut String, level: usize) {
    out.extend(std::iter::repeat_n("  ", level));
}

/// The members of a map, one a line. `begun`: the first stands behind a dash.
fn members(out: &mut String, map: &serde_json::Map<String, Value>, level: usize, mut begun: bool) {
    // Sorted here: what order serde_json keeps depends on features others switch on.
    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    for (key, value) in entries {
        if !std::mem::take(&mut begun) {
            indent(out, level);
        }
        if is_plain(key) {
            out.push_str(key);
        } else {
            quoted(out, key);
        }
        out.push(':');
        member(out, value, level);
    }
}

fn member(out: &mut String, value: &Value, level: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            members(out, map, level + 1, false);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            elements(out, items, level);
        }
        scalar => {
            out.push(' ');
            inline(out, scalar, level + 1);
            out.push('\n');
        }
    }
}

/// The elements of a list, at the indentation of the member they belong to.
fn elements(out: &mut String, items: &[Value], level: usize) {
    for item in items {
        indent(out, level);
        out.push('-');
        match item {
            Value::Object(map) if !map.is_empty() => {
                out.push(' ');
                members(out, map, level + 1, true);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                elements(out, items, level + 1);
            }
            scalar => {
                out.push(' ');
                inline(out, scalar, level + 1);
                out.push('\n');
            }
        }
    }
}

/// A scalar or an empty collection, without the line end.
fn inline(out: &mut String, value: &Value, level: usize) {
    match value {
        Value::String(text) if is_plain(text) => out.push_str(text),
        Value::String(text) if is_block(text) => block(out, text, level),
        Value::String(text) => quoted(out, text),
        // JSON's forms of these are YAML.
        other => out.push_str(&other.to_string()),
    }
}

/// Whether `text` can stand without quotes for every reader.
fn is_plain(text: &str) -> bool {
    let safe = |b: u8| b.is_ascii_alphanumeric() || b" _./@+-=~^:()<>,*%!$&|;#?".contains(&b);
    let (Some(first), Some(last)) = (text.bytes().next(), text.bytes().last()) else {
        return false;
    };
    (first.is_ascii_alphanumeric() || matches!(first, b'/' | b'_' | b'.' | b'+' | b'^' | b'$'))
        && !matches!(last, b' ' | b':')
        && text.bytes().all(safe)
        && !text.contains(": ")
        && !text.contains(" #")
        && !is_document_end(text)
        && matches!(resolve(text), Read::Text(_))
        && !is_other_type(text)
}

/// Whether `text` at the begin of a line ends the document.
fn is_document_end(text: &str) -> bool {
    text.strip_prefix("...")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// What other readers than Go take for a number, a date or a special value.
fn is_other_type(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let starts_with_digit = unsigned.starts_with(|c: char| c.is_ascii_digit());
    let only = |extra: &[u8]| {
        let known = |b: u8| b.is_ascii_digit() || extra.contains(&b);
        unsigned.bytes().all(known)
    };
    let lower = unsigned.to_ascii_lowercase();
    // times, base 60, floats out of Go's range; "0x" and "0o" with whatever follows
    (starts_with_digit && (only(b":-. TtZz+_") && !is_version(unsigned) || only(b"eE.+-_")))
        && !is_version(unsigned)
        || lower.starts_with("0x")
        || lower.starts_with("0o")
        || lower.starts_with("0b")
        || matches!(
            lower.as_str(),
            "true"
                | "false"
                | "yes"
                | "no"
                | "on"
                | "off"
                | "null"
                | "inf"
                | "nan"
                | ".inf"
                | ".nan"
        )
}

/// `1.2.3` and `10.0.0.1`: digits with at least two single dots are text everywhere.
fn is_version(text: &str) -> bool {
    let mut parts = 0;
    for part in text.split('.') {
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return false;
        }
        parts += 1;
    }
    parts > 2
}

/// Whether `text` can be a literal block: several lines, nothing at an edge that a reader
/// could take for indentation, only characters that need no escape.
fn is_block(text: &str) -> bool {
    let printable = |c: char| matches!(c, '\n' | ' '..='~') || c.is_alphanumeric();
    let body = text.trim_end_matches('\n');
    body.contains('\n')
        && text.len() - body.len() <= 1
        && text.chars().all(printable)
        && !body.starts_with([' ', '\n'])
        && body.lines().all(|line| !line.ends_with(' '))
}

fn block(out: &mut String, text: &str, level: usize) {
    out.push_str(if text.ends_with('\n') { "|" } else { "|-" });
    for line in text.trim_end_matches('\n').split('\n') {
        out.push('\n');
        if !line.is_empty() {
            indent(out, level);
            out.push_str(line);
        }
    }
}

/// A double-quoted scalar on one line, with escapes that YAML 1.1 and 1.2 share.
fn quoted(out: &mut String, text: &str) {
    use std::fmt::Write as _;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            // Writing to a String cannot fail.
            c if u32::from(c) <= 0xFF => {
                let _ = write!(out, "\\x{:02X}", u32::from(c));
            }
            c if u32::from(c) <= 0xFFFF => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_people_read() {
        let value = serde_json::json!({
            "version": "1.2.3",
            "chart": "1.20",
            "on": ["yes", "0755", "1_000", "12e04567", "2026-11-30T12:00:00Z", "1:30"],
            "text": "two\nlines\n",
            "nested": [{"b": 1, "a": {}}, [], ["x"]],
            "url": "https://example.org/a?b=1#c",
            "constraint": ">=1 <2",
            "odd": "a: b #c\u{2028}é",
        });
        let text = r#"chart: "1.20"
constraint: ">=1 <2"
nested:
- a: {}
  b: 1
- []
-
  - x
odd: "a: b #c\u2028é"
"on":
- "yes"
- "0755"
- "1_000"
- "12e04567"
- "2026-11-30T12:00:00Z"
- "1:30"
text: |
  two
  lines
url: https://example.org/a?b=1#c
version: 1.2.3
"#;
        assert_eq!(to_string(&value).unwrap(), text);
        assert_eq!(to_string(&Vec::<u8>::new()).unwrap(), "[]\n");
    }

    #[test]
    fn what_would_end_the_document_is_quoted() {
        let value = serde_json::json!({"...": 1, "... a": "...", "...a": "... b"});
        assert_eq!(
            to_string(&value).unwrap(),
            "\"...\": 1\n\"... a\": \"...\"\n...a: \"... b\"\n"
        );
    }
}

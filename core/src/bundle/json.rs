//! JSON in its one form: no spaces, members of objects in byte order of their keys.
//!
//! Written out here rather than left to `serde_json`'s map, whose order depends on a feature
//! that any other crate of a build may switch on.

use serde::Serialize;
use serde_json::Value;

use super::error::FormatError;

/// Appends the one form of `value` to `out`.
pub(super) fn write<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let value = serde_json::to_value(value).map_err(unwritable)?;
    write_value(&value, out)
}

/// Appends the elements of `list`, one at a time, so that a long list is never held twice.
pub(super) fn write_list<T: Serialize>(list: &[T], out: &mut Vec<u8>) -> Result<(), FormatError> {
    out.push(b'[');
    for (n, element) in list.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write(element, out)?;
    }
    out.push(b']');
    Ok(())
}

fn unwritable(error: serde_json::Error) -> FormatError {
    FormatError::head(format!("it cannot be written as JSON: {error}"))
}

fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<(), FormatError> {
    match value {
        Value::Object(map) => {
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (n, (key, value)) in members.into_iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                serde_json::to_writer(&mut *out, key).map_err(unwritable)?;
                out.push(b':');
                write_value(value, out)?;
            }
            out.push(b'}');
            Ok(())
        }
        Value::Array(list) => {
            out.push(b'[');
            for (n, value) in list.iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                write_value(value, out)?;
            }
            out.push(b']');
            Ok(())
        }
        plain => serde_json::to_writer(out, plain).map_err(unwritable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value: Value =
            serde_json::from_str(r#"{"b":[{"d":1,"c":null}],"a":"\u00e9\n"}"#).unwrap();
        let mut out = Vec::new();
        write(&value, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"a":"é\n","b":[{"c":null,"d":1}]}"#
        );
    }
}

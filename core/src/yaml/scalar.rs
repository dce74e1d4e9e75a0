//! What a scalar is: goyaml v2's rules (YAML 1.1 with 1.2's octals), and Go's way to write
//! a float as text.
//!
//! Source: measured against sigs.k8s.io/yaml 1.6.0 (the vectors in `tests/interop`).

use std::borrow::Cow;

use super::node::Value;

/// What Go makes of a plain scalar.
pub(crate) fn resolve(text: &str) -> Value<'_> {
    // The longest word that means something else is "false".
    match text {
        _ if text.len() > 5 => {}
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Value::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Value::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let number = match text.as_bytes()[0] {
        b'.' => float(text),
        b'0'..=b'9' | b'+' | b'-' => {
            let plain = match text.contains('_') {
                true => Cow::Owned(text.replace('_', "")),
                false => Cow::Borrowed(text),
            };
            integer(&plain).or_else(|| float(&plain))
        }
        _ => None,
    };
    number.unwrap_or_else(|| Value::Text(text.into()))
}

/// An integer as Go's `ParseInt` with base 0 reads it: a sign, then `0x`, `0b`, `0o`, a
/// leading `0` for octal, or decimal.
fn integer(text: &str) -> Option<Value<'static>> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // "0b-101": goyaml hands the rest to the parser with its sign.
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(rest) if text.starts_with("0b") => (true, rest),
        _ => match digits.strip_prefix('+') {
            Some(rest) if text.starts_with("0b") => (false, rest),
            _ => (negative, digits),
        },
    };
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        // A sign makes it too large for Go's unsigned reading as well.
        0i64.checked_sub_unsigned(magnitude).map(Value::Int)
    } else if let Ok(n) = i64::try_from(magnitude) {
        Some(Value::Int(n))
    } else if text.starts_with('+') {
        None
    } else {
        Some(Value::Uint(magnitude))
    }
}

/// A decimal float; one beyond the range of 64 bits is text for Go.
fn float(text: &str) -> Option<Value<'static>> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let shape = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_shape = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    if !shape || !exponent_shape {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Value::Float(value))
}

/// From this exponent on Go's shortest form is scientific.
const SHORTEST_PRECISION: i32 = 6;

/// A float as text where text is wanted: the shortest digits of its 32-bit form, with an
/// exponent below 1e-4 and from 1e6 (Go's `FormatFloat(f, 'g', -1, 32)`).
pub(crate) fn go_float_text(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "Go rounds to 32 bits here")]
    let value = value as f32;
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..SHORTEST_PRECISION).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_gos_text() {
        for (value, text) in [
            (1.10, "1.1"),
            (1e6, "1e+06"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e300, "+Inf"),
            (-0.0, "-0"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(go_float_text(value), text);
        }
    }

    #[test]
    fn corners_of_integers() {
        for (text, value) in [
            ("0b-101", Value::Int(-5)),
            ("-0b101", Value::Int(-5)),
            ("+0x_1F", Value::Int(31)),
            ("-9223372036854775808", Value::Int(i64::MIN)),
            ("18446744073709551615", Value::Uint(u64::MAX)),
            ("08", Value::Float(8.0)),
            ("0x", Value::Text("0x".into())),
            ("+", Value::Text("+".into())),
            ("é1", Value::Text("é1".into())),
            ("1é", Value::Text("1é".into())),
        ] {
            assert_eq!(resolve(text), value, "{text}");
        }
    }
}

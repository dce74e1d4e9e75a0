//! Reading the vector files.

use std::path::Path;

use serde_json::Value;

/// The objects of `tests/interop/<name>`, one a line.
pub fn lines(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/interop")
        .join(name);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect()
}

/// A text that must be there.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("no text \"{key}\" in {value}"))
}

/// A list of texts; empty when it is not there.
pub fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    let list = value[key].as_array().map(Vec::as_slice);
    list.unwrap_or_default()
        .iter()
        .map(|item| item.as_str().expect("a text"))
        .collect()
}

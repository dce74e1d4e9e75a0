//! Both YAML readers, and the writer whose text both read the same.

use kubepkg_core::yaml::go::Document;
use kubepkg_core::yaml::{Limits, strict, write};
use serde_json::Value;

fn go(text: &[u8]) -> Option<Value> {
    let document = Document::read(text, &Limits::default()).ok()?;
    let decoded = document.decode::<Value>(document.root()).ok()?;
    Some(decoded.value)
}

/// Any YAML.
pub fn yaml(data: &[u8]) {
    let by_go = go(data);
    let by_strict = str::from_utf8(data)
        .ok()
        .and_then(|text| strict::from_str::<Value>(text).ok());
    for value in by_go.into_iter().chain(by_strict) {
        let Ok(text) = write::to_string(&value) else {
            panic!("{value} cannot be written");
        };
        assert_eq!(go(text.as_bytes()).as_ref(), Some(&value), "{text}");
        let read = strict::from_str::<Value>(&text).ok();
        assert_eq!(read.as_ref(), Some(&value), "{text}");
    }
}

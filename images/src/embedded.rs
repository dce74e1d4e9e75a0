//! Documents within documents: configuration files in ConfigMaps and Secrets, values of Helm
//! releases, templates of pods.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubepkg_core::yaml::{Node, Value};

use crate::documents::split;
use crate::found::How;
use crate::rules::member;
use crate::walk::Walker;

/// Documents within each other: a release in a ConfigMap in a manifest, and one to spare.
const MAX_DEPTH: usize = 4;

/// Whether a text may be a document and not just a word or a line.
pub(crate) fn looks_like_one(text: &str) -> bool {
    let text = text.trim();
    text.contains('\n') || text.starts_with(['{', '['])
}

/// A text that may be one document or several.
pub(crate) fn text(walker: &mut Walker<'_>, text: &str, place: &str) {
    if walker.depth >= MAX_DEPTH {
        return;
    }
    walker.depth += 1;
    for document in split(text) {
        match document.read("") {
            Ok(roots) if roots.iter().all(is_structured) => {
                for root in &roots {
                    walker.embedded(root, place);
                }
            }
            // Any text may stand there: a script, a template, another format.
            _ => walker.lines(document.text, place, How::Field),
        }
    }
    walker.depth -= 1;
}

fn is_structured(root: &Node<'_>) -> bool {
    matches!(root.value, Value::Map(_) | Value::List(_))
}

/// The `data` of a Secret.
pub(crate) fn secret(walker: &mut Walker<'_>, data: &Node<'_>, place: &str) {
    let Value::Map(entries) = &data.value else {
        return;
    };
    for (key, value) in entries {
        let Value::Text(encoded) = &value.value else {
            continue;
        };
        let plain: String = encoded.split_whitespace().collect();
        let decoded = STANDARD.decode(plain).ok();
        if let Some(text) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
            walker.text(&text, &member(place, key), key);
        }
    }
}

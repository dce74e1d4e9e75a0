//! Answers of `kubepkg images`: the block of `-o images`, and `-o json`. And of `kubepkg mirror
//! wanted -o json`.

use kubepkg_core::yaml::{Node, Value};

use super::document::{Reader, strings};
use crate::walk::child;

/// Members that `-o json` has besides the images. More may be added in time.
const JSON: [&str; 2] = ["possible", "unread"];

/// Whether a document without a kind is such an answer: the block alone, or all the members of
/// the answer in JSON.
pub(super) fn is_one(root: &Node<'_>) -> bool {
    let Value::Map(members) = &root.value else {
        return false;
    };
    let images = child(root, "images").map(|node| &node.value);
    let json = JSON.iter().all(|name| child(root, name).is_some());
    matches!(images, Some(Value::List(_))) && (json || members.len() == 1)
}

/// Whether a document without a kind says what a mirror was asked for in vain.
pub(super) fn is_wanted(root: &Node<'_>) -> bool {
    let references = child(root, "references").map(|node| &node.value);
    matches!(references, Some(Value::List(_))) && child(root, "counted").is_some()
}

/// Reads what a mirror was asked for in vain.
pub(super) fn read_wanted(reader: &mut Reader<'_>, root: &Node<'_>) {
    for entry in reader.list(root, "references") {
        match reader.member(entry, "reference") {
            Some(image) => {
                let line = reader.line(image);
                if let Some(text) = reader.as_text(image, "reference") {
                    reader.gather.image(line, text, None);
                }
            }
            None => {
                let advice = "give the answer as kubepkg mirror wanted -o json writes it";
                reader.fault(entry, "the entry has no reference", advice);
            }
        }
    }
}

/// Reads the answer.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node<'_>) {
    let Some(images) = child(root, "images") else {
        return;
    };
    if JSON.iter().any(|name| child(root, name).is_none()) {
        return strings(reader, images);
    }
    for entry in reader.list(root, "images") {
        match reader.member(entry, "image") {
            Some(image) => {
                let line = reader.line(image);
                if let Some(text) = reader.as_text(image, "image") {
                    reader.gather.image(line, text, None);
                }
            }
            None => {
                let advice = "give the answer as kubepkg images -o json writes it";
                reader.fault(entry, "the entry has no image", advice);
            }
        }
    }
    for (member, what) in [
        (
            "possible",
            "images that may be run with other values are not taken",
        ),
        (
            "unread",
            "the search could not read everything, so images may be missing",
        ),
        ("failed", "charts did not render, so images may be missing"),
        (
            "outside",
            "the search did not look into everything, so images may be missing",
        ),
    ] {
        if reader.says(root, member)
            && let Some(node) = reader.member(root, member)
        {
            reader.note(node, what);
        }
    }
}

//! Custom resource definitions: what an object that says nothing gets as its image.

use kubepkg_core::yaml::{Node, Value};

use crate::found::How;
use crate::rules::{element, member};
use crate::walk::{Walker, child};

/// The defaults in the schemas of a definition. Whether an object of that kind is ever made is
/// not known, so each is no more than possible.
pub(crate) fn defaults(walker: &mut Walker<'_>, root: &Node<'_>, place: &str) {
    let before = walker.at_best;
    walker.at_best = How::Possible;
    let spec = child(root, "spec");
    if let Some(Value::List(versions)) = spec.and_then(|s| child(s, "versions")).map(|v| &v.value) {
        let place = member(&member(place, "spec"), "versions");
        for (n, version) in versions.iter().enumerate() {
            let schema = child(version, "schema").and_then(|s| child(s, "openAPIV3Schema"));
            if let Some(schema) = schema {
                self::schema(walker, schema, &element(&place, n), "");
            }
        }
    }
    walker.at_best = before;
}

/// One schema; `place` goes through the objects it describes, `name` is their member.
fn schema(walker: &mut Walker<'_>, node: &Node<'_>, place: &str, name: &str) {
    if let Some(default) = child(node, "default") {
        walker.visit(default, place, name);
    }
    if let Some(Value::Map(properties)) = child(node, "properties").map(|node| &node.value) {
        for (key, property) in properties {
            schema(walker, property, &member(place, key), key);
        }
    }
    for below in ["items", "additionalProperties"] {
        if let Some(inner) = child(node, below) {
            schema(walker, inner, &format!("{place}[]"), name);
        }
    }
}

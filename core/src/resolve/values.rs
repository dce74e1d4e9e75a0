//! Values that one package passes to another's components, taken apart so that two lots can
//! be compared key by key.

use serde_json::Value;

use crate::api::go_json;

/// What stands for an object in the comparison with something that is none.
const OBJECT: &str = "an object";

/// Every key of `values` with what it holds, as JSON; keys on the way are joined by dots. An
/// object is listed itself, too, because it disagrees with anything that is none.
pub(super) fn leaves(values: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut left = vec![(String::new(), values)];
    while let Some((key, value)) = left.pop() {
        let Value::Object(members) = value else {
            found.push((key, String::from_utf8_lossy(&go_json(value)).into_owned()));
            continue;
        };
        for (name, value) in members.iter().rev() {
            let name = name.replace('.', "\\.");
            let key = match key.as_str() {
                "" => name,
                key => format!("{key}.{name}"),
            };
            left.push((key, value));
        }
        found.push((key, OBJECT.to_owned()));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_listed_on_their_way_down() {
        let values = json!({"a": {"b": [1, "<"]}, "c.d": null});
        let found = leaves(&values);
        let found: Vec<_> = found
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("", OBJECT),
                ("a", OBJECT),
                ("a.b", "[1,\"\\u003c\"]"),
                ("c\\.d", "null"),
            ]
        );
    }
}

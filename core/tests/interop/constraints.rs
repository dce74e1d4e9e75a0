//! `constraints.jsonl`: which constraints are legal and which versions meet them.

use kubepkg_core::version::{Constraint, Version};

use crate::vectors::{lines, text, texts};

#[test]
fn constraints_admit_what_masterminds_admits() {
    let mut pairs = 0;
    for case in lines("constraints.jsonl") {
        let written = text(&case, "constraint");
        let constraint = match Constraint::parse(written) {
            Ok(constraint) => constraint,
            Err(error) => {
                assert_eq!(case["valid"], false, "{error}");
                continue;
            }
        };
        assert_eq!(case["valid"], true, "{written:?} is no constraint");
        for (list, expected) in [("match", true), ("no_match", false)] {
            for version in texts(&case, list) {
                let met = constraint.matches(&Version::parse(version).unwrap());
                assert_eq!(met, expected, "{version} under {written:?}");
                pairs += 1;
            }
        }
    }
    assert_eq!(pairs, 9568);
}

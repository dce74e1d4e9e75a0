//! `versions.jsonl`: what is a version, to whom, and in which order.

use std::cmp::Ordering;

use kubepkg_core::version::Version;

use crate::vectors::{lines, text};

#[test]
fn versions_are_read_as_masterminds_reads_them() {
    let mut cases = 0;
    for case in lines("versions.jsonl") {
        if text(&case, "kind") != "parse" {
            continue;
        }
        let written = text(&case, "text");
        let lenient = Version::parse(written).ok().map(|v| v.to_string());
        assert_eq!(lenient.as_deref(), case["lenient"].as_str(), "{written:?}");
        let strict = Version::parse_strict(written).is_ok();
        assert_eq!(case["strict"], strict, "{written:?}");
        let published = Version::parse_published(written).is_ok();
        assert_eq!(case["index_accepts"], published, "{written:?}");
        cases += 1;
    }
    assert_eq!(cases, 100);
}

#[test]
fn versions_have_the_order_of_masterminds() {
    let lines = lines("versions.jsonl");
    let order = lines.iter().find(|case| case["kind"] == "order").unwrap();
    let mut ranked = Vec::new();
    for (rank, group) in order["groups"].as_array().unwrap().iter().enumerate() {
        for written in group.as_array().unwrap() {
            let written = written.as_str().unwrap();
            ranked.push((rank, written, Version::parse(written).unwrap()));
        }
    }
    for (rank, text, version) in &ranked {
        for (other_rank, other_text, other) in &ranked {
            let found: Ordering = version.cmp(other);
            assert_eq!(found, rank.cmp(other_rank), "{text} and {other_text}");
        }
    }
}

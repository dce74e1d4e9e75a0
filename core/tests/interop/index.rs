//! `index.jsonl`: an index → the versions kept and those left out, or refused.

use std::collections::BTreeMap;

use kubepkg_core::index::Index;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    index: String,
    ok: bool,
    #[serde(default)]
    versions: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    unknown: Vec<String>,
}

/// Cases the existing program accepts and we refuse, and why.
pub const STRICTER: &[(&str, &str)] = &[(
    "build-negative",
    "the API allows no negative build; no tool publishes one",
)];

#[test]
fn indexes_are_accepted_and_refused_as_by_the_existing_program() {
    let mut cases = 0;
    for line in include_str!("index.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        cases += 1;
        let read = Index::read(case.index.as_bytes());
        if STRICTER.iter().any(|(name, _)| *name == case.name) {
            assert!(case.ok && read.is_err(), "{}", case.name);
            continue;
        }
        match read {
            Ok(index) => {
                assert!(case.ok, "{}: accepted", case.name);
                let versions = index.packages.iter().map(|(name, package)| {
                    let texts = package
                        .versions
                        .iter()
                        .map(|v| format!("{} build {}", v.version, v.build));
                    (name.clone(), texts.collect())
                });
                let versions: BTreeMap<String, Vec<String>> = versions.collect();
                assert_eq!(versions, case.versions, "{}", case.name);
                let left_out: Vec<_> = index
                    .left_out
                    .iter()
                    .map(|left| format!("{} {} build {}", left.package, left.version, left.build))
                    .collect();
                assert_eq!(left_out, case.unknown, "{}", case.name);
            }
            Err(error) => assert!(!case.ok, "{}: {error}", case.name),
        }
    }
    assert_eq!(cases, 46);
}

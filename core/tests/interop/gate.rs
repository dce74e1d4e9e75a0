//! `gate.jsonl`: whether what a package requires is there and ready, and what conflicts.

use std::collections::BTreeMap;

use kubepkg_core::api::{PackageSourceSpec, Requirement};
use kubepkg_core::resolve::gate;
use kubepkg_core::resolve::state::{InstalledPackage, State};
use serde_json::Value;

use crate::vectors::{lines, text, texts};

fn owned(value: &Value, key: &str) -> Vec<String> {
    texts(value, key).into_iter().map(str::to_owned).collect()
}

/// The installed packages and served APIs of a case.
pub fn state(case: &Value) -> State {
    let installed = case["installed"].as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<_, _> = installed
        .iter()
        .map(|package| {
            let requires = package.get("requires").cloned();
            let installed = InstalledPackage {
                name: text(package, "name").to_owned(),
                version: text(package, "version").to_owned(),
                provides: owned(package, "provides"),
                conflicts: owned(package, "conflicts"),
                requires: requires.map_or_else(Vec::new, |requires| {
                    serde_json::from_value(requires).expect("requirements")
                }),
                ready: !package["notReady"].as_bool().unwrap_or(false),
                ..InstalledPackage::default()
            };
            (installed.name.clone(), installed)
        })
        .collect();
    State {
        packages,
        apis: owned(case, "apis").into_iter().collect(),
    }
}

#[test]
fn requirements_and_conflicts_hold_back_a_package_as_in_a_cluster() {
    let cases = lines("gate.jsonl");
    for case in &cases {
        let name = text(case, "name");
        let state = state(case);
        if text(case, "kind") == "requirements" {
            let requirements: Option<Vec<Requirement>> =
                serde_json::from_value(case["requirements"].clone()).expect("requirements");
            let unmet: Vec<String> = gate::requirements(&state, &requirements.unwrap_or_default())
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(unmet, owned(case, "unmet"), "{name}");
        } else {
            let release = &case["release"];
            let package = text(release, "name");
            let mut release = release.clone();
            release.as_object_mut().expect("an object").remove("name");
            let spec: PackageSourceSpec = serde_json::from_value(release).expect("a spec");
            let found = gate::conflicts(&state, package, &spec.provides, &spec.conflicts);
            assert_eq!(found, texts(case, "conflicts"), "{name}");
        }
    }
    assert_eq!(cases.len(), 11);
}

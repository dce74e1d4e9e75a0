//! Every file of the vector set by name: run here, or not yet and why. The second list shrinks.

use std::collections::BTreeSet;
use std::path::Path;

/// Files that are run, with the test that does. They are copied whole; cases of them that are
/// not run are listed there.
const RUN: &[(&str, &str)] = &[
    ("interop/constraints.jsonl", "interop/constraints.rs"),
    ("interop/digests.jsonl", "interop/digests.rs"),
    ("interop/gate.jsonl", "interop/gate.rs"),
    ("interop/index.jsonl", "interop/index.rs"),
    // without cases that need more than packages
    ("interop/resolve.jsonl", "interop/resolve.rs"),
    ("interop/select.jsonl", "interop/select.rs"),
    // without cases in which a root of trust decides
    ("interop/trust.jsonl", "interop/trust.rs"),
    // reading, not yet how Helm's templates print the values
    ("interop/values-yaml.jsonl", "yaml.rs"),
    ("interop/versions.jsonl", "interop/versions.rs"),
    ("data/index.yaml", "../src/index/build/tests.rs"),
    ("data/packages/app.yaml", "../src/index/build/tests.rs"),
    ("data/packages/cdi.yaml", "../src/index/build/tests.rs"),
    ("data/packages/free.yaml", "../src/index/build/tests.rs"),
    (
        "data/packages/kubevirt-ui.yaml",
        "../src/index/build/tests.rs",
    ),
];

/// Files that are not run yet, by their name in the set, with what they wait for. They are not
/// copied before they are run.
const NOT_YET: &[(&str, &str)] = &[
    (
        "signed-bytes.jsonl",
        "what is signed of roots and delegated versions: there are no roots of trust",
    ),
    ("genuine-root.json", "a root: there are no roots of trust"),
    ("repo/root.yaml", "roots of trust"),
    ("repo/root/", "roots of trust: four versions with rotation"),
    (
        "repo/index.yaml.sig",
        "the roles of a root say who may sign it",
    ),
    (
        "keys/",
        "pairs for cases above; trust.jsonl carries the public keys it needs",
    ),
    (
        "bundle/cases.jsonl",
        "edits of the existing program's bundle, whose layout is not read",
    ),
    (
        "bundle/example.tar",
        "a bundle in the existing program's layout",
    ),
    (
        "bundle/example.contents.txt",
        "the entries of that bundle in order",
    ),
];

fn tests() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
}

/// Files below `folder` that are no Rust, by their path from the folder of tests.
fn copied(folder: &str) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(tests().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            files.extend(copied(&name));
        } else if !name.ends_with(".rs") {
            files.insert(name);
        }
    }
    files
}

#[test]
fn what_is_copied_is_run() {
    let mut there = copied("interop");
    there.extend(copied("data"));
    let run: BTreeSet<String> = RUN.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(there, run);
    for (file, test) in RUN {
        let source = std::fs::read_to_string(tests().join(test)).unwrap();
        let name = file.trim_start_matches("interop/");
        assert!(source.contains(name), "{test} does not read {file}");
    }
}

#[test]
fn what_is_not_run_is_not_copied() {
    for (file, reason) in NOT_YET {
        assert!(!reason.is_empty());
        for folder in ["interop", "data"] {
            let copy = tests().join(folder).join(file);
            assert!(!copy.exists(), "{file} is here: run it");
        }
    }
}

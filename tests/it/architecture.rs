//! The arrows between crates, who may name which outside crate, and that no test is forgotten.
//! What the picture in CONTRIBUTING.md says is held here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

/// Which of our crates each of our crates may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("kubepkg-core", &[]),
    ("kubepkg-remote", &["kubepkg-core"]),
    ("kubepkg-bundler", &["kubepkg-core", "kubepkg-remote"]),
    ("kubepkg-importer", &["kubepkg-core", "kubepkg-remote"]),
    ("kubepkg-mirror", &["kubepkg-core"]),
    ("kubepkg-node-config", &["kubepkg-core"]),
    ("kubepkg-images", &["kubepkg-core"]),
    (
        "kubepkg",
        &[
            "kubepkg-core",
            "kubepkg-remote",
            "kubepkg-bundler",
            "kubepkg-importer",
            "kubepkg-mirror",
            "kubepkg-node-config",
            "kubepkg-images",
        ],
    ),
    // not published
    ("kubepkg-test-support", &["kubepkg-core"]),
    ("kubepkg-bench", &["kubepkg-core", "kubepkg-mirror"]),
    (
        "kubepkg-fuzz-checks",
        &["kubepkg-core", "kubepkg-mirror", "kubepkg-images"],
    ),
    (
        "kubepkg-sample-internet",
        &["kubepkg-core", "kubepkg-mirror"],
    ),
];

/// Who may name these outside crates, tests apart.
const NAMED_BY: &[(&str, &[&str])] = &[
    (
        "tokio",
        &[
            "kubepkg",
            "kubepkg-remote",
            "kubepkg-bundler",
            "kubepkg-importer",
            "kubepkg-mirror",
            "kubepkg-test-support",
            "kubepkg-sample-internet",
        ],
    ),
    ("reqwest", &["kubepkg-remote"]),
    // a peer in tests
    ("oci-client", &[]),
    (
        "axum",
        &[
            "kubepkg-mirror",
            "kubepkg-test-support",
            "kubepkg-sample-internet",
        ],
    ),
    ("maud", &["kubepkg-mirror"]),
    // the mirror's store in a bucket
    ("object_store", &["kubepkg-mirror"]),
    ("kube", &[]),
    ("k8s-openapi", &[]),
    ("clap", &["kubepkg"]),
    ("anyhow", &["kubepkg", "kubepkg-sample-internet"]),
    ("indicatif", &["kubepkg"]),
    ("tracing-subscriber", &["kubepkg"]),
    // one module reads and writes YAML
    ("serde-saphyr", &["kubepkg-core"]),
    ("granit-parser", &["kubepkg-core"]),
    ("serde_yaml", &[]),
    ("serde_yaml_ng", &[]),
    ("yaml-rust2", &[]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--offline".to_owned()])
        .exec()
        .unwrap()
}

fn names(package: &Package, tests_too: bool) -> BTreeSet<&str> {
    package
        .dependencies
        .iter()
        .filter(|d| tests_too || d.kind != DependencyKind::Development)
        .map(|d| d.name.as_str())
        .collect()
}

#[test]
fn arrows_between_our_crates() {
    let metadata = metadata();
    for package in &metadata.packages {
        let (_, allowed) = ARROWS
            .iter()
            .find(|(name, _)| *name == package.name.as_str())
            .unwrap_or_else(|| panic!("{} is not in the table of arrows", package.name));
        for used in names(package, false)
            .iter()
            .filter(|n| n.starts_with("kubepkg"))
        {
            assert!(
                allowed.contains(used),
                "{} may not use {used}",
                package.name
            );
        }
    }
    assert_eq!(
        metadata.packages.len(),
        ARROWS.len(),
        "a crate of the table is gone"
    );
}

#[test]
fn outside_crates_stay_in_their_place() {
    let metadata = metadata();
    for (outside, allowed) in NAMED_BY {
        for package in &metadata.packages {
            if names(package, false).contains(outside) {
                assert!(
                    allowed.contains(&package.name.as_str()),
                    "{} may not name {outside}",
                    package.name
                );
            }
        }
    }
}

#[test]
fn core_has_no_runtime_even_in_its_tests() {
    let metadata = metadata();
    let core = metadata
        .packages
        .iter()
        .find(|p| p.name.as_str() == "kubepkg-core")
        .unwrap();
    let there = names(core, true);
    for outside in ["tokio", "axum", "reqwest", "kubepkg-test-support"] {
        assert!(!there.contains(outside), "core names {outside}");
    }
}

/// All Rust files below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// Files of `folder` that hold `word` and do not lie in `home`.
fn strays(folder: &str, word: &str, home: &str) -> Vec<PathBuf> {
    let home = root().join(home);
    sources(&root().join(folder))
        .into_iter()
        .filter(|file| !file.starts_with(&home) && *file != home.with_extension("rs"))
        .filter(|file| std::fs::read_to_string(file).unwrap().contains(word))
        .collect()
}

#[test]
fn one_module_names_a_crate_that_must_be_wrapped() {
    for (folder, word, home) in [
        ("core/src", "serde_saphyr", "core/src/yaml"),
        ("core/src", "granit_parser", "core/src/yaml"),
    ] {
        let found = strays(folder, &format!("{word}::"), home);
        assert!(
            found.is_empty(),
            "{word} is named outside {home}: {found:?}"
        );
    }
}

#[test]
fn libraries_read_no_environment() {
    for folder in [
        "core",
        "remote",
        "bundler",
        "importer",
        "mirror",
        "node-config",
        "images",
    ] {
        for word in ["env::var", "env::home_dir", "env::args"] {
            let found = strays(&format!("{folder}/src"), word, "none");
            assert!(found.is_empty(), "{word} in {found:?}");
        }
    }
}

#[test]
fn no_test_file_is_forgotten() {
    let folder = root().join("tests/it");
    let main = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let listed = main.lines().any(|line| line == format!("mod {name};"));
        assert!(
            name == "main" || listed,
            "{} is not in main.rs",
            path.display()
        );
    }
}

//! The rules of `repo index`: a package file that breaks one is named with its line, and
//! nothing is written.

use kubepkg_core::index::Index;
use kubepkg_test_support::Package;

use crate::command::{Run, Scratch};

/// A folder with `packages/web.yaml`, and a key.
fn scratch(web: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.run(&["repo", "keygen", "release"]).ok();
    scratch.write("packages/web.yaml", web);
    scratch
}

#[track_caller]
fn refused(scratch: &Scratch, code: i32, text: &str) -> Run {
    let before = scratch.names();
    let call = ["repo", "index", "packages", "--sign-key", "release.key"];
    let run = scratch.run(&call).fails(code, text);
    assert_eq!(scratch.names(), before, "something was left behind");
    run
}

fn web() -> Package {
    Package::new("web", "1.0.0")
}

#[test]
fn one_version_twice_in_one_file() {
    let text = format!("{}---\n{}", web().to_yaml(), web().to_yaml());
    let lines = web().to_yaml().lines().count();
    refused(&scratch(&text), 3, "is also defined in packages/web.yaml:1")
        .says(&format!("packages/web.yaml:{}", lines + 2));
}

#[test]
fn a_version_that_other_readers_take_for_a_number() {
    let text = web().to_yaml();
    let at = text.lines().position(|line| line.contains("version:"));
    let unquoted = text.replace("version: 1.0.0", "version: 1.10");
    let unquoted = unquoted.replace("version: \"1.0.0\"", "version: 1.10");
    assert_ne!(text, unquoted, "{text}");
    refused(
        &scratch(&unquoted),
        3,
        "Go reads 1.10 as 1.1; write \"1.10\"",
    )
    .says(&format!("packages/web.yaml:{}", at.unwrap() + 1));
}

#[test]
fn a_component_in_a_tree_that_is_not_pinned() {
    for url in [
        "",
        "oci://registry.example.com/tree:1",
        "https://git.example.com/x",
    ] {
        let package = web().tree(url, "base");
        refused(&scratch(&package.to_yaml()), 3, "packages/web.yaml:1").says("sourceRef");
    }
}

#[test]
fn images_are_pinned_before_they_are_published() {
    let package = web().image("registry.example.com/web:1");
    refused(&scratch(&package.to_yaml()), 3, "is not pinned by digest")
        .says("image registry.example.com/web:1")
        .says("hint: write <registry>/<path>:<tag>@sha256:");
}

#[test]
fn members_that_do_not_exist() {
    let text = web().to_yaml().replace("spec:", "spec:\n  imagez: []");
    refused(&scratch(&text), 3, "imagez").says("packages/web.yaml:");
}

#[test]
fn builds_of_one_version_stand_side_by_side() {
    let scratch = scratch(&web().to_yaml());
    scratch.write("packages/rebuilt.yaml", web().build(1).to_yaml());
    let url = "https://Packages.example.com:443/index.yaml";
    let call = ["repo", "index", "packages", "--url", url];
    scratch.run(&call).ok();
    let index = Index::read(scratch.read("index.yaml").as_bytes()).unwrap();
    let versions = &index.packages["web"].versions;
    let builds: Vec<u32> = versions.iter().map(|version| version.build).collect();
    assert_eq!(builds, [1, 0], "newest first");
    assert_eq!(
        index.repository.unwrap().as_str(),
        "https://packages.example.com/index.yaml"
    );
}

//! What an operator does with a mirror's store, while it is served or not.

use std::fs;
use std::path::PathBuf;

use crate::command::{Run, Scratch};
use crate::publisher::Publisher;
use crate::served::{Mirror, get};

/// A store that holds `web` 1.0.0, and the name of its repository there.
fn site() -> (Publisher, String) {
    let (publisher, _) = Publisher::of_web();
    publisher.create(&["web"]).ok();
    let scratch = &publisher.scratch;
    let import = ["bundle", "import", "site.tar", "--store", "m"];
    scratch
        .run(&[&import[..], &["--public-key", "release.pub"]].concat())
        .ok();
    let name = format!("{}/web", publisher.upstream.host().replace(':', "_"));
    (publisher, name)
}

fn mirror(scratch: &Scratch, verb: &str, more: &[&str]) -> Run {
    scratch.run(&[&["mirror", verb, "--store", "m"], more].concat())
}

/// stdout holds this text.
#[track_caller]
fn shows(run: &Run, text: &str) {
    let stdout = &run.stdout;
    assert!(stdout.contains(text), "no {text:?} in {stdout}");
}

/// The file of the largest content.
fn largest(scratch: &Scratch) -> PathBuf {
    let blobs = walkdir::WalkDir::new(scratch.path("m/blobs"));
    let files = blobs.into_iter().map(Result::unwrap);
    let largest = files
        .filter(|entry| entry.file_type().is_file())
        .max_by_key(|entry| entry.metadata().unwrap().len());
    largest.unwrap().into_path()
}

#[test]
fn what_is_in_a_store_is_listed_and_told() {
    let (publisher, name) = site();
    let scratch = &publisher.scratch;
    shows(&mirror(scratch, "list", &[]).ok(), &name);
    shows(&mirror(scratch, "list", &["127.0.0.1*/w*"]).ok(), &name);
    shows(&mirror(scratch, "list", &[&name]).ok(), "web 1.0.0");
    mirror(scratch, "list", &["none/*"]).fails(4, "none/*");
    let json = mirror(scratch, "list", &["-o", "json"]).ok().json();
    assert_eq!(json["repositories"][0]["name"], name.as_str());
    // the host is understood as upstream writes it, too
    let upstream = format!("{}/web:1.0", publisher.upstream.host());
    for reference in [&upstream, &format!("{name}:1.0")] {
        let told = mirror(scratch, "stat", &[reference]).ok();
        shows(&told, "web 1.0.0");
        shows(&told, "import of sha256:");
    }
    mirror(scratch, "stat", &[&format!("{name}:2")]).fails(4, "mirror list --store m");
    mirror(scratch, "stat", &[&name]).fails(2, "<host>/<path>:<tag>");
    shows(&mirror(scratch, "stat", &[]).ok(), "repositories  1");
}

#[test]
fn tags_and_copies_are_made_and_removed_while_it_is_served() {
    let (publisher, name) = site();
    let scratch = &publisher.scratch;
    let running = Mirror::start(scratch, "m");
    let status =
        |name: &str, tag: &str| get(&running.host, &format!("/v2/{name}/manifests/{tag}")).status;
    let reference = format!("{name}:1.0");
    mirror(scratch, "tag", &[&reference, "stable"]).ok();
    assert_eq!(status(&name, "stable"), 200);
    mirror(scratch, "copy", &[&reference, "site.example/tools/web"]).ok();
    assert_eq!(status("site.example/tools/web", "1.0"), 200);
    mirror(scratch, "copy", &[&reference, "site.example/tools/web"])
        .ok()
        .says("already");

    let plan = mirror(scratch, "rm", &["--dry-run", &reference]).ok();
    shows(&plan, "no bytes become garbage");
    assert_eq!(status(&name, "1.0"), 200);
    for tag in ["1.0", "stable"] {
        mirror(scratch, "rm", &[&format!("{name}:{tag}")]).ok();
        assert_eq!(status(&name, tag), 404);
    }
    mirror(scratch, "rm", &[&reference]).fails(4, "not in this store");
    let last = mirror(scratch, "rm", &["site.example/tools/web:1.0"]).ok();
    shows(&last, "become garbage");
    last.says("mirror gc --store m")
        // the import that brought it can be gone back to
        .says("only after newer imports");
    shows(
        &mirror(scratch, "gc", &[]).ok(),
        "to go back to one of the last imports",
    );
    mirror(scratch, "check", &[])
        .ok()
        .says("that no name leads to");
}

#[test]
fn damage_is_found_set_aside_and_healed_by_an_import() {
    let (publisher, name) = site();
    let scratch = &publisher.scratch;
    let running = Mirror::start(scratch, "m");
    mirror(scratch, "check", &[])
        .ok()
        .says("every file is needed");
    let layer = largest(scratch);
    let mut bytes = fs::read(&layer).unwrap();
    bytes[100] ^= 1;
    fs::write(&layer, bytes).unwrap();
    let found = mirror(scratch, "check", &[]);
    assert_eq!(found.code, 1);
    shows(&found, "damaged: blobs/sha256/");
    shows(&found, &format!("needed by {name}: 1.0"));
    found.says("--repair");
    let json = mirror(scratch, "check", &["-o", "json"]);
    assert_eq!(json.json()["findings"][0]["fault"], "damaged");

    let repaired = mirror(scratch, "check", &["--repair"]);
    assert_eq!(repaired.code, 1);
    repaired.says("set aside again");
    let digest = layer.file_name().unwrap().to_str().unwrap();
    let path = format!("/v2/{name}/blobs/sha256:{digest}");
    assert_eq!(get(&running.host, &path).status, 404);
    scratch
        .run(&["bundle", "import", "site.tar", "--store", "m"])
        .ok();
    assert_eq!(get(&running.host, &path).status, 200);
    mirror(scratch, "check", &[]).ok();
}

#[test]
fn a_backup_can_be_served_and_grows() {
    let (publisher, name) = site();
    let scratch = &publisher.scratch;
    mirror(scratch, "backup", &["copy"])
        .ok()
        .says("as of commit 1");
    let again = mirror(scratch, "backup", &["copy", "-o", "json"])
        .ok()
        .json();
    assert_eq!(again["copied"]["files"], 0);
    scratch.run(&["mirror", "check", "--store", "copy"]).ok();
    // what stays behind is said, or somebody finds it out when it is needed
    scratch.write("m/users", "");
    mirror(scratch, "backup", &["copy"])
        .ok()
        .says("not in the copy")
        .says("m/users");
    assert!(!scratch.path("copy/users").exists());
    let running = Mirror::start(scratch, "copy");
    assert_eq!(
        get(&running.host, &format!("/v2/{name}/manifests/1.0")).status,
        200
    );
    mirror(scratch, "backup", &["m/inside"]).fails(2, "lie in each other");
    scratch.write("full/notes.txt", "mine");
    mirror(scratch, "backup", &["full"]).fails(1, "notes.txt");
    assert_eq!(scratch.read("full/notes.txt"), "mine");
}

#[test]
fn a_folder_without_a_store_is_said_to_be_none() {
    let scratch = Scratch::new();
    for verb in ["list", "stat", "check", "gc", "wanted"] {
        mirror(&scratch, verb, &[]).fails(4, "is its disk mounted");
    }
    for more in [
        &["rm", "a/b:1"][..],
        &["tag", "a/b:1", "x"],
        &["copy", "a/b:1", "c/d"],
        &["backup", "x"],
    ] {
        mirror(&scratch, more[0], &more[1..]).fails(4, "is its disk mounted");
    }
    assert_eq!(scratch.names(), Vec::<String>::new());
}

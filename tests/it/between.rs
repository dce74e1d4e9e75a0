//! An import killed between its record and its names, which is the moment a commit is made and
//! not yet to be seen: who pushes the same tag next builds on it, and what was pushed stands.

use std::process::Command;

use kubepkg_core::Digest;
use kubepkg_test_support::can_trace;
use serde_json::json;

use crate::command::Scratch;
use crate::publisher::Publisher;
use crate::served::{Mirror, send};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const BYTES: &str = "application/octet-stream";

fn serve(scratch: &Scratch) -> Mirror {
    Mirror::start_with(scratch, "m", &["--anonymous-push", "--new-store"])
}

/// Runs the command and kills it as it syncs the folder `path`.
fn killed_at(scratch: &Scratch, path: &str, arguments: &[&str]) {
    let command = scratch.command(arguments);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-P", path, "-e"]);
    strace.arg("inject=fsync:signal=KILL:when=1");
    strace.arg(command.get_program()).args(command.get_args());
    strace.current_dir(scratch.work());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    let output = strace.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "not killed: {said}");
}

/// Pushes an image of one layer under `tag`; gives its manifest.
fn push(host: &str, repository: &str, tag: &str) -> Vec<u8> {
    let blob = |bytes: &[u8]| {
        let digest = Digest::sha256(bytes);
        let path = format!("/v2/{repository}/blobs/uploads/?digest={digest}");
        assert_eq!(send(host, "POST", &path, BYTES, bytes).status, 201);
        json!({"mediaType": BYTES, "digest": digest, "size": bytes.len()})
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(b"{}"),
        "layers": [blob(b"a layer of the push")],
    });
    let bytes = serde_json::to_vec(&manifest).unwrap();
    let path = format!("/v2/{repository}/manifests/{tag}");
    assert_eq!(send(host, "PUT", &path, MANIFEST, &bytes).status, 201);
    bytes
}

fn a_push_stands_after_a_killed_import(mirror_lives: bool) {
    let (publisher, imported) = Publisher::of_web();
    let scratch = &publisher.scratch;
    publisher.create(&["web"]).ok();
    let repository = format!("{}/web", publisher.upstream.host().replace(':', "_"));
    let hex = Digest::sha256(&repository).hex();
    let names = scratch.path(format!("m/names/{}/{hex}.json", &hex[..2]));
    let living = mirror_lives.then(|| serve(scratch));
    // strace knows a path by its text, so the store is named as the path begins
    let store = scratch.path("m");
    let call = [
        "bundle",
        "import",
        "site.tar",
        "--store",
        store.to_str().unwrap(),
    ];
    let call = [&call[..], &["--public-key", "release.pub"]].concat();
    // that is the sync of the record
    killed_at(scratch, store.join("commits").to_str().unwrap(), &call);
    assert!(scratch.path("m/commits/1.json").exists(), "no record");
    assert!(!names.exists(), "killed after its names");

    let mirror = living.unwrap_or_else(|| serve(scratch));
    let pushed = push(&mirror.host, &repository, "1.0");
    let check = |mirror: &Mirror| {
        let tag = format!("/v2/{repository}/manifests/1.0");
        assert_eq!(mirror.body(&tag), pushed, "the tag is what was pushed");
        // what the import brought besides the tag stands too
        let digest = format!("/v2/{repository}/manifests/{}", imported.digest());
        assert_eq!(Digest::sha256(mirror.body(&digest)), imported.digest());
    };
    check(&mirror);
    assert_eq!(mirror.stop().0, Some(0));
    let mirror = serve(scratch);
    check(&mirror);
    assert_eq!(mirror.stop().0, Some(0));
    scratch.run(&["mirror", "check", "--store", "m"]).ok();
}

#[test]
fn a_push_stands_when_the_import_before_it_was_killed_beside_a_mirror() {
    if can_trace() {
        a_push_stands_after_a_killed_import(true);
    }
}

#[test]
fn a_push_stands_when_the_import_before_it_was_killed_and_a_mirror_starts_then() {
    if can_trace() {
        a_push_stands_after_a_killed_import(false);
    }
}

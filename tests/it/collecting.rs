//! A server looks after its store, and `mirror gc` frees what nothing needs.

use std::path::PathBuf;

use kubepkg_core::Digest;
use serde_json::json;

use crate::command::{Run, Scratch, wait_for};
use crate::served::{Mirror, get, send};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const BYTES: &str = "application/octet-stream";

/// A server that takes pushes and does nothing by itself unless `more` says so.
fn server(scratch: &Scratch, more: &[&str]) -> Mirror {
    let usual = ["--anonymous-push", "--new-store", "--scrub-rate", "0"];
    Mirror::start_with(scratch, "m", &[&usual[..], more].concat())
}

fn blob(host: &str, bytes: &[u8]) -> Digest {
    let digest = Digest::sha256(bytes);
    let path = format!("/v2/site.example/app/blobs/uploads/?digest={digest}");
    assert_eq!(send(host, "POST", &path, BYTES, bytes).status, 201);
    digest
}

/// Pushes an image of one layer; gives the digest of that.
fn image(host: &str, tag: &str, layer: &[u8]) -> Digest {
    let pushed = blob(host, layer);
    let config = blob(host, b"{}");
    let descriptor =
        |digest: &Digest, size: usize| json!({"mediaType": BYTES, "digest": digest, "size": size});
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(&config, 2),
        "layers": [descriptor(&pushed, layer.len())],
    });
    let path = format!("/v2/site.example/app/manifests/{tag}");
    let bytes = serde_json::to_vec(&manifest).unwrap();
    assert_eq!(send(host, "PUT", &path, MANIFEST, &bytes).status, 201);
    pushed
}

fn file(scratch: &Scratch, digest: &Digest) -> PathBuf {
    let text = digest.to_string();
    let hex = text.strip_prefix("sha256:").unwrap();
    scratch.path(format!("m/blobs/sha256/{}/{hex}", &hex[..2]))
}

fn gc(scratch: &Scratch, more: &[&str]) -> Run {
    scratch
        .run(&[&["mirror", "gc", "--store", "m"], more].concat())
        .ok()
}

#[test]
fn what_was_asked_for_in_vain_is_listed_beside_the_server() {
    let scratch = Scratch::new();
    let running = server(&scratch, &["--gc-every", "0"]);
    let missing = "/v2/docker.io/library/nginx/manifests/1.27";
    assert_eq!(get(&running.host, missing).status, 404);
    let wanted = ["mirror", "wanted", "--store", "m", "--references"];
    let listed = || scratch.run(&wanted).ok().stdout;
    wait_for("miss in the list", || {
        listed().contains("docker.io/library/nginx:1.27")
    });
    // what came in last is not lost when it ends
    get(&running.host, "/v2/quay.io/org/tool/manifests/2");
    assert_eq!(running.stop().0, Some(0));
    assert!(listed().contains("quay.io/org/tool:2"));
}

#[test]
fn a_server_collects_on_schedule() {
    let scratch = Scratch::new();
    let running = server(&scratch, &["--gc-every", "1s", "--gc-grace", "0"]);
    let kept = image(&running.host, "1", b"a layer that is tagged");
    let lost = blob(&running.host, b"a layer of a push that was given up");
    let lost = file(&scratch, &lost);
    wait_for("collection", || !lost.exists());
    let path = format!("/v2/site.example/app/blobs/{kept}");
    assert_eq!(get(&running.host, &path).status, 200);
    assert_eq!(running.stop().0, Some(0));
}

#[test]
fn gc_frees_what_nothing_needs_in_two_runs() {
    let scratch = Scratch::new();
    let running = server(&scratch, &["--gc-every", "0"]);
    let kept = image(&running.host, "1", b"a layer that is tagged");
    let lost = file(&scratch, &image(&running.host, "2", &[7; 5000]));
    let untag = send(
        &running.host,
        "DELETE",
        "/v2/site.example/app/manifests/2",
        "",
        b"",
    );
    assert_eq!(untag.status, 202);
    // nobody tagged that manifest any more, which a plain run respects
    let plain = gc(&scratch, &["-o", "json"]).json();
    assert_eq!(plain["served"], true);
    assert_eq!(plain["condemned"]["contents"], 0);
    let dry = gc(&scratch, &["--untagged", "--dry-run"]);
    assert!(dry.stdout.contains("would be condemned: "));
    dry.says("nothing was changed");
    gc(&scratch, &["--untagged"]).says("run it again after 1 h 0 min");
    let waits = gc(&scratch, &[]);
    assert!(waits.stdout.contains("another 59 min") || waits.stdout.contains("another 1 h"));
    let mut freed = 0;
    wait_for("removal", || {
        let json = gc(&scratch, &["--grace", "0s", "-o", "json"]).json();
        freed += json["removed"]["bytes"].as_u64().unwrap();
        !lost.exists()
    });
    assert!(freed >= 5000);
    let path = format!("/v2/site.example/app/blobs/{kept}");
    assert_eq!(get(&running.host, &path).status, 200);
    assert_eq!(running.stop().0, Some(0));
}

#[test]
fn gc_needs_no_server() {
    let scratch = Scratch::new();
    let running = server(&scratch, &["--gc-every", "0"]);
    let lost = file(&scratch, &blob(&running.host, b"a layer nobody names"));
    assert_eq!(running.stop().0, Some(0));
    gc(&scratch, &[]).says("--grace 0s frees at once");
    let freed = gc(&scratch, &["--grace", "0s"]);
    assert!(!lost.exists(), "{}", freed.stdout);
    assert!(freed.stdout.contains("removed: 20 B in 1 file"));
    let json = gc(&scratch, &["-o", "json"]).json();
    assert_eq!(json["served"], false);
    assert_eq!(json["waiting"], json!({}));
}

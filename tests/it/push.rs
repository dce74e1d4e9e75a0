//! `push`: a folder becomes a package tree in a registry, once.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use kubepkg_core::{Algorithm, Digest};
use kubepkg_test_support::{Content, Fault, Image, ImageBuilder, Package};
use serde_json::json;

use crate::command::{Run, Scratch};
use crate::publisher::Publisher;
use crate::served::{Mirror, send};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A registry that takes what is pushed.
fn registry(scratch: &Scratch) -> Mirror {
    Mirror::start_with(scratch, "registry", &["--anonymous-push", "--new-store"])
}

/// A tree with a program in it.
fn tree(scratch: &Scratch) {
    scratch.write(
        "web/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    );
    scratch.write("web/templates/app.yaml", "kind: ConfigMap\n");
    let program = scratch.write("web/bin/run.sh", "#!/bin/sh\n");
    executable(&program);
}

fn executable(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn push(scratch: &Scratch, reference: &str, flags: &[&str]) -> Run {
    scratch.run(&[&["push", "web", reference][..], flags].concat())
}

/// The files of a gzip-compressed tar with their modes.
fn unpacked(layer: &[u8]) -> Vec<(String, u32)> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(layer));
    let entries = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        (path, entry.header().mode().unwrap())
    });
    entries.collect()
}

#[test]
fn a_tree_is_pushed_once_and_read_back() {
    let scratch = Scratch::new();
    let registry = registry(&scratch);
    tree(&scratch);
    let reference = format!("{}/team/web:1.0.0-1", registry.host);
    let origin = ["--source", "https://git.example/web", "--revision", "main"];
    let run = push(&scratch, &format!("oci://{reference}"), &origin)
        .ok()
        .says("pushed 3 files");
    let (tagged, digest) = run.stdout.trim_end().split_once('@').unwrap();
    assert_eq!(tagged, reference);
    let bytes = registry.body("/v2/team/web/manifests/1.0.0-1");
    assert_eq!(Digest::sha256(&bytes).to_string(), digest);
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(manifest["mediaType"], MANIFEST);
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.cncf.flux.config.v1+json"
    );
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    assert_eq!(
        layers[0]["mediaType"],
        "application/vnd.cncf.flux.content.v1.tar+gzip"
    );
    let blob = |descriptor: &serde_json::Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        registry.body(&format!("/v2/team/web/blobs/{digest}"))
    };
    assert_eq!(blob(&manifest["config"]), b"{}");
    let layer = blob(&layers[0]);
    assert_eq!(
        unpacked(&layer),
        [
            ("Chart.yaml".to_owned(), 0o644),
            ("bin/run.sh".to_owned(), 0o755),
            ("templates/app.yaml".to_owned(), 0o644),
        ]
    );
    let mut plain = Vec::new();
    let mut reader = flate2::read::GzDecoder::new(&layer[..]);
    std::io::copy(&mut reader, &mut plain).unwrap();
    let content = Digest::sha256(&plain).to_string();
    assert_eq!(
        manifest["annotations"],
        json!({
            "dev.kubepkg.content.digest": content,
            "org.opencontainers.image.created": "1970-01-01T00:00:00Z",
            "org.opencontainers.image.source": "https://git.example/web",
            "org.opencontainers.image.revision": "main",
        })
    );

    // again, from another source: what is published stays
    let run = push(&scratch, &reference, &["-o", "json"]).ok();
    let answer = run.json();
    assert_eq!(answer["reference"], format!("{reference}@{digest}"));
    assert_eq!(
        (&answer["pushed"], &answer["files"]),
        (&json!(false), &json!(3))
    );
    assert_eq!(answer["content"], content);
    assert!(registry.body("/v2/team/web/manifests/1.0.0-1") == bytes);

    // other content does not take the tag; its mode is content too
    executable(&scratch.path("web/Chart.yaml"));
    let run = push(&scratch, &reference, &[]).fails(1, "published with other content");
    run.says(&content)
        .says(digest)
        .says(&reference)
        .says("another tag");
    assert!(registry.body("/v2/team/web/manifests/1.0.0-1") == bytes);
    let next = format!("{}/team/web:1.0.0-2", registry.host);
    let answer = push(&scratch, &next, &["-o", "json"]).ok().json();
    assert_eq!(answer["pushed"], true);
}

#[test]
fn a_tree_of_another_program_is_known_by_its_content() {
    use std::io::Write as _;
    let scratch = Scratch::new();
    let registry = registry(&scratch);
    tree(&scratch);
    let reference = |tag: &str| format!("{}/team/web:{tag}", registry.host);
    push(&scratch, &reference("ours"), &[]).ok();
    let manifest = registry.json("/v2/team/web/manifests/ours");
    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    let layer = registry.body(&format!("/v2/team/web/blobs/{layer}"));
    let mut plain = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(&layer[..]), &mut plain).unwrap();
    let put = |bytes: &[u8]| {
        let digest = Digest::sha256(bytes);
        let path = format!("/v2/team/web/blobs/uploads/?digest={digest}");
        let answer = send(
            &registry.host,
            "POST",
            &path,
            "application/octet-stream",
            bytes,
        );
        assert_eq!(answer.status, 201);
        digest.to_string()
    };
    let publish = |tag: &str, layer: &[u8], kind: &str| {
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": "a/b", "digest": put(b"{}"), "size": 2},
            "layers": [{"mediaType": kind, "digest": put(layer), "size": layer.len()}],
        });
        let path = format!("/v2/team/web/manifests/{tag}");
        let bytes = manifest.to_string().into_bytes();
        let answer = send(&registry.host, "PUT", &path, MANIFEST, &bytes);
        assert_eq!(answer.status, 201);
        Digest::sha256(&bytes)
    };
    let gzip = |bytes: &[u8]| {
        let level = flate2::Compression::fast();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
    let theirs = publish("theirs", &gzip(&plain), kind);
    let run = push(&scratch, &reference("theirs"), &[])
        .ok()
        .says("already there");
    assert!(run.stdout.trim_end().ends_with(&theirs.to_string()));

    publish("other", &gzip(b"other"), kind);
    let other = Digest::sha256(b"other").to_string();
    push(&scratch, &reference("other"), &[])
        .fails(1, "published with other content")
        .says(&other);
    publish("image", &gzip(&plain), "application/octet-stream");
    push(&scratch, &reference("image"), &[]).fails(1, "which is no package tree");
    // short, and so long that it is noticed under way; and a name for the content helps nothing
    for broken in [b"no gzip".to_vec(), b"no gzip at all".repeat(100_000)] {
        let tag = format!("broken{}", broken.len());
        publish(&tag, &broken, kind);
        let run = push(&scratch, &reference(&tag), &[]).fails(3, "cannot be unpacked");
        assert!(!run.stderr.contains("cannot be written"), "{}", run.stderr);
    }
}

#[test]
fn what_a_manifest_says_of_its_layer_is_not_believed() {
    let scratch = Scratch::new();
    let (ours, publisher) = (registry(&scratch), Publisher::new());
    tree(&scratch);
    push(&scratch, &format!("{}/team/web:1", ours.host), &[]).ok();
    let manifest = ours.json("/v2/team/web/manifests/1");
    let content = &manifest["annotations"]["dev.kubepkg.content.digest"];
    let kind = manifest["layers"][0]["mediaType"].as_str().unwrap();
    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    let layer = ours.body(&format!("/v2/team/web/blobs/{layer}"));
    let gzip = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut out, bytes).unwrap();
        out.finish().unwrap()
    };
    let mut plain = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(&layer[..]), &mut plain).unwrap();
    let publish = |tag: &str, layer: Vec<u8>, said: &serde_json::Value| {
        let mut content = Content::default();
        let mut blob = |kind: &str, bytes| content.add_blob(Algorithm::Sha256, kind, bytes);
        let json = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blob("application/vnd.cncf.flux.config.v1+json", b"{}".to_vec()),
            "layers": [blob(kind, layer)],
            "annotations": {"dev.kubepkg.content.digest": said},
        });
        let descriptor = content.add_manifest(Algorithm::Sha256, MANIFEST, &json);
        let image = Image {
            descriptor,
            content,
        };
        publisher.upstream.put_image("team/web", &[tag], &image);
    };
    let reference = |tag: &str| format!("{}/team/web:{tag}", publisher.upstream.host());
    publish("same", gzip(&plain), content);
    push(&scratch, &reference("same"), &[])
        .ok()
        .says("already there: ");
    publish("evil", gzip(b"evil"), content);
    push(&scratch, &reference("evil"), &[])
        .fails(1, "published with other content")
        .says(&Digest::sha256(b"evil").to_string())
        .says(content.as_str().unwrap());
    publish(
        "lying",
        gzip(&plain),
        &json!(Digest::sha256(b"evil").to_string()),
    );
    push(&scratch, &reference("lying"), &[])
        .fails(1, "published with other content")
        .says(&Digest::sha256(b"evil").to_string());
    // the very layer, which the registry has lost
    publish("lost", layer, content);
    push(&scratch, &reference("lost"), &[]).ok();
    publisher.upstream.fault("/blobs/", Fault::Status(404), 1);
    push(&scratch, &reference("lost"), &[]).fails(1, "is not in the registry any more");
}

#[test]
fn a_tree_without_the_modes_of_executables_is_there() {
    let scratch = Scratch::new();
    let registry = registry(&scratch);
    tree(&scratch);
    let program = scratch.path("web/bin/run.sh");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o644)).unwrap();
    let reference = format!("{}/team/web:1", registry.host);
    let old = push(&scratch, &reference, &["-o", "json"]).ok().json();
    executable(&program);
    push(&scratch, &reference, &[])
        .ok()
        .says("already there, published without the modes of executables");
    let now = push(&scratch, &reference, &["-o", "json"]).ok().json();
    assert_eq!(now["pushed"], false);
    for member in ["reference", "digest", "content", "layer"] {
        assert_eq!(now[member], old[member], "{member}");
    }
    // the other way round it is another tree
    push(&scratch, &format!("{}/team/web:2", registry.host), &[]).ok();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o644)).unwrap();
    push(&scratch, &format!("{}/team/web:2", registry.host), &[])
        .fails(1, "published with other content");
}

#[test]
fn a_package_of_a_pushed_tree_is_carried_and_served() {
    let publisher = Publisher::new();
    let scratch = &publisher.scratch;
    let registry = registry(scratch);
    tree(scratch);
    let run = push(scratch, &format!("{}/team/web:1.0.0-1", registry.host), &[]).ok();
    let pinned = run.stdout.trim_end();
    let image = publisher.image("team/app", "1", &ImageBuilder::new(1).build());
    let package = Package::new("web", "1.0.0")
        .tree(&format!("oci://{pinned}"), ".")
        .image(&image);
    publisher.publish(&[package]);
    publisher.create(&["web"]).ok();
    let manifest = registry.body("/v2/team/web/manifests/1.0.0-1");
    let path = registry.host.replace(':', "_");
    registry.stop();
    let call = ["bundle", "import", "site.tar", "--store", "site"];
    let key = ["--public-key", "release.pub"];
    scratch.run(&[&call[..], &key].concat()).ok();
    let site = Mirror::start(scratch, "site");
    let served = site.body(&format!("/v2/{path}/team/web/manifests/1.0.0-1"));
    assert!(served == manifest);
}

#[test]
fn what_cannot_be_pushed() {
    let scratch = Scratch::new();
    let registry = Mirror::start_with(&scratch, "registry", &["--new-store"]);
    let reference = format!("{}/team/web:1", registry.host);
    push(&scratch, &reference, &[])
        .fails(4, "cannot be read")
        .says("web");
    scratch.write("web", "a file");
    push(&scratch, &reference, &[]).fails(2, "this is no folder");
    std::fs::remove_file(scratch.path("web")).unwrap();
    std::fs::create_dir(scratch.path("web")).unwrap();
    push(&scratch, &reference, &[]).fails(3, "there are no files");
    tree(&scratch);
    symlink("/etc/passwd", scratch.path("web/link")).unwrap();
    push(&scratch, &reference, &[])
        .fails(3, "this is a symbolic link")
        .says("web/link");
    std::fs::remove_file(scratch.path("web/link")).unwrap();
    for (reference, why) in [
        ("team/web:1", "the name of a registry"),
        ("h.example/team/web", "this has no tag"),
    ] {
        push(&scratch, reference, &[]).fails(2, why);
    }
    push(&scratch, &reference, &["--source", "a\nb"]).fails(2, "one line");
    for flag in ["--source", "--revision"] {
        let run = push(
            &scratch,
            &reference,
            &[flag, "https://u:secret@git.example/web"],
        )
        .fails(2, "a user or password");
        let run = run.says(flag);
        assert!(!run.stderr.contains("secret"), "{}", run.stderr);
    }
    // a registry that takes nothing says so
    let run = push(&scratch, &reference, &["-o", "json"]);
    assert_eq!(run.code, 5, "{}", run.stderr);
    let error = run.json_error();
    assert!(
        error["message"].as_str().unwrap().contains("405"),
        "{error}"
    );
    assert_eq!(scratch.names(), ["registry", "web"]);
}

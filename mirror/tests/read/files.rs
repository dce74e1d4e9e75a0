//! `/files/…`: files that are neither charts nor images.

use kubepkg_core::file::{FileName, HOST};
use serde_json::json;

use super::fixture::{Memory, Running, image};

fn add(store: &Memory, name: &str, content: &[u8]) -> kubepkg_core::Digest {
    let name: FileName = name.parse().unwrap();
    let repository = format!("{HOST}/{}", name.repository());
    store.blob_in(&repository, b"{}");
    let content_digest = store.blob_in(&repository, content);
    let manifest = name.manifest(&content_digest, content.len() as u64);
    store.raw_manifest_in(&repository, &manifest, &["latest"]);
    content_digest
}

#[tokio::test]
async fn files_are_found_by_any_name_and_listed() {
    let server = Running::start().await;
    let digest = add(&server.store, "dir/ünï 1.txt", b"one");
    add(&server.store, "empty", b"");
    let got = server.get("/files/dir/%C3%BCn%C3%AF%201.txt").await;
    assert_eq!((got.status, &got.body[..]), (200, &b"one"[..]));
    assert_eq!(got.header("content-disposition"), Some("attachment"));
    assert_eq!(
        got.header("docker-content-digest"),
        Some(&*digest.to_string())
    );
    assert_eq!(server.get("/files/empty").await.status, 200);
    let list = server.get("/files/").await.json();
    let files = list["files"].as_array().unwrap();
    assert_eq!(files.len(), 2);
    assert_eq!(
        files[0],
        json!({"name": "dir/ünï 1.txt", "path": "/files/dir/%C3%BCn%C3%AF%201.txt",
            "digest": digest, "size": 3})
    );
    for absent in ["/files/other", "/files/../empty", "/files/dir"] {
        assert_eq!(server.get(absent).await.status, 404, "{absent}");
    }
}

#[tokio::test]
async fn what_was_pushed_to_the_place_of_a_file_is_none() {
    let server = Running::start().await;
    let name: FileName = "installer".parse().unwrap();
    let repository = format!("{HOST}/{}", name.repository());
    let other = image(&server.store, &repository, "x");
    server.store.manifest_in(&repository, &other, &["latest"]);
    assert_eq!(server.get("/files/installer").await.status, 404);
    // another file's manifest
    let content = server.store.blob_in(&repository, b"evil");
    let foreign: FileName = "harmless".parse().unwrap();
    let manifest = foreign.manifest(&content, 4);
    server
        .store
        .raw_manifest_in(&repository, &manifest, &["latest"]);
    assert_eq!(server.get("/files/installer").await.status, 404);
}

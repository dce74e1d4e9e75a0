//! `/v2/<name>/manifests/<tag or digest>`.

use kubepkg_core::store::Change;
use serde_json::json;

use super::fixture::{Running, image};

const R: &str = "quay.io/team/app";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

#[tokio::test]
async fn exact_bytes_under_the_type_they_were_stored_with() {
    let server = Running::start().await;
    // formatting, order, unknown members and `data` are the publisher's business
    let odd = format!(
        "{{\n \"manifests\":[],\"schemaVersion\" : 2, \"mediaType\":\"{DOCKER_LIST}\", \"x\":[1.0e2]}}\n"
    );
    let digest = server.store.raw_manifest_in(R, odd.as_bytes(), &["v1"]);
    let accepts: [&[(&str, &str)]; 5] = [
        &[],
        &[("Accept", "*/*")],
        &[("Accept", "application/json")],
        &[("Accept", "application/vnd.oci.image.manifest.v1+json")],
        &[("Accept", "text/html"), ("Accept", "image/png;q=0")],
    ];
    for target in [
        format!("/v2/{R}/manifests/{digest}"),
        format!("/v2/{R}/manifests/v1"),
    ] {
        for accept in accepts {
            let got = server.send("GET", &target, accept).await;
            assert_eq!((got.status, got.body.as_slice()), (200, odd.as_bytes()));
            assert_eq!(got.header("content-type"), Some(DOCKER_LIST));
            assert_eq!(
                got.header("docker-content-digest"),
                Some(digest.to_string().as_str())
            );
            let head = server.send("HEAD", &target, accept).await;
            assert_eq!(head.lasting_headers(), got.lasting_headers());
        }
    }
}

#[tokio::test]
async fn tags_and_digests_answer_304() {
    let server = Running::start().await;
    let digest = server
        .store
        .manifest_in(R, &image(&server.store, R, "a"), &["v1"]);
    let etag = format!("\"{digest}\"");
    for (target, cache) in [
        (format!("/v2/{R}/manifests/v1"), "no-cache"),
        (
            format!("/v2/{R}/manifests/{digest}"),
            "max-age=31536000, immutable",
        ),
    ] {
        assert_eq!(
            server.get(&target).await.header("cache-control"),
            Some(cache)
        );
        for method in ["GET", "HEAD"] {
            let lines = [("If-None-Match", etag.as_str())];
            let got = server.send(method, &target, &lines).await;
            assert_eq!(got.status, 304);
            assert_eq!(got.header("etag"), Some(etag.as_str()));
        }
    }
}

#[tokio::test]
async fn what_is_not_here_is_404_with_its_code() {
    let server = Running::start().await;
    server
        .store
        .manifest_in(R, &image(&server.store, R, "a"), &["v1"]);
    let absent = kubepkg_core::Digest::sha256(b"absent");
    for (target, status, code) in [
        (format!("/v2/{R}/manifests/v2"), 404, "MANIFEST_UNKNOWN"),
        (
            format!("/v2/{R}/manifests/{absent}"),
            404,
            "MANIFEST_UNKNOWN",
        ),
        (
            format!("/v2/{R}/manifests/.illegal"),
            404,
            "MANIFEST_UNKNOWN",
        ),
        (
            format!("/v2/{R}/manifests/sha256:bad"),
            400,
            "DIGEST_INVALID",
        ),
        (
            "/v2/quay.io/none/manifests/v1".to_owned(),
            404,
            "NAME_UNKNOWN",
        ),
        (
            "/v2/quay.io/UPPER/manifests/v1".to_owned(),
            400,
            "NAME_INVALID",
        ),
        (
            format!("/v2/{R}/blobs/uploads/1"),
            404,
            "BLOB_UPLOAD_UNKNOWN",
        ),
        (format!("/v2/{R}"), 404, "NAME_UNKNOWN"),
    ] {
        let got = server.get(&target).await;
        assert_eq!(
            (got.status, got.code().as_str()),
            (status, code),
            "{target}"
        );
        let head = server.head(&target).await;
        assert_eq!(head.lasting_headers(), got.lasting_headers());
    }
    let got = server.get(&format!("/v2/{R}/manifests/v2")).await;
    let text = String::from_utf8(got.body).unwrap();
    assert!(text.contains(R) && text.contains("v2"), "{text}");
}

#[tokio::test]
async fn large_manifests_are_served() {
    let server = Running::start().await;
    let mut manifest = image(&server.store, R, "large");
    manifest["annotations"]["fill"] = json!("x".repeat(4 * 1024 * 1024 - 4096));
    let digest = server.store.manifest_in(R, &manifest, &[]);
    for _ in 0..2 {
        let got = server.get(&format!("/v2/{R}/manifests/{digest}")).await;
        assert!(got.body == manifest.to_string().as_bytes());
    }
}

#[tokio::test]
async fn a_commit_is_seen_by_the_next_request() {
    let server = Running::start().await;
    let first = server
        .store
        .manifest_in(R, &image(&server.store, R, "a"), &["v1"]);
    let target = format!("/v2/{R}/manifests/v1");
    let digest =
        |answer: super::client::Answer| answer.header("docker-content-digest").map(str::to_owned);
    assert_eq!(digest(server.head(&target).await), Some(first.to_string()));
    let second = server
        .store
        .manifest_in(R, &image(&server.store, R, "b"), &["v1"]);
    assert_eq!(digest(server.head(&target).await), Some(second.to_string()));
    server.store.commit(&[Change::Manifest {
        repository: R.parse().unwrap(),
        digest: second,
        new: None,
    }]);
    for target in [target, format!("/v2/{R}/manifests/{second}")] {
        assert_eq!(server.head(&target).await.status, 404);
    }
}

#[tokio::test]
async fn bytes_that_do_not_have_their_digest_are_not_served() {
    let server = Running::start().await;
    let manifest = image(&server.store, R, "a");
    let digest = server.store.manifest_in(R, &manifest, &[]);
    let spoiled = manifest.to_string().replace("note", "nota");
    server.store.spoil(&digest, spoiled.as_bytes());
    let target = format!("/v2/{R}/manifests/{digest}");
    assert_eq!(server.get(&target).await.status, 500);
    server.store.lose(&digest);
    assert_eq!(server.get(&target).await.code(), "MANIFEST_UNKNOWN");
}

//! `/v2/<name>/blobs/<digest>`.

use std::sync::atomic::Ordering;

use kubepkg_core::Digest;
use kubepkg_mirror::source::Standing;

use super::fixture::{Running, image};

const R: &str = "docker.io/library/x";

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

#[tokio::test]
async fn a_blob_comes_whole_with_everything_a_client_checks() {
    let server = Running::start().await;
    // several buffers, and not a multiple of one
    let bytes = pattern(3 * 256 * 1024 + 17);
    let digest = server.store.blob_in(R, &bytes);
    let target = format!("/v2/{R}/blobs/{digest}");
    let got = server.get(&target).await;
    assert_eq!(got.status, 200);
    assert!(got.body == bytes);
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("docker-content-digest", &digest.to_string()),
        ("etag", &format!("\"{digest}\"")),
        ("accept-ranges", "bytes"),
        ("cache-control", "max-age=31536000, immutable"),
        ("docker-distribution-api-version", "registry/2.0"),
    ] {
        assert_eq!(got.header(name), Some(value));
    }
    assert_eq!(got.header("content-encoding"), None);
    let head = server.head(&target).await;
    assert_eq!(head.lasting_headers(), got.lasting_headers());
}

#[tokio::test]
async fn head_touches_no_file() {
    let server = Running::start().await;
    let blob = server.store.blob_in(R, b"x");
    let manifest = server
        .store
        .manifest_in(R, &image(&server.store, R, "a"), &["v1"]);
    let before = server.store.opened.load(Ordering::SeqCst);
    for target in [
        format!("/v2/{R}/blobs/{blob}"),
        format!("/v2/{R}/manifests/{manifest}"),
        format!("/v2/{R}/manifests/v1"),
    ] {
        assert_eq!(server.head(&target).await.status, 200);
    }
    assert_eq!(server.store.opened.load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn ranges_of_the_conformance_suite() {
    let server = Running::start().await;
    let bytes = pattern(2048);
    let digest = server.store.blob_in(R, &bytes);
    let target = format!("/v2/{R}/blobs/{digest}");
    for (range, first, last) in [
        ("bytes=500-1499", 500, 1499),
        ("bytes=500-", 500, 2047),
        ("bytes=-500", 1548, 2047),
        ("bytes=2000-5000", 2000, 2047),
        ("bytes=0-", 0, 2047),
    ] {
        let got = server.send("GET", &target, &[("Range", range)]).await;
        assert_eq!(got.status, 206, "{range}");
        assert!(got.body == bytes[first..=last], "{range}");
        let place = format!("bytes {first}-{last}/2048");
        assert_eq!(got.header("content-range"), Some(place.as_str()));
        assert_eq!(got.header("accept-ranges"), Some("bytes"));
        let head = server.send("HEAD", &target, &[("Range", range)]).await;
        assert_eq!(head.status, 200, "a range means nothing to HEAD");
        assert_eq!(head.header("content-length"), Some("2048"));
    }
    for range in ["bytes=500-0", "bytes=5000-10000"] {
        let got = server.send("GET", &target, &[("Range", range)]).await;
        assert_eq!(got.status, 416, "{range}");
        assert_eq!(got.header("content-range"), Some("bytes */2048"));
        assert_eq!(got.header("content-length"), Some("0"));
    }
}

#[tokio::test]
async fn many_ranges_come_as_parts() {
    let server = Running::start().await;
    let bytes = pattern(300_000);
    let digest = server.store.blob_in(R, &bytes);
    let target = format!("/v2/{R}/blobs/{digest}");
    let asked = [("Range", "bytes=0-99,200-299,-50")];
    let got = server.send("GET", &target, &asked).await;
    assert_eq!(got.status, 206);
    let media_type = got.header("content-type").unwrap();
    let boundary = media_type
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let mut want = Vec::new();
    for (first, last) in [(0, 99), (200, 299), (299_950, 299_999)] {
        let line = if want.is_empty() { "" } else { "\r\n" };
        let head = format!(
            "{line}--{boundary}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: bytes {first}-{last}/300000\r\n\r\n"
        );
        want.extend_from_slice(head.as_bytes());
        want.extend_from_slice(&bytes[first..=last]);
    }
    want.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert!(got.body == want);
}

#[tokio::test]
async fn more_ranges_than_are_answered_get_the_whole() {
    let server = Running::start().await;
    let bytes = pattern(5000);
    let digest = server.store.blob_in(R, &bytes);
    let specs: Vec<String> = (0..1025).map(|i| format!("{}-{}", 2 * i, 2 * i)).collect();
    let range = format!("bytes={}", specs.join(","));
    let target = format!("/v2/{R}/blobs/{digest}");
    let got = server.send("GET", &target, &[("Range", &range)]).await;
    assert_eq!((got.status, got.body == bytes), (200, true));
}

#[tokio::test]
async fn a_client_that_has_it_gets_304() {
    let server = Running::start().await;
    let digest = server.store.blob_in(R, b"hello");
    let target = format!("/v2/{R}/blobs/{digest}");
    let etag = format!("\"{digest}\"");
    for method in ["GET", "HEAD"] {
        // If-None-Match comes before Range
        let lines = [("If-None-Match", etag.as_str()), ("Range", "bytes=0-1")];
        let got = server.send(method, &target, &lines).await;
        assert_eq!(got.status, 304);
        assert_eq!(got.header("etag"), Some(etag.as_str()));
        // RFC 9110, 8.6: none, or that of the whole
        assert!(matches!(got.header("content-length"), None | Some("5")));
    }
    let other = [("If-None-Match", "\"sha256:other\"")];
    assert_eq!(server.send("GET", &target, &other).await.status, 200);
}

#[tokio::test]
async fn if_range_decides_whether_a_range_counts() {
    let server = Running::start().await;
    let digest = server.store.blob_in(R, b"hello");
    let target = format!("/v2/{R}/blobs/{digest}");
    let etag = format!("\"{digest}\"");
    for (tag, status, body) in [(etag.as_str(), 206, "he"), ("\"x\"", 200, "hello")] {
        let lines = [("Range", "bytes=0-1"), ("If-Range", tag)];
        let got = server.send("GET", &target, &lines).await;
        assert_eq!((got.status, got.body.as_slice()), (status, body.as_bytes()));
    }
}

#[tokio::test]
async fn empty_and_tiny_blobs() {
    let server = Running::start().await;
    for bytes in [&b""[..], b"{}"] {
        let digest = server.store.blob_in(R, bytes);
        let target = format!("/v2/{R}/blobs/{digest}");
        let got = server.get(&target).await;
        assert_eq!((got.status, got.body.as_slice()), (200, bytes));
        assert_eq!(
            server.head(&target).await.lasting_headers(),
            got.lasting_headers()
        );
    }
    let empty = format!("/v2/{R}/blobs/{}", Digest::sha256(b""));
    let got = server.send("GET", &empty, &[("Range", "bytes=0-")]).await;
    assert_eq!(got.status, 416);
    assert_eq!(got.header("content-range"), Some("bytes */0"));
}

#[tokio::test]
async fn membership_is_looked_up_per_repository() {
    let server = Running::start().await;
    let blob = server.store.blob_in(R, b"only in x");
    let manifest = server
        .store
        .manifest_in(R, &image(&server.store, R, "a"), &[]);
    server
        .store
        .blob_in("docker.io/library/y", b"something else");
    for (target, code) in [
        (
            format!("/v2/docker.io/library/y/blobs/{blob}"),
            "BLOB_UNKNOWN",
        ),
        (
            format!("/v2/docker.io/library/z/blobs/{blob}"),
            "NAME_UNKNOWN",
        ),
        // a manifest is not a blob
        (format!("/v2/{R}/blobs/{manifest}"), "BLOB_UNKNOWN"),
        (format!("/v2/{R}/manifests/{blob}"), "MANIFEST_UNKNOWN"),
    ] {
        let got = server.get(&target).await;
        assert_eq!((got.status, got.code().as_str()), (404, code), "{target}");
        assert_eq!(
            server.head(&target).await.lasting_headers(),
            got.lasting_headers()
        );
    }
    let message = server.get(&format!("/v2/{R}/blobs/{manifest}")).await;
    let message = String::from_utf8(message.body).unwrap();
    assert!(
        message.contains(&manifest.to_string()) && message.contains(R),
        "{message}"
    );
}

#[tokio::test]
async fn a_malformed_digest_is_said() {
    let server = Running::start().await;
    server.store.blob_in(R, b"x");
    let got = server.get(&format!("/v2/{R}/blobs/sha256:bad")).await;
    assert_eq!((got.status, got.code().as_str()), (400, "DIGEST_INVALID"));
}

#[tokio::test]
async fn lost_content_is_404_and_content_of_another_size_an_error() {
    let server = Running::start().await;
    let digest = server.store.blob_in(R, b"hello");
    let target = format!("/v2/{R}/blobs/{digest}");
    server.store.spoil(&digest, b"hell");
    let got = server.get(&target).await;
    assert_eq!((got.status, got.code().as_str()), (500, "UNKNOWN"));
    server.store.lose(&digest);
    let got = server.get(&target).await;
    assert_eq!((got.status, got.code().as_str()), (404, "BLOB_UNKNOWN"));
}

#[tokio::test]
async fn condemned_content_is_rescued_and_quarantined_content_absent() {
    let server = Running::start().await;
    let store = &server.store;
    let blob = store.blob_in(R, b"layer");
    let manifest = store.manifest_in(R, &image(store, R, "a"), &["v1"]);
    let targets = [
        (blob, format!("/v2/{R}/blobs/{blob}")),
        (manifest, format!("/v2/{R}/manifests/{manifest}")),
        (manifest, format!("/v2/{R}/manifests/v1")),
    ];
    for (digest, target) in &targets {
        for method in ["HEAD", "GET"] {
            let stand = |standing| store.standings.lock().unwrap().insert(*digest, standing);
            stand(Standing::Condemned);
            assert_eq!(server.send(method, target, &[]).await.status, 200);
            assert_eq!(store.rescued.lock().unwrap().pop(), Some(*digest));
            stand(Standing::Quarantined);
            // not even for who has it already
            let has = [("If-None-Match", "*")];
            assert_eq!(server.send(method, target, &has).await.status, 404);
            stand(Standing::Sound);
            assert_eq!(server.send(method, target, &[]).await.status, 200);
            assert_eq!(store.rescued.lock().unwrap().pop(), None);
        }
    }
}

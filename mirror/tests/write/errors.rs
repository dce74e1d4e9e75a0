//! All errors of the write side: a status, a code of the specification's list, and a text that
//! names the repository and what in it was meant.

use kubepkg_core::Digest;
use serde_json::json;

use super::fixture::{CONFIG, OCI_IMAGE, OCI_INDEX, Site, described};

/// Method, path below the repository, headers, body; status, code, what the text names.
type Case<'a> = (
    &'a str,
    String,
    &'a [(&'a str, &'a str)],
    &'a str,
    u16,
    &'a str,
    &'a str,
);

#[tokio::test]
async fn every_error_names_repository_and_reference() {
    let site = Site::start().await;
    let repository = "team/app";
    let digest = site.push_blob(repository, b"{}").await;
    let other = Digest::sha256("other");
    let upload = site.begin(repository).await;
    let id = upload.rsplit('/').next().unwrap();
    site.patch(&upload, 0, b"abc").await;
    let base = "/v2/team/app";
    let gone = "00000000-0000-4000-8000-000000000000";
    let incomplete = json!({
        "schemaVersion": 2, "mediaType": OCI_IMAGE,
        "config": described(CONFIG, b"other"), "layers": [],
    })
    .to_string();
    let many: String = (0..200).map(|n| format!("&tag=t{n}")).collect();
    let long = "x".repeat(5 * 1024 * 1024);
    let none: &[(&str, &str)] = &[];
    let range = |text: &'static str| [("Content-Range", text)];
    let kind = |text: &'static str| [("Content-Type", text)];
    let (early, odd, short) = (range("5-7"), range("x"), range("3-9"));
    let (image, index) = (kind(OCI_IMAGE), kind(OCI_INDEX));

    let d = digest.to_string();
    let o = other.to_string();
    #[rustfmt::skip]
    let cases: Vec<Case<'_>> = vec![
        ("POST", format!("/blobs/uploads/?digest={o}"), none, "sent", 400, "DIGEST_INVALID", &o),
        ("POST", "/blobs/uploads/?digest=sha256:1".into(), none, "", 400, "DIGEST_INVALID", "sha256:1"),
        ("POST", "/blobs/uploads/?digest-algorithm=md5".into(), none, "", 400, "DIGEST_INVALID", "md5"),
        ("POST", "/blobs/uploads/?mount=sha256:1".into(), none, "", 400, "DIGEST_INVALID", "sha256:1"),
        ("PATCH", format!("/blobs/uploads/{gone}"), none, "x", 404, "BLOB_UPLOAD_UNKNOWN", gone),
        ("PUT", format!("/blobs/uploads/{gone}?digest={o}"), none, "x", 404, "BLOB_UPLOAD_UNKNOWN", gone),
        ("GET", format!("/blobs/uploads/{gone}"), none, "", 404, "BLOB_UPLOAD_UNKNOWN", gone),
        ("DELETE", format!("/blobs/uploads/{gone}"), none, "", 404, "BLOB_UPLOAD_UNKNOWN", gone),
        ("PATCH", format!("/blobs/uploads/{id}"), &early, "xyz", 416, "BLOB_UPLOAD_INVALID", id),
        ("PATCH", format!("/blobs/uploads/{id}"), &odd, "xyz", 400, "BLOB_UPLOAD_INVALID", id),
        ("PATCH", format!("/blobs/uploads/{id}"), &short, "xyz", 400, "SIZE_INVALID", id),
        ("PUT", format!("/blobs/uploads/{id}?digest={o}"), &early, "xyz", 416, "BLOB_UPLOAD_INVALID", id),
        ("PUT", format!("/blobs/uploads/{id}"), none, "", 400, "DIGEST_INVALID", id),
        ("PUT", format!("/blobs/uploads/{id}?digest={o}"), none, "xyz", 400, "DIGEST_INVALID", &o),
        ("PUT", format!("/manifests/{o}"), &image, &incomplete, 400, "DIGEST_INVALID", &o),
        ("PUT", "/manifests/v1".into(), &image, &incomplete, 400, "MANIFEST_BLOB_UNKNOWN", "v1"),
        ("PUT", "/manifests/v1".into(), &index, &incomplete, 400, "MANIFEST_INVALID", "v1"),
        ("PUT", "/manifests/v1".into(), &image, "{", 400, "MANIFEST_INVALID", "v1"),
        ("PUT", "/manifests/v1".into(), &image, &long, 413, "SIZE_INVALID", "v1"),
        ("PUT", "/manifests/.v1".into(), &image, "{}", 400, "MANIFEST_INVALID", ".v1"),
        ("PUT", format!("/manifests/{o}?tag=t{many}"), &image, "{}", 414, "MANIFEST_INVALID", &o),
        ("DELETE", "/manifests/v1".into(), none, "", 404, "MANIFEST_UNKNOWN", "v1"),
        ("DELETE", format!("/manifests/{o}"), none, "", 404, "MANIFEST_UNKNOWN", &o),
        ("DELETE", format!("/blobs/{o}"), none, "", 404, "BLOB_UNKNOWN", &o),
        ("POST", format!("/blobs/{d}"), none, "", 405, "UNSUPPORTED", &d),
        ("POST", "/blobs/uploads/?ns=docker.io".into(), none, "", 400, "UNSUPPORTED", "uploads"),
    ];
    for (method, below, lines, body, status, code, names) in cases {
        let target = format!("{base}{below}");
        let answer = site.send(method, &target, lines, body.as_bytes()).await;
        assert_eq!(
            (answer.status, &*answer.code()),
            (status, code),
            "{method} {target}"
        );
        let error = &answer.json()["errors"][0];
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(repository), "{method} {target}: {message}");
        assert!(message.contains(names), "{method} {target}: {message}");
        assert!(message.len() < 1000 && !message.contains('\n'), "{message}");
        assert!(error["detail"].to_string().contains(repository), "{error}");
    }
}

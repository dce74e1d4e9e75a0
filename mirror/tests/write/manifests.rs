//! end-7a and 7b: what is stored, and what is refused.

use kubepkg_core::{Algorithm, Digest};
use kubepkg_mirror::http::PushSettings;
use serde_json::{Value, json};

use super::fixture::{
    Body, CONFIG, LAYER, OCI_IMAGE, OCI_INDEX, Site, described, location, refused, send,
};

/// Puts bytes with a Content-Type, or without one.
async fn put(
    site: &Site,
    reference: &str,
    kind: Option<&str>,
    bytes: &[u8],
) -> super::client::Answer {
    let target = format!("/v2/a/manifests/{reference}");
    let lines: Vec<_> = kind
        .map(|kind| ("Content-Type", kind))
        .into_iter()
        .collect();
    site.send("PUT", &target, &lines, bytes).await
}

/// Asserts that a manifest is read back as it was written.
async fn assert_stored(site: &Site, reference: &str, kind: &str, bytes: &[u8]) {
    let got = site.get(&format!("/v2/a/manifests/{reference}")).await;
    assert_eq!(got.status, 200, "{reference}");
    assert_eq!(got.body, bytes);
    assert_eq!(got.header("content-type"), Some(kind));
    let digest = got.header("docker-content-digest").unwrap();
    assert!(digest.parse::<Digest>().unwrap().matches(bytes));
}

#[tokio::test]
async fn put_by_tag() {
    let site = Site::start().await;
    let manifest = site.image("a", "x").await.to_string();
    let digest = Digest::sha256(&manifest);
    let put = put(&site, "v1", Some(OCI_IMAGE), manifest.as_bytes()).await;
    assert_eq!(
        put.header("docker-content-digest"),
        Some(&*digest.to_string())
    );
    assert_eq!(put.header("oci-subject"), None);
    assert_eq!(put.header("oci-tag"), None);
    assert_eq!(
        site.get(&location(&put, 201)).await.body,
        manifest.as_bytes()
    );
    assert_stored(&site, "v1", OCI_IMAGE, manifest.as_bytes()).await;
    assert_stored(&site, &digest.to_string(), OCI_IMAGE, manifest.as_bytes()).await;
}

#[tokio::test]
async fn put_by_digest() {
    let site = Site::start().await;
    let manifest = site.image("a", "x").await.to_string();
    for digest in [
        Digest::sha256(&manifest),
        Digest::of(Algorithm::Sha512, &manifest),
    ] {
        let reference = digest.to_string();
        let answer = put(&site, &reference, Some(OCI_IMAGE), manifest.as_bytes()).await;
        assert_eq!(answer.header("docker-content-digest"), Some(&*reference));
        assert!(location(&answer, 201).ends_with(&reference));
        assert_stored(&site, &reference, OCI_IMAGE, manifest.as_bytes()).await;
    }
    let tags = site.get("/v2/a/tags/list").await.json();
    assert_eq!(tags["tags"], json!([]));
}

#[tokio::test]
async fn put_by_digest_of_other_bytes_is_400() {
    let site = Site::start().await;
    let manifest = site.image("a", "x").await.to_string();
    let digest = Digest::sha256(&manifest).to_string();
    let padded = format!("{manifest}  ");
    let answer = put(&site, &digest, Some(OCI_IMAGE), padded.as_bytes()).await;
    refused(&answer, 400, "DIGEST_INVALID");
    let target = format!("/v2/a/manifests/{digest}");
    refused(&site.get(&target).await, 404, "MANIFEST_UNKNOWN");
    for bad in [
        "sha256:baddigeststring",
        "sha256:",
        "md5:d41d8cd98f00b204e9800998ecf8427e",
    ] {
        let answer = put(&site, bad, Some(OCI_IMAGE), manifest.as_bytes()).await;
        refused(&answer, 400, "DIGEST_INVALID");
    }
}

#[tokio::test]
async fn put_by_digest_with_tags() {
    let site = Site::start().await;
    let manifest = site.image("a", "x").await.to_string();
    let tags: Vec<String> = (10..22).map(|n| format!("t{n}")).collect();
    let query: Vec<String> = tags.iter().map(|tag| format!("tag={tag}")).collect();
    for digest in [
        Digest::of(Algorithm::Sha512, &manifest),
        Digest::sha256(&manifest),
    ] {
        let reference = format!("{digest}?{}", query.join("&"));
        let answer = put(&site, &reference, Some(OCI_IMAGE), manifest.as_bytes()).await;
        assert_eq!(answer.status, 201);
        assert_eq!(answer.header("oci-tag"), Some(&*tags.join(", ")));
        for tag in &tags {
            let head = site.head(&format!("/v2/a/manifests/{tag}")).await;
            assert_eq!(
                head.header("docker-content-digest"),
                Some(&*digest.to_string())
            );
        }
    }
    let all: Vec<String> = (0..200).map(|n| format!("tag=u{n}")).collect();
    let reference = format!("{}?{}", Digest::sha256(&manifest), all.join("&"));
    let answer = put(&site, &reference, Some(OCI_IMAGE), manifest.as_bytes()).await;
    refused(&answer, 414, "MANIFEST_INVALID");
    let reference = format!("{}?tag=ok&tag=.no", Digest::sha256(&manifest));
    let answer = put(&site, &reference, Some(OCI_IMAGE), manifest.as_bytes()).await;
    refused(&answer, 400, "MANIFEST_INVALID");
    let listed = site.get("/v2/a/tags/list").await.json();
    assert_eq!(listed["tags"], json!(tags));
}

#[tokio::test]
async fn content_type_and_media_type() {
    let site = Site::start().await;
    let mut manifest = site.image("a", "x").await;
    let text = manifest.to_string();
    for kind in [
        None,
        Some(OCI_IMAGE),
        Some("application/json"),
        Some("application/vnd.oci.image.manifest.v1+json; charset=utf-8"),
        Some("Application/vnd.OCI.image.manifest.v1+json;a=b"),
    ] {
        let answer = put(&site, "v1", kind, text.as_bytes()).await;
        assert_eq!(answer.status, 201, "{kind:?}");
        // parameters are never sent
        assert_stored(&site, "v1", OCI_IMAGE, text.as_bytes()).await;
    }
    for kind in [
        OCI_INDEX,
        "text/plain",
        "application/vnd.docker.distribution.manifest.v2+json",
    ] {
        let answer = put(&site, "v2", Some(kind), text.as_bytes()).await;
        refused(&answer, 400, "MANIFEST_INVALID");
    }
    // only the header says it: it is kept beside the bytes
    manifest.as_object_mut().unwrap().remove("mediaType");
    let text = manifest.to_string();
    let answer = put(&site, "v3", Some(OCI_IMAGE), text.as_bytes()).await;
    assert_eq!(answer.status, 201);
    assert_stored(&site, "v3", OCI_IMAGE, text.as_bytes()).await;
}

#[tokio::test]
async fn unknown_fields_and_data_are_kept_byte_for_byte() {
    let site = Site::start().await;
    site.push_blob("a", b"{}").await;
    let text = format!(
        "{{ \"schemaVersion\" : 2,\n\t\"mediaType\":\"{OCI_IMAGE}\", \"x.unknown\": [1, 2.50, null],\n \
         \"config\": {{\"mediaType\":\"application/vnd.oci.empty.v1+json\",\"digest\":\"{}\",\"size\":2,\
         \"data\":\"e30=\",\"other\":{{\"b\":1,\"a\":2}}}},\"layers\":[], \"config2\":\"\\u00e9\"}}\r\n",
        Digest::sha256("{}")
    );
    assert_eq!(
        put(&site, "v1", Some(OCI_IMAGE), text.as_bytes())
            .await
            .status,
        201
    );
    assert_stored(&site, "v1", OCI_IMAGE, text.as_bytes()).await;
}

#[tokio::test]
async fn missing_children_are_one_error_each() {
    let site = Site::start().await;
    let layers: Vec<Value> = (0..3).map(|n| described(LAYER, &[n])).collect();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": OCI_IMAGE,
        "config": described(CONFIG, b"config"), "layers": layers,
    });
    let missing = |answer: &super::client::Answer| {
        refused(answer, 400, "MANIFEST_BLOB_UNKNOWN");
        let mut found: Vec<String> = Vec::new();
        for error in answer.json()["errors"].as_array().unwrap() {
            assert_eq!(error["code"], "MANIFEST_BLOB_UNKNOWN");
            assert_eq!(error["detail"]["name"], "a");
            found.push(error["detail"]["digest"].as_str().unwrap().to_owned());
        }
        found.sort();
        found
    };
    let answer = site.put_manifest("a", "v1", &manifest).await;
    assert_eq!(missing(&answer).len(), 4);
    // what another repository has is not here
    site.push_blob("b", &[0]).await;
    site.push_blob("a", b"config").await;
    site.push_blob("a", &[1]).await;
    let answer = site.put_manifest("a", "v1", &manifest).await;
    let mut want = [
        Digest::sha256([0]).to_string(),
        Digest::sha256([2]).to_string(),
    ];
    want.sort();
    assert_eq!(missing(&answer), want);
    refused(
        &site.get("/v2/a/manifests/v1").await,
        404,
        "MANIFEST_UNKNOWN",
    );
    site.push_blob("a", &[0]).await;
    site.push_blob("a", &[2]).await;
    assert_eq!(site.put_manifest("a", "v1", &manifest).await.status, 201);

    let child = described(OCI_IMAGE, b"nowhere");
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [child]});
    let answer = site.put_manifest("a", "i", &index).await;
    assert_eq!(missing(&answer), [Digest::sha256("nowhere").to_string()]);
}

#[tokio::test]
async fn sparse_indexes_where_they_are_on() {
    let settings = PushSettings {
        sparse_indexes: true,
        ..PushSettings::default()
    };
    let site = Site::with(Some(settings)).await;
    let (digest, manifest) = site.push_image("a", "child", "x").await;
    let here =
        json!({"mediaType": OCI_IMAGE, "digest": digest, "size": manifest.to_string().len()});
    let index = json!({
        "schemaVersion": 2, "mediaType": OCI_INDEX,
        "manifests": [here, described(OCI_IMAGE, b"nowhere")],
    });
    assert_eq!(site.put_manifest("a", "i", &index).await.status, 201);
    let image = json!({
        "schemaVersion": 2, "mediaType": OCI_IMAGE,
        "config": described(CONFIG, b"nowhere"), "layers": [],
    });
    refused(
        &site.put_manifest("a", "v", &image).await,
        400,
        "MANIFEST_BLOB_UNKNOWN",
    );
}

#[tokio::test]
async fn too_large_is_413_and_four_mebibytes_are_taken() {
    let site = Site::start().await;
    let mut manifest = site.image("a", "x").await;
    let plain = manifest.to_string().len() + ",\"annotations\":{\"a\":\"\"}".len();
    let sized = |manifest: &mut Value, size: usize| {
        manifest["annotations"] = json!({"a": "x".repeat(size - plain)});
        manifest.to_string().into_bytes()
    };
    let bytes = sized(&mut manifest, 4 * 1024 * 1024);
    assert_eq!(bytes.len(), 4 * 1024 * 1024);
    assert_eq!(put(&site, "big", Some(OCI_IMAGE), &bytes).await.status, 201);
    assert_stored(&site, "big", OCI_IMAGE, &bytes).await;
    let bytes = sized(&mut manifest, 9 * 1024 * 1024);
    refused(
        &put(&site, "bigger", Some(OCI_IMAGE), &bytes).await,
        413,
        "SIZE_INVALID",
    );
    let target = "/v2/a/manifests/bigger";
    let streamed = send(
        site.address,
        "PUT",
        target,
        &[],
        Body::Stream(&bytes, 60_000),
    )
    .await;
    refused(&streamed, 413, "SIZE_INVALID");
    let cut = send(
        site.address,
        "PUT",
        target,
        &[],
        Body::Cut(b"{\"schema", 100),
    )
    .await;
    refused(&cut, 400, "SIZE_INVALID");
    refused(&site.get(target).await, 404, "MANIFEST_UNKNOWN");
}

#[tokio::test]
async fn what_is_no_manifest_is_400() {
    let site = Site::start().await;
    site.push_blob("a", b"{}").await;
    let config = described(CONFIG, b"{}");
    let cases: Vec<(String, &str)> = vec![
        (String::new(), OCI_IMAGE),
        ("{".to_owned(), OCI_IMAGE),
        ("[]".to_owned(), OCI_IMAGE),
        ("null".to_owned(), OCI_IMAGE),
        ("blob".to_owned(), OCI_IMAGE),
        (
            json!({"schemaVersion": 2, "mediaType": OCI_IMAGE}).to_string(),
            OCI_IMAGE,
        ),
        (
            json!({"schemaVersion": 2, "mediaType": OCI_IMAGE, "config": config, "layers": 1})
                .to_string(),
            OCI_IMAGE,
        ),
        (
            json!({"schemaVersion": 2, "config": {"digest": "x"}, "layers": []}).to_string(),
            OCI_IMAGE,
        ),
        (
            json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [], "config": config})
                .to_string(),
            OCI_IMAGE,
        ),
        (
            json!({"schemaVersion": 2, "config": config, "layers": []}).to_string(),
            "image/png",
        ),
    ];
    for (text, kind) in cases {
        let answer = put(&site, "v1", Some(kind), text.as_bytes()).await;
        refused(&answer, 400, "MANIFEST_INVALID");
    }
    let utf8 = put(&site, "v1", Some(OCI_IMAGE), b"\xff\xfe{}").await;
    refused(&utf8, 400, "MANIFEST_INVALID");
    let one = json!({"schemaVersion": 1, "name": "a", "tag": "v1", "fsLayers": [], "history": []});
    for kind in [
        "application/vnd.docker.distribution.manifest.v1+prettyjws",
        "application/vnd.docker.distribution.manifest.v1+json",
        "application/json",
    ] {
        let answer = put(&site, "v1", Some(kind), one.to_string().as_bytes()).await;
        refused(&answer, 400, "MANIFEST_INVALID");
        let message = answer.json()["errors"][0]["message"].to_string();
        assert!(
            message.contains("schema 1") && message.contains("current tool"),
            "{message}"
        );
    }
    assert_eq!(site.get("/v2/a/tags/list").await.json()["tags"], json!([]));
}

#[tokio::test]
async fn invalid_tag_is_400() {
    let site = Site::start().await;
    let manifest = site.image("a", "x").await.to_string();
    let long = "t".repeat(129);
    for tag in [".dot", "-dash", "sp%20ace", "sl/ash", &long] {
        let answer = put(&site, tag, Some(OCI_IMAGE), manifest.as_bytes()).await;
        assert_eq!(answer.status, 400, "{tag}");
    }
    let most = "t".repeat(128);
    for tag in [&*most, "_", "A.b-C_1", "sha256-0000"] {
        let answer = put(&site, tag, Some(OCI_IMAGE), manifest.as_bytes()).await;
        assert_eq!(answer.status, 201, "{tag}");
    }
}

#[tokio::test]
async fn a_manifest_nested_too_deep_for_collection_is_refused() {
    let site = Site::start().await;
    let mut manifest = site.image("a", "deep").await.to_string();
    assert_eq!(manifest.pop(), Some('}'));
    let (open, close) = ("[".repeat(500), "]".repeat(500));
    let deep = format!("{manifest},\"odd\":{open}{close}}}");
    let lines = [("Content-Type", OCI_IMAGE)];
    let target = "/v2/a/manifests/1";
    let answer = site.send("PUT", target, &lines, deep.as_bytes()).await;
    refused(&answer, 400, "MANIFEST_INVALID");
    let told = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(told.contains("nested"), "{told}");
    assert_eq!(site.get(target).await.status, 404);
}

//! What many requests at once may take of the server.

use std::time::{Duration, Instant};

use serde_json::json;

use super::fixture::{CONFIG, OCI_IMAGE, Site, described, refused};

#[tokio::test]
async fn bodies_of_manifests_that_never_come_hold_back_no_more_than_their_share() {
    let site = Site::start().await;
    let manifest = site.image("a", "x").await;
    let waiting = site.manifests_that_never_come(16).await;
    let until = Instant::now() + Duration::from_secs(60);
    let refusal = loop {
        let put = site.put_manifest("a", "v1", &manifest).await;
        if put.status != 201 {
            break put;
        }
        assert!(Instant::now() < until, "never refused");
    };
    refused(&refusal, 429, "TOOMANYREQUESTS");
    assert!(refusal.header("retry-after").is_some());
    // blobs and reads go on, and so do manifests once there is room
    site.push_blob("a", b"more").await;
    assert_eq!(site.head("/v2/a/tags/list").await.status, 200);
    drop(waiting);
    while site.put_manifest("a", "v2", &manifest).await.status != 201 {
        assert!(Instant::now() < until, "never taken again");
    }
}

#[tokio::test]
async fn annotations_that_would_stay_in_memory_are_bounded() {
    let site = Site::start().await;
    let (digest, mut manifest) = site.push_image("a", "v1", "x").await;
    let note = |len: usize| json!({"a": "x".repeat(len)});
    // of an image only the manifest itself holds them
    manifest["annotations"] = note(1 << 20);
    assert_eq!(site.put_manifest("a", "v2", &manifest).await.status, 201);
    manifest["subject"] = json!({
        "mediaType": OCI_IMAGE, "digest": digest, "size": 1,
    });
    let refusal = site.put_manifest("a", "v3", &manifest).await;
    refused(&refusal, 400, "MANIFEST_INVALID");
    let message = refusal.json()["errors"][0]["message"].to_string();
    assert!(message.contains("65536"), "{message}");
    manifest["annotations"] = note(60_000);
    assert_eq!(site.put_manifest("a", "v3", &manifest).await.status, 201);
    manifest["artifactType"] = json!(format!("application/{}", "x".repeat(10_000)));
    let refusal = site.put_manifest("a", "v4", &manifest).await;
    refused(&refusal, 400, "MANIFEST_INVALID");
    // a type is kept of every manifest
    let plain = json!({
        "schemaVersion": 2, "mediaType": OCI_IMAGE, "layers": [],
        "artifactType": format!("application/{}", "x".repeat(70_000)),
        "config": described(CONFIG, b"{}"),
    });
    site.push_blob("a", b"{}").await;
    let refusal = site.put_manifest("a", "v5", &plain).await;
    refused(&refusal, 400, "MANIFEST_INVALID");
}

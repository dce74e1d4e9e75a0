//! end-9 and end-10: deleting.

use kubepkg_core::Digest;
use serde_json::json;

use super::fixture::{OCI_INDEX, Site, refused};

#[tokio::test]
async fn delete_of_a_manifest_takes_all_its_tags_at_once() {
    let site = Site::start().await;
    let (digest, _) = site.push_image("a", "v1", "x").await;
    site.push_image("a", "latest", "x").await;
    site.push_image("a", "other", "y").await;
    let by_digest = format!("/v2/a/manifests/{digest}");
    assert_eq!(site.delete(&by_digest).await.status, 202);
    for reference in ["v1", "latest", &digest.to_string()] {
        let target = format!("/v2/a/manifests/{reference}");
        refused(&site.get(&target).await, 404, "MANIFEST_UNKNOWN");
        assert_eq!(site.head(&target).await.status, 404);
        refused(&site.delete(&target).await, 404, "MANIFEST_UNKNOWN");
    }
    assert_eq!(
        site.get("/v2/a/tags/list").await.json()["tags"],
        json!(["other"])
    );
    assert_eq!(site.head("/v2/a/manifests/other").await.status, 200);
    // pushed again it is back
    site.push_image("a", "v1", "x").await;
    assert_eq!(site.head(&by_digest).await.status, 200);
}

#[tokio::test]
async fn delete_of_a_tag_takes_only_the_tag() {
    let site = Site::start().await;
    let (digest, _) = site.push_image("a", "v1", "x").await;
    site.push_image("a", "v2", "x").await;
    assert_eq!(site.delete("/v2/a/manifests/v1").await.status, 202);
    refused(
        &site.get("/v2/a/manifests/v1").await,
        404,
        "MANIFEST_UNKNOWN",
    );
    refused(
        &site.delete("/v2/a/manifests/v1").await,
        404,
        "MANIFEST_UNKNOWN",
    );
    assert_eq!(site.head("/v2/a/manifests/v2").await.status, 200);
    assert_eq!(
        site.head(&format!("/v2/a/manifests/{digest}")).await.status,
        200
    );
    assert_eq!(
        site.get("/v2/a/tags/list").await.json()["tags"],
        json!(["v2"])
    );
}

#[tokio::test]
async fn delete_of_a_blob_is_one_of_this_repository() {
    let site = Site::start().await;
    let digest = site.push_blob("a", b"blob").await;
    site.push_blob("b", b"blob").await;
    let target = format!("/v2/a/blobs/{digest}");
    assert_eq!(site.delete(&target).await.status, 202);
    site.assert_no_blob("a", &digest).await;
    refused(&site.delete(&target).await, 404, "BLOB_UNKNOWN");
    site.assert_blob("b", &digest, b"blob").await;
    site.push_blob("a", b"blob").await;
    site.assert_blob("a", &digest, b"blob").await;
}

#[tokio::test]
async fn delete_of_what_was_never_here_is_404() {
    let site = Site::start().await;
    site.push_blob("a", b"blob").await;
    let unknown = Digest::sha256("unknown");
    refused(
        &site.delete(&format!("/v2/a/blobs/{unknown}")).await,
        404,
        "BLOB_UNKNOWN",
    );
    refused(
        &site.delete(&format!("/v2/a/manifests/{unknown}")).await,
        404,
        "MANIFEST_UNKNOWN",
    );
    refused(
        &site.delete("/v2/a/manifests/v1").await,
        404,
        "MANIFEST_UNKNOWN",
    );
    for target in [
        format!("/v2/none/blobs/{unknown}"),
        format!("/v2/none/manifests/{unknown}"),
        "/v2/none/manifests/v1".to_owned(),
    ] {
        refused(&site.delete(&target).await, 404, "NAME_UNKNOWN");
    }
    refused(
        &site.delete("/v2/a/blobs/sha256:x").await,
        400,
        "DIGEST_INVALID",
    );
    refused(
        &site.delete("/v2/a/manifests/sha256:x").await,
        400,
        "DIGEST_INVALID",
    );
}

#[tokio::test]
async fn a_blob_is_no_manifest_and_a_manifest_no_blob() {
    let site = Site::start().await;
    let (digest, manifest) = site.push_image("a", "v1", "x").await;
    let blob = manifest["layers"][0]["digest"].as_str().unwrap();
    refused(
        &site.delete(&format!("/v2/a/blobs/{digest}")).await,
        404,
        "BLOB_UNKNOWN",
    );
    refused(
        &site.delete(&format!("/v2/a/manifests/{blob}")).await,
        404,
        "MANIFEST_UNKNOWN",
    );
    assert_eq!(site.head("/v2/a/manifests/v1").await.status, 200);
}

#[tokio::test]
async fn delete_of_an_index_leaves_its_children() {
    let site = Site::start().await;
    let (digest, manifest) = site.push_image("a", "child", "x").await;
    let child = json!({
        "mediaType": manifest["mediaType"], "digest": digest, "size": manifest.to_string().len(),
    });
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [child]});
    site.put_manifest("a", "index", &index).await;
    let of_index = Digest::sha256(index.to_string());
    assert_eq!(
        site.delete(&format!("/v2/a/manifests/{of_index}"))
            .await
            .status,
        202
    );
    assert_eq!(
        site.head(&format!("/v2/a/manifests/{digest}")).await.status,
        200
    );
}

#[tokio::test]
async fn what_was_deleted_stays_so_after_a_restart() {
    let site = Site::start().await;
    let (digest, _) = site.push_image("a", "v1", "x").await;
    assert_eq!(
        site.delete(&format!("/v2/a/manifests/{digest}"))
            .await
            .status,
        202
    );
    let site = site.restart().await;
    refused(
        &site.get("/v2/a/manifests/v1").await,
        404,
        "MANIFEST_UNKNOWN",
    );
}

//! Content that names promise and that is not there: nothing is built on it, and a client that
//! pushes again heals it.

use kubepkg_core::Digest;
use serde_json::{Value, json};

use super::fixture::{OCI_INDEX, Site, refused};

fn digest_of(descriptor: &Value) -> Digest {
    descriptor["digest"].as_str().unwrap().parse().unwrap()
}

fn file(site: &Site, digest: &Digest) -> std::path::PathBuf {
    let hex = digest.hex();
    let place = format!("blobs/sha256/{}/{hex}", &hex[..2]);
    site.folder.path().join(place)
}

#[tokio::test]
async fn a_layer_whose_bytes_are_gone_is_pushed_again_and_whole() {
    let site = Site::start().await;
    let (_, manifest) = site.push_image("a", "v1", "x").await;
    let layer = digest_of(&manifest["layers"][0]);
    let target = format!("/v2/a/blobs/{layer}");
    let bytes = site.get(&target).await.body;
    for cut in [false, true] {
        let path = file(&site, &layer);
        match cut {
            false => std::fs::remove_file(&path).unwrap(),
            true => {
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                file.set_len(1).unwrap();
            }
        }
        assert_eq!(site.head(&target).await.status, 200);
        let put = site.put_manifest("a", "v2", &manifest).await;
        refused(&put, 400, "MANIFEST_BLOB_UNKNOWN");
        assert_eq!(site.head("/v2/a/manifests/v2").await.status, 404);
        site.assert_no_blob("a", &layer).await;
        // there is nothing to mount either
        let mount = format!("/v2/b/blobs/uploads/?mount={layer}&from=a");
        assert_eq!(site.send("POST", &mount, &[], b"").await.status, 202);

        site.push_blob("a", &bytes).await;
        site.assert_blob("a", &layer, &bytes).await;
        assert_eq!(site.head(&target).await.status, 200);
        let put = site.put_manifest("a", "v2", &manifest).await;
        assert_eq!(put.status, 201);
        site.delete("/v2/a/manifests/v2").await;
    }
}

#[tokio::test]
async fn a_get_that_finds_nothing_ends_the_promise_of_head() {
    let site = Site::start().await;
    let digest = site.push_blob("a", b"bytes").await;
    let target = format!("/v2/a/blobs/{digest}");
    let path = file(&site, &digest);
    let aside = site.folder.path().join("aside");
    std::fs::rename(&path, &aside).unwrap();
    assert_eq!(site.get(&target).await.status, 404);
    assert_eq!(site.head(&target).await.status, 404);
    // somebody else brought it back
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(site.head(&target).await.status, 200);
    site.assert_blob("a", &digest, b"bytes").await;
}

#[tokio::test]
async fn an_index_above_a_manifest_whose_bytes_are_gone_is_refused() {
    let site = Site::start().await;
    let (digest, manifest) = site.push_image("a", "v1", "x").await;
    let index = json!({
        "schemaVersion": 2, "mediaType": OCI_INDEX,
        "manifests": [{
            "mediaType": manifest["mediaType"], "digest": digest,
            "size": manifest.to_string().len(),
        }],
    });
    std::fs::remove_file(file(&site, &digest)).unwrap();
    let put = site.put_manifest("a", "all", &index).await;
    refused(&put, 400, "MANIFEST_BLOB_UNKNOWN");
    assert_eq!(site.put_manifest("a", "v1", &manifest).await.status, 201);
    assert_eq!(site.put_manifest("a", "all", &index).await.status, 201);
}

#[tokio::test]
async fn a_descriptor_with_another_size_is_refused() {
    let site = Site::start().await;
    let mut manifest = site.image("a", "x").await;
    let size = manifest["layers"][0]["size"].as_u64().unwrap();
    manifest["layers"][0]["size"] = json!(size + 1);
    let put = site.put_manifest("a", "v1", &manifest).await;
    refused(&put, 400, "MANIFEST_INVALID");
    let message = put.json()["errors"][0]["message"].to_string();
    assert!(message.contains(&format!("it has {size}")), "{message}");
}

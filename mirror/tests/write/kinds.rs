//! end-7: the kinds of manifests that clients make.

use kubepkg_core::Digest;
use serde_json::{Value, json};

use super::fixture::{CONFIG, LAYER, OCI_IMAGE, OCI_INDEX, Site, described};

const DOCKER_IMAGE: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// Pushes a manifest and reads it back under its tag and its digest.
async fn round_trip(site: &Site, tag: &str, manifest: &Value) -> Value {
    let put = site.put_manifest("a", tag, manifest).await;
    assert_eq!(put.status, 201, "{put:?}");
    let text = manifest.to_string();
    let digest = Digest::sha256(&text);
    for reference in [tag, &digest.to_string()] {
        let got = site.get(&format!("/v2/a/manifests/{reference}")).await;
        assert_eq!(got.body, text.as_bytes());
        assert_eq!(got.header("content-type"), manifest["mediaType"].as_str());
    }
    json!({"mediaType": manifest["mediaType"], "digest": digest, "size": text.len()})
}

#[tokio::test]
async fn empty_layers() {
    let site = Site::start().await;
    site.push_blob("a", b"{}").await;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": OCI_IMAGE,
        "config": described(CONFIG, b"{}"), "layers": [],
    });
    round_trip(&site, "v1", &manifest).await;
}

#[tokio::test]
async fn empty_and_nested_indexes() {
    let site = Site::start().await;
    let index = |manifests: Vec<Value>| json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests});
    let empty = round_trip(&site, "empty", &index(vec![])).await;
    let image = site.image("a", "x").await;
    let image = round_trip(&site, "image", &image).await;
    let inner = round_trip(&site, "inner", &index(vec![image])).await;
    round_trip(&site, "outer", &index(vec![inner, empty])).await;
}

#[tokio::test]
async fn an_index_of_layers_as_build_caches_have_it() {
    let site = Site::start().await;
    site.push_blob("a", b"layer").await;
    let manifests = [described(LAYER, b"layer")];
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests});
    round_trip(&site, "cache", &index).await;
}

#[tokio::test]
async fn docker_schema_2_and_list() {
    let site = Site::start().await;
    site.push_blob("a", b"{}").await;
    site.push_blob("a", b"layer").await;
    let image = json!({
        "schemaVersion": 2, "mediaType": DOCKER_IMAGE,
        "config": described("application/vnd.docker.container.image.v1+json", b"{}"),
        "layers": [described("application/vnd.docker.image.rootfs.diff.tar.gzip", b"layer")],
    });
    let child = round_trip(&site, "image", &image).await;
    let list = json!({"schemaVersion": 2, "mediaType": DOCKER_LIST, "manifests": [child]});
    round_trip(&site, "list", &list).await;
}

#[tokio::test]
async fn artifacts_of_unknown_types() {
    let site = Site::start().await;
    site.push_blob("a", b"{}").await;
    site.push_blob("a", b"chart").await;
    for (config, layer) in [
        (
            "application/vnd.cncf.helm.config.v1+json",
            "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
        ),
        ("application/vnd.oci.empty.v1+json", "text/spdx+json"),
        ("application/vnd.wasm.config.v0+json", "application/wasm"),
        ("application/x-own", "x/y"),
    ] {
        let manifest = json!({
            "schemaVersion": 2, "mediaType": OCI_IMAGE, "artifactType": "application/x.test",
            "config": described(config, b"{}"), "layers": [described(layer, b"chart")],
        });
        round_trip(&site, "v1", &manifest).await;
    }
}

#[tokio::test]
async fn foreign_layers_need_not_be_here() {
    let site = Site::start().await;
    site.push_blob("a", b"{}").await;
    let mut with_urls = described(LAYER, b"elsewhere");
    with_urls["urls"] = json!(["https://layers.example/1"]);
    for layer in [
        with_urls,
        described(
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
            b"1",
        ),
        described(
            "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
            b"2",
        ),
        described(
            "application/vnd.oci.image.layer.nondistributable.v1.tar",
            b"3",
        ),
    ] {
        let manifest = json!({
            "schemaVersion": 2, "mediaType": OCI_IMAGE,
            "config": described(CONFIG, b"{}"), "layers": [layer],
        });
        round_trip(&site, "windows", &manifest).await;
        // nodes look elsewhere first: who pushes is told
        let put = site.put_manifest("a", "windows", &manifest).await;
        assert!(
            put.header("warning")
                .unwrap()
                .starts_with("299 - \"1 layer")
        );
    }
}

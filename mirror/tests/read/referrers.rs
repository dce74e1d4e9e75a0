//! `/v2/<name>/referrers/<digest>`.

use kubepkg_core::Digest;
use kubepkg_core::store::Change;
use serde_json::{Value, json};

use super::fixture::{Memory, Running, image};

const R: &str = "ghcr.io/org/app";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn about(store: &Memory, subject: &Digest, kind: Option<&str>, note: &str) -> Value {
    let mut manifest = image(store, R, note);
    manifest["subject"] = json!({"mediaType": MANIFEST, "digest": subject, "size": 1});
    if let Some(kind) = kind {
        manifest["artifactType"] = json!(kind);
    }
    manifest
}

fn digests(answer: &super::client::Answer) -> Vec<String> {
    let json = answer.json();
    let manifests = json["manifests"].as_array().unwrap().iter();
    manifests
        .map(|m| m["digest"].as_str().unwrap().to_owned())
        .collect()
}

fn sorted(digests: &[&Digest]) -> Vec<String> {
    let mut digests: Vec<String> = digests.iter().map(|d| d.to_string()).collect();
    digests.sort();
    digests
}

#[tokio::test]
async fn always_an_index_even_where_nothing_is_known() {
    let server = Running::start().await;
    server
        .store
        .manifest_in(R, &image(&server.store, R, "a"), &[]);
    let absent = Digest::sha256(b"absent");
    for target in [
        format!("/v2/{R}/referrers/{absent}"),
        format!("/v2/ghcr.io/none/referrers/{absent}"),
        format!("/v2/org/app/referrers/{absent}?ns=quay.io"),
    ] {
        let got = server.get(&target).await;
        assert_eq!(got.status, 200, "{target}");
        assert_eq!(got.header("content-type"), Some(INDEX));
        assert_eq!(
            got.json(),
            json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []})
        );
        let head = server.head(&target).await;
        assert_eq!(head.lasting_headers(), got.lasting_headers());
    }
    let bad = server.get(&format!("/v2/{R}/referrers/sha256:bad")).await;
    assert_eq!((bad.status, bad.code().as_str()), (400, "DIGEST_INVALID"));
}

#[tokio::test]
async fn descriptors_say_what_the_manifests_say() {
    let server = Running::start().await;
    let store = &server.store;
    // the referrer may be here before its subject
    let subject = Digest::sha256(b"subject");
    let sbom = about(store, &subject, Some("application/spdx+json"), "sbom");
    let sbom_digest = store.manifest_in(R, &sbom, &[]);
    let plain_digest = store.manifest_in(R, &about(store, &subject, None, "plain"), &[]);
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [],
        "subject": {"mediaType": MANIFEST, "digest": subject, "size": 1}});
    let index_digest = store.manifest_in(R, &index, &[]);

    let got = server.get(&format!("/v2/{R}/referrers/{subject}")).await;
    assert_eq!(
        digests(&got),
        sorted(&[&sbom_digest, &plain_digest, &index_digest])
    );
    let json = got.json();
    let of = |digest: &Digest| {
        let manifests = json["manifests"].as_array().unwrap();
        let digest = json!(digest);
        manifests
            .iter()
            .find(|m| m["digest"] == digest)
            .cloned()
            .unwrap()
    };
    assert_eq!(
        of(&sbom_digest),
        json!({"mediaType": MANIFEST, "digest": sbom_digest, "size": sbom.to_string().len(),
            "artifactType": "application/spdx+json", "annotations": {"note": "sbom"}})
    );
    assert_eq!(
        of(&plain_digest)["artifactType"],
        "application/vnd.oci.image.config.v1+json"
    );
    assert_eq!(of(&index_digest).get("artifactType"), None);

    let filter = format!("/v2/{R}/referrers/{subject}?artifactType=application%2Fspdx%2Bjson");
    let got = server.get(&filter).await;
    assert_eq!(digests(&got), sorted(&[&sbom_digest]));
    assert_eq!(got.header("oci-filters-applied"), Some("artifactType"));
    let none = server
        .get(&format!("/v2/{R}/referrers/{subject}?artifactType=x"))
        .await;
    assert!(digests(&none).is_empty());

    store.commit(&[Change::Manifest {
        repository: R.parse().unwrap(),
        digest: sbom_digest,
        new: None,
    }]);
    assert!(digests(&server.get(&filter).await).is_empty());
}

#[tokio::test]
async fn entries_of_a_tag_schema_index_are_joined_without_doubles() {
    let server = Running::start().await;
    let store = &server.store;
    let subject = store.manifest_in(R, &image(store, R, "subject"), &["v1"]);
    let other = Digest::sha256(b"other subject");
    let both = store.manifest_in(R, &about(store, &subject, Some("a"), "both"), &[]);
    let listed = store.manifest_in(R, &image(store, R, "listed only"), &[]);
    let foreign = store.manifest_in(R, &about(store, &other, Some("a"), "foreign"), &[]);
    let absent = Digest::sha256(b"absent");
    let entry = |digest: &Digest, kind: &str| {
        json!({"mediaType": MANIFEST, "digest": digest, "size": 1,
            "artifactType": kind, "annotations": {"from": "index"}})
    };
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        entry(&both, "wrong"), entry(&listed, "b"), entry(&foreign, "a"), entry(&absent, "a"),
    ]});
    let tag = subject.to_string().replace(':', "-");
    let index_digest = store.manifest_in(R, &index, &[&tag]);

    let got = server.get(&format!("/v2/{R}/referrers/{subject}")).await;
    assert_eq!(digests(&got), sorted(&[&both, &listed]));
    let json = got.json();
    for manifest in json["manifests"].as_array().unwrap() {
        if manifest["digest"] == json!(both) {
            // the manifest's own word counts
            assert_eq!(manifest["artifactType"], "a");
            assert_eq!(manifest["annotations"], json!({"note": "both"}));
        } else {
            assert_eq!(manifest["annotations"], json!({"from": "index"}));
            assert_ne!(manifest["size"], 1, "the size is the one stored");
        }
    }
    // the index itself stays what it was
    let raw = server.get(&format!("/v2/{R}/manifests/{tag}")).await;
    assert_eq!(raw.body, index.to_string().as_bytes());
    assert_eq!(
        raw.header("docker-content-digest"),
        Some(index_digest.to_string().as_str())
    );
}

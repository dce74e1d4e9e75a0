//! end-12: what is about a manifest, pushed before it or after it, listed by the server or by
//! clients that keep the list under a tag.

use kubepkg_core::{Algorithm, Digest};
use serde_json::{Value, json};

use super::fixture::{CONFIG, OCI_IMAGE, OCI_INDEX, Site, described, refused};

/// A manifest about `subject`.
async fn about(site: &Site, subject: &Value, kind: &str) -> Value {
    site.push_blob("a", b"{}").await;
    json!({
        "schemaVersion": 2, "mediaType": OCI_IMAGE, "artifactType": kind,
        "config": described("application/vnd.oci.empty.v1+json", b"{}"),
        "layers": [], "subject": subject, "annotations": {"kind": kind},
    })
}

fn descriptor(manifest: &Value) -> Value {
    described(
        manifest["mediaType"].as_str().unwrap(),
        manifest.to_string().as_bytes(),
    )
}

fn digest(manifest: &Value) -> String {
    Digest::sha256(manifest.to_string()).to_string()
}

/// The digests the server lists, sorted.
async fn listed(site: &Site, subject: &str, query: &str) -> Vec<String> {
    let answer = site.get(&format!("/v2/a/referrers/{subject}{query}")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some(OCI_INDEX));
    let answer = answer.json();
    assert_eq!(
        (&answer["schemaVersion"], &answer["mediaType"]),
        (&json!(2), &json!(OCI_INDEX))
    );
    let manifests = answer["manifests"].as_array().unwrap();
    let mut found: Vec<String> = manifests
        .iter()
        .map(|d| d["digest"].as_str().unwrap().to_owned())
        .collect();
    found.sort();
    found
}

fn sorted(manifests: &[&Value]) -> Vec<String> {
    let mut digests: Vec<String> = manifests.iter().map(|m| digest(m)).collect();
    digests.sort();
    digests
}

#[tokio::test]
async fn subject_absent_is_accepted_and_named_in_oci_subject() {
    let site = Site::start().await;
    let subject = site.image("a", "later").await;
    let signature = about(&site, &descriptor(&subject), "x/signature").await;
    let put = site
        .put_manifest("a", &digest(&signature), &signature)
        .await;
    assert_eq!(put.status, 201);
    assert_eq!(put.header("oci-subject"), Some(&*digest(&subject)));
    // before its subject is here
    assert_eq!(
        listed(&site, &digest(&subject), "").await,
        sorted(&[&signature])
    );
    assert_eq!(site.put_manifest("a", "v1", &subject).await.status, 201);
    assert_eq!(
        listed(&site, &digest(&subject), "").await,
        sorted(&[&signature])
    );
    // an index may have a subject too
    let index = json!({
        "schemaVersion": 2, "mediaType": OCI_INDEX, "artifactType": "x/set",
        "manifests": [], "subject": descriptor(&subject),
    });
    let put = site.put_manifest("a", "set", &index).await;
    assert_eq!(put.header("oci-subject"), Some(&*digest(&subject)));
    assert_eq!(
        listed(&site, &digest(&subject), "").await,
        sorted(&[&signature, &index])
    );
}

#[tokio::test]
async fn descriptors_carry_type_and_annotations_and_can_be_filtered() {
    let site = Site::start().await;
    let (of, subject) = site.push_image("a", "v1", "x").await;
    let one = about(&site, &descriptor(&subject), "x/one").await;
    let mut two = about(&site, &descriptor(&subject), "x/two").await;
    two.as_object_mut().unwrap().remove("artifactType");
    two["config"]["mediaType"] = json!(CONFIG);
    for manifest in [&one, &two] {
        site.put_manifest("a", &digest(manifest), manifest).await;
    }
    let all = site.get(&format!("/v2/a/referrers/{of}")).await.json();
    for shown in all["manifests"].as_array().unwrap() {
        let (manifest, kind) = match shown["digest"] == digest(&one) {
            true => (&one, "x/one"),
            false => (&two, CONFIG),
        };
        assert_eq!(shown["artifactType"], kind);
        assert_eq!(shown["annotations"], manifest["annotations"]);
        assert_eq!(shown["size"], manifest.to_string().len());
        assert_eq!(shown["mediaType"], OCI_IMAGE);
    }
    let filtered = site
        .get(&format!("/v2/a/referrers/{of}?artifactType=x/one"))
        .await;
    assert_eq!(filtered.header("oci-filters-applied"), Some("artifactType"));
    let found = listed(&site, &of.to_string(), "?artifactType=x/one").await;
    assert_eq!(found, sorted(&[&one]));
}

#[tokio::test]
async fn deleted_referrers_vanish() {
    let site = Site::start().await;
    let (of, subject) = site.push_image("a", "v1", "x").await;
    let one = about(&site, &descriptor(&subject), "x/one").await;
    let two = about(&site, &descriptor(&subject), "x/two").await;
    site.put_manifest("a", "one", &one).await;
    site.put_manifest("a", &digest(&two), &two).await;
    // a tag less changes nothing
    site.delete("/v2/a/manifests/one").await;
    assert_eq!(
        listed(&site, &of.to_string(), "").await,
        sorted(&[&one, &two])
    );
    site.delete(&format!("/v2/a/manifests/{}", digest(&one)))
        .await;
    assert_eq!(listed(&site, &of.to_string(), "").await, sorted(&[&two]));
    // those of what is gone are still about it
    site.delete(&format!("/v2/a/manifests/{of}")).await;
    assert_eq!(listed(&site, &of.to_string(), "").await, sorted(&[&two]));
}

#[tokio::test]
async fn a_client_that_keeps_the_list_under_a_tag_and_the_server_agree() {
    let site = Site::start().await;
    let (of, subject) = site.push_image("a", "v1", "x").await;
    let tag = of.to_string().replace(':', "-");
    // what says itself what it is about, and what only the tag's index says so of
    let own = about(&site, &descriptor(&subject), "x/own").await;
    let mut told = about(&site, &descriptor(&subject), "x/told").await;
    told.as_object_mut().unwrap().remove("subject");
    let mut kept: Vec<&Value> = Vec::new();
    for manifest in [&own, &told] {
        site.put_manifest("a", &digest(manifest), manifest).await;
        kept.push(manifest);
        let manifests: Vec<Value> = kept.iter().map(|m| descriptor(m)).collect();
        let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests});
        assert_eq!(site.put_manifest("a", &tag, &index).await.status, 201);
        assert_eq!(listed(&site, &of.to_string(), "").await, sorted(&kept));
        // the tag is what the client made of it
        let stored = site.get(&format!("/v2/a/manifests/{tag}")).await;
        assert_eq!(stored.body, index.to_string().as_bytes());
    }
    // deleted without changing the tag: gone from the list all the same
    site.delete(&format!("/v2/a/manifests/{}", digest(&told)))
        .await;
    assert_eq!(listed(&site, &of.to_string(), "").await, sorted(&[&own]));
    // the tag goes: what says itself what it is about stays
    site.put_manifest("a", &digest(&told), &told).await;
    assert_eq!(
        listed(&site, &of.to_string(), "").await,
        sorted(&[&own, &told])
    );
    assert_eq!(
        site.delete(&format!("/v2/a/manifests/{tag}")).await.status,
        202
    );
    assert_eq!(listed(&site, &of.to_string(), "").await, sorted(&[&own]));
}

#[tokio::test]
async fn subjects_by_sha512_and_unknown_ones() {
    let site = Site::start().await;
    let image = site.image("a", "x").await;
    let of = Digest::of(Algorithm::Sha512, image.to_string());
    site.put_manifest("a", &of.to_string(), &image).await;
    let mut subject = descriptor(&image);
    subject["digest"] = json!(of);
    let one = about(&site, &subject, "x/one").await;
    let put = site.put_manifest("a", &digest(&one), &one).await;
    assert_eq!(put.header("oci-subject"), Some(&*of.to_string()));
    assert_eq!(listed(&site, &of.to_string(), "").await, sorted(&[&one]));
    let unknown = Digest::sha256("unknown").to_string();
    assert!(listed(&site, &unknown, "").await.is_empty());
    refused(
        &site.get("/v2/a/referrers/sha256:x").await,
        400,
        "DIGEST_INVALID",
    );
}

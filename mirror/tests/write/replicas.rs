//! Several mirrors on one store in a bucket.

use kubepkg_core::Digest;
use kubepkg_mirror::bucket::Bucket;

use super::fixture::{Body, Site, described, finishing, location, noise, refused};
use super::fixture::{CONFIG, LAYER, OCI_IMAGE};

async fn two() -> (Bucket, Site, Site) {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (
        Site::on_bucket(&bucket).await,
        Site::on_bucket(&bucket).await,
    );
    (bucket, one, two)
}

#[tokio::test]
async fn what_is_pushed_through_one_is_pulled_through_the_other_at_once() {
    let (_bucket, one, two) = two().await;
    for n in 0..5 {
        let tag = format!("v{n}");
        // the other one has just read the names
        assert_eq!(
            two.get("/v2/team/app/tags/list").await.status,
            if n == 0 { 404 } else { 200 }
        );
        let (digest, manifest) = one.push_image("team/app", &tag, &tag).await;
        let got = two.get(&format!("/v2/team/app/manifests/{tag}")).await;
        assert_eq!(
            (got.status, got.body),
            (200, manifest.to_string().into_bytes())
        );
        let head = two.head(&format!("/v2/team/app/manifests/{digest}")).await;
        assert_eq!(head.status, 200);
        let layer = format!("layer {tag}");
        let blob = Digest::sha256(&layer);
        two.assert_blob("team/app", &blob, layer.as_bytes()).await;
    }
    assert_eq!(two.delete("/v2/team/app/manifests/v1").await.status, 202);
    let (_, manifest) = one.push_image("team/app", "v1", "again").await;
    let put = two.put_manifest("team/app", "v1", &manifest).await;
    assert_eq!(put.status, 201);
}

#[tokio::test]
async fn large_content_goes_in_parts_and_comes_in_ranges() {
    let (_bucket, one, two) = two().await;
    // three parts of the bucket's, and a rest
    let bytes = noise(1, 25 * 1024 * 1024 + 17);
    let digest = Digest::sha256(&bytes);
    let upload = one.begin("team/app").await;
    let half = bytes.len() / 2;
    let upload = location(&one.patch(&upload, 0, &bytes[..half]).await, 202);
    let upload = location(&one.patch(&upload, half, &bytes[half..]).await, 202);
    let done = one.finish(&upload, &digest, b"").await;
    assert_eq!(done.status, 201);
    // nothing of it stays with the mirror that took it
    assert!(one.store.blob_range(&digest).unwrap().is_none());
    assert_eq!(one.lying(), 0);
    two.assert_blob("team/app", &digest, &bytes).await;

    let target = format!("/v2/team/app/blobs/{digest}");
    for (asked, first, last) in [
        ("bytes=0-0", 0, 0),
        ("bytes=8388607-8388608", 8_388_607, 8_388_608),
        ("bytes=-5", bytes.len() - 5, bytes.len() - 1),
        ("bytes=26000000-", 26_000_000, bytes.len() - 1),
    ] {
        let got = two.send("GET", &target, &[("Range", asked)], b"").await;
        assert_eq!(got.status, 206, "{asked}");
        assert!(got.body == bytes[first..=last], "{asked}");
        let range = format!("bytes {first}-{last}/{}", bytes.len());
        assert_eq!(got.header("content-range"), Some(range.as_str()));
    }
    let several = [("Range", "bytes=0-9,20000000-20000099")];
    let got = two.send("GET", &target, &several, b"").await;
    assert_eq!(got.status, 206);
    let holds = |part: &[u8]| got.body.windows(part.len()).any(|window| window == part);
    assert!(holds(&bytes[..10]) && holds(&bytes[20_000_000..20_000_100]));
    let empty = one.push_blob("team/app", b"").await;
    two.assert_blob("team/app", &empty, b"").await;
}

#[tokio::test]
async fn bytes_of_another_digest_are_refused_and_leave_nothing() {
    let (_bucket, one, two) = two().await;
    let bytes = noise(2, 300_000);
    let wrong = Digest::sha256(b"other");
    let upload = one.begin("team/app").await;
    refused(
        &one.finish(&upload, &wrong, &bytes).await,
        400,
        "DIGEST_INVALID",
    );
    for site in [&one, &two] {
        site.assert_no_blob("team/app", &wrong).await;
        site.assert_no_blob("team/app", &Digest::sha256(&bytes))
            .await;
    }
}

#[tokio::test]
async fn an_upload_goes_on_only_where_it_began_and_that_is_said() {
    let (_bucket, one, two) = two().await;
    let bytes = noise(3, 1000);
    let upload = one.begin("team/app").await;
    let upload = location(&one.patch(&upload, 0, &bytes[..500]).await, 202);
    let digest = Digest::sha256(&bytes);
    for answer in [
        two.patch(&upload, 500, &bytes[500..]).await,
        two.finish(&upload, &digest, &bytes[500..]).await,
        two.get(&upload).await,
    ] {
        refused(&answer, 404, "BLOB_UPLOAD_UNKNOWN");
        let message = answer.json()["errors"][0]["message"].to_string();
        assert!(message.contains("the mirror that began it"), "{message}");
    }
    let done = one.finish(&upload, &digest, &bytes[500..]).await;
    assert_eq!(done.status, 201);
    two.assert_blob("team/app", &digest, &bytes).await;
}

#[tokio::test]
async fn a_tag_moved_through_both_at_once_is_one_of_the_two_for_both() {
    let (_bucket, one, two) = two().await;
    let (_, first) = one.push_image("team/app", "a", "a").await;
    let (_, second) = two.push_image("team/app", "b", "b").await;
    for _ in 0..10 {
        let (a, b) = tokio::join!(
            one.put_manifest("team/app", "t", &first),
            two.put_manifest("team/app", "t", &second),
        );
        assert_eq!((a.status, b.status), (201, 201));
        // what was acknowledged is there, and the later of the two counts for both; a reader
        // may be a second behind where the tag was there before
        let target = "/v2/team/app/manifests/t";
        let agree = async {
            loop {
                let (a, b) = tokio::join!(one.get(target), two.get(target));
                assert_eq!((a.status, b.status), (200, 200));
                if a.body == b.body {
                    return a.body;
                }
            }
        };
        let limit = std::time::Duration::from_secs(20);
        let body = tokio::time::timeout(limit, agree).await.unwrap();
        let expected = [first.to_string(), second.to_string()];
        assert!(expected.iter().any(|text| text.as_bytes() == body));
    }
}

#[tokio::test]
async fn one_that_ends_within_a_push_leaves_nothing_half() {
    let (bucket, one, two) = two().await;
    let (config, layer) = (b"{}".as_slice(), noise(4, 200_000));
    let digest = one.push_blob("team/app", config).await;
    let upload = one.begin("team/app").await;
    let target = finishing(&upload, &Digest::sha256(&layer));
    let begun = one.send_body("PATCH", &upload, Body::Cut(&layer[..90_000], 200_000));
    begun.await;
    drop(one);
    two.assert_blob("team/app", &digest, config).await;
    let layer_digest = Digest::sha256(&layer);
    two.assert_no_blob("team/app", &layer_digest).await;
    assert_eq!(two.send("PUT", &target, &[], &layer).await.status, 404);
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": OCI_IMAGE,
        "config": described(CONFIG, config),
        "layers": [described(LAYER, &layer)],
    });
    let put = two.put_manifest("team/app", "v1", &manifest).await;
    refused(&put, 400, "MANIFEST_BLOB_UNKNOWN");
    // the push is made again through the other, and one that comes later sees all of it
    two.push_blob("team/app", &layer).await;
    assert_eq!(
        two.put_manifest("team/app", "v1", &manifest).await.status,
        201
    );
    let third = Site::on_bucket(&bucket).await;
    third.assert_blob("team/app", &layer_digest, &layer).await;
    let got = third.get("/v2/team/app/manifests/v1").await;
    assert_eq!(got.body, manifest.to_string().into_bytes());
}

//! end-4a, 4b, 6, 13, 14: blobs in one request or two, the state of an upload, giving it up.

use kubepkg_core::{Algorithm, Digest};

use kubepkg_mirror::sink::Sink;

use super::fixture::{Body, Site, finishing, location, noise, refused};

const BEGIN: &str = "/v2/team/app/blobs/uploads/";

#[tokio::test]
async fn single_post_with_digest() {
    let site = Site::start().await;
    for bytes in [noise(1, 3_000_000), b"{}".to_vec(), Vec::new()] {
        let digest = Digest::sha256(&bytes);
        let target = format!("{BEGIN}?digest={digest}");
        let pushed = site.send("POST", &target, &[], &bytes).await;
        assert_eq!(
            pushed.header("docker-content-digest"),
            Some(&*digest.to_string())
        );
        let place = location(&pushed, 201);
        assert_eq!(site.get(&place).await.body, bytes);
    }
    assert_eq!(site.lying(), 0);
}

#[tokio::test]
async fn single_post_of_other_bytes_stores_nothing() {
    let site = Site::start().await;
    let (digest, other) = (Digest::sha256("wanted"), Digest::sha256("sent"));
    let target = format!("{BEGIN}?digest={digest}");
    let answer = site.send("POST", &target, &[], b"sent").await;
    refused(&answer, 400, "DIGEST_INVALID");
    site.assert_no_blob("team/app", &digest).await;
    site.assert_no_blob("team/app", &other).await;
    assert_eq!(site.lying(), 0);
}

#[tokio::test]
async fn single_post_that_breaks_off_leaves_nothing() {
    let site = Site::start().await;
    let bytes = noise(2, 100_000);
    let target = format!("{BEGIN}?digest={}", Digest::sha256(&bytes));
    let answer = site
        .send_body("POST", &target, Body::Cut(&bytes[..70_000], 100_000))
        .await;
    assert_eq!(answer.status, 400);
    assert_eq!(site.lying(), 0);
}

#[tokio::test]
async fn post_then_put() {
    let site = Site::start().await;
    let begun = site.send("POST", BEGIN, &[], b"").await;
    let upload = location(&begun, 202);
    assert_eq!(begun.header("range"), Some("0-0"));
    let id = begun.header("docker-upload-uuid").unwrap();
    assert!(upload.contains(id) && id.len() == 36, "{id}");
    assert_eq!(begun.header("oci-chunk-min-length"), None);

    let bytes = noise(3, 2_500_000);
    let digest = Digest::sha256(&bytes);
    let done = site.finish(&upload, &digest, &bytes).await;
    assert_eq!(
        done.header("docker-content-digest"),
        Some(&*digest.to_string())
    );
    assert_eq!(site.get(&location(&done, 201)).await.body, bytes);
    assert_eq!(site.lying(), 0);
}

#[tokio::test]
async fn post_without_trailing_slash_is_no_redirect() {
    let site = Site::start().await;
    let begun = site
        .send("POST", BEGIN.trim_end_matches('/'), &[], b"")
        .await;
    let upload = location(&begun, 202);
    let digest = Digest::sha256("x");
    assert_eq!(site.finish(&upload, &digest, b"x").await.status, 201);
}

#[tokio::test]
async fn streamed_patch() {
    let site = Site::start().await;
    let bytes = noise(4, 3_300_000);
    let digest = Digest::sha256(&bytes);
    let upload = site.begin("team/app").await;
    let patched = site
        .send_body("PATCH", &upload, Body::Stream(&bytes, 70_001))
        .await;
    assert_eq!(patched.header("range"), Some("0-3299999"));
    let next = location(&patched, 202);
    assert_eq!(site.finish(&next, &digest, b"").await.status, 201);
    site.assert_blob("team/app", &digest, &bytes).await;
}

#[tokio::test]
async fn the_last_bytes_may_come_as_a_stream_with_the_put() {
    let site = Site::start().await;
    let bytes = noise(5, 300_000);
    let digest = Digest::sha256(&bytes);
    let upload = site.begin("team/app").await;
    let first = site
        .send_body("PATCH", &upload, Body::Stream(&bytes[..100_000], 9000))
        .await;
    assert_eq!(first.status, 202);
    let last = Body::Stream(&bytes[100_000..], 9000);
    let done = site
        .send_body("PUT", &finishing(&upload, &digest), last)
        .await;
    assert_eq!(done.status, 201);
    site.assert_blob("team/app", &digest, &bytes).await;
}

#[tokio::test]
async fn put_of_other_bytes_stores_nothing() {
    let site = Site::start().await;
    for streamed in [false, true] {
        let upload = site.begin("team/app").await;
        let bytes: &[u8] = if streamed { b"" } else { b"sent" };
        if streamed {
            site.send_body("PATCH", &upload, Body::Stream(b"sent", 2))
                .await;
        }
        let digest = Digest::sha256("wanted");
        refused(
            &site.finish(&upload, &digest, bytes).await,
            400,
            "DIGEST_INVALID",
        );
        site.assert_no_blob("team/app", &digest).await;
        site.assert_no_blob("team/app", &Digest::sha256("sent"))
            .await;
    }
    assert_eq!(site.lying(), 0);
}

#[tokio::test]
async fn put_without_a_good_digest_leaves_the_upload_alone() {
    let site = Site::start().await;
    let upload = site.begin("team/app").await;
    site.patch(&upload, 0, b"bytes").await;
    for query in [
        "",
        "?digest=",
        "?digest=sha256:x",
        "?digest=md5:00",
        "?digest=blake3:00",
    ] {
        let answer = site
            .send("PUT", &format!("{upload}{query}"), &[], b"")
            .await;
        refused(&answer, 400, "DIGEST_INVALID");
    }
    assert_eq!(site.received(&upload).await, 5);
    assert_eq!(
        site.finish(&upload, &Digest::sha256("bytes"), b"")
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn sha512_announced_or_not() {
    let site = Site::start().await;
    let bytes = noise(6, 1_700_000);
    let digest = Digest::of(Algorithm::Sha512, &bytes);
    for begin in [BEGIN.to_owned(), format!("{BEGIN}?digest-algorithm=sha512")] {
        let begun = site.send("POST", &begin, &[], b"").await;
        let upload = location(&begun, 202);
        site.patch(&upload, 0, &bytes[..600_000]).await;
        site.patch(&upload, 600_000, &bytes[600_000..]).await;
        assert_eq!(site.finish(&upload, &digest, b"").await.status, 201);
        site.assert_blob("team/app", &digest, &bytes).await;
    }
    // a session announced as sha512 may end with sha256 all the same
    let begun = site
        .send(
            "POST",
            &format!("{BEGIN}?digest-algorithm=sha512"),
            &[],
            b"",
        )
        .await;
    let upload = location(&begun, 202);
    site.patch(&upload, 0, b"abc").await;
    assert_eq!(
        site.finish(&upload, &Digest::sha256("abc"), b"")
            .await
            .status,
        201
    );
    let single = format!("{BEGIN}?digest={}", Digest::of(Algorithm::Sha512, b"one"));
    assert_eq!(site.send("POST", &single, &[], b"one").await.status, 201);
    refused(
        &site.send("POST", &single, &[], b"two").await,
        400,
        "DIGEST_INVALID",
    );
}

#[tokio::test]
async fn unknown_algorithm_is_400() {
    let site = Site::start().await;
    for query in [
        "digest-algorithm=md5",
        "digest-algorithm=",
        "digest=md5:00",
        "digest=",
    ] {
        let answer = site
            .send("POST", &format!("{BEGIN}?{query}"), &[], b"")
            .await;
        refused(&answer, 400, "DIGEST_INVALID");
    }
    assert_eq!(site.lying(), 0);
}

#[tokio::test]
async fn zero_byte_blob_by_all_ways() {
    let site = Site::start().await;
    let digest = Digest::sha256("");
    let repositories = ["a", "b", "c", "d"];
    let upload = site.begin("a").await;
    assert_eq!(site.finish(&upload, &digest, b"").await.status, 201);
    let upload = site.begin("b").await;
    assert_eq!(
        site.send_body("PATCH", &upload, Body::Stream(b"", 1))
            .await
            .status,
        202
    );
    assert_eq!(site.finish(&upload, &digest, b"").await.status, 201);
    let upload = site.begin("c").await;
    assert_eq!(
        site.send("PATCH", &upload, &[("Content-Length", "0")], b"")
            .await
            .status,
        202
    );
    let done = site
        .send_body("PUT", &finishing(&upload, &digest), Body::Stream(b"", 1))
        .await;
    assert_eq!(done.status, 201);
    site.push_blob("d", b"").await;
    for repository in repositories {
        site.assert_blob(repository, &digest, b"").await;
    }
}

#[tokio::test]
async fn two_clients_with_one_digest_both_succeed() {
    let site = Site::start().await;
    let bytes = noise(7, 2_000_000);
    let digest = Digest::sha256(&bytes);
    let uploads = [site.begin("team/app").await, site.begin("team/app").await];
    for upload in &uploads {
        assert_eq!(site.patch(upload, 0, &bytes).await.status, 202);
    }
    let (one, other, single) = tokio::join!(
        site.finish(&uploads[0], &digest, b""),
        site.finish(&uploads[1], &digest, b""),
        site.push_blob("other", &bytes),
    );
    assert_eq!((one.status, other.status, single), (201, 201, digest));
    site.assert_blob("team/app", &digest, &bytes).await;
    site.assert_blob("other", &digest, &bytes).await;
    assert_eq!(site.lying(), 0);
}

#[tokio::test]
async fn repeated_put_of_a_finished_session() {
    let site = Site::start().await;
    let upload = site.begin("team/app").await;
    let digest = Digest::sha256("x");
    assert_eq!(site.finish(&upload, &digest, b"x").await.status, 201);
    // the answer to the first one may have been lost
    assert_eq!(site.finish(&upload, &digest, b"x").await.status, 201);
    let other = site.finish(&upload, &Digest::sha256("y"), b"y").await;
    refused(&other, 404, "BLOB_UPLOAD_UNKNOWN");
    refused(&site.get(&upload).await, 404, "BLOB_UPLOAD_UNKNOWN");
}

#[tokio::test]
async fn state_of_an_upload() {
    let site = Site::start().await;
    let upload = site.begin("team/app").await;
    let empty = site.get(&upload).await;
    assert_eq!(empty.status, 204);
    assert_eq!(empty.header("range"), Some("0-0"));
    site.patch(&upload, 0, b"12345").await;
    let state = site.get(&upload).await;
    assert_eq!(state.header("range"), Some("0-4"));
    assert_eq!(location(&state, 204), upload);
    assert!(upload.ends_with(state.header("docker-upload-uuid").unwrap()));
    assert_eq!(site.head(&upload).await.status, 204);
}

#[tokio::test]
async fn cancel_forgets_the_upload() {
    let site = Site::start().await;
    let upload = site.begin("team/app").await;
    site.patch(&upload, 0, b"12345").await;
    assert_eq!(site.delete(&upload).await.status, 204);
    refused(&site.delete(&upload).await, 404, "BLOB_UPLOAD_UNKNOWN");
    refused(&site.get(&upload).await, 404, "BLOB_UPLOAD_UNKNOWN");
    refused(
        &site.patch(&upload, 5, b"6").await,
        404,
        "BLOB_UPLOAD_UNKNOWN",
    );
    assert_eq!(site.lying(), 0);
}

#[tokio::test]
async fn unknown_session_is_404() {
    let site = Site::start().await;
    let mut ids = vec![
        "00000000-0000-4000-8000-000000000000",
        "1",
        "..",
        "%2e%2e%2flock",
    ];
    let long = "a".repeat(2000);
    ids.push(&long);
    for id in ids {
        let upload = format!("{BEGIN}{id}");
        refused(&site.get(&upload).await, 404, "BLOB_UPLOAD_UNKNOWN");
        refused(
            &site.patch(&upload, 0, b"x").await,
            404,
            "BLOB_UPLOAD_UNKNOWN",
        );
        let put = site.finish(&upload, &Digest::sha256("x"), b"x").await;
        refused(&put, 404, "BLOB_UPLOAD_UNKNOWN");
        refused(&site.delete(&upload).await, 404, "BLOB_UPLOAD_UNKNOWN");
    }
}

#[tokio::test]
async fn session_of_another_repository_is_404() {
    let site = Site::start().await;
    let upload = site.begin("team/app").await;
    site.patch(&upload, 0, b"abc").await;
    let foreign = upload.replace("team/app", "team/other");
    refused(&site.get(&foreign).await, 404, "BLOB_UPLOAD_UNKNOWN");
    refused(
        &site.patch(&foreign, 3, b"d").await,
        404,
        "BLOB_UPLOAD_UNKNOWN",
    );
    let put = site.finish(&foreign, &Digest::sha256("abc"), b"").await;
    refused(&put, 404, "BLOB_UPLOAD_UNKNOWN");
    refused(&site.delete(&foreign).await, 404, "BLOB_UPLOAD_UNKNOWN");
    assert_eq!(site.received(&upload).await, 3);
}

#[tokio::test]
async fn parameters_in_a_location_survive_what_the_client_adds() {
    let site = Site::start().await;
    let upload = format!("{}?_state=abc%3D%3D", site.begin("team/app").await);
    site.patch(&upload, 0, b"x").await;
    assert_eq!(
        site.finish(&upload, &Digest::sha256("x"), b"").await.status,
        201
    );
}

/// The client's connection broke while the first request was between the blob and its name.
#[tokio::test]
async fn finishing_again_before_the_blob_has_its_name() {
    let site = Site::start().await;
    let upload = site.begin("team/app").await;
    let id = upload
        .rsplit('/')
        .next()
        .unwrap()
        .split('?')
        .next()
        .unwrap();
    let name = "team/app".parse().unwrap();
    let bytes = noise(20, 100_000);
    let digest = Digest::sha256(&bytes);
    assert_eq!(site.patch(&upload, 0, &bytes).await.status, 202);
    let held = site.store.resume(&name, id, 0).await.unwrap().unwrap();
    held.finish(digest).await.unwrap();
    site.assert_no_blob("team/app", &digest).await;

    let other = Digest::sha256("other");
    let answer = site.finish(&upload, &other, b"").await;
    refused(&answer, 404, "BLOB_UPLOAD_UNKNOWN");
    let elsewhere = upload.replace("team/app", "team/other");
    let answer = site.finish(&elsewhere, &digest, b"").await;
    refused(&answer, 404, "BLOB_UPLOAD_UNKNOWN");
    assert_eq!(site.finish(&upload, &digest, b"").await.status, 201);
    site.assert_blob("team/app", &digest, &bytes).await;
    assert_eq!(site.finish(&upload, &digest, b"").await.status, 201);
}

//! end-5 and end-6 with `Content-Range`: chunks in order, out of order, repeated, and shorter
//! than they say.

use kubepkg_core::Digest;

use super::fixture::{Body, Site, finishing, location, noise, refused, send};

#[tokio::test]
async fn ranged_chunks_and_the_last_with_the_put() {
    let site = Site::start().await;
    let bytes = noise(1, 1_500_000);
    let digest = Digest::sha256(&bytes);
    let mut upload = site.begin("a").await;
    let mut at = 0;
    for len in [1, 65_536, 700_000] {
        let patched = site.patch(&upload, at, &bytes[at..at + len]).await;
        at += len;
        assert_eq!(patched.header("range"), Some(&*format!("0-{}", at - 1)));
        upload = location(&patched, 202);
    }
    let range = format!("{at}-{}", bytes.len() - 1);
    let lines = [("Content-Range", range.as_str())];
    let target = finishing(&upload, &digest);
    let done = site.send("PUT", &target, &lines, &bytes[at..]).await;
    assert_eq!(done.status, 201);
    site.assert_blob("a", &digest, &bytes).await;
}

#[tokio::test]
async fn the_spelling_of_http_is_understood() {
    let site = Site::start().await;
    let upload = site.begin("a").await;
    for (range, bytes) in [("bytes 0-2/*", b"abc"), ("bytes 3-5/6", b"def")] {
        let patched = site
            .send("PATCH", &upload, &[("Content-Range", range)], bytes)
            .await;
        assert_eq!(patched.status, 202, "{range}");
    }
    let digest = Digest::sha256("abcdef");
    assert_eq!(site.finish(&upload, &digest, b"").await.status, 201);
}

#[tokio::test]
async fn out_of_order_chunk_is_416_and_the_session_lives() {
    let site = Site::start().await;
    let upload = site.begin("a").await;
    let early = site.patch(&upload, 3, b"def").await;
    refused(&early, 416, "BLOB_UPLOAD_INVALID");
    assert_eq!(early.header("range"), Some("0-0"));
    assert_eq!(location(&early, 416), upload);
    assert_eq!(site.patch(&upload, 0, b"abc").await.status, 202);
    refused(
        &site.patch(&upload, 2, b"cd").await,
        416,
        "BLOB_UPLOAD_INVALID",
    );
    refused(
        &site.patch(&upload, 4, b"ef").await,
        416,
        "BLOB_UPLOAD_INVALID",
    );
    assert_eq!(site.received(&upload).await, 3);
    assert_eq!(site.patch(&upload, 3, b"def").await.status, 202);
    let digest = Digest::sha256("abcdef");
    assert_eq!(site.finish(&upload, &digest, b"").await.status, 201);
    site.assert_blob("a", &digest, b"abcdef").await;
}

#[tokio::test]
async fn repeated_chunk_is_416_and_nothing_is_appended() {
    let site = Site::start().await;
    let upload = site.begin("a").await;
    assert_eq!(site.patch(&upload, 0, b"abc").await.status, 202);
    refused(
        &site.patch(&upload, 0, b"abc").await,
        416,
        "BLOB_UPLOAD_INVALID",
    );
    assert_eq!(site.received(&upload).await, 3);
    let digest = Digest::sha256("abc");
    assert_eq!(site.finish(&upload, &digest, b"").await.status, 201);
}

#[tokio::test]
async fn out_of_order_closing_chunk_is_416_and_can_be_mended() {
    let site = Site::start().await;
    let upload = site.begin("a").await;
    let digest = Digest::sha256("abcdef");
    let target = finishing(&upload, &digest);
    assert_eq!(site.patch(&upload, 0, b"abc").await.status, 202);
    let close = async |range: &str, bytes: &[u8]| {
        site.send("PUT", &target, &[("Content-Range", range)], bytes)
            .await
    };
    refused(&close("5-7", b"def").await, 416, "BLOB_UPLOAD_INVALID");
    refused(&close("0-2", b"abc").await, 416, "BLOB_UPLOAD_INVALID");
    site.assert_no_blob("a", &digest).await;
    assert_eq!(site.received(&upload).await, 3);
    assert_eq!(close("3-5", b"def").await.status, 201);
    site.assert_blob("a", &digest, b"abcdef").await;
}

#[tokio::test]
async fn a_range_of_another_length_than_the_body_adds_nothing() {
    let site = Site::start().await;
    let upload = site.begin("a").await;
    let range = [("Content-Range", "0-9")];
    let sized = site.send("PATCH", &upload, &range, b"abc").await;
    refused(&sized, 400, "SIZE_INVALID");
    for bytes in [&b"abc"[..], b"0123456789abc"] {
        let streamed = Body::Stream(bytes, 2);
        let streamed = send(site.address, "PATCH", &upload, &range, streamed).await;
        refused(&streamed, 400, "SIZE_INVALID");
    }
    for bad in ["9-0", "a-b", "0-", "-3", "0-1,2-3", ""] {
        let answer = site
            .send("PATCH", &upload, &[("Content-Range", bad)], b"abc")
            .await;
        refused(&answer, 400, "BLOB_UPLOAD_INVALID");
    }
    assert_eq!(site.get(&upload).await.header("range"), Some("0-0"));
    assert_eq!(site.patch(&upload, 0, b"abc").await.status, 202);
    assert_eq!(site.received(&upload).await, 3);
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_kept_as_far_as_it_came() {
    let site = Site::start().await;
    let bytes = noise(2, 2_000_000);
    let digest = Digest::sha256(&bytes);
    let upload = site.begin("a").await;
    let cut = Body::Cut(&bytes[..1_300_000], bytes.len());
    let broken = site.send_body("PATCH", &upload, cut).await;
    refused(&broken, 400, "SIZE_INVALID");
    let here = usize::try_from(site.received(&upload).await).unwrap();
    assert_eq!(here, 1_300_000);
    assert_eq!(site.patch(&upload, here, &bytes[here..]).await.status, 202);
    assert_eq!(site.finish(&upload, &digest, b"").await.status, 201);
    site.assert_blob("a", &digest, &bytes).await;
}

#[tokio::test]
async fn a_chunk_that_breaks_off_is_taken_back() {
    let site = Site::start().await;
    let bytes = noise(3, 3_000_000);
    let digest = Digest::sha256(&bytes);
    let upload = site.begin("a").await;
    assert_eq!(site.patch(&upload, 0, &bytes[..1000]).await.status, 202);
    let range = [("Content-Range", "1000-2999999")];
    let cut = Body::Cut(&bytes[1000..2_500_000], bytes.len() - 1000);
    let broken = send(site.address, "PATCH", &upload, &range, cut).await;
    refused(&broken, 400, "SIZE_INVALID");
    assert_eq!(site.received(&upload).await, 1000);
    assert_eq!(site.patch(&upload, 1000, &bytes[1000..]).await.status, 202);
    assert_eq!(site.finish(&upload, &digest, b"").await.status, 201);
    site.assert_blob("a", &digest, &bytes).await;
}

#[tokio::test]
async fn a_closing_stream_that_breaks_off_publishes_nothing() {
    let site = Site::start().await;
    let bytes = noise(4, 400_000);
    let digest = Digest::sha256(&bytes);
    let upload = site.begin("a").await;
    let cut = Body::Cut(&bytes[..100_000], bytes.len());
    let broken = site
        .send_body("PUT", &finishing(&upload, &digest), cut)
        .await;
    refused(&broken, 400, "SIZE_INVALID");
    site.assert_no_blob("a", &digest).await;
    let here = usize::try_from(site.received(&upload).await).unwrap();
    assert_eq!(
        site.finish(&upload, &digest, &bytes[here..]).await.status,
        201
    );
    site.assert_blob("a", &digest, &bytes).await;
}

//! Blobs: whole, continued, refused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::{Algorithm, Digest};
use kubepkg_remote::registry::BlobSink;
use kubepkg_remote::{Client, Fault, PerHost, Progress, RemoteError};

use crate::server::{Server, blob, broken_body, client, noise, options, range, serve_blob, status};

#[derive(Debug, Default)]
struct Counted {
    received: AtomicU64,
    again: AtomicU64,
}

impl Progress for Counted {
    fn received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    fn again(&self, bytes: u64) {
        self.again.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Downloads `bytes` from `server`, which serves them in its own way.
async fn download(server: &Server, bytes: &[u8]) -> Result<(Vec<u8>, Counted), RemoteError> {
    let counted = Counted::default();
    let registry = client().registry();
    let (image, descriptor) = (server.image("a:1"), blob(bytes));
    let sink = registry
        .download(&image, &descriptor, Vec::new(), &counted)
        .await?;
    Ok((sink, counted))
}

#[tokio::test]
async fn a_blob_comes_whole() {
    for length in [1, 1000, 3_000_000] {
        let bytes = noise(length);
        let body = bytes.clone();
        let server = Server::start(move |seen| serve_blob(seen, &body, usize::MAX)).await;
        let (got, counted) = download(&server, &bytes).await.unwrap();
        assert_eq!(got, bytes);
        assert_eq!(counted.received.into_inner(), length as u64);
        assert_eq!(server.seen().len(), 1);
        assert_eq!(range(&server.seen()[0]), None);
    }
}

#[tokio::test]
async fn an_empty_blob_and_other_algorithms() {
    let registry = client().registry();
    let server = Server::start(|seen| serve_blob(seen, b"content", usize::MAX)).await;
    let image = server.image("a:1");
    assert_eq!(registry.blob(&image, &blob(b""), 0).await.unwrap(), "");
    let mut descriptor = blob(b"content");
    descriptor.digest = Digest::of(Algorithm::Sha512, b"content");
    assert_eq!(
        registry.blob(&image, &descriptor, 7).await.unwrap(),
        "content"
    );
    let error = registry.blob(&image, &descriptor, 6).await.unwrap_err();
    assert!(
        matches!(error.fault(), Fault::TooLarge { limit: 6 }),
        "{error}"
    );
}

#[tokio::test]
async fn a_cut_connection_is_continued_where_it_broke() {
    let bytes = noise(2_000_000);
    let body = bytes.clone();
    let server = Server::start(move |seen| {
        let until = if seen.before == 0 {
            1_000_000
        } else {
            usize::MAX
        };
        serve_blob(seen, &body, until)
    })
    .await;
    let (got, counted) = download(&server, &bytes).await.unwrap();
    assert_eq!(got, bytes);
    assert_eq!(counted.received.into_inner(), 2_000_000, "no byte twice");
    assert_eq!(counted.again.into_inner(), 0);
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    let (first, last) = range(&seen[1]).unwrap();
    assert!(first > 0 && last == 1_999_999, "{first}-{last}");
}

#[tokio::test]
async fn a_bad_line_does_not_end_what_gets_on() {
    let bytes = noise(12_000_000);
    let body = bytes.clone();
    let server = Server::start(move |seen| serve_blob(seen, &body, 1_200_000)).await;
    let (got, _) = download(&server, &bytes).await.unwrap();
    assert_eq!(got, bytes);
    assert!(server.seen().len() >= 10, "more cuts than tries");
}

#[tokio::test]
async fn a_line_that_never_gets_on_is_given_up() {
    let bytes = noise(100_000);
    let body = bytes.clone();
    let server = Server::start(move |seen| serve_blob(seen, &body, 10)).await;
    let error = download(&server, &bytes).await.unwrap_err();
    assert!(
        matches!(error.fault(), Fault::Cut { received: 50, .. }),
        "{error}"
    );
    assert_eq!((error.kind(), error.retry()), (Kind::Remote, true));
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn a_registry_without_ranges_starts_over() {
    // 200 with everything, and 416, both in answer to a Range.
    for refuses in [false, true] {
        let bytes = noise(100_000);
        let body = bytes.clone();
        let asked = AtomicUsize::new(0);
        let server = Server::start(move |seen| {
            if refuses && range(seen).is_some() {
                return status(416);
            }
            let n = asked.fetch_add(1, Ordering::Relaxed);
            let until = if n == 0 { 60_000 } else { usize::MAX };
            let headers = [("content-length", body.len().to_string())];
            (headers, broken_body(&body, until)).into_response()
        })
        .await;
        let (got, counted) = download(&server, &bytes).await.unwrap();
        assert_eq!(got, bytes);
        let again = counted.again.into_inner();
        assert!(again > 0 && again <= 60_000, "{again}");
        assert_eq!(counted.received.into_inner(), 100_000 + again);
    }
}

#[tokio::test]
async fn a_wrong_range_is_refused() {
    let bytes = noise(100_000);
    let body = bytes.clone();
    let server = Server::start(move |seen| {
        let mut response = serve_blob(seen, &body, 60_000);
        if range(seen).is_some() {
            let value = "bytes 0-99999/100000".parse().unwrap();
            response.headers_mut().insert("content-range", value);
        }
        response
    })
    .await;
    let error = download(&server, &bytes).await.unwrap_err();
    assert!(error.to_string().contains("Content-Range"), "{error}");
    assert_eq!(error.kind(), Kind::Refused);
}

#[tokio::test]
async fn wrong_bytes_are_refused_after_one_more_try() {
    let bytes = noise(100_000);
    let mut changed = bytes.clone();
    changed[50_000] ^= 1;
    let (right, wrong) = (bytes.clone(), changed);
    let always = wrong.clone();
    let server = Server::start(move |seen| serve_blob(seen, &always, usize::MAX)).await;
    let error = download(&server, &bytes).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (Kind::Refused, false));
    let digest = Digest::sha256(&bytes).to_string();
    assert!(error.place().unwrap().contains(&digest), "{error}");
    assert_eq!(server.seen().len(), 2);

    let server = Server::start(move |seen| match seen.before {
        0 => serve_blob(seen, &wrong, usize::MAX),
        _ => serve_blob(seen, &right, usize::MAX),
    })
    .await;
    let (got, counted) = download(&server, &bytes).await.unwrap();
    assert_eq!(got, bytes);
    assert_eq!(counted.again.into_inner(), 100_000);
}

#[tokio::test]
async fn wrong_lengths_are_refused() {
    let bytes = noise(1000);
    let chunked = |body: &[u8]| Response::new(broken_body(body, usize::MAX));
    let longer = noise(1001);
    let announced = Server::start(|seen| serve_blob(seen, &noise(1001), usize::MAX)).await;
    let endless = Server::start(move |_| chunked(&longer)).await;
    for server in [announced, endless] {
        let error = download(&server, &bytes).await.unwrap_err();
        let length = matches!(
            error.fault(),
            Fault::Length {
                expected: 1000,
                got: 1001
            }
        );
        assert!(length, "{error}");
        assert_eq!(server.seen().len(), 1);
    }
}

struct Full(u64);

impl BlobSink for Full {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match offset + bytes.len() as u64 > self.0 {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_full_disk_is_no_network_error() {
    let bytes = noise(3_000_000);
    let body = bytes.clone();
    let server = Server::start(move |seen| serve_blob(seen, &body, usize::MAX)).await;
    let (image, descriptor) = (server.image("a:1"), blob(&bytes));
    let result = client()
        .registry()
        .download(&image, &descriptor, Full(1_000_000), &())
        .await;
    let Err(error) = result else {
        panic!("written");
    };
    assert_eq!((error.kind(), error.retry()), (Kind::Failed, false));
    assert!(matches!(error.fault(), Fault::Sink(_)), "{error}");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn streams_begin_at_an_offset() {
    for ranges in [true, false] {
        let bytes = noise(500_000);
        let body = bytes.clone();
        let server = Server::start(move |seen| match ranges {
            true => serve_blob(seen, &body, usize::MAX),
            false => body.clone().into_response(),
        })
        .await;
        let registry = client().registry();
        let stream = registry
            .blob_stream(&server.image("a:1"), &blob(&bytes), 123_456)
            .await
            .unwrap();
        let parts: Vec<_> = stream.try_collect().await.unwrap();
        assert_eq!(parts.concat(), bytes[123_456..]);
    }
}

#[tokio::test]
async fn a_stream_tells_that_it_broke() {
    let bytes = noise(1000);
    let body = bytes.clone();
    let server = Server::start(move |seen| serve_blob(seen, &body, 500)).await;
    let registry = client().registry();
    let stream = registry
        .blob_stream(&server.image("a:1"), &blob(&bytes), 0)
        .await
        .unwrap();
    let error = stream.try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(error.fault(), Fault::Cut { .. }), "{error}");
}

#[tokio::test]
async fn a_host_is_not_overrun() {
    let bytes = noise(10_000);
    let (now, most): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
    let (body, running, highest) = (bytes.clone(), Arc::clone(&now), Arc::clone(&most));
    let server = Server::start(move |_| {
        let (running, body) = (Arc::clone(&running), body.clone());
        highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Two chunks, and the second one only after others had their chance to come in.
        let parts = futures_util::stream::once(async move {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, io::Error>(body)
        });
        Response::new(axum::body::Body::from_stream(parts))
    })
    .await;
    let (mut options, _) = options();
    options.per_host = PerHost { first: 3, most: 3 };
    let registry = Client::new(options).unwrap().registry();
    let (image, descriptor) = (server.image("a:1"), blob(&bytes));
    let pull = |_| registry.download(&image, &descriptor, Vec::new(), &());
    futures_util::future::try_join_all((0..30).map(pull))
        .await
        .unwrap();
    assert_eq!(server.seen().len(), 30);
    assert!(most.load(Ordering::SeqCst) <= 3, "{most:?}");
}

#[tokio::test]
async fn a_server_without_ranges_that_cuts_every_answer_is_given_up() {
    let content = noise(6 << 20);
    let descriptor = blob(&content);
    let server = Server::start(move |seen| {
        let headers = [("content-length", content.len().to_string())];
        let _ = seen;
        (headers, broken_body(&content, 5 << 20)).into_response()
    })
    .await;
    let image = server.image("a:1");
    let error = client()
        .registry()
        .blob(&image, &descriptor, 8 << 20)
        .await
        .unwrap_err();
    assert!(matches!(error.fault(), Fault::Cut { .. }), "{error}");
    assert!(server.seen().len() < 12, "{}", server.seen().len());
}

#[tokio::test]
async fn a_blob_from_elsewhere_is_checked_and_continued() {
    let bytes = noise(3_000_000);
    let body = bytes.clone();
    let cut = AtomicUsize::new(0);
    let server = Server::start(move |seen| {
        let first = cut.fetch_add(1, Ordering::Relaxed) == 0;
        serve_blob(seen, &body, if first { 2_000_000 } else { usize::MAX })
    })
    .await;
    let registry = client().registry();
    let url = format!("http://{}/layers/windows", server.host());
    let get = async |url: &str, of: &[u8]| {
        let blob = blob(of);
        registry
            .download_from_url(url, &blob, Vec::new(), &())
            .await
    };
    assert_eq!(get(&url, &bytes).await.unwrap(), bytes);
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert!(range(&seen[1]).is_some(), "continued where it was cut");
    let other = noise(2_999_999);
    assert!(get(&url, &other).await.is_err(), "another length");
    let error = get("file:///etc/passwd", &bytes).await.unwrap_err();
    assert!(error.to_string().contains("http"), "{error}");
}

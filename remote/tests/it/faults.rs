//! Servers that are busy, broken, gone, or lie.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::manifest::MAX_MANIFEST;
use kubepkg_core::time::Time;
use kubepkg_core::{Digest, Reference};
use kubepkg_remote::{Client, Fault};

use crate::server::{Server, broken_body, client, manifest, options, serve_manifest, status};

const OCI: &str = media_type::OCI_MANIFEST;

/// 429 `n` times, then the manifest.
async fn busy(n: usize, retry_after: String) -> Server {
    Server::start(move |seen| {
        if seen.before >= n {
            return serve_manifest(&manifest("x").0, OCI);
        }
        let mut response = status(429);
        if !retry_after.is_empty() {
            let value = retry_after.parse().unwrap();
            response.headers_mut().insert("retry-after", value);
        }
        response
    })
    .await
}

#[tokio::test]
async fn a_busy_registry_is_given_the_time_it_asks_for() {
    let date = jiff::fmt::rfc2822::DateTimePrinter::new()
        .timestamp_to_rfc9110_string(
            &jiff::Timestamp::from_second(Time::now().plus(90).unix()).unwrap(),
        )
        .unwrap();
    for (retry_after, least, most) in [
        ("37".to_owned(), 36, 37),
        (date, 80, 90),
        (String::new(), 0, 1),
    ] {
        let server = busy(2, retry_after.clone()).await;
        let (options, pauses) = options();
        let registry = Client::new(options).unwrap().registry();
        registry.manifest(&server.image("a:1")).await.unwrap();
        let longest = pauses.longest();
        assert!(
            longest >= Duration::from_secs(least) && longest <= Duration::from_secs(most),
            "{retry_after}: {longest:?}"
        );
        assert_eq!(server.seen().len(), 3);
    }
}

#[tokio::test]
async fn patience_has_an_end() {
    let server = busy(usize::MAX, String::new()).await;
    let error = client()
        .registry()
        .manifest(&server.image("a:1"))
        .await
        .unwrap_err();
    assert!(
        matches!(error.fault(), Fault::RateLimited { .. }),
        "{error}"
    );
    assert_eq!((error.kind(), error.retry()), (Kind::Remote, true));
    let host = server.host();
    assert!(error.to_string().contains(&host), "{error}");
    assert!(
        error
            .hint()
            .unwrap()
            .contains(&format!("docker login {host}"))
    );
    assert_eq!(server.seen().len(), 5);

    let server = busy(usize::MAX, "86400".to_owned()).await;
    let error = client()
        .registry()
        .manifest(&server.image("a:1"))
        .await
        .unwrap_err();
    assert!(
        matches!(error.fault(), Fault::RateLimited { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("24 h"), "{error}");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn every_kind_of_request_is_tried_again() {
    let (bytes, descriptor) = manifest("x");
    let body = bytes.clone();
    let server = Server::start(move |seen| match seen.before {
        0 => status(503),
        _ => serve_manifest(&body, OCI),
    })
    .await;
    let registry = client().registry();
    let image = server.image("a:1");
    assert_eq!(registry.resolve(&image).await.unwrap(), descriptor);
    assert_eq!(registry.manifest(&image).await.unwrap().bytes, bytes);
    let got = registry.blob(&image, &descriptor, 10_000).await.unwrap();
    assert_eq!(got, bytes);
    let url = server.url("/index.yaml").parse().unwrap();
    assert_eq!(client().fetch(&url, 10_000).await.unwrap().bytes, bytes);
    assert_eq!(server.seen().len(), 8);
}

#[tokio::test]
async fn a_manifest_cut_short_is_fetched_again() {
    let (bytes, _) = manifest("x");
    let body = bytes.clone();
    let server = Server::start(move |seen| {
        let until = if seen.before == 0 { 20 } else { usize::MAX };
        let headers = [
            ("content-type", OCI),
            ("content-length", &body.len().to_string()),
        ];
        (headers, broken_body(&body, until)).into_response()
    })
    .await;
    let got = client()
        .registry()
        .manifest(&server.image("a:1"))
        .await
        .unwrap();
    assert_eq!(got.bytes, bytes);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn nobody_there() {
    // A port that was free a moment ago and that nobody listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let image: Reference = format!("{address}/a:1").parse().unwrap();
    let error = client().registry().manifest(&image).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (Kind::Remote, true));
    assert!(matches!(error.fault(), Fault::Network(_)), "{error}");
    assert!(error.place().unwrap().contains(&address.to_string()));
}

#[tokio::test]
async fn a_server_without_tls_is_not_asked_again() {
    let server = Server::start(|_| status(200)).await;
    let url = format!("https://{}/index.yaml", server.address);
    let error = client().fetch(&url.parse().unwrap(), 9).await.unwrap_err();
    assert!(matches!(error.fault(), Fault::Tls(_)), "{error:?}");
    assert!(!error.retry());
    assert!(error.hint().unwrap().contains("--plain-http"));
}

#[tokio::test]
async fn what_does_not_exist_is_asked_for_once() {
    let server = Server::start(|_| status(404)).await;
    let image = server.image("a/b:1");
    let registry = client().registry();
    for error in [
        registry.manifest(&image).await.unwrap_err(),
        registry.resolve(&image).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.retry()), (Kind::NotFound, false));
        assert_eq!(error.place().unwrap(), image.to_string());
    }
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_registrys_own_words_are_passed_on() {
    let server = Server::start(|_| {
        let body = r#"{"errors":[{"code":"NAME_INVALID","message":"no such \u001b[31m name"}]}"#;
        (
            StatusCode::BAD_REQUEST,
            [("content-type", "application/json")],
            body,
        )
            .into_response()
    })
    .await;
    let error = client()
        .registry()
        .manifest(&server.image("a:1"))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("400") && text.contains("no such"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[tokio::test]
async fn a_manifest_without_end_is_refused() {
    for announced in [true, false] {
        let server = Server::start(move |_| {
            let body = vec![b' '; MAX_MANIFEST as usize + 1];
            let mut response =
                ([("content-type", OCI)], broken_body(&body, usize::MAX)).into_response();
            if announced {
                let headers = response.headers_mut();
                headers.insert("content-length", body.len().into());
            }
            response
        })
        .await;
        let error = client()
            .registry()
            .manifest(&server.image("a:1"))
            .await
            .unwrap_err();
        assert!(matches!(error.fault(), Fault::TooLarge { .. }), "{error}");
        assert_eq!(error.kind(), Kind::Refused);
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_manifest_is_what_was_asked_for() {
    let (bytes, _) = manifest("other");
    let body = bytes.clone();
    let server = Server::start(move |_| serve_manifest(&body, OCI)).await;
    let wanted = Digest::sha256(b"wanted");
    let image = server.image("a:1").at(wanted);
    let registry = client().registry();
    for error in [
        registry.manifest(&image).await.unwrap_err(),
        registry.resolve(&image).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Refused);
        let text = error.to_string();
        assert!(text.contains(&wanted.to_string()), "{text}");
        assert!(text.contains(&Digest::sha256(&bytes).to_string()), "{text}");
    }
}

#[tokio::test]
async fn a_digest_that_is_announced_must_hold() {
    let server = Server::start(|_| {
        let headers = [
            ("content-type", OCI.to_owned()),
            (
                "docker-content-digest",
                Digest::sha256(b"other").to_string(),
            ),
        ];
        (headers, manifest("x").0).into_response()
    })
    .await;
    let error = client()
        .registry()
        .manifest(&server.image("a:1"))
        .await
        .unwrap_err();
    assert!(matches!(error.fault(), Fault::Digest { .. }), "{error}");
}

#[tokio::test]
async fn bytes_and_media_type_come_as_they_are() {
    // Odd spacing, an unknown member, and a content type that names no manifest.
    let text = format!(
        "{{ \"schemaVersion\" : 2,\n \"mediaType\":\"{}\", \"manifests\":[], \"x\":1 }}\n",
        media_type::OCI_INDEX
    );
    let body = text.clone();
    let server = Server::start(move |_| {
        ([("content-type", "application/json")], body.clone()).into_response()
    })
    .await;
    let registry = client().registry();
    let got = registry.manifest(&server.image("a:1")).await.unwrap();
    assert_eq!(got.bytes, text);
    assert_eq!(got.media_type, media_type::OCI_INDEX);
    assert_eq!(got.digest, Digest::sha256(&text));
    // A HEAD without the digest is not enough; the manifest itself is.
    assert_eq!(
        registry.resolve(&server.image("a:1")).await.unwrap(),
        got.descriptor()
    );
}

#[tokio::test]
async fn redirects_that_lead_astray() {
    for (target, word) in [
        ("http://registry.example.com/v2/a/manifests/1", "plain HTTP"),
        ("/v2/a/manifests/1", "too many"),
    ] {
        let server = Server::start(move |_| {
            let mut response = status(302);
            response
                .headers_mut()
                .insert("location", target.parse().unwrap());
            response
        })
        .await;
        let error = client()
            .registry()
            .manifest(&server.image("a:1"))
            .await
            .unwrap_err();
        assert!(matches!(error.fault(), Fault::Redirect { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(error.kind(), Kind::Refused);
        assert!(server.seen().len() <= 12, "{}", server.seen().len());
    }
}

#[tokio::test]
async fn secrets_in_urls_stay_out_of_messages() {
    let server = Server::start(|_| {
        let mut response = status(302);
        let target = "http://user:hidden@cdn.example.com/x?token=hidden";
        response
            .headers_mut()
            .insert("location", target.parse().unwrap());
        response
    })
    .await;
    let error = client()
        .registry()
        .manifest(&server.image("a:1"))
        .await
        .unwrap_err();
    assert!(
        !format!("{error} {error:?}").contains("hidden"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_queue_that_moves_is_waited_in() {
    // one good answer after each eleven refusals, whoever asks
    let turns = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |_| {
        let turn = turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match turn % 12 {
            11 => serve_manifest(&manifest("x").0, OCI),
            _ => status(429),
        }
    })
    .await;
    let registry = client().registry();
    let images: Vec<Reference> = (0..12).map(|n| server.image(&format!("a:{n}"))).collect();
    let all = images.iter().map(|image| registry.manifest(image));
    let got = futures_util::future::join_all(all).await;
    let refused = got.iter().filter(|got| got.is_err()).count();
    assert!(refused < 12, "nobody's turn came");
    // alone, with nobody else's answers to go by, it is given up after its tries
    let server = Server::start(|_| status(429)).await;
    registry.manifest(&server.image("a:1")).await.unwrap_err();
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn of_a_page_for_people_the_title_is_told() {
    let server = Server::start(|_| {
        let page = "<html><head><title>400 No required SSL certificate was sent</title></head>";
        let headers = [("content-type", "text/html")];
        (StatusCode::BAD_REQUEST, headers, page).into_response()
    })
    .await;
    let registry = client().registry();
    let error = registry.manifest(&server.image("a:1")).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.ends_with("status 400: 400 No required SSL certificate was sent"),
        "{text}"
    );
    assert!(error.hint().unwrap().contains("--cert"));
}

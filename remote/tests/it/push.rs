//! Writing to registries, and to registries in trouble.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use kubepkg_core::descriptor::media_type::OCI_MANIFEST;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::{Descriptor, Digest};
use kubepkg_remote::{Client, Content, Fault, Progress, RemoteError};

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::server::{Seen, Server, blob, client, manifest, noise, options, serve_manifest, status};

const UPLOAD: &str = "/v2/team/web/blobs/uploads/";

/// A registry with one repository, as simple as it can be.
#[derive(Default)]
struct Registry {
    blobs: Mutex<Vec<Vec<u8>>>,
    /// What came of the upload that goes on.
    pending: Mutex<Vec<u8>>,
    manifests: Mutex<Vec<(String, Vec<u8>)>>,
}

fn with(code: u16, headers: &[(&'static str, &str)]) -> Response {
    let mut response = status(code);
    for (name, value) in headers {
        response.headers_mut().insert(*name, value.parse().unwrap());
    }
    response
}

impl Registry {
    fn has(&self, bytes: &[u8]) -> bool {
        self.blobs.lock().unwrap().iter().any(|b| b == bytes)
    }

    fn answer(&self, seen: &Seen) -> Response {
        let path = seen.path.split('?').next().unwrap();
        let last = path.rsplit('/').next().unwrap();
        match (seen.method.as_str(), path) {
            ("HEAD", _) if path.contains("/blobs/") => {
                let blobs = self.blobs.lock().unwrap();
                let there = blobs.iter().any(|b| Digest::sha256(b).to_string() == last);
                status(if there { 200 } else { 404 })
            }
            ("POST", UPLOAD) => {
                self.pending.lock().unwrap().clear();
                // relative, and with something to be given back
                with(202, &[("location", "../../../../../upload/1?state=a%2Fb")])
            }
            ("PATCH", "/upload/1") => {
                let mut pending = self.pending.lock().unwrap();
                let range = seen.header("content-range").to_owned();
                assert_eq!(range.split('-').next(), Some(&*pending.len().to_string()));
                pending.extend_from_slice(&seen.body);
                let range = format!("0-{}", pending.len() - 1);
                with(
                    202,
                    &[("location", "/upload/1?state=next"), ("range", &range)],
                )
            }
            ("PUT", "/upload/1") => {
                let mut bytes = std::mem::take(&mut *self.pending.lock().unwrap());
                bytes.extend_from_slice(&seen.body);
                let digest = Digest::sha256(&bytes).to_string();
                let asked = format!("digest={}", digest.replace(':', "%3A"));
                if !seen.path.ends_with(&asked) {
                    return status(400);
                }
                self.blobs.lock().unwrap().push(bytes);
                with(201, &[("docker-content-digest", &digest)])
            }
            ("PUT", _) if path.contains("/manifests/") => {
                let mut manifests = self.manifests.lock().unwrap();
                manifests.push((last.to_owned(), seen.body.clone()));
                status(201)
            }
            ("GET", _) if path.contains("/manifests/") => {
                let manifests = self.manifests.lock().unwrap();
                match manifests.iter().find(|(tag, _)| tag == last) {
                    Some((_, bytes)) => serve_manifest(bytes, OCI_MANIFEST),
                    None => status(404),
                }
            }
            _ => status(405),
        }
    }
}

/// A registry that answers with what `odd` gives, where it gives something.
async fn registry(
    odd: impl Fn(&Seen) -> Option<Response> + Send + Sync + 'static,
) -> (Server, Arc<Registry>) {
    let registry: Arc<Registry> = Arc::default();
    let answering = Arc::clone(&registry);
    let server =
        Server::start(move |seen| odd(seen).unwrap_or_else(|| answering.answer(seen))).await;
    (server, registry)
}

fn nobody() -> Arc<dyn Progress> {
    Arc::new(())
}

fn file(bytes: &[u8]) -> Content {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Content::File(Arc::new(file), bytes.len() as u64)
}

async fn push(client: &Client, server: &Server, bytes: &[u8]) -> Result<bool, RemoteError> {
    client
        .registry()
        .push_blob(
            &server.image("team/web:1"),
            &blob(bytes),
            &file(bytes),
            &nobody(),
        )
        .await
}

fn methods(server: &Server) -> Vec<String> {
    let seen = server.seen();
    seen.iter().map(|s| s.method.to_string()).collect()
}

#[derive(Default)]
struct Count(AtomicU64);

impl Progress for Count {
    fn received(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_blob_and_a_manifest() {
    let (server, registry) = registry(|_| None).await;
    let bytes = noise(700_000);
    let (client, image) = (client(), server.image("team/web:1"));
    let count = Arc::new(Count::default());
    let progress: Arc<dyn Progress> = count.clone();
    for (content, was_there) in [
        (file(&bytes), false),
        (Content::Bytes(bytes.clone().into()), true),
    ] {
        let pushed = client
            .registry()
            .push_blob(&image, &blob(&bytes), &content, &progress)
            .await
            .unwrap();
        assert_eq!(pushed, was_there);
    }
    assert!(registry.has(&bytes));
    assert_eq!(count.0.load(Ordering::Relaxed), 700_000);
    assert_eq!(methods(&server), ["HEAD", "POST", "PUT", "HEAD"]);
    let seen = server.seen();
    assert_eq!(seen[1].header("content-length"), "0");
    assert!(seen[2].path.starts_with("/upload/1?state=a%2Fb&digest="));
    assert_eq!(seen[2].header("content-length"), "700000");

    let (bytes, descriptor) = manifest("pushed");
    client
        .registry()
        .push_manifest(&image, OCI_MANIFEST, bytes.into())
        .await
        .unwrap();
    let there = client.registry().published(&image).await.unwrap().unwrap();
    assert_eq!(there.digest, descriptor.digest);
    assert_eq!(
        server.seen()[4].header("content-type"),
        OCI_MANIFEST,
        "a registry has to know what it is"
    );
    let image = server.image("team/web:2");
    assert!(client.registry().published(&image).await.unwrap().is_none());
}

#[tokio::test]
async fn an_upload_begins_anew_from_its_first_byte() {
    let trouble = |seen: &Seen| match (seen.method.as_str(), seen.before) {
        ("PUT", 0) => Some(status(503)),
        ("PUT", 1) => Some(with(429, &[("retry-after", "33")])),
        _ => None,
    };
    let (server, registry) = registry(trouble).await;
    let (options, pauses) = options();
    let bytes = noise(300_000);
    let client = Client::new(options).unwrap();
    push(&client, &server, &bytes).await.unwrap();
    assert!(registry.has(&bytes));
    let seconds = pauses.longest().as_secs();
    assert!((32..=33).contains(&seconds), "{seconds}");
    assert_eq!(
        methods(&server),
        [
            "HEAD", "POST", "PUT", "HEAD", "POST", "PUT", "HEAD", "POST", "PUT"
        ]
    );
}

#[tokio::test]
async fn an_upload_that_the_registry_lost_begins_anew() {
    const LARGE: usize = (4 << 20) + 1;
    type Odd = fn(&Seen) -> Option<Response>;
    let gone: [(usize, Odd); 4] = [
        (1000, |seen| match (seen.method.as_str(), seen.before) {
            ("PUT", 0) => Some(status(404)),
            _ => None,
        }),
        (1000, |seen| match (seen.method.as_str(), seen.before) {
            ("PUT", 0 | 1) => Some(status(410)),
            _ => None,
        }),
        // in pieces, of which one is lost with the upload, or alone
        (LARGE, |seen| match (seen.method.as_str(), seen.before) {
            ("PUT", 0) => Some(status(413)),
            ("PATCH", 0) => Some(status(404)),
            _ => None,
        }),
        (LARGE, |seen| match (seen.method.as_str(), seen.before) {
            ("PUT", 0) => Some(status(413)),
            ("PATCH", 0) => Some(with(202, &[("range", "0-99")])),
            _ => None,
        }),
    ];
    for (size, odd) in gone {
        let (server, registry) = registry(odd).await;
        let bytes = noise(size);
        push(&client(), &server, &bytes).await.unwrap();
        assert!(registry.has(&bytes));
    }
    // not without end, and not where there is no upload yet
    for (method, asked) in [("PUT", 5), ("POST", 1)] {
        let odd = move |seen: &Seen| (seen.method.as_str() == method).then(|| status(404));
        let (server, _) = registry(odd).await;
        let error = push(&client(), &server, b"x").await.unwrap_err();
        assert!(
            matches!(error.fault(), Fault::Status { status: 404, .. }),
            "{error}"
        );
        let count = methods(&server).iter().filter(|m| *m == method).count();
        assert_eq!(count, asked, "{method}");
    }
}

#[tokio::test]
async fn whether_a_blob_is_published() {
    let bytes = b"blob".to_vec();
    for (code, there) in [(200, true), (404, false), (410, false), (405, true)] {
        let server = Server::start(move |_| status(code)).await;
        let image = server.image("team/web:1");
        let registry = client().registry();
        let said = registry.has_published(&image, &blob(&bytes)).await.unwrap();
        assert_eq!(said, there, "{code}");
        assert_eq!(methods(&server), ["HEAD"]);
    }
    let server = Server::start(|_| status(503)).await;
    let registry = client().registry();
    let image = server.image("team/web:1");
    assert!(registry.has_published(&image, &blob(&bytes)).await.is_err());
}

/// Leads to `to`. The first connection by which more than so many bytes come is cut.
async fn cut_once(to: SocketAddr, after: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let cut = Arc::new(AtomicBool::new(false));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(to).await.unwrap();
            let cut = Arc::clone(&cut);
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let there = async {
                    let mut first = (&mut from_client).take(after);
                    let came = tokio::io::copy(&mut first, &mut to_server).await?;
                    if came < after || !cut.swap(true, Ordering::Relaxed) {
                        return Ok(());
                    }
                    tokio::io::copy(&mut from_client, &mut to_server)
                        .await
                        .map(|_| ())
                };
                let back = async {
                    tokio::io::copy(&mut from_server, &mut to_client)
                        .await
                        .map(|_| ())
                };
                // whichever ends first takes the other one along
                let _: std::io::Result<()> = tokio::select! {
                    ended = there => ended,
                    ended = back => ended,
                };
            });
        }
    });
    address
}

#[tokio::test]
async fn a_connection_that_is_cut_in_the_middle() {
    let (server, registry) = registry(|_| None).await;
    let relay = cut_once(server.address, 1 << 20).await;
    let bytes = noise(3 << 20);
    let image = format!("{relay}/team/web:1").parse().unwrap();
    let count = Arc::new(Count::default());
    let progress: Arc<dyn Progress> = count.clone();
    let pushed = client()
        .registry()
        .push_blob(&image, &blob(&bytes), &file(&bytes), &progress)
        .await;
    assert!(!pushed.unwrap());
    assert!(registry.has(&bytes));
    let sent = count.0.load(Ordering::Relaxed);
    assert!(sent > bytes.len() as u64, "{sent}: it was not cut");
}

#[tokio::test]
async fn an_upload_whose_answer_was_lost_is_done() {
    let registry: Arc<Registry> = Arc::default();
    let answering = Arc::clone(&registry);
    let server = Server::start(move |seen| {
        let answer = answering.answer(seen);
        match seen.method {
            Method::PUT => status(504),
            _ => answer,
        }
    })
    .await;
    let bytes = noise(1000);
    assert!(!push(&client(), &server, &bytes).await.unwrap());
    assert_eq!(methods(&server), ["HEAD", "POST", "PUT", "HEAD"]);
}

#[tokio::test]
async fn trouble_without_end_ends() {
    let odd = |seen: &Seen| (seen.method == Method::PUT).then(|| status(503));
    let (server, _) = registry(odd).await;
    let error = push(&client(), &server, b"x").await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (Kind::Remote, true));
    let puts = methods(&server).iter().filter(|m| *m == "PUT").count();
    assert_eq!(puts, 5);

    let odd = |seen: &Seen| {
        let long = ("retry-after", "86400");
        (seen.method == Method::POST).then(|| with(429, &[long]))
    };
    let (server, _) = registry(odd).await;
    let error = push(&client(), &server, b"x").await.unwrap_err();
    assert!(
        matches!(error.fault(), Fault::RateLimited { .. }),
        "{error}"
    );
    assert_eq!(methods(&server), ["HEAD", "POST"]);
}

/// A registry that wants `Basic dTpw`, and a client that has it.
async fn secretive(
    odd: impl Fn(&Seen) -> Option<Response> + Send + Sync + 'static,
) -> (Server, Client) {
    let (server, _) = registry(move |seen| match seen.header("authorization") {
        "Basic dTpw" => odd(seen),
        _ => Some(with(401, &[("www-authenticate", "Basic realm=\"x\"")])),
    })
    .await;
    let mut config = tempfile::NamedTempFile::new().unwrap();
    let text = format!(r#"{{"auths":{{"{}":{{"auth":"dTpw"}}}}}}"#, server.host());
    config.write_all(text.as_bytes()).unwrap();
    let (mut options, _) = options();
    options.registry_configs = vec![config.path().to_owned()];
    (server, Client::new(options).unwrap())
}

#[tokio::test]
async fn credentials_stay_where_they_belong() {
    let bytes = noise(400_000);
    let store = Server::start(|_| status(201)).await;
    // the registry says where to, or sends on what comes
    for redirected in [false, true] {
        let there = store.url("/elsewhere?signature=1");
        let (server, client) = secretive(move |seen| match seen.method.as_str() {
            "POST" if !redirected => Some(with(202, &[("location", &there)])),
            "PUT" if redirected => Some(with(307, &[("location", &there)])),
            _ => None,
        })
        .await;
        push(&client, &server, &bytes).await.unwrap();
        let seen = store.seen().pop().unwrap();
        assert_eq!(seen.method, Method::PUT);
        assert!(seen.body == bytes, "all of it is sent on");
        for secret in ["authorization", "cookie", "referer"] {
            assert_eq!(seen.header(secret), "", "{secret}");
        }
        let own = server.seen();
        assert_eq!(own.last().unwrap().header("authorization"), "Basic dTpw");
    }
    // a store that wants to know who asks is not told
    let store = Server::start(|_| with(401, &[("www-authenticate", "Basic realm=\"x\"")])).await;
    let there = store.url("/");
    let (server, client) = secretive(move |seen| {
        (seen.method == Method::POST).then(|| with(202, &[("location", &there)]))
    })
    .await;
    push(&client, &server, &bytes).await.unwrap_err();
    assert!(
        store
            .seen()
            .iter()
            .all(|s| s.header("authorization").is_empty())
    );
}

#[tokio::test]
async fn uploads_go_nowhere_unsafe() {
    for location in ["ftp://127.0.0.1/x", "http://registry.example.com/x"] {
        let odd = move |seen: &Seen| {
            (seen.method == Method::POST).then(|| with(202, &[("location", location)]))
        };
        let (server, _) = registry(odd).await;
        let error = push(&client(), &server, b"x").await.unwrap_err();
        assert!(matches!(error.fault(), Fault::Redirect { .. }), "{error}");
    }
    let odd = |seen: &Seen| (seen.method == Method::POST).then(|| status(202));
    let (server, _) = registry(odd).await;
    let error = push(&client(), &server, b"x").await.unwrap_err();
    assert!(error.to_string().contains("where to upload to"), "{error}");
}

#[tokio::test]
async fn a_token_is_asked_for_that_may_push() {
    let own: Arc<OnceLock<String>> = Arc::default();
    let realm = Arc::clone(&own);
    let (server, registry) = registry(move |seen| {
        if seen.path.starts_with("/token") {
            let token = match seen.path.contains("repository%3Ateam%2Fweb%3Apull%2Cpush") {
                true => "push",
                false => "pull",
            };
            return Some(format!(r#"{{"token":"{token}"}}"#).into_response());
        }
        let bearer = seen.header("authorization");
        let wanted: &[&str] = match seen.method.as_str() {
            "GET" => &["Bearer pull", "Bearer push"],
            _ => &["Bearer push"],
        };
        (!wanted.contains(&bearer)).then(|| {
            let realm = realm.get().unwrap();
            // what is named is what this request needs
            let scope = "repository:team/web:pull";
            let text = format!(r#"Bearer realm="{realm}",service="s",scope="{scope}""#);
            with(401, &[("www-authenticate", &text)])
        })
    })
    .await;
    own.set(server.url("/token")).unwrap();
    let (client, image) = (client(), server.image("team/web:1"));
    // a token that may only pull is no use for pushing
    client.registry().manifest(&image).await.unwrap_err();
    push(&client, &server, b"blob").await.unwrap();
    let (bytes, _) = manifest("x");
    let pushed = client.registry();
    pushed
        .push_manifest(&image, OCI_MANIFEST, bytes.into())
        .await
        .unwrap();
    assert!(registry.has(b"blob"));
    assert_eq!(server.count("/token"), 2, "one to pull and one to push");
}

/// Refuses bodies of more than `most` bytes, and wants pieces of `least`.
fn picky(most: usize, least: &'static str) -> impl Fn(&Seen) -> Option<Response> {
    move |seen| match seen.method.as_str() {
        "PUT" | "PATCH" if seen.body.len() > most => {
            let page = "<html>413 Request Entity Too Large</html>";
            Some((StatusCode::PAYLOAD_TOO_LARGE, page).into_response())
        }
        "POST" => {
            let location = ("location", "/upload/1?state=a");
            let headers = [location, ("oci-chunk-min-length", least)];
            Some(with(202, &headers))
        }
        _ => None,
    }
}

#[tokio::test]
async fn what_is_too_large_goes_in_pieces() {
    const MIB: usize = 1 << 20;
    for (most, least, pieces) in [
        (5 * MIB, "0", vec![4 * MIB, 3 * MIB + 5]),
        (5 * MIB, "5242880", vec![5 * MIB, 2 * MIB + 5]),
        (2 * MIB, "x", [vec![MIB; 7], vec![5]].concat()),
    ] {
        let (server, registry) = registry(picky(most, least)).await;
        let bytes = noise(7 * MIB + 5);
        push(&client(), &server, &bytes).await.unwrap();
        assert!(registry.has(&bytes), "{least}");
        let seen = server.seen();
        let sent = seen.iter().filter(|s| s.method == Method::PATCH);
        let sent: Vec<usize> = sent.map(|s| s.body.len()).filter(|n| *n <= most).collect();
        assert_eq!(sent, pieces);
        let last = seen.last().unwrap();
        assert_eq!((&last.method, last.body.len()), (&Method::PUT, 0));
        assert!(last.path.starts_with("/upload/1?state=next&digest="));
    }
    let (server, _) = registry(picky(1000, "0")).await;
    let error = push(&client(), &server, &noise(7 * MIB)).await.unwrap_err();
    assert!(
        matches!(error.fault(), Fault::Status { status: 413, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_registry_that_lost_a_piece_is_noticed() {
    let refuse = picky(5 << 20, "0");
    let odd = move |seen: &Seen| match seen.method.as_str() {
        "PATCH" => {
            let headers = [("location", "/upload/1"), ("range", "0-99")];
            Some(with(202, &headers))
        }
        _ => refuse(seen),
    };
    let (server, _) = registry(odd).await;
    let error = push(&client(), &server, &noise(7 << 20)).await.unwrap_err();
    assert!(error.to_string().contains("it has 100"), "{error}");
}

#[tokio::test]
async fn what_was_stored_is_what_was_sent() {
    let other = Digest::sha256(b"other").to_string();
    let odd = move |seen: &Seen| {
        let says = ("docker-content-digest", &*other);
        (seen.method == Method::PUT).then(|| with(201, &[says]))
    };
    let (server, _) = registry(odd).await;
    let error = push(&client(), &server, b"x").await.unwrap_err();
    assert!(matches!(error.fault(), Fault::Shape(_)), "{error}");
    let (bytes, _) = manifest("x");
    let error = client()
        .registry()
        .push_manifest(&server.image("team/web:1"), OCI_MANIFEST, bytes.into())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    // and what is sent is what was said
    let wrong = Descriptor::new("a/b", Digest::sha256(b"x"), 2);
    let content = Content::Bytes("x".into());
    let image = server.image("team/web:1");
    let pushed = client()
        .registry()
        .push_blob(&image, &wrong, &content, &nobody())
        .await;
    assert!(matches!(pushed.unwrap_err().fault(), Fault::Length { .. }));
}

#[tokio::test]
async fn a_tag_that_cannot_be_moved() {
    let (there, _) = manifest("there");
    let (other, _) = manifest("other");
    let serve = there.clone();
    let (server, _) = registry(move |seen| match seen.method.as_str() {
        "PUT" => {
            let text = r#"{"errors":[{"code":"TAG_INVALID","message":"tags are immutable"}]}"#;
            let kind = [("content-type", "application/json")];
            Some((StatusCode::BAD_REQUEST, kind, text).into_response())
        }
        _ => Some(serve_manifest(&serve, OCI_MANIFEST)),
    })
    .await;
    let (registry, image) = (client().registry(), server.image("team/web:1"));
    registry
        .push_manifest(&image, OCI_MANIFEST, there.into())
        .await
        .unwrap();
    let error = registry
        .push_manifest(&image, OCI_MANIFEST, other.into())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("tags are immutable"), "{error}");
}

#[tokio::test]
async fn nothing_is_pushed_through_a_mirror() {
    let (server, registry) = registry(|_| None).await;
    let mirror = Server::start(|_| status(200)).await;
    let (mut options, _) = options();
    options.mirror = Some(mirror.url("").parse().unwrap());
    let client = Client::new(options).unwrap();
    push(&client, &server, b"blob").await.unwrap();
    assert!(registry.has(b"blob"));
    let image = server.image("team/web:1");
    assert!(client.registry().published(&image).await.unwrap().is_none());
    assert_eq!(mirror.seen().len(), 0);
}

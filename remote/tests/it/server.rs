//! A server whose every answer is a function of the request, and a client that does not
//! really wait.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use kubepkg_core::{Descriptor, Digest, Reference};
use kubepkg_remote::{Client, Options, Wait};

/// A request as the server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    /// What came with it; empty where it has more than eight mebibytes.
    pub body: Vec<u8>,
    /// How many requests with this method and path came before.
    pub before: usize,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

/// Runs until dropped.
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Serves `answer` on a port of the system's choice.
    pub async fn start<F>(answer: F) -> Server
    where
        F: Fn(&Seen) -> Response + Send + Sync + 'static,
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let log = Arc::clone(&seen);
        let counts: Mutex<HashMap<(Method, String), usize>> = Mutex::default();
        let (answer, counts) = (Arc::new(answer), Arc::new(counts));
        let router = Router::new().fallback(move |request: Request| {
            let path = request.uri().path_and_query().unwrap().to_string();
            let key = (request.method().clone(), path.clone());
            let before = {
                let mut counts = counts.lock().unwrap();
                let count = counts.entry(key).or_default();
                *count += 1;
                *count - 1
            };
            let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
            async move {
                let (method, headers) = (request.method().clone(), request.headers().clone());
                let body = axum::body::to_bytes(request.into_body(), 8 << 20).await;
                let seen = Seen {
                    method,
                    path,
                    headers,
                    body: body.unwrap_or_default().to_vec(),
                    before,
                };
                log.lock().unwrap().push(seen.clone());
                answer(&seen)
            }
        });
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Server {
            address,
            seen,
            task,
        }
    }

    /// Serves one body for each path; everything else is 404.
    pub async fn files(files: Vec<(String, Vec<u8>)>) -> Server {
        let files: HashMap<String, Vec<u8>> = files.into_iter().collect();
        Server::start(move |seen| match files.get(&seen.path) {
            Some(body) => body.clone().into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        })
        .await
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A reference into this server seen as a registry.
    pub fn image(&self, rest: &str) -> Reference {
        format!("{}/{rest}", self.address).parse().unwrap()
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How many requests there were for paths that begin with `prefix`.
    pub fn count(&self, prefix: &str) -> usize {
        let all = self.seen();
        all.iter().filter(|s| s.path.starts_with(prefix)).count()
    }
}

/// Takes notes of the pauses instead of making them.
#[derive(Default)]
pub struct Pauses(Mutex<Vec<Duration>>);

impl Pauses {
    pub fn longest(&self) -> Duration {
        let all = self.0.lock().unwrap();
        all.iter().copied().max().unwrap_or_default()
    }
}

impl Wait for Pauses {
    fn wait(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap().push(time);
        Box::pin(std::future::ready(()))
    }
}

/// Options that do not wait.
pub fn options() -> (Options, Arc<Pauses>) {
    let pauses: Arc<Pauses> = Arc::default();
    let options = Options {
        wait: Arc::clone(&pauses) as Arc<dyn Wait>,
        ..Options::default()
    };
    (options, pauses)
}

pub fn client() -> Client {
    Client::new(options().0).unwrap()
}

pub fn status(code: u16) -> Response {
    StatusCode::from_u16(code).unwrap().into_response()
}

/// A manifest of an image without layers, and its descriptor.
pub fn manifest(note: &str) -> (Vec<u8>, Descriptor) {
    let config = Digest::sha256(b"{}");
    let text = format!(
        r#"{{"schemaVersion":2,"mediaType":"{OCI}","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{config}","size":2}},"layers":[],"annotations":{{"note":"{note}"}}}}"#,
        OCI = kubepkg_core::descriptor::media_type::OCI_MANIFEST,
    );
    let bytes = text.into_bytes();
    let descriptor = Descriptor::new(
        kubepkg_core::descriptor::media_type::OCI_MANIFEST,
        Digest::sha256(&bytes),
        bytes.len() as u64,
    );
    (bytes, descriptor)
}

/// `bytes` as a registry answers with a manifest.
pub fn serve_manifest(bytes: &[u8], media_type: &str) -> Response {
    let headers = [
        ("content-type", media_type.to_owned()),
        ("docker-content-digest", Digest::sha256(bytes).to_string()),
    ];
    (headers, bytes.to_vec()).into_response()
}

/// The range a request asks for, if any.
pub fn range(seen: &Seen) -> Option<(usize, usize)> {
    let (first, last) = seen
        .header("range")
        .strip_prefix("bytes=")?
        .split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// `bytes` from the range asked for, as a registry that knows ranges answers, but the
/// connection breaks after `until` bytes.
pub fn serve_blob(seen: &Seen, bytes: &[u8], until: usize) -> Response {
    let (code, first, last) = match range(seen) {
        Some((first, last)) => (206, first, last),
        None => (200, 0, bytes.len() - 1),
    };
    let part = &bytes[first..=last];
    let mut response = Response::new(broken_body(part, until));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    let headers = response.headers_mut();
    headers.insert("content-length", part.len().into());
    if code == 206 {
        let text = format!("bytes {first}-{last}/{}", bytes.len());
        headers.insert("content-range", text.parse().unwrap());
    }
    response
}

/// A body that ends with an error after `until` bytes, when it is longer than that.
pub fn broken_body(bytes: &[u8], until: usize) -> Body {
    let cut = bytes.len() > until;
    let kept = Bytes::copy_from_slice(&bytes[..until.min(bytes.len())]);
    let first = futures_util::stream::iter([Ok(kept)]);
    let end = futures_util::stream::iter(cut.then_some(())).then(|()| async {
        // Gives the server the moment in which it sends what it has.
        tokio::task::yield_now().await;
        Err(std::io::Error::other("the line is cut"))
    });
    Body::from_stream(first.chain(end))
}

/// Bytes without a pattern that compression or luck could hide behind.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&next());
    }
    bytes.truncate(length);
    bytes
}

pub fn blob(bytes: &[u8]) -> Descriptor {
    let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
    Descriptor::new(kind, Digest::sha256(bytes), bytes.len() as u64)
}

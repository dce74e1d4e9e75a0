//! One answer to one request.

use axum::body::Body;
use axum::extract;
use axum::http::{HeaderMap, Method, Request, Response, header};
use bytes::Bytes;
use futures_util::StreamExt as _;
use kubepkg_core::manifest::Manifest;
use kubepkg_core::{Descriptor, Digest};
use serde_json::json;

use super::Shared;
use super::fault::Fault;
use super::state::{Login, Repository, Seen, State};

/// The token everyone gets who may have one.
const TOKEN: &str = "a-token";

/// What would be sent if nothing went wrong.
struct Plain {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

impl Plain {
    fn new(status: u16, kind: &str, body: impl Into<Bytes>) -> Plain {
        Plain {
            status,
            headers: vec![("content-type", kind.to_owned())],
            body: body.into(),
        }
    }

    /// An error as registries write it.
    fn error(status: u16, code: &str) -> Plain {
        let body = json!({"errors": [{"code": code, "message": code.to_lowercase()}]});
        Plain::new(status, "application/json", body.to_string())
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Plain {
        self.headers.push((name, value.into()));
        self
    }
}

pub(super) async fn answer(
    extract::State(shared): extract::State<Shared>,
    request: Request<Body>,
) -> Response<Body> {
    let (answer, fault) = prepare(&shared, &request);
    if fault == Some(Fault::Silence) {
        std::future::pending::<()>().await;
    }
    send(answer, request.method(), fault.as_ref())
}

/// The answer and the fault it comes with; the request is noted.
fn prepare(shared: &Shared, request: &Request<Body>) -> (Plain, Option<Fault>) {
    let path = request.uri().to_string();
    let text = |name| {
        let value = request.headers().get(name)?;
        Some(value.to_str().ok()?.to_owned())
    };
    let mut state = shared.state.lock().unwrap();
    state.seen.push(Seen {
        method: request.method().to_string(),
        path: path.clone(),
        range: text(header::RANGE),
        authorization: text(header::AUTHORIZATION),
    });
    shared.asked.notify_all();
    let fault = state
        .faults
        .iter_mut()
        .find_map(|script| script.take(&path));
    let range = text(header::RANGE).filter(|_| fault != Some(Fault::IgnoreRange));
    let plain = match refused(&state, request.headers(), request.uri().path(), &text) {
        Some(refusal) => refusal,
        None => ranged(route(&state, request.uri().path()), range.as_deref()),
    };
    let host = text(header::HOST).unwrap_or_default();
    (faulty(plain, fault.as_ref(), &host), fault)
}

/// The refusal of a client that did not log in, where that is wanted.
fn refused(
    state: &State,
    headers: &HeaderMap,
    path: &str,
    text: &impl Fn(header::HeaderName) -> Option<String>,
) -> Option<Plain> {
    let login = state.login.as_ref()?;
    let given = text(header::AUTHORIZATION);
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let ok = |wanted: String| given.as_deref() == Some(wanted.as_str());
    if path == "/token" {
        let may = match login {
            Login::AnonymousToken => true,
            Login::Token(secret) => ok(format!("Basic {secret}")),
            Login::Basic(_) => false,
        };
        return Some(if may {
            Plain::new(200, "application/json", json!({"token": TOKEN}).to_string())
        } else {
            Plain::error(401, "UNAUTHORIZED")
        });
    }
    let (may, challenge) = match login {
        Login::Basic(secret) => (
            ok(format!("Basic {secret}")),
            "Basic realm=\"upstream\"".to_owned(),
        ),
        Login::AnonymousToken | Login::Token(_) => (
            ok(format!("Bearer {TOKEN}")),
            format!("Bearer realm=\"http://{host}/token\",service=\"upstream\""),
        ),
    };
    (!may).then(|| Plain::error(401, "UNAUTHORIZED").with("www-authenticate", challenge))
}

fn route(state: &State, path: &str) -> Plain {
    if path == "/v2/" || path == "/v2" {
        return Plain::new(200, "application/json", "{}");
    }
    if let Some(rest) = path.strip_prefix("/v2/") {
        for kind in ["manifests", "blobs", "referrers", "tags"] {
            if let Some((name, target)) = rest.rsplit_once(&format!("/{kind}/")) {
                return match state.repositories.get(name) {
                    Some(repository) => registry(state, repository, name, kind, target),
                    None => Plain::error(404, "NAME_UNKNOWN"),
                };
            }
        }
    }
    match state.files.get(path) {
        Some(body) => Plain::new(200, "application/octet-stream", body.clone())
            .with("etag", format!("\"{}\"", Digest::sha256(body).short())),
        None => Plain::new(404, "text/plain", "no such file\n"),
    }
}

fn registry(state: &State, repository: &Repository, name: &str, kind: &str, target: &str) -> Plain {
    let content = &repository.content;
    match kind {
        "manifests" => {
            let digest = match target.parse::<Digest>() {
                Ok(digest) => Some(digest),
                Err(_) => repository.tags.get(target).copied(),
            };
            let found = digest.and_then(|d| content.manifests.get_key_value(&d));
            match found {
                Some((digest, (media_type, bytes))) => Plain::new(200, media_type, bytes.clone())
                    .with("docker-content-digest", digest.to_string()),
                None => Plain::error(404, "MANIFEST_UNKNOWN"),
            }
        }
        "blobs" => {
            let digest = target.parse::<Digest>().ok();
            match digest.and_then(|d| content.blobs.get_key_value(&d)) {
                Some((digest, bytes)) => Plain::new(200, "application/octet-stream", bytes.clone())
                    .with("docker-content-digest", digest.to_string()),
                None => Plain::error(404, "BLOB_UNKNOWN"),
            }
        }
        "referrers" if !state.no_referrers_api => {
            let manifests = match target.parse::<Digest>() {
                Ok(subject) => referrers(repository, &subject),
                Err(_) => return Plain::error(400, "DIGEST_INVALID"),
            };
            let media_type = kubepkg_core::descriptor::media_type::OCI_INDEX;
            let index =
                json!({"schemaVersion": 2, "mediaType": media_type, "manifests": manifests});
            Plain::new(200, media_type, index.to_string())
        }
        "tags" if target == "list" => {
            let tags: Vec<&String> = repository.tags.keys().collect();
            let body = json!({"name": name, "tags": tags});
            Plain::new(200, "application/json", body.to_string())
        }
        _ => Plain::new(404, "text/plain", "404 page not found\n"),
    }
}

fn referrers(repository: &Repository, subject: &Digest) -> Vec<Descriptor> {
    let mut found = Vec::new();
    for (digest, (media_type, bytes)) in &repository.content.manifests {
        let manifest = Manifest::parse(bytes, Some(media_type)).unwrap();
        if manifest.subject.as_ref().map(|s| s.digest) == Some(*subject) {
            let mut descriptor = Descriptor::new(media_type, *digest, bytes.len() as u64);
            descriptor.artifact_type = manifest.referrer_type();
            descriptor.annotations = manifest.annotations;
            found.push(descriptor);
        }
    }
    found
}

/// `bytes=N-` and `bytes=N-M` of a good answer.
fn ranged(plain: Plain, range: Option<&str>) -> Plain {
    let Some(range) = range
        .and_then(|r| r.strip_prefix("bytes="))
        .filter(|_| plain.status == 200)
    else {
        return plain.with("accept-ranges", "bytes");
    };
    let len = plain.body.len();
    let (first, last) = range.split_once('-').unwrap_or((range, ""));
    let first: usize = first.parse().unwrap_or(len);
    let end = last.parse().map_or(len, |last: usize| (last + 1).min(len));
    if first >= end {
        return Plain::error(416, "RANGE_INVALID").with("content-range", format!("bytes */{len}"));
    }
    Plain {
        status: 206,
        body: plain.body.slice(first..end),
        headers: plain.headers,
    }
    .with("content-range", format!("bytes {first}-{}/{len}", end - 1))
}

fn faulty(plain: Plain, fault: Option<&Fault>, host: &str) -> Plain {
    match fault {
        Some(Fault::Status(status)) => Plain::error(*status, "SCRIPTED"),
        Some(Fault::TooMany(seconds)) => {
            Plain::error(429, "TOOMANYREQUESTS").with("retry-after", seconds.to_string())
        }
        Some(Fault::Unauthorized) => Plain::error(401, "UNAUTHORIZED")
            .with("www-authenticate", format!("Basic realm=\"{host}\"")),
        Some(Fault::WrongBytes) => {
            let mut body = plain.body.to_vec();
            let middle = body.len() / 2;
            if let Some(byte) = body.get_mut(middle) {
                *byte ^= 1;
            }
            Plain {
                body: body.into(),
                ..plain
            }
        }
        Some(Fault::LongBody) => {
            let mut body = plain.body.to_vec();
            body.extend_from_slice(b"more");
            Plain {
                body: body.into(),
                ..plain
            }
        }
        Some(Fault::ContentType(kind)) => {
            let mut plain = plain;
            plain.headers.retain(|(name, _)| *name != "content-type");
            plain.with("content-type", *kind)
        }
        Some(Fault::CutBody | Fault::IgnoreRange | Fault::Silence) | None => plain,
    }
}

fn send(plain: Plain, method: &Method, fault: Option<&Fault>) -> Response<Body> {
    let mut response = Response::builder()
        .status(plain.status)
        .header(header::CONTENT_LENGTH, plain.body.len());
    for (name, value) in plain.headers {
        response = response.header(name, value);
    }
    let body = match fault {
        _ if method == Method::HEAD => Body::empty(),
        Some(Fault::CutBody) => {
            let half = plain.body.slice(..plain.body.len() / 2);
            let broken = async {
                // the first half is on its way before the connection breaks
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut as scripted"))
            };
            let first = futures_util::stream::iter([Ok(half)]);
            Body::from_stream(first.chain(futures_util::stream::once(broken)))
        }
        _ => Body::from(plain.body),
    };
    response.body(body).unwrap()
}

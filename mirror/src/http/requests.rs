//! Each request has an id, which the answer and the log carry, so that what a node complains
//! of is found among a million lines.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::response::Response;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, USER_AGENT};

use super::Asking;

/// Carries the id; one the client or a proxy gave is kept.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is kept.
const MAX_ID: usize = 128;

/// Ids of two processes are told apart.
static PROCESS: LazyLock<u32> = LazyLock::new(|| {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u32::from_le_bytes(bytes),
        Err(_) => std::process::id(),
    }
});

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The id of a request with these headers.
pub(super) fn id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|given| {
        let visible = |b: &u8| b.is_ascii_graphic();
        (1..=MAX_ID).contains(&given.len()) && given.as_bytes().iter().all(visible)
    });
    given.cloned().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let made = HeaderValue::try_from(format!("{:08x}-{number:x}", *PROCESS));
        made.unwrap_or_else(|_| HeaderValue::from_static("0"))
    })
}

/// The line of a request that was answered.
pub(super) fn note(asking: &Asking, response: &Response, began: Instant) {
    let status = response.status();
    let failed = status.is_server_error();
    if !failed && !tracing::enabled!(target: "kubepkg_mirror::request", tracing::Level::INFO) {
        return;
    }
    let text = |value: Option<&HeaderValue>| {
        let text = value.and_then(|value| value.to_str().ok());
        kubepkg_core::error::shown(text.unwrap_or("-"))
    };
    let id = text(response.headers().get(REQUEST_ID));
    let length = text(response.headers().get(CONTENT_LENGTH));
    let agent = text(asking.headers.get(USER_AGENT));
    let client = asking
        .way
        .client
        .map_or("-".to_owned(), |peer| peer.to_string());
    let user = asking.who.user().unwrap_or("-");
    let (method, uri) = (
        asking.method.as_str(),
        crate::route::shown(&asking.uri.to_string()),
    );
    let ms = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX) as f64 / 1000.0;
    let status = status.as_u16();
    match failed {
        true => tracing::error!(
            target: "kubepkg_mirror::request",
            id, client, user, method, uri, status, length, ms, agent, "failed"
        ),
        false => tracing::info!(
            target: "kubepkg_mirror::request",
            id, client, user, method, uri, status, length, ms, agent, "answered"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_where_it_is_one_and_else_made() {
        let of = |given: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(given).unwrap());
            id(&headers)
        };
        assert_eq!(of(b"abc-1"), "abc-1");
        let long = [b'x'; MAX_ID + 1];
        for odd in [&b""[..], b"a b", b"\xff", &long] {
            let made = of(odd);
            assert!(
                made.to_str().unwrap().len() <= MAX_ID && made != odd,
                "{made:?}"
            );
        }
        assert_ne!(id(&HeaderMap::new()), id(&HeaderMap::new()));
    }
}

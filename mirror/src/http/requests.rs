//! Each request has an id, which the answer and the log carry, so that what a node complains
//! of is found among a million lines; and a line, written when the answer has gone.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use tracing::Span;

use super::Noted;

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

/// What is kept of a request for its line in the log, which is written when this is dropped: the
/// answer has gone then, or nobody waits for it.
pub(crate) struct Line {
    id: HeaderValue,
    /// What is logged while it is answered and sent carries its id.
    span: Span,
    method: Method,
    uri: Uri,
    agent: Option<HeaderValue>,
    client: IpAddr,
    user: Option<Arc<str>>,
    began: Instant,
    /// `None`: the client left before it was answered.
    status: Option<StatusCode>,
    /// Bytes of the body that were given to the connection.
    sent: u64,
    /// All of the body was.
    whole: bool,
}

impl Line {
    /// Of a request that has just come.
    pub(crate) fn begin<B>(request: &Request<B>, client: IpAddr) -> Line {
        let id = id(request.headers());
        let shown = id.to_str().unwrap_or("-");
        // of the highest level: whatever is logged at all, its id is
        let span = tracing::error_span!(target: "kubepkg_mirror::request", "request", id = shown);
        Line {
            span,
            method: request.method().clone(),
            uri: request.uri().clone(),
            agent: request.headers().get(USER_AGENT).cloned(),
            client,
            user: None,
            began: Instant::now(),
            status: None,
            sent: 0,
            whole: false,
            id,
        }
    }

    /// What is logged in it carries the id.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// The answer, on its way to whom `noted` says.
    pub(crate) fn answer<B>(
        mut self,
        mut response: http::Response<B>,
        noted: Noted,
    ) -> http::Response<Sent<B>>
    where
        B: Body + Unpin,
    {
        response.headers_mut().insert(REQUEST_ID, self.id.clone());
        self.user = noted.user;
        // a trusted proxy may have said whose request it passed on
        self.client = noted.client.unwrap_or(self.client);
        self.status = Some(response.status());
        response.map(|body| Sent { body, line: self })
    }

    fn note(&self) {
        let failed = self.status.is_some_and(|status| status.is_server_error());
        if !failed && !tracing::enabled!(target: "kubepkg_mirror::request", tracing::Level::INFO) {
            return;
        }
        let text = |value: Option<&HeaderValue>| {
            let text = value.and_then(|value| value.to_str().ok());
            kubepkg_core::error::shown(text.unwrap_or("-"))
        };
        let (id, agent) = (text(Some(&self.id)), text(self.agent.as_ref()));
        let (client, user) = (self.client.to_string(), self.user.as_deref().unwrap_or("-"));
        let uri = crate::route::shown(&self.uri.to_string());
        let (method, sent, whole) = (self.method.as_str(), self.sent, self.whole);
        let ms = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX) as f64;
        let ms = ms / 1000.0;
        let status = self.status.map(|status| status.as_u16());
        // the id is a member of the line itself
        match (failed, status) {
            (true, _) => tracing::error!(
                target: "kubepkg_mirror::request", parent: None,
                id, client, user, method, uri, status, sent, whole, ms, agent, "failed"
            ),
            (false, Some(_)) => tracing::info!(
                target: "kubepkg_mirror::request", parent: None,
                id, client, user, method, uri, status, sent, whole, ms, agent, "answered"
            ),
            (false, None) => tracing::info!(
                target: "kubepkg_mirror::request", parent: None,
                id, client, user, method, uri, sent, whole, ms, agent, "not waited for"
            ),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.note();
    }
}

/// A body that counts what the connection takes of it.
pub(crate) struct Sent<B: Body + Unpin> {
    body: B,
    line: Line,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Sent<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Sent { body, line } = &mut *self;
        let polled = line.span.in_scope(|| Pin::new(body).poll_frame(cx));
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                line.sent += frame.data_ref().map_or(0, Bytes::len) as u64;
            }
            Poll::Ready(None) => line.whole = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body + Unpin> Drop for Sent<B> {
    fn drop(&mut self) {
        // who knows the length does not ask for the end
        self.line.whole |= self.body.is_end_stream();
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body as Whole;

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

    #[test]
    fn a_body_that_breaks_off_is_not_whole() {
        let begun = || {
            let request = Request::get("/v2/x/blobs/y").body(()).unwrap();
            Line::begin(&request, IpAddr::from([127, 0, 0, 1]))
        };
        let sent = |bytes: &'static [u8], polls: usize| {
            let response = http::Response::new(Whole::from(bytes));
            let noted = Noted {
                kind: crate::metrics::Kind::Blob,
                user: None,
                client: None,
            };
            let response = begun().answer(response, noted);
            assert!(!response.headers()[REQUEST_ID].is_empty());
            let mut body = response.into_body();
            let mut cx = Context::from_waker(std::task::Waker::noop());
            for _ in 0..polls {
                let _ = Pin::new(&mut body).poll_frame(&mut cx);
            }
            body.line.whole |= body.body.is_end_stream();
            (body.line.sent, body.line.whole)
        };
        assert_eq!(sent(b"12345", 0), (0, false));
        assert_eq!(sent(b"12345", 1), (5, true));
        assert_eq!(sent(b"12345", 2), (5, true));
        // as with HEAD
        assert_eq!(sent(b"", 0), (0, true));
        let line = begun();
        assert_eq!((line.status, line.whole), (None, false));
    }
}

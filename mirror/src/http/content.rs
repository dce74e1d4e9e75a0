//! Answers that carry content with a digest: blobs, repository files, chart archives.

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue,
};
use http::{HeaderMap, Method, StatusCode};
use kubepkg_core::Digest;
use kubepkg_core::store::{FileRange, StoreError};

use super::body::FileBody;
use super::buffers::{Pool, read_at};
use super::conditional::{range_counts, unchanged};
use super::error::ApiError;
use super::range::{Span, Wanted, wanted};
use super::remote::RemoteBody;
use super::{Asking, DOCKER_CONTENT_DIGEST};
use crate::source::{Remote, Source, Standing};

/// Room for the headers of an answer: about as many as there are.
const HEADERS: usize = 12;

/// For how long an answer may be used without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Asked for by digest: for ever.
    Immutable,
    /// Asked for by a name that can move: ask every time, which costs a 304.
    Revalidate,
}

/// What the headers say about some content, known without opening it.
#[derive(Clone, Debug)]
pub struct Described {
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Its `Content-Type`.
    pub media_type: HeaderValue,
    /// How long it may be used.
    pub freshness: Freshness,
}

impl Described {
    /// The headers of GET and HEAD.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.insert(CONTENT_TYPE, self.media_type.clone());
        headers.insert(CONTENT_LENGTH, self.size.into());
        // the digest is said twice, and written once
        let quoted = Bytes::from(format!("\"{}\"", self.digest));
        let digest = HeaderValue::from_maybe_shared(quoted.slice(1..quoted.len() - 1));
        if let (Ok(etag), Ok(digest)) = (HeaderValue::from_maybe_shared(quoted), digest) {
            headers.insert(ETAG, etag);
            headers.insert(DOCKER_CONTENT_DIGEST, digest);
        }
        let cache = match self.freshness {
            Freshness::Immutable => "max-age=31536000, immutable",
            Freshness::Revalidate => "no-cache",
        };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
        headers
    }

    /// The answer to a client that has it already, if this one has.
    pub fn not_modified(&self, asking: &Asking) -> Option<Response> {
        unchanged(&asking.headers, &self.digest).then(|| {
            let mut headers = self.headers();
            // the length stays: that of the answer this one stands for
            headers.remove(CONTENT_TYPE);
            respond(StatusCode::NOT_MODIFIED, headers, Body::empty())
        })
    }

    /// Answers HEAD from what is known, and GET with the whole or the ranges asked for.
    /// `open` runs only when bytes are to be sent.
    pub async fn answer(
        self,
        asking: &Asking,
        source: &Arc<dyn Source>,
        pool: &Arc<Pool>,
        absent: impl FnOnce() -> ApiError,
        open: impl Future<Output = Result<Option<FileRange>, ApiError>>,
    ) -> Result<Response, ApiError> {
        if let Some(response) = self.not_modified(asking) {
            return Ok(response);
        }
        let mut headers = self.headers();
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if asking.method == Method::HEAD {
            return Ok(respond(StatusCode::OK, headers, Body::empty()));
        }
        let wanted = match range_counts(&asking.headers, &self.digest) {
            true => wanted(&asking.headers, self.size),
            false => Wanted::Whole,
        };
        if wanted == Wanted::Nothing {
            return Ok(self.unsatisfiable(headers));
        }
        if let Some(remote) = source.remote() {
            let body = RemoteBody::new(remote, self.digest, self.size);
            return self
                .answer_remote(body, wanted, headers, source, absent)
                .await;
        }
        let Some(range) = open.await? else {
            tracing::error!(digest = %self.digest, "content that a name promises is not in the store");
            return Err(absent());
        };
        if range.len != self.size {
            source.doubt(&self.digest, self.size);
            return Err(ApiError::damaged(&self.digest, WRONG_SIZE));
        }
        let mut body = FileBody::new(Arc::clone(pool), asking.handoff.clone());
        let status = match wanted {
            Wanted::Parts(spans) => {
                self.partial(&spans, &mut headers, &mut InFile(&mut body, &range));
                StatusCode::PARTIAL_CONTENT
            }
            Wanted::Whole | Wanted::Nothing => {
                body.push_file(&range, 0, range.len);
                StatusCode::OK
            }
        };
        headers.insert(CONTENT_LENGTH, body.len().into());
        Ok(respond(status, headers, Body::new(body)))
    }

    /// Answers GET with content that does not lie in files of this machine.
    async fn answer_remote(
        self,
        mut body: RemoteBody,
        wanted: Wanted,
        mut headers: HeaderMap,
        source: &Arc<dyn Source>,
        absent: impl FnOnce() -> ApiError,
    ) -> Result<Response, ApiError> {
        let status = match wanted {
            Wanted::Parts(spans) => {
                self.partial(&spans, &mut headers, &mut body);
                StatusCode::PARTIAL_CONTENT
            }
            Wanted::Whole | Wanted::Nothing => {
                body.part(0, self.size);
                StatusCode::OK
            }
        };
        let begun = body.begin().await;
        match begun.map_err(|error| ApiError::store(&error))? {
            Some(size) if size == self.size => {}
            Some(_) => {
                source.doubt(&self.digest, self.size);
                return Err(ApiError::damaged(&self.digest, WRONG_SIZE));
            }
            None => {
                source.doubt(&self.digest, self.size);
                tracing::error!(digest = %self.digest, "content that a name promises is not in the store");
                return Err(absent());
            }
        }
        headers.insert(CONTENT_LENGTH, body.len().into());
        Ok(respond(status, headers, Body::new(body)))
    }

    /// 416: only what lies outside was asked for. The length is that of this answer.
    fn unsatisfiable(&self, mut headers: HeaderMap) -> Response {
        headers.insert(CONTENT_LENGTH, 0.into());
        headers.remove(CACHE_CONTROL);
        headers.remove(CONTENT_TYPE);
        if let Ok(range) = HeaderValue::try_from(format!("bytes */{}", self.size)) {
            headers.insert(CONTENT_RANGE, range);
        }
        respond(StatusCode::RANGE_NOT_SATISFIABLE, headers, Body::empty())
    }

    fn partial(&self, spans: &[Span], headers: &mut HeaderMap, body: &mut impl Pieces) {
        let place = |span: &Span| format!("bytes {}-{}/{}", span.first, span.last, self.size);
        if let [span] = spans {
            if let Ok(place) = HeaderValue::try_from(place(span)) {
                headers.insert(CONTENT_RANGE, place);
            }
            body.part(span.first, span.len());
            return;
        }
        // content cannot hold its own digest, so this never occurs in a part
        let hex = self.digest.hex();
        let boundary = &hex[..48];
        let media_type = self
            .media_type
            .to_str()
            .unwrap_or("application/octet-stream");
        for (at, span) in spans.iter().enumerate() {
            let line = if at == 0 { "" } else { "\r\n" };
            let place = place(span);
            body.text(format!(
                "{line}--{boundary}\r\nContent-Type: {media_type}\r\nContent-Range: {place}\r\n\r\n"
            ));
            body.part(span.first, span.len());
        }
        body.text(format!("\r\n--{boundary}--\r\n"));
        if let Ok(multipart) =
            HeaderValue::try_from(format!("multipart/byteranges; boundary={boundary}"))
        {
            headers.insert(CONTENT_TYPE, multipart);
        }
    }
}

/// What an answer is put together in: parts of the content, and text between them.
pub trait Pieces {
    /// Adds `len` bytes of the content, from the byte `first` on.
    fn part(&mut self, first: u64, len: u64);

    /// Adds a text.
    fn text(&mut self, text: String);
}

/// Content in a file.
struct InFile<'b>(&'b mut FileBody, &'b FileRange);

impl Pieces for InFile<'_> {
    fn part(&mut self, first: u64, len: u64) {
        self.0.push_file(self.1, first, len);
    }

    fn text(&mut self, text: String) {
        self.0.push_bytes(text);
    }
}

/// A response from its parts.
pub fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// An answer in memory, built for this request; `HEAD` gets its headers.
pub fn respond_bytes(asking: &Asking, headers: HeaderMap, bytes: impl Into<Bytes>) -> Response {
    let bytes = bytes.into();
    let mut headers = headers;
    headers.insert(CONTENT_LENGTH, bytes.len().into());
    let body = match asking.method == Method::HEAD {
        true => Body::empty(),
        false => Body::from(bytes),
    };
    respond(StatusCode::OK, headers, body)
}

/// What is known of some content, where it was not found looked for again.
pub async fn standing(source: &Arc<dyn Source>, digest: &Digest) -> Result<Standing, ApiError> {
    let known = source.standing(digest);
    if known != Standing::Quarantined {
        return Ok(known);
    }
    let looked = source.look_again(vec![*digest]).await;
    looked.map_err(|error| ApiError::store(&error))?;
    Ok(source.standing(digest))
}

/// Whether a client may be told that content with this digest is here. What collection was
/// about to remove is saved first.
pub async fn stands(source: &Arc<dyn Source>, digest: &Digest) -> Result<bool, ApiError> {
    match standing(source, digest).await? {
        Standing::Sound => Ok(true),
        Standing::Quarantined => Ok(false),
        Standing::Condemned => match source.rescue(vec![*digest]).await {
            Ok(()) => Ok(true),
            Err(StoreError::Missing { .. }) => Ok(false),
            Err(error) => Err(ApiError::store(&error)),
        },
    }
}

/// Opens something on the blocking pool.
pub async fn opened(
    source: &Arc<dyn Source>,
    open: impl FnOnce(&dyn Source) -> Result<Option<FileRange>, StoreError> + Send + 'static,
) -> Result<Option<FileRange>, ApiError> {
    let opened = blocking(source, open).await?;
    opened.map_err(|error| ApiError::store(&error))
}

/// Opens a blob, here where that needs no disk.
pub async fn opened_blob(
    source: &Arc<dyn Source>,
    digest: Digest,
) -> Result<Option<FileRange>, ApiError> {
    match source.blob_at_once(&digest) {
        Some(range) => Ok(Some(range)),
        None => opened(source, move |source| source.blob(&digest)).await,
    }
}

/// Runs `work` on the blocking pool.
pub async fn blocking<T: Send + 'static>(
    source: &Arc<dyn Source>,
    work: impl FnOnce(&dyn Source) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let (source, span) = (Arc::clone(source), tracing::Span::current());
    tokio::task::spawn_blocking(move || span.in_scope(|| work(&*source)))
        .await
        .map_err(|error| {
            let io = std::io::Error::other(error);
            ApiError::store(&StoreError::Io {
                action: "read",
                path: std::path::PathBuf::new(),
                source: io,
            })
        })
}

/// All of some content of at most `most` bytes, checked against its digest and the `size` that
/// names give it; the inner error says what is wrong with it. `None` when it is not here.
pub async fn whole(
    source: &Arc<dyn Source>,
    digest: Digest,
    size: u64,
    most: u64,
) -> Result<Option<Result<Bytes, &'static str>>, ApiError> {
    let read = match source.remote() {
        Some(remote) => from_remote(&*remote, digest, size, most).await,
        None => blocking(source, move |source| from_file(source, digest, size, most)).await?,
    };
    let read = read.map_err(|error| ApiError::store(&error))?;
    if matches!(read, None | Some(Err(WRONG_SIZE))) {
        source.doubt(&digest, size);
    }
    Ok(read)
}

const WRONG_SIZE: &str = "its size is not the one recorded";
const WRONG_BYTES: &str = "its bytes do not have its digest";

fn from_file(
    source: &dyn Source,
    digest: Digest,
    size: u64,
    most: u64,
) -> Result<Option<Result<Bytes, &'static str>>, StoreError> {
    let Some(range) = source.blob(&digest)? else {
        return Ok(None);
    };
    if range.len != size || range.len > most {
        return Ok(Some(Err(WRONG_SIZE)));
    }
    let bytes = read_all(&range).map_err(|source| StoreError::Source { digest, source })?;
    let matches = digest.matches(&bytes);
    Ok(Some(matches.then(|| bytes.into()).ok_or(WRONG_BYTES)))
}

async fn from_remote(
    remote: &dyn Remote,
    digest: Digest,
    size: u64,
    most: u64,
) -> Result<Option<Result<Bytes, &'static str>>, StoreError> {
    let Some((found, mut pieces)) = remote.pieces(digest, None).await? else {
        return Ok(None);
    };
    if found != size || found > most {
        return Ok(Some(Err(WRONG_SIZE)));
    }
    let mut bytes = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|source| StoreError::Source { digest, source })?;
        if (bytes.len() + piece.len()) as u64 > size {
            return Ok(Some(Err(WRONG_SIZE)));
        }
        bytes.extend_from_slice(&piece);
    }
    let matches = digest.matches(&bytes);
    Ok(Some(matches.then(|| bytes.freeze()).ok_or(WRONG_BYTES)))
}

/// All bytes of a file range that is known to be small.
pub fn read_all(range: &FileRange) -> std::io::Result<Vec<u8>> {
    let len = usize::try_from(range.len).map_err(std::io::Error::other)?;
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match read_at(
            &range.file,
            &mut bytes[filled..],
            range.offset + filled as u64,
        ) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => filled += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

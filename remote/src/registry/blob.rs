//! Downloading blobs: hashed once while they come in, continued where a connection broke.
//!
//! Two sides work at the same time. The task of the caller receives; a blocking thread
//! hashes and hands the bytes to the [`BlobSink`]. Between them go batches of chunks as the
//! network gave them, without a copy, and never more than a few, so that memory does not
//! depend on the size of the blob.

use std::io;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use kubepkg_core::digest::{Algorithm, Hasher};
use kubepkg_core::{Descriptor, Digest, Reference};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use url::Url;

use super::endpoint::{Endpoint, Purpose};
use super::{Registry, Servers, header_text, refusal};
use crate::error::{Fault, RemoteError, shown_url};
use crate::http::{Answer, Ask, Way};
use crate::options::Progress;
use crate::retry::Tries;

/// Bytes that are handed to the other side at once: enough that waking it costs nothing.
const BATCH: usize = 256 << 10;

/// Batches that wait: one while one is worked on keeps both sides busy.
const WAITING: usize = 2;

/// A download that got on by this much before it broke has not failed; it starts to count
/// its tries anew.
const PROGRESS: u64 = 1 << 20;

/// Takes the bytes of one blob, on a blocking thread.
pub trait BlobSink: Send + 'static {
    /// Takes `bytes`, which belong at `offset` of the blob. Offsets follow each other
    /// without gaps; only when a download has to start over does the next one go back to 0.
    ///
    /// # Errors
    /// Ends the download.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Memory, for blobs that are known to be small.
impl BlobSink for Vec<u8> {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        self.truncate(offset);
        self.extend_from_slice(bytes);
        Ok(())
    }
}

impl Registry {
    /// Downloads `blob` of the repository of `reference` into `sink` and checks length and
    /// digest. A broken connection is continued by Range; content that does not match is
    /// fetched once more from the start, because caches do heal.
    ///
    /// # Errors
    /// Not found; wrong length or digest; a sink that cannot write; or what went wrong on
    /// the way. What the sink has by then is not to be used.
    pub async fn download<S: BlobSink>(
        &self,
        reference: &Reference,
        blob: &Descriptor,
        sink: S,
        progress: &dyn Progress,
    ) -> Result<S, RemoteError> {
        let servers = self.servers(reference, Purpose::Pull)?;
        self.download_from(servers, reference, blob, sink, progress)
            .await
    }

    pub(super) async fn download_from<S: BlobSink>(
        &self,
        mut servers: Servers,
        reference: &Reference,
        blob: &Descriptor,
        mut sink: S,
        progress: &dyn Progress,
    ) -> Result<S, RemoteError> {
        let what = format!("{}@{}", reference.repository(), blob.digest);
        let mut once_more = true;
        loop {
            let (filled, got) = self
                .receive(&mut servers, &what, blob, sink, progress)
                .await?;
            if got == blob.digest {
                return Ok(filled);
            }
            sink = filled;
            progress.again(blob.size);
            let place = servers.at().place(&what);
            tracing::warn!(place, %got, "wrong content, fetching it once more");
            let (expected, got) = (Box::new(blob.digest), Box::new(got));
            let error = RemoteError::new(place, Fault::Digest { expected, got });
            match servers.next(error) {
                Ok(()) => {}
                Err(_) if once_more => once_more = false,
                Err(error) => return Err(error),
            }
        }
    }

    /// Downloads `blob` from `url`, a place outside registries that its descriptor names
    /// (foreign layers), under the same rules. The host there learns nothing of who we are.
    ///
    /// # Errors
    /// As [`Registry::download`]; also a `url` that is not http or https.
    pub async fn download_from_url<S: BlobSink>(
        &self,
        url: &str,
        blob: &Descriptor,
        sink: S,
        progress: &dyn Progress,
    ) -> Result<S, RemoteError> {
        let parsed = Url::parse(url).ok();
        let Some(url) = parsed.filter(|url| matches!(url.scheme(), "http" | "https")) else {
            let fault = Fault::Url("it is not an http or https URL".to_owned());
            return Err(RemoteError::new(crate::error::shown(url), fault));
        };
        let place = shown_url(&url);
        let mut writer = Writer::start(sink, blob.digest.algorithm());
        let mut have = (0, 0);
        let mut received = Ok(End::Body);
        if blob.size > 0 {
            let counts = (&mut have.0, &mut have.1);
            let at = At::Url(&url);
            received = self
                .receive_from(at, &place, blob, &mut writer, counts, progress)
                .await;
        }
        // also where it failed: nobody else may write to this place before this one is done
        let written = writer.finish().await;
        received?;
        let (filled, got) = written.map_err(|e| RemoteError::new(&*place, Fault::Sink(e)))?;
        if got == blob.digest {
            return Ok(filled);
        }
        progress.again(blob.size);
        let (expected, got) = (Box::new(blob.digest), Box::new(got));
        Err(RemoteError::new(place, Fault::Digest { expected, got }))
    }

    /// A whole blob of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Registry::download`]; also when the descriptor says more than `limit`.
    pub async fn blob(
        &self,
        reference: &Reference,
        blob: &Descriptor,
        limit: u64,
    ) -> Result<Bytes, RemoteError> {
        if blob.size > limit {
            let place = format!("{}@{}", reference.repository(), blob.digest);
            return Err(RemoteError::new(place, Fault::TooLarge { limit }));
        }
        let bytes = self.download(reference, blob, Vec::new(), &()).await?;
        Ok(bytes.into())
    }

    /// The bytes of `blob` from `offset` on as they come in, unchecked: not hashed, and not
    /// continued when the connection breaks. For whoever does both themselves. The stream
    /// holds a place in the limits of the client until it is dropped.
    pub async fn blob_stream(
        &self,
        reference: &Reference,
        blob: &Descriptor,
        offset: u64,
    ) -> Result<impl Stream<Item = Result<Bytes, RemoteError>> + Send + use<>, RemoteError> {
        let mut servers = self.servers(reference, Purpose::Pull)?;
        let what = format!("{}@{}", reference.repository(), blob.digest);
        let (answer, start, place) = loop {
            let place = servers.at().place(&what);
            let mut tries = self.inner.http.tries();
            let at = At::Registry(servers.at());
            match self.open(at, &place, blob, offset, &mut tries).await {
                Ok((answer, start)) => break (answer, start, place),
                Err(error) => servers.next(error)?,
            }
        };
        let state = (answer, offset - start, offset, blob.size, place);
        let next = |(mut answer, mut skip, mut at, size, place): (
            Answer,
            u64,
            u64,
            u64,
            String,
        )| async move {
            loop {
                let broken = |source| {
                    let fault = Fault::Cut {
                        received: at,
                        expected: Some(size),
                        source,
                    };
                    RemoteError::new(&*place, fault)
                };
                let mut chunk = match answer.response.chunk().await {
                    Ok(Some(chunk)) => chunk,
                    Ok(None) if at == size => return Ok(None),
                    Ok(None) => return Err(broken(None)),
                    Err(e) => return Err(broken(Some(e.without_url()))),
                };
                let cut = usize::try_from(skip).map_or(chunk.len(), |n| n.min(chunk.len()));
                let chunk = chunk.split_off(cut);
                skip -= cut as u64;
                if chunk.is_empty() {
                    continue;
                }
                at += chunk.len() as u64;
                if at > size {
                    let fault = Fault::Length {
                        expected: size,
                        got: at,
                    };
                    return Err(RemoteError::new(place, fault));
                }
                return Ok(Some((chunk, (answer, skip, at, size, place))));
            }
        };
        Ok(stream::try_unfold(state, next))
    }

    /// Receives all of `blob`, whatever it takes within the tries; returns its real digest.
    /// Where one server gives up in the middle the next one goes on: it is the same content.
    async fn receive<S: BlobSink>(
        &self,
        servers: &mut Servers,
        what: &str,
        blob: &Descriptor,
        sink: S,
        progress: &dyn Progress,
    ) -> Result<(S, Digest), RemoteError> {
        let mut writer = Writer::start(sink, blob.digest.algorithm());
        let received = self
            .receive_of(servers, what, blob, &mut writer, progress)
            .await;
        // also where it failed: nobody else may write to this place before this one is done
        let written = writer.finish().await;
        received?;
        let place = servers.at().place(what);
        written.map_err(|e| RemoteError::new(place, Fault::Sink(e)))
    }

    async fn receive_of<S: BlobSink>(
        &self,
        servers: &mut Servers,
        what: &str,
        blob: &Descriptor,
        writer: &mut Writer<S>,
        progress: &dyn Progress,
    ) -> Result<(), RemoteError> {
        let (mut have, mut furthest) = (0, 0);
        while have < blob.size {
            let place = servers.at().place(what);
            let at = At::Registry(servers.at());
            let counts = (&mut have, &mut furthest);
            match self
                .receive_from(at, &place, blob, writer, counts, progress)
                .await
            {
                Ok(End::SinkGone) => break,
                Ok(_) => {}
                Err(error) => {
                    // what came with more than was asked for is not to be built upon
                    if matches!(error.fault(), Fault::Length { .. }) {
                        progress.again(have);
                        have = 0;
                    }
                    servers.next(error)?;
                }
            }
        }
        Ok(())
    }

    /// Receives what is missing of `blob` from one server. `have` is how much is there, and
    /// `furthest` how much ever was: only beyond that is progress, or a server without ranges
    /// that cuts every answer would be asked for ever.
    async fn receive_from<S: BlobSink>(
        &self,
        at: At<'_>,
        place: &str,
        blob: &Descriptor,
        writer: &mut Writer<S>,
        (have, furthest): (&mut u64, &mut u64),
        progress: &dyn Progress,
    ) -> Result<End, RemoteError> {
        let mut tries = match at {
            At::Registry(at) => self.tries(at),
            At::Url(_) => self.inner.http.tries(),
        };
        loop {
            let (mut answer, start) = self.open(at, place, blob, *have, &mut tries).await?;
            if start != *have {
                progress.again(*have);
                *have = start;
            }
            let end = pump(&mut answer, writer, have, blob.size, progress).await;
            let source = match end {
                Ok(End::SinkGone) => return Ok(End::SinkGone),
                // Everything came; how the connection was closed does not matter.
                Ok(_) if *have == blob.size => {
                    answer.went_well();
                    return Ok(End::Body);
                }
                Ok(End::Body) => None,
                Ok(End::Broken(error)) => Some(error.without_url()),
                Err(fault) => return Err(RemoteError::new(place, fault)),
            };
            if *have >= *furthest + PROGRESS {
                *furthest = *have;
                tries.start_anew();
            }
            let fault = Fault::Cut {
                received: *have,
                expected: Some(blob.size),
                source,
            };
            self.inner.http.again(place, &answer, fault, &mut tries)?;
        }
    }

    /// Asks for `blob` from `offset` on. Returns where the answer really begins: `offset`,
    /// or 0 from a registry that knows no ranges.
    async fn open(
        &self,
        at: At<'_>,
        place: &str,
        blob: &Descriptor,
        offset: u64,
        tries: &mut Tries,
    ) -> Result<(Answer, u64), RemoteError> {
        let wrong = |fault| RemoteError::new(place, fault);
        let mut ask = match at {
            At::Registry(at) => self.ask(at, place, &format!("blobs/{}", blob.digest))?,
            At::Url(url) => Ask {
                line: Way::Foreign,
                ..Ask::get(url.clone())
            },
        };
        ask.headers.remove(header::ACCEPT);
        let mut answer = None;
        if offset > 0 {
            // Closed ranges: some servers answer 416 to open ones.
            let range = format!("bytes={offset}-{}", blob.size.saturating_sub(1));
            let range =
                HeaderValue::try_from(range).map_err(|e| wrong(Fault::Url(e.to_string())))?;
            ask.headers.insert(header::RANGE, range);
            let ranged = self.send_to(at, place, &ask, tries).await?;
            ask.headers.remove(header::RANGE);
            if ranged.response.status() != StatusCode::RANGE_NOT_SATISFIABLE {
                answer = Some(ranged);
            } else {
                ranged.went_well();
            }
        }
        let answer = match answer {
            Some(answer) => answer,
            None => self.send_to(at, place, &ask, tries).await?,
        };
        let headers = answer.response.headers();
        let (start, length) = match answer.response.status() {
            StatusCode::OK => (0, blob.size),
            StatusCode::PARTIAL_CONTENT if offset > 0 => {
                check_range(headers, offset, blob.size).map_err(wrong)?;
                (offset, blob.size - offset)
            }
            _ => return Err(refusal(answer, place).await),
        };
        let announced = answer.response.content_length();
        match announced {
            Some(announced) if announced != length && start == 0 => Err(wrong(Fault::Length {
                expected: blob.size,
                got: announced,
            })),
            _ => Ok((answer, start)),
        }
    }
}

/// Where a blob is asked for.
#[derive(Clone, Copy)]
enum At<'a> {
    /// In a repository.
    Registry(&'a Endpoint),
    /// Elsewhere.
    Url(&'a Url),
}

impl Registry {
    async fn send_to(
        &self,
        at: At<'_>,
        place: &str,
        ask: &Ask,
        tries: &mut Tries,
    ) -> Result<Answer, RemoteError> {
        match at {
            At::Registry(at) => self.send(at, place, ask, tries).await,
            At::Url(_) => self.inner.http.send(place, ask, tries).await,
        }
    }
}

/// How a body ended.
enum End {
    /// As it should.
    Body,
    /// With its connection.
    Broken(reqwest::Error),
    /// Nobody takes bytes any more; the writer knows why.
    SinkGone,
}

/// Moves the body of `answer` to `writer`.
async fn pump<S: BlobSink>(
    answer: &mut Answer,
    writer: &mut Writer<S>,
    have: &mut u64,
    size: u64,
    progress: &dyn Progress,
) -> Result<End, Fault> {
    let mut batch = Batch::at(*have);
    let end = loop {
        match answer.response.chunk().await {
            Ok(Some(chunk)) => {
                let length = chunk.len() as u64;
                if length > size - *have {
                    return Err(Fault::Length {
                        expected: size,
                        got: *have + length,
                    });
                }
                *have += length;
                progress.received(length);
                batch.push(chunk);
                if batch.bytes >= BATCH {
                    let full = std::mem::replace(&mut batch, Batch::at(*have));
                    if !writer.take(full).await {
                        return Ok(End::SinkGone);
                    }
                }
            }
            Ok(None) => break End::Body,
            Err(error) => break End::Broken(error),
        }
    };
    match batch.bytes == 0 || writer.take(batch).await {
        true => Ok(end),
        false => Ok(End::SinkGone),
    }
}

/// Whether a 206 carries the range that was asked for.
fn check_range(headers: &HeaderMap, offset: u64, size: u64) -> Result<(), Fault> {
    let text = header_text(headers, header::CONTENT_RANGE.as_str()).unwrap_or_default();
    let parsed = text.strip_prefix("bytes ").and_then(|rest| {
        let (range, total) = rest.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let number = |text: &str| text.trim().parse::<u64>().ok();
        Some((number(first)?, number(last)?, number(total)))
    });
    match parsed {
        Some((_, _, Some(total))) if total != size => Err(Fault::Length {
            expected: size,
            got: total,
        }),
        Some((first, last, _)) if first == offset && first <= last && last < size => Ok(()),
        _ => Err(Fault::Shape(format!(
            "bytes {offset} to {} were asked for, Content-Range is \"{}\"",
            size - 1,
            crate::error::shown(text)
        ))),
    }
}

/// Chunks that follow each other.
struct Batch {
    offset: u64,
    bytes: usize,
    chunks: Vec<Bytes>,
}

impl Batch {
    fn at(offset: u64) -> Batch {
        Batch {
            offset,
            bytes: 0,
            chunks: Vec::new(),
        }
    }

    fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len();
        self.chunks.push(chunk);
    }
}

/// The side that hashes and writes.
struct Writer<S> {
    batches: mpsc::Sender<Batch>,
    thread: JoinHandle<io::Result<(S, Digest)>>,
}

impl<S: BlobSink> Writer<S> {
    fn start(mut sink: S, algorithm: Algorithm) -> Writer<S> {
        let (batches, mut waiting) = mpsc::channel::<Batch>(WAITING);
        let thread = tokio::task::spawn_blocking(move || {
            let mut hasher = Hasher::new(algorithm);
            let mut next = 0;
            while let Some(batch) = waiting.blocking_recv() {
                if batch.offset != next {
                    // The other side started over.
                    hasher = Hasher::new(algorithm);
                    next = batch.offset;
                }
                for chunk in batch.chunks {
                    hasher.update(&chunk);
                    sink.write_at(next, &chunk)?;
                    next += chunk.len() as u64;
                }
            }
            Ok((sink, hasher.finish()))
        });
        Writer { batches, thread }
    }

    /// Hands on a batch; false when the sink has failed.
    async fn take(&mut self, batch: Batch) -> bool {
        self.batches.send(batch).await.is_ok()
    }

    async fn finish(self) -> io::Result<(S, Digest)> {
        drop(self.batches);
        self.thread.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Result<(), Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_RANGE, text.parse().unwrap());
        check_range(&headers, 10, 100)
    }

    #[test]
    fn only_the_range_that_was_asked_for() {
        for good in ["bytes 10-99/100", "bytes 10-50/100", "bytes 10-99/*"] {
            assert!(range(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "bytes 0-99/100",
            "bytes 11-99/100",
            "bytes 10-99/101",
            "bytes 10-100/*",
            "bytes 10-9/100",
            "10-99/100",
            "bytes */100",
        ] {
            assert!(range(bad).is_err(), "{bad}");
        }
        assert!(check_range(&HeaderMap::new(), 10, 100).is_err());
    }

    #[tokio::test]
    async fn the_writer_hashes_anew_after_a_start_over() {
        let mut writer = Writer::start(Vec::new(), Algorithm::Sha256);
        for (offset, text) in [(0, "wro"), (3, "ng"), (0, "ri"), (2, "ght")] {
            let mut batch = Batch::at(offset);
            batch.push(Bytes::from(text));
            assert!(writer.take(batch).await);
        }
        let (sink, digest) = writer.finish().await.unwrap();
        assert_eq!(sink, b"right");
        assert_eq!(digest, Digest::sha256(b"right"));
    }
}

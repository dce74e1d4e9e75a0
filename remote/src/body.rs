//! What a request carries.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use reqwest::RequestBuilder;

use crate::error::Fault;
use crate::options::Progress;

/// Bytes read from a file at once.
const STEP: u64 = 256 << 10;

/// Longest time in which not a byte is taken from us.
const IDLE: Duration = Duration::from_secs(60);

/// Longest time a registry may take to answer when it has everything: it hashes what came, and
/// may have to move it to another store.
const ANSWER: Duration = Duration::from_secs(600);

/// Something to upload. It can be read again from the beginning as often as that is needed.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory.
    Bytes(Bytes),
    /// So many bytes from the beginning of a file.
    File(Arc<File>, u64),
}

impl Content {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(_, size) => *size,
        }
    }
}

/// The body of a request.
#[derive(Clone)]
pub(crate) enum Body {
    /// Meant for one place only: it may hold a secret.
    Form(Bytes),
    /// A part of what is uploaded; it goes where a redirect leads.
    Part(Part),
}

/// A part of some content.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) content: Content,
    pub(crate) from: u64,
    pub(crate) length: u64,
    pub(crate) progress: Arc<dyn Progress>,
}

impl Part {
    /// Adds it to `request`. What was sent of it by now can be asked of the other one.
    pub(crate) fn attach(&self, request: RequestBuilder) -> (RequestBuilder, Sent) {
        let sent = Sent {
            bytes: Arc::default(),
            all: self.length,
        };
        let (counted, progress) = (Arc::clone(&sent.bytes), Arc::clone(&self.progress));
        let count = move |bytes: &Bytes| {
            counted.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            progress.received(bytes.len() as u64);
        };
        let (content, end) = (self.content.clone(), self.from + self.length);
        let pieces = stream::try_unfold(self.from, move |at| {
            let (content, count) = (content.clone(), count.clone());
            async move {
                if at >= end {
                    return Ok::<_, io::Error>(None);
                }
                let piece = read(content, at, STEP.min(end - at)).await?;
                count(&piece);
                let next = at + piece.len() as u64;
                Ok(Some((piece, next)))
            }
        });
        let request = request
            .header(header::CONTENT_LENGTH, HeaderValue::from(self.length))
            .body(reqwest::Body::wrap_stream(pieces));
        (request, sent)
    }
}

async fn read(content: Content, at: u64, length: u64) -> io::Result<Bytes> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    match content {
        Content::Bytes(bytes) => {
            let at = usize::try_from(at).map_err(io::Error::other)?;
            let end = at.saturating_add(length);
            match end <= bytes.len() {
                true => Ok(bytes.slice(at..end)),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Content::File(file, _) => {
            let read = tokio::task::spawn_blocking(move || {
                let mut buffer = vec![0; length];
                file.read_exact_at(&mut buffer, at)?;
                Ok(buffer.into())
            });
            read.await.map_err(io::Error::other)?
        }
    }
}

/// How much of a part was taken from us.
pub(crate) struct Sent {
    bytes: Arc<AtomicU64>,
    all: u64,
}

impl Sent {
    /// Waits for the answer as long as there is a sign of life.
    pub(crate) async fn answered<T>(&self, request: impl Future<Output = T>) -> Result<T, Fault> {
        self.within(request, IDLE, ANSWER).await
    }

    async fn within<T>(
        &self,
        request: impl Future<Output = T>,
        idle: Duration,
        answer: Duration,
    ) -> Result<T, Fault> {
        let mut request = std::pin::pin!(request);
        let mut before = 0;
        loop {
            let sent = self.bytes.load(Ordering::Relaxed);
            let limit = if sent >= self.all { answer } else { idle };
            if let Ok(answered) = tokio::time::timeout(limit, &mut request).await {
                return Ok(answered);
            }
            let now = self.bytes.load(Ordering::Relaxed);
            if now == before || (now == sent && sent >= self.all) {
                let seconds = limit.as_secs();
                return Err(Fault::Silent { seconds });
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[tokio::test]
    async fn every_part_of_either_kind() {
        let bytes: Vec<u8> = (0..=255).cycle().take(600_000).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let size = bytes.len() as u64;
        for content in [
            Content::Bytes(bytes.clone().into()),
            Content::File(Arc::new(file), size),
        ] {
            assert_eq!(content.size(), size);
            for (at, length) in [(0, 10), (599_990, 10), (5, STEP)] {
                let got = read(content.clone(), at, length).await.unwrap();
                let range = usize::try_from(at).unwrap()..usize::try_from(at + length).unwrap();
                assert_eq!(got, bytes[range]);
            }
            assert!(read(content, size - 1, 2).await.is_err());
        }
    }

    #[tokio::test]
    async fn silence_ends_a_request_and_slowness_does_not() {
        let tick = Duration::from_millis(1);
        let sent = Sent {
            bytes: Arc::default(),
            all: 1000,
        };
        let never = std::future::pending::<()>;
        let ended = sent.within(never(), tick, tick).await;
        assert!(matches!(ended, Err(Fault::Silent { .. })));
        // a byte now and then, each after the limit
        let slow = async {
            for _ in 0..20 {
                sent.bytes.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(tick).await;
            }
        };
        sent.within(slow, tick * 3, tick).await.unwrap();
        // all was sent, and no answer comes
        sent.bytes.store(1000, Ordering::Relaxed);
        let ended = sent.within(never(), Duration::from_secs(600), tick).await;
        assert!(matches!(ended, Err(Fault::Silent { .. })));
    }
}

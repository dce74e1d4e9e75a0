//! Ends connections on which nothing happens.
//!
//! Two limits: how long nothing at all may move, and how long a client may take to say what
//! it asks for, which else could be drawn out for ever byte by byte. The socket does not know
//! where a request begins and the answers do not see the socket, so both tell [`Asked`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Version;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::Limits;

/// Bytes written at once that are more than an answer to a ping. Where several requests share a
/// connection and none is open, only they are a sign of life: what is left of the last answer. Else
/// a client that asks for nothing would keep its place with pings.
const ANSWER: usize = 1024;

/// What is known of the requests of a connection.
#[derive(Debug)]
pub(super) struct Asked {
    /// When the connection began.
    since: Instant,
    /// When the last answer was handed over in full: milliseconds since then.
    answered: AtomicU64,
    /// Requests whose answer was not yet handed over in full.
    open: AtomicUsize,
    /// A request was read to the end of its head since the socket last looked.
    complete: AtomicBool,
    /// Several requests share the connection: there is no time in which none is awaited.
    multiplexed: AtomicBool,
    /// A sign of life that no call of the guard shows came since it last looked: a request began,
    /// or bytes that had been gathered were sent.
    stirred: AtomicBool,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked {
            since: Instant::now(),
            answered: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            complete: AtomicBool::new(false),
            multiplexed: AtomicBool::new(false),
            stirred: AtomicBool::new(false),
        }
    }
}

impl Asked {
    /// Notes that the head of a request was read.
    pub(super) fn begin(self: &Arc<Asked>, version: Version) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.complete.store(true, Ordering::Relaxed);
        self.stirred.store(true, Ordering::Relaxed);
        if version > Version::HTTP_11 {
            self.multiplexed.store(true, Ordering::Relaxed);
        }
        Open(Arc::clone(self))
    }

    /// Whether what the client sends can only be the head of a request.
    fn head_is_due(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0 && !self.is_multiplexed()
    }

    /// Notes that so many gathered bytes left.
    pub(super) fn sent(&self, bytes: usize) {
        if self.is_life(bytes) {
            self.stirred.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it is a sign of life that something moved, of which so many bytes were written.
    fn is_life(&self, written: usize) -> bool {
        let between = self.is_multiplexed() && self.open.load(Ordering::Relaxed) == 0;
        !between || written >= ANSWER
    }

    /// Whether nothing is asked, and nothing was for so long.
    pub(super) fn is_quiet(&self, at_least: Duration) -> bool {
        let answered = Duration::from_millis(self.answered.load(Ordering::Relaxed));
        let quiet = self.since.elapsed().saturating_sub(answered);
        self.open.load(Ordering::Relaxed) == 0 && quiet >= at_least
    }

    /// Whether several requests share the connection.
    pub(super) fn is_multiplexed(&self) -> bool {
        self.multiplexed.load(Ordering::Relaxed)
    }
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub(super) struct Open(Arc<Asked>);

impl Drop for Open {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.since.elapsed().as_millis());
        self.0
            .answered
            .store(now.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body that keeps its request open.
#[derive(Debug)]
pub(super) struct Answering<B> {
    pub(super) body: B,
    pub(super) _open: Open,
}

impl<B: Body + Unpin> Body for Answering<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that fails when a limit is passed.
pub(super) struct Guarded<S> {
    stream: S,
    idle: Duration,
    head: Duration,
    asked: Arc<Asked>,
    /// When something last moved.
    moved: Instant,
    /// When the head of a request began to come in.
    begun: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S, limits: &Limits, asked: Arc<Asked>) -> Guarded<S> {
        let now = Instant::now();
        Guarded {
            stream,
            idle: limits.idle,
            head: limits.head,
            asked,
            moved: now,
            begun: None,
            alarm: Box::pin(tokio::time::sleep_until(now + limits.idle.min(limits.head))),
        }
    }

    /// Passes on what the stream said; when it has to wait, only until a limit. The alarm is
    /// moved when it goes off, not with every byte.
    fn judge<T>(&mut self, cx: &mut Context<'_>, said: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if said.is_ready() {
            if self.asked.is_life(0) {
                self.moved = Instant::now();
            }
            return said;
        }
        if self.asked.stirred.swap(false, Ordering::Relaxed) {
            self.moved = Instant::now();
        }
        if self.asked.complete.load(Ordering::Relaxed) {
            self.begun = None;
        }
        while self.alarm.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let idle = self.moved + self.idle;
            let due = self.begun.map_or(idle, |begun| idle.min(begun + self.head));
            if due <= now {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            // a head may begin any time, and its limit is the shorter one
            self.alarm.as_mut().reset(due.min(now + self.head));
        }
        Poll::Pending
    }

    /// Notes that `n` bytes were read.
    fn heard(&mut self, n: usize) {
        if self.asked.complete.swap(false, Ordering::Relaxed) {
            self.begun = None;
        }
        if n > 0 && self.begun.is_none() && self.asked.head_is_due() {
            self.begun = Some(self.moved);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let said = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let said = self.judge(cx, said);
        if said.is_ready() {
            self.heard(buffer.filled().len() - before);
        }
        said
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let said = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, said)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let said = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.judge(cx, said)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // With nothing to send this is always done, and the protocol's machine does it in every
        // turn: that is no sign of life.
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Pending => self.judge(cx, Poll::Pending),
            done => done,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let said = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, said)
    }
}

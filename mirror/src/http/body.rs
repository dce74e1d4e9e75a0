//! A response body made of pieces of memory and pieces of files.

use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use kubepkg_core::store::FileRange;
use tokio::task::JoinHandle;

use super::buffers::{Buffer, Pool};
use super::handoff::{self, Handoff};
use super::page_cache::{self, WINDOW, bring, is_cached};

/// Sends its pieces one after the other, only as fast as the client takes them. What lies in
/// the page cache is handed to the socket as it is, or read where the body is polled; the rest
/// is read on the blocking pool: a cold disk never holds up a runtime thread.
#[derive(Debug)]
pub struct FileBody {
    pieces: VecDeque<Piece>,
    left: u64,
    pool: Arc<Pool>,
    handoff: Option<Handoff>,
    waiting: Option<Waiting>,
    /// How much of the first piece is known to lie in the page cache.
    cached: u64,
    /// What was looked for last was not there: the next is neither, as a rule, and it is the
    /// blocking pool that looks.
    cold: bool,
}

#[derive(Debug)]
enum Piece {
    Memory(Bytes),
    File {
        file: Arc<File>,
        offset: u64,
        left: u64,
    },
}

/// What is done on the blocking pool.
#[derive(Debug)]
enum Waiting {
    /// Bytes are read; answers whether they were there.
    Read(JoinHandle<io::Result<(Buffer, bool)>>),
    /// So many bytes are brought into the page cache; answers whether they were there.
    Bring(u64, JoinHandle<io::Result<bool>>),
}

impl FileBody {
    /// An empty body; pieces are added to its end. With a `handoff` it does not read what can
    /// go from file to socket.
    pub fn new(pool: Arc<Pool>, handoff: Option<Handoff>) -> FileBody {
        FileBody {
            pieces: VecDeque::new(),
            left: 0,
            pool,
            handoff,
            waiting: None,
            cached: 0,
            cold: false,
        }
    }

    /// Adds bytes.
    pub fn push_bytes(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.left += bytes.len() as u64;
        self.pieces.push_back(Piece::Memory(bytes));
    }

    /// Adds `len` bytes of `range` from `skip` on; the caller has checked that they are there.
    pub fn push_file(&mut self, range: &FileRange, skip: u64, len: u64) {
        self.left += len;
        if self.pieces.is_empty() && len >= handoff::LEAST {
            page_cache::expect_nothing(&range.file);
        }
        self.pieces.push_back(Piece::File {
            file: Arc::clone(&range.file),
            offset: range.offset + skip,
            left: len,
        });
    }

    /// Bytes still to be sent.
    pub fn len(&self) -> u64 {
        self.left
    }

    /// Accounts for a read of the first piece.
    fn took(&mut self, buffer: Buffer) -> io::Result<Bytes> {
        if buffer.filled() == 0 {
            // the length was announced; ending the connection is the only honest answer left
            let early = "a file of the store ends early";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, early));
        }
        self.advance(buffer.filled() as u64);
        Ok(buffer.freeze())
    }

    /// The first piece is `n` bytes shorter.
    fn advance(&mut self, n: u64) {
        if let Some(Piece::File { offset, left, .. }) = self.pieces.front_mut() {
            *offset += n;
            *left -= n;
        }
        self.left -= n;
        self.cached = self.cached.saturating_sub(n);
    }

    /// Hands the beginning of the first piece to the socket, once the socket has sent the one
    /// before, if that has a use and the socket would not have to wait for the disk; else begins
    /// to bring it from there.
    fn poll_hand_over(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let (Some(Piece::File { file, offset, left }), Some(handoff)) =
            (self.pieces.front(), &self.handoff)
        else {
            return Poll::Ready(None);
        };
        if *left < handoff::LEAST {
            return Poll::Ready(None);
        }
        ready!(handoff.poll_free(cx));
        if handoff.was_slow() {
            // it waited for a disk after all, or for a processor: it does no harm to be sure
            (self.cold, self.cached) = (true, 0);
        }
        let window = (*left).min(WINDOW);
        if self.cached == 0 && !self.cold && is_cached(file, *offset, window) {
            self.cached = window;
        }
        if self.cached == 0 {
            let (file, offset) = (Arc::clone(file), *offset);
            let mut scratch = self.pool.take(window);
            let bringing =
                tokio::task::spawn_blocking(move || bring(&file, offset, window, &mut scratch));
            self.waiting = Some(Waiting::Bring(window, bringing));
            return Poll::Ready(None);
        }
        let len = self.cached.min(handoff::MOST);
        let given = handoff.give(file, *offset, len);
        if given.is_some() {
            self.advance(len);
        }
        Poll::Ready(given)
    }

    /// Waits for the blocking pool; bytes when it read some.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let bytes = match &mut self.waiting {
            None => return Poll::Ready(Ok(None)),
            Some(Waiting::Read(reading)) => {
                let read = ready!(Pin::new(reading).poll(cx));
                let read = read.map_err(io::Error::other).flatten();
                read.and_then(|(buffer, was_there)| {
                    self.cold = !was_there;
                    self.took(buffer).map(Some)
                })
            }
            Some(Waiting::Bring(len, bringing)) => {
                let brought = ready!(Pin::new(bringing).poll(cx));
                self.cached = *len;
                let brought = brought.map_err(io::Error::other).flatten();
                brought.map(|was_there| {
                    self.cold = !was_there;
                    None
                })
            }
        };
        self.waiting = None;
        if let Err(error) = &bytes {
            tracing::error!(%error, "cannot read a file of the store");
        }
        Poll::Ready(bytes)
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(bytes) = ready!(self.poll_waiting(cx)).transpose() {
                return Poll::Ready(Some(bytes));
            }
            if let Some(given) = ready!(self.poll_hand_over(cx)) {
                return Poll::Ready(Some(Ok(given)));
            }
            if self.waiting.is_some() {
                continue;
            }
            match self.pieces.front() {
                None => return Poll::Ready(None),
                Some(Piece::Memory(_)) => {
                    let Some(Piece::Memory(bytes)) = self.pieces.pop_front() else {
                        continue;
                    };
                    self.left -= bytes.len() as u64;
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Some(Piece::File { left: 0, .. }) => {
                    self.pieces.pop_front();
                    self.cached = 0;
                }
                Some(Piece::File { file, offset, left }) => {
                    let (offset, left) = (*offset, *left);
                    let mut buffer = self.pool.take(left);
                    match !self.cold && buffer.read_cached(file, offset, left) {
                        true => return Poll::Ready(Some(self.took(buffer))),
                        false => {
                            let file = Arc::clone(file);
                            let reading = tokio::task::spawn_blocking(move || {
                                let was_there = buffer.read_cached(&file, offset, left);
                                if !was_there {
                                    page_cache::begin(&file, offset, left.min(WINDOW));
                                    buffer.read(&file, offset, left)?;
                                }
                                Ok((buffer, was_there))
                            });
                            self.waiting = Some(Waiting::Read(reading));
                        }
                    }
                }
            }
        }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let bytes = ready!(self.poll_bytes(cx));
        Poll::Ready(bytes.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

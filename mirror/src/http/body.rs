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

use super::buffers::{Buffer, Pool, is_cached};
use super::handoff::{self, Handoff};

/// Sends its pieces one after the other, only as fast as the client takes them. What lies in
/// the page cache is handed to the socket as it is, or read where the body is polled; the rest
/// is read on the blocking pool: a cold disk never holds up a runtime thread.
#[derive(Debug)]
pub struct FileBody {
    pieces: VecDeque<Piece>,
    left: u64,
    pool: Arc<Pool>,
    handoff: Option<Handoff>,
    waiting: Option<JoinHandle<io::Result<Buffer>>>,
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
            tracing::error!("a file of the store ends early");
            return Err(io::ErrorKind::UnexpectedEof.into());
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
    }

    /// Hands the beginning of the first piece to the socket, if that has a use and the socket
    /// would not have to wait for the disk.
    fn hand_over(&mut self) -> Option<Bytes> {
        let Some(Piece::File { file, offset, left }) = self.pieces.front() else {
            return None;
        };
        let handoff = self.handoff.as_ref()?;
        let len = (*left).min(handoff::MOST);
        if len < handoff::LEAST || handoff.is_taken() || !is_cached(file, *offset, len) {
            return None;
        }
        let given = handoff.give(file, *offset, len)?;
        self.advance(len);
        Some(given)
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(waiting) = &mut self.waiting {
            let read = ready!(Pin::new(waiting).poll(cx));
            self.waiting = None;
            let buffer = read.map_err(io::Error::other).flatten();
            return Poll::Ready(Some(buffer.and_then(|buffer| self.took(buffer))));
        }
        loop {
            if let Some(given) = self.hand_over() {
                return Poll::Ready(Some(Ok(given)));
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
                }
                Some(Piece::File { file, offset, left }) => {
                    let (offset, left) = (*offset, *left);
                    let mut buffer = self.pool.take(left);
                    match buffer.read_cached(file, offset, left) {
                        // 0 bytes without waiting is the end of the file only if a read that
                        // waits says so too
                        Ok(true) if buffer.filled() > 0 => {
                            return Poll::Ready(Some(self.took(buffer)));
                        }
                        Ok(_) => {
                            let file = Arc::clone(file);
                            let mut waiting = tokio::task::spawn_blocking(move || {
                                buffer.read(&file, offset, left)?;
                                Ok(buffer)
                            });
                            let polled = Pin::new(&mut waiting).poll(cx);
                            let Poll::Ready(read) = polled else {
                                self.waiting = Some(waiting);
                                return Poll::Pending;
                            };
                            let buffer = read.map_err(io::Error::other).flatten();
                            return Poll::Ready(Some(buffer.and_then(|b| self.took(b))));
                        }
                        Err(error) => {
                            tracing::error!(%error, "cannot read a file of the store");
                            return Poll::Ready(Some(Err(error)));
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

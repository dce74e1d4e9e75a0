//! A response body whose content comes from another machine, piece by piece.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use kubepkg_core::Digest;
use kubepkg_core::store::{ByteStream, StoreError};

use super::content::Pieces;
use crate::source::{PiecesFuture, Remote};
use crate::told::told;

/// Sends its pieces one after the other, asking for each when its turn comes. Bytes are taken
/// only as fast as the client takes them.
pub struct RemoteBody {
    remote: Arc<dyn Remote>,
    digest: Digest,
    /// Size of the whole content.
    size: u64,
    pieces: VecDeque<Piece>,
    left: u64,
}

enum Piece {
    Text(Bytes),
    Part { first: u64, len: u64 },
    Asked { asked: PiecesFuture, len: u64 },
    Coming { stream: ByteStream, left: u64 },
}

impl RemoteBody {
    /// A body without pieces, of content that should have `size` bytes.
    pub fn new(remote: Arc<dyn Remote>, digest: Digest, size: u64) -> RemoteBody {
        RemoteBody {
            remote,
            digest,
            size,
            pieces: VecDeque::new(),
            left: 0,
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.left
    }

    /// Asks for the first part of the content, so that it is known whether there is any.
    /// Answers the size of the whole.
    pub async fn begin(&mut self) -> Result<Option<u64>, StoreError> {
        let part = self.pieces.iter_mut().find_map(|piece| match piece {
            Piece::Part { first, len } => Some((*first, *len, piece)),
            _ => None,
        });
        let Some((first, len, piece)) = part else {
            return Ok(Some(self.size));
        };
        let span = (len < self.size).then(|| first..first + len);
        let Some((size, stream)) = self.remote.pieces(self.digest, span).await? else {
            return Ok(None);
        };
        *piece = Piece::Coming { stream, left: len };
        Ok(Some(size))
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let Some(piece) = self.pieces.front_mut() else {
                return Poll::Ready(None);
            };
            match piece {
                Piece::Text(text) => {
                    let text = std::mem::take(text);
                    self.pieces.pop_front();
                    self.left -= text.len() as u64;
                    return Poll::Ready(Some(Ok(text)));
                }
                Piece::Part { first, len } => {
                    let (first, len) = (*first, *len);
                    let asked = self.remote.pieces(self.digest, Some(first..first + len));
                    *piece = Piece::Asked { asked, len };
                }
                Piece::Asked { asked, len } => {
                    let (answered, left) = (ready!(asked.as_mut().poll(cx)), *len);
                    let found = answered.map_err(|error| {
                        tracing::error!(error = %told(&error), "cannot read the store");
                        io::Error::other(error)
                    });
                    let Some((_, stream)) = found? else {
                        let gone = io::Error::from(io::ErrorKind::NotFound);
                        return Poll::Ready(Some(Err(gone)));
                    };
                    *piece = Piece::Coming { stream, left };
                }
                Piece::Coming { stream, left } => {
                    if *left == 0 {
                        self.pieces.pop_front();
                        continue;
                    }
                    let Some(bytes) = ready!(stream.as_mut().poll_next(cx)) else {
                        tracing::error!(digest = %self.digest, "content ends before it should");
                        let cut = io::Error::from(io::ErrorKind::UnexpectedEof);
                        return Poll::Ready(Some(Err(cut)));
                    };
                    let mut bytes = bytes.inspect_err(|error| {
                        tracing::error!(%error, "cannot read the store");
                    })?;
                    let most = usize::try_from(*left).unwrap_or(usize::MAX);
                    bytes.truncate(most);
                    if bytes.is_empty() {
                        continue;
                    }
                    *left -= bytes.len() as u64;
                    self.left -= bytes.len() as u64;
                    return Poll::Ready(Some(Ok(bytes)));
                }
            }
        }
    }
}

impl Pieces for RemoteBody {
    fn part(&mut self, first: u64, len: u64) {
        self.pieces.push_back(Piece::Part { first, len });
        self.left += len;
    }

    fn text(&mut self, text: String) {
        self.left += text.len() as u64;
        self.pieces.push_back(Piece::Text(text.into()));
    }
}

impl Body for RemoteBody {
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

//! Counts what goes through a connection, as HTTP writes and reads it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::metrics::Counters;

/// A stream that is counted. It is a connection as long as it lives.
pub(super) struct Metered<S> {
    stream: S,
    counters: Arc<Counters>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, counters: Arc<Counters>) -> Metered<S> {
        counters.opened();
        Metered { stream, counters }
    }

    fn sent(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.counters.sent(bytes);
        }
        written
    }
}

impl<S> Drop for Metered<S> {
    fn drop(&mut self) {
        self.counters.closed();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.counters.received(buffer.filled().len() - before);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.sent(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn bytes_and_connections_are_counted_in_both_directions() {
        let metrics = Metrics::default();
        let (server, mut client) = tokio::io::duplex(100);
        let mut server = Metered::new(server, metrics.part(3));
        server.write_all(b"12345").await.unwrap();
        client.write_all(b"123").await.unwrap();
        server.read_exact(&mut [0; 3]).await.unwrap();
        let sum = metrics.sum();
        assert_eq!((sum.sent, sum.received), (5, 3));
        assert_eq!((sum.opened, sum.closed), (1, 0));
        drop(server);
        assert_eq!(metrics.sum().closed, 1);
    }
}

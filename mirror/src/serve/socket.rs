//! A connection's bytes, encrypted or not, and how it begins.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::tls::Tls;

/// Encrypted bytes that wait for the socket, at most: eight records. With fewer there are more
/// calls per byte, with more a client that does not read costs more.
const WAITING: usize = 128 * 1024;

/// First byte of a handshake.
const HANDSHAKE: u8 = 22;

/// What a client is told that does not speak TLS.
pub(super) const NO_TLS: &str = r#"{"errors":[{"code":"UNSUPPORTED","message":"this mirror speaks TLS and this request came without it; use https:// and no setting like plain-http or insecure"}]}"#;

/// A connection's bytes.
#[derive(Debug)]
pub(super) enum Socket {
    /// As they are.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Agrees on TLS where it is spoken, in that time at most.
pub(super) async fn begin(
    stream: TcpStream,
    tls: Option<&Tls>,
    within: Duration,
) -> io::Result<Socket> {
    let Some(tls) = tls else {
        return Ok(Socket::Plain(stream));
    };
    let agreeing = async {
        let mut first = [0];
        match stream.peek(&mut first).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if first[0] != HANDSHAKE => return refuse(stream).await,
            _ => {}
        }
        let acceptor = TlsAcceptor::from(tls.config());
        let limited = acceptor.accept_with(stream, |session| {
            session.set_buffer_limit(Some(WAITING));
        });
        Ok(Socket::Tls(Box::new(limited.await?)))
    };
    match tokio::time::timeout(within, agreeing).await {
        Ok(agreed) => agreed,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Says in plain words what is wrong; the caller's limit of time holds.
async fn refuse(mut stream: TcpStream) -> io::Result<Socket> {
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{NO_TLS}",
        NO_TLS.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // closing with a request unread would take the answer away from the client
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Err(io::Error::other("the client does not speak TLS"))
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Socket::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

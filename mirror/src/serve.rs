//! A server on a socket.
//!
//! Time is limited between two signs of life of a connection, never as a whole: a pull of
//! 40 GB over a slow line is as welcome as a short one.

use std::future::{Future, IntoFuture as _};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::store::StoreError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use crate::http::Server;

/// What connections may take up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a connection may pass without moving a byte.
    pub idle: Duration,
    /// Connections at once; more wait in the system's queue.
    pub connections: usize,
    /// After the end was asked for: how long answers under way may take.
    pub drain: Duration,
}

impl Default for Limits {
    /// Five minutes (a node unpacking a layer on a slow disk stops reading for a while), a
    /// few connections for each of a thousand nodes, and less than the 30 s in which
    /// Kubernetes ends a pod.
    fn default() -> Limits {
        Limits {
            idle: Duration::from_secs(300),
            connections: 4096,
            drain: Duration::from_secs(25),
        }
    }
}

/// Why a server did not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store cannot be read.
    #[error("cannot serve the store")]
    Store(#[source] StoreError),
    /// The socket failed.
    #[error("cannot accept connections")]
    Socket(#[source] io::Error),
}

impl Classify for ServeError {
    fn kind(&self) -> Kind {
        match self {
            ServeError::Store(error) => error.kind(),
            ServeError::Socket(_) => Kind::Failed,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            ServeError::Store(error) => error.place(),
            ServeError::Socket(_) => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ServeError::Store(error) => error.hint(),
            ServeError::Socket(_) => None,
        }
    }
}

/// Serves on `listener` until `shutdown` is done, then lets the answers under way end.
///
/// The store is read once before the first connection is accepted, so that one that cannot be
/// read is said at start.
pub async fn serve(
    listener: TcpListener,
    server: Server,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    serve_with(listener, server, Limits::default(), shutdown).await
}

/// [`serve`] with other limits.
pub async fn serve_with(
    listener: TcpListener,
    server: Server,
    limits: Limits,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let source = server.source();
    source.names().await.map_err(ServeError::Store)?;

    let listener = Guarded {
        listener,
        idle: limits.idle,
        room: Arc::new(Semaphore::new(limits.connections)),
    };
    let (ending, ended) = tokio::sync::oneshot::channel();
    let shutdown = async move {
        shutdown.await;
        // nobody listens any more only when serving is over
        let _ = ending.send(());
    };
    let serving = axum::serve(listener, server.into_router())
        .with_graceful_shutdown(shutdown)
        .into_future();
    let overdue = async move {
        match ended.await {
            Ok(()) => tokio::time::sleep(limits.drain).await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        served = serving => served.map_err(ServeError::Socket),
        () = overdue => {
            tracing::warn!(after = ?limits.drain, "ended with answers still under way");
            Ok(())
        }
    }
}

/// Accepts a bounded number of connections, each of which ends when it is idle for too long.
struct Guarded {
    listener: TcpListener,
    idle: Duration,
    room: Arc<Semaphore>,
}

impl Listener for Guarded {
    type Io = Idle<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // the semaphore is never closed; without a permit the connection is merely uncounted
        let permit = Arc::clone(&self.room).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // small answers would else wait for the client's delayed acknowledgement
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        (Idle::new(stream, self.idle, permit), address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A stream that fails when nothing moved in either direction for a while.
struct Idle<S> {
    stream: S,
    limit: Duration,
    moved: Instant,
    alarm: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl<S> Idle<S> {
    fn new(stream: S, limit: Duration, permit: Option<OwnedSemaphorePermit>) -> Idle<S> {
        Idle {
            stream,
            limit,
            moved: Instant::now(),
            alarm: Box::pin(tokio::time::sleep(limit)),
            _permit: permit,
        }
    }

    /// Passes on what the stream said; when it has to wait, only until the limit. The alarm is
    /// moved when it goes off, not with every byte.
    fn judge<T>(&mut self, cx: &mut Context<'_>, said: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if said.is_ready() {
            self.moved = Instant::now();
            return said;
        }
        while self.alarm.as_mut().poll(cx).is_ready() {
            let due = self.moved + self.limit;
            if due <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.alarm.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Idle<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let said = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.judge(cx, said)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Idle<S> {
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
        let said = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, said)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let said = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, said)
    }
}

//! A server on a socket.
//!
//! Time is limited between two signs of life of a connection, never as a whole: a pull of
//! 40 GB over a slow line is as welcome as a short one.

mod connection;
mod crowd;
mod guard;
mod meter;
mod open_files;
mod probe;
mod room;
mod socket;
mod wire;
mod workers;

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::store::StoreError;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use self::connection::{Connections, Phase};
use self::crowd::Crowd;
pub use self::open_files::raise_open_files;
pub use self::probe::is_mirror;
use self::room::{Admitted, Room};
use self::workers::Workers;
use crate::http::Server;
use crate::source::Age;
use crate::tls::Tls;

/// The address a request came from; an extension of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// What connections may take up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a connection may pass without moving a byte.
    pub idle: Duration,
    /// How long a client may take to send the head of a request, once it has begun.
    pub head: Duration,
    /// How long a client may take to agree on TLS.
    pub handshake: Duration,
    /// Connections at once; more are told to come again.
    pub connections: usize,
    /// Where there are so many: how long nothing may be asked on one that keeps its place.
    pub yields: Duration,
    /// After the end was asked for: how long answers under way may take.
    pub drain: Duration,
}

impl Default for Limits {
    /// Five minutes (a node unpacking a layer on a slow disk stops reading for a while), half a
    /// minute for the few hundred bytes of a head, ten seconds for TLS, which is when containerd
    /// gives up too, a few connections for each of a thousand nodes, five seconds in which a node
    /// that is pulling asks again, and with what ends after it less than the 30 s in which
    /// Kubernetes ends a pod.
    fn default() -> Limits {
        Limits {
            idle: Duration::from_secs(300),
            head: Duration::from_secs(30),
            handshake: Duration::from_secs(10),
            connections: 4096,
            yields: Duration::from_secs(5),
            drain: Duration::from_secs(18),
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
    /// There are no threads to serve on.
    #[error("cannot start serving threads")]
    Threads(#[source] io::Error),
}

impl Classify for ServeError {
    fn kind(&self) -> Kind {
        match self {
            ServeError::Store(error) => error.kind(),
            ServeError::Socket(_) | ServeError::Threads(_) => Kind::Failed,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            ServeError::Store(error) => error.place(),
            ServeError::Socket(_) | ServeError::Threads(_) => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ServeError::Store(error) => error.hint(),
            ServeError::Socket(_) | ServeError::Threads(_) => None,
        }
    }
}

/// After all connections were told to end: a disk or network file system that does not answer
/// is not waited for any longer.
const HUNG: Duration = Duration::from_secs(6);

/// How long to wait when no connection can be accepted, for want of file descriptors mostly:
/// those that end meanwhile make room.
const PAUSE: Duration = Duration::from_millis(100);

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
    serve_on(vec![listener], None, server, limits, shutdown).await
}

/// [`serve_with`] on several sockets, with TLS on all of them where it is given.
pub async fn serve_on(
    listeners: Vec<TcpListener>,
    tls: Option<Arc<Tls>>,
    server: Server,
    limits: Limits,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let source = server.source();
    source.names(Age::Moment).await.map_err(ServeError::Store)?;

    let encrypted = tls.is_some();
    let answers = server.into_answers();
    let metrics = Arc::clone(answers.metrics());
    let mut room = Room::new(limits.connections);
    let connections = Connections::new(answers, limits, tls, room.wanted());
    let (phase, watched) = watch::channel(Phase::Serving);
    let workers = Workers::start(&connections, &watched).map_err(ServeError::Threads)?;
    drop((connections, watched));
    let crowd = Crowd::new();
    let mut listeners = Listeners {
        all: listeners,
        next: 0,
    };
    let mut shutdown = pin!(shutdown);
    loop {
        let admitted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&mut listeners) => {
                let (stream, peer) = accepted?;
                room.admit(stream, peer)
            }
            admitted = room.later() => Some(admitted),
        };
        match admitted {
            None => {} // it waits
            Some(Admitted {
                stream,
                peer,
                place: Some(place),
            }) => {
                if let Err(error) = workers.give(stream, peer, place) {
                    tracing::error!(%error, "cannot serve a connection");
                }
            }
            Some(Admitted { stream, .. }) => {
                metrics.refused();
                crowd.refuse(stream, limits.connections, encrypted);
            }
        }
    }
    drop(listeners);

    phase.send_replace(Phase::Ending);
    let mut ended = pin!(workers.ended());
    if tokio::time::timeout(limits.drain, &mut ended)
        .await
        .is_err()
    {
        tracing::warn!(after = ?limits.drain, "ended with answers still under way");
        phase.send_replace(Phase::Over);
        if tokio::time::timeout(HUNG, ended).await.is_err() {
            tracing::warn!("ended with file work that does not come back");
        }
    }
    Ok(())
}

/// Sockets that are asked in turn, so that a busy one does not hide the others.
struct Listeners {
    all: Vec<TcpListener>,
    next: usize,
}

impl Listeners {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        for _ in 0..self.all.len() {
            let listener = &self.all[self.next];
            self.next = (self.next + 1) % self.all.len();
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    }
}

/// The next connection.
async fn accept(listeners: &mut Listeners) -> Result<(TcpStream, SocketAddr), ServeError> {
    loop {
        match poll_fn(|cx| listeners.poll_accept(cx)).await {
            Ok(accepted) => return Ok(accepted),
            // the socket itself cannot be used, now or later
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::BADF | Errno::NOTSOCK | Errno::INVAL)
                ) =>
            {
                return Err(ServeError::Socket(error));
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

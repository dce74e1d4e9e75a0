//! One connection: HTTP/1.1, or HTTP/2 when the client begins with it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::body::Body;
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::Instrument as _;

use super::guard::{Answering, Asked, Guarded};
use super::meter::Metered;
use super::socket::{Socket, begin};
use super::wire::Wire;
use super::{Limits, Peer};
use crate::http::{Answers, Handoff, Line, SMALL};
use crate::metrics::Counters;
use crate::tls::Tls;

/// Requests at once on one connection: each may hold a file open, and a client that pulls all
/// layers of an image at once has no more.
const STREAMS: u32 = 32;

/// The longest head of a request, and of an answer about what is gathered before it is sent
/// (HTTP/1.1). A login's token has some KiB; what is allowed beyond has to be held for everybody who
/// draws a head out, or does not read.
const GATHERED: usize = 128 * 1024;

/// What a stream of HTTP/2 has waiting beside the piece that follows: one small buffer. Where a
/// client reads, the next piece is there when this one has gone; where it does not, all streams of a
/// connection would wait with as much.
const STREAM_WAITING: usize = SMALL;

/// How long a server still serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Until it is asked to end.
    Serving,
    /// Until the answers under way are sent.
    Ending,
    /// No longer.
    Over,
}

/// What all connections of a server have in common.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    answers: Arc<Answers>,
    limits: Limits,
    tls: Option<Arc<Tls>>,
    protocol: Builder<TokioExecutor>,
    /// Where the thread counts that talks on them.
    counters: Arc<Counters>,
    /// Changes when there is no room for another one.
    wanted: watch::Receiver<()>,
}

impl Connections {
    pub(super) fn new(
        answers: Answers,
        limits: Limits,
        tls: Option<Arc<Tls>>,
        wanted: watch::Receiver<()>,
    ) -> Connections {
        let mut protocol = Builder::new(TokioExecutor::new());
        // its limit also ends connections that wait for their next request; see `Guarded`
        protocol.http1().header_read_timeout(None);
        // bodies are queued, never copied together: see `Handoff`
        protocol.http1().writev(true);
        protocol.http1().max_buf_size(GATHERED);
        protocol.http2().max_concurrent_streams(STREAMS);
        protocol.http2().max_send_buf_size(STREAM_WAITING);
        protocol.http2().timer(TokioTimer::new());
        Connections {
            counters: answers.metrics().part(0),
            answers: Arc::new(answers),
            limits,
            tls,
            protocol,
            wanted,
        }
    }

    /// The same for one of the threads, which counts apart from others.
    pub(super) fn of_thread(&self, thread: usize) -> Connections {
        Connections {
            counters: self.answers.metrics().part(thread),
            ..self.clone()
        }
    }

    /// Answers what comes on `stream` until the client or the server ends it.
    pub(super) async fn talk(
        self,
        stream: TcpStream,
        peer: SocketAddr,
        mut phase: watch::Receiver<Phase>,
    ) {
        // small answers would else wait for the client's delayed acknowledgement
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let beginning = begin(stream, self.tls.as_deref(), self.limits.handshake);
        let stream = tokio::select! {
            begun = beginning => match begun {
                Ok(stream) => stream,
                Err(error) => {
                    // scanners and health checks do it all the time; nodes that do not know the
                    // CA are seen here too
                    tracing::info!(%peer, %error, "no TLS connection came about");
                    return;
                }
            },
            // nothing was asked yet
            _ = phase.changed() => return,
        };
        let plain = matches!(stream, Socket::Plain(_));
        let asked = Arc::new(Asked::default());
        let handoff = Handoff::default();
        let stream = Wire::new(
            stream,
            handoff.clone(),
            Arc::clone(&asked),
            Arc::clone(self.answers.buffers()),
        );
        let stream = Guarded::new(stream, &self.limits, Arc::clone(&asked));
        let stream = Metered::new(stream, Arc::clone(&self.counters));
        let counters = self.counters;
        let answers = self.answers;
        let mut wanted = self.wanted;
        let quiet = Arc::clone(&asked);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let version = request.version();
            let open = asked.begin(version);
            let answers = Arc::clone(&answers);
            let counters = Arc::clone(&counters);
            let line = Line::begin(&request, peer.ip());
            let extensions = request.extensions_mut();
            extensions.insert(Peer(peer));
            // HTTP/2 copies bodies into frames, and what is encrypted has to be read
            if plain && version <= Version::HTTP_11 && cfg!(target_os = "linux") {
                extensions.insert(handoff.clone());
            }
            async move {
                let answering = answers.answer(request.map(Body::new));
                let (response, noted) = answering.instrument(line.span().clone()).await;
                counters.answered(noted.kind, response.status());
                let response = line.answer(response, noted);
                Ok::<_, Infallible>(response.map(|body| Answering { body, _open: open }))
            }
        });
        let mut talk = pin!(
            self.protocol
                .serve_connection(TokioIo::new(stream), service)
        );
        loop {
            tokio::select! {
                ended = &mut talk => {
                    if let Err(error) = ended {
                        // clients leave when they have what they want: no failure of anybody
                        tracing::debug!(%peer, error = &*error, "connection ended");
                    }
                    return;
                }
                // not any more when the server ends
                Ok(()) = wanted.changed() => {
                    if quiet.is_quiet(self.limits.yields) {
                        talk.as_mut().graceful_shutdown();
                    }
                }
                changed = phase.changed() => match changed {
                    Ok(()) if *phase.borrow_and_update() == Phase::Ending => {
                        talk.as_mut().graceful_shutdown();
                    }
                    _ => return,
                },
            }
        }
    }
}

//! The threads that talk to clients: one for each core, each with an event loop of its own.
//!
//! A connection stays on the thread it was given to. What wakes it (its socket, mostly) then
//! never wakes another thread, and no queue is shared: on loops that steal from each other a
//! small answer cost up to two thirds more. In return nothing may hold up such a thread: file
//! work that can wait for a disk goes to the blocking pool.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::JoinSet;

use super::connection::{Connections, Phase};

/// After the last answer: how long file work of a client that left may take to end. A commit
/// under way ends well or not at all, so this is for tidiness alone.
const LEFT_OVER: Duration = Duration::from_secs(5);

/// Threads at most. Each answers some ten thousand requests in a second, and has descriptors of
/// its own.
const MOST: usize = 16;

/// Threads for file work, of all serving threads together: what tokio has for one runtime.
const BLOCKING: usize = 512;

/// Threads for file work that each serving thread has at least.
const LEAST_BLOCKING: usize = 32;

/// A connection on its way to a thread.
struct Accepted {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    counted: Counted,
    permit: OwnedSemaphorePermit,
}

/// One thread, as those see it who give it connections.
struct Worker {
    accepted: mpsc::UnboundedSender<Accepted>,
    /// Its connections.
    load: Arc<AtomicUsize>,
}

/// All threads.
pub(super) struct Workers {
    workers: Vec<Worker>,
    /// Closed when all threads have ended.
    alive: watch::Sender<()>,
}

/// A connection counts as long as this lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn on(load: &Arc<AtomicUsize>) -> Counted {
        load.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(load))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts a thread for each core, up to [`MOST`]. They end when the connections given to them have ended
    /// and this is gone.
    pub(super) fn start(
        connections: &Connections,
        phase: &watch::Receiver<Phase>,
    ) -> io::Result<Workers> {
        let cores = thread::available_parallelism()
            .map_or(1, usize::from)
            .min(MOST);
        let (alive, lives) = watch::channel(());
        let mut workers = Vec::with_capacity(cores);
        for at in 0..cores {
            let (accepted, accepting) = mpsc::unbounded_channel();
            let runtime = Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads((BLOCKING / cores).max(LEAST_BLOCKING))
                .build()?;
            let connections = connections.of_thread(at);
            let (phase, lives) = (phase.clone(), lives.clone());
            thread::Builder::new()
                .name(format!("serve-{at}"))
                .spawn(move || {
                    run(runtime, connections, phase, accepting);
                    drop(lives);
                })?;
            workers.push(Worker {
                accepted,
                load: Arc::default(),
            });
        }
        Ok(Workers { workers, alive })
    }

    /// Gives a connection to the thread that has fewest.
    pub(super) fn give(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) -> io::Result<()> {
        let load = |worker: &&Worker| worker.load.load(Ordering::Relaxed);
        let Some(worker) = self.workers.iter().min_by_key(load) else {
            return Ok(()); // there is one for each core
        };
        let accepted = Accepted {
            // the loop that accepted it forgets it
            stream: stream.into_std()?,
            peer,
            counted: Counted::on(&worker.load),
            permit,
        };
        worker
            .accepted
            .send(accepted)
            .map_err(|_| io::Error::other("a serving thread has ended"))
    }

    /// No more connections; done when all there were have ended.
    pub(super) async fn ended(self) {
        drop(self.workers);
        self.alive.closed().await;
    }
}

/// Talks on every connection it is given, until there will be no more and all have ended.
fn run(
    runtime: Runtime,
    connections: Connections,
    phase: watch::Receiver<Phase>,
    mut accepting: mpsc::UnboundedReceiver<Accepted>,
) {
    runtime.block_on(async move {
        let mut talking = JoinSet::new();
        loop {
            tokio::select! {
                accepted = accepting.recv() => match accepted {
                    Some(accepted) => {
                        talking.spawn(talk(connections.clone(), accepted, phase.clone()));
                    }
                    None => break,
                },
                // forgets those that have ended
                Some(_) = talking.join_next() => {}
            }
        }
        // each of them looks at the phase itself
        while talking.join_next().await.is_some() {}
    });
    runtime.shutdown_timeout(LEFT_OVER);
}

async fn talk(connections: Connections, accepted: Accepted, phase: watch::Receiver<Phase>) {
    let Accepted {
        stream,
        peer,
        counted,
        permit,
    } = accepted;
    match TcpStream::from_std(stream) {
        Ok(stream) => connections.talk(stream, peer, phase).await,
        Err(error) => tracing::error!(%error, "cannot talk on a connection"),
    }
    drop((counted, permit));
}

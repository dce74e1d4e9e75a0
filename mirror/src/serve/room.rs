//! Room for connections, of which there are so many at once. When all of it is taken, connections on
//! which nothing is asked make way: clients keep them for what may come, and others ask now.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// How long a client waits for a place: those that make way need less, where any do.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many wait at once; the others have no place.
const WAITING: usize = 64;

/// How often connections are asked to make way: all of them wake up for it.
const CALL_EVERY: Duration = Duration::from_secs(1);

/// A client, and the place it has or does not get.
pub(super) struct Admitted {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) place: Option<OwnedSemaphorePermit>,
}

/// The places, and who waits for one.
pub(super) struct Room {
    places: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    decided: mpsc::UnboundedSender<Admitted>,
    later: mpsc::UnboundedReceiver<Admitted>,
    wanted: watch::Sender<()>,
    called: Option<Instant>,
    patience: Duration,
}

impl Room {
    pub(super) fn new(places: usize) -> Room {
        Room::waiting_for(places, PATIENCE)
    }

    fn waiting_for(places: usize, patience: Duration) -> Room {
        let (decided, later) = mpsc::unbounded_channel();
        Room {
            places: Arc::new(Semaphore::new(places)),
            waiting: Arc::new(Semaphore::new(WAITING)),
            decided,
            later,
            wanted: watch::Sender::new(()),
            called: None,
            patience,
        }
    }

    /// Changes whenever a place is wanted and none is left.
    pub(super) fn wanted(&self) -> watch::Receiver<()> {
        self.wanted.subscribe()
    }

    /// What becomes of a client; `None` when that is decided [`Room::later`].
    pub(super) fn admit(&mut self, stream: TcpStream, peer: SocketAddr) -> Option<Admitted> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            let place = Some(place);
            return Some(Admitted {
                stream,
                peer,
                place,
            });
        }
        self.call(Instant::now());
        let Ok(waits) = Arc::clone(&self.waiting).try_acquire_owned() else {
            let place = None;
            return Some(Admitted {
                stream,
                peer,
                place,
            });
        };
        let (places, decided) = (Arc::clone(&self.places), self.decided.clone());
        let patience = self.patience;
        tokio::spawn(async move {
            let place = tokio::time::timeout(patience, places.acquire_owned()).await;
            let place = place.ok().and_then(Result::ok);
            // no longer when the server ends
            let _ = decided.send(Admitted {
                stream,
                peer,
                place,
            });
            drop(waits);
        });
        None
    }

    /// The next of those that had to wait.
    pub(super) async fn later(&mut self) -> Admitted {
        match self.later.recv().await {
            Some(admitted) => admitted,
            // never: this holds the other end
            None => std::future::pending().await,
        }
    }

    fn call(&mut self, now: Instant) {
        let lately = |called: Instant| now.saturating_duration_since(called) < CALL_EVERY;
        if !self.called.is_some_and(lately) {
            self.called = Some(now);
            self.wanted.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn who_finds_no_place_waits_for_one_and_not_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients = Vec::new();
        for _ in 0..WAITING + 4 {
            clients.push(TcpStream::connect(address).await.unwrap());
        }
        let mut room = Room::waiting_for(1, Duration::from_millis(20));
        let mut next = |room: &mut Room| room.admit(clients.pop().unwrap(), address);
        let first = next(&mut room).unwrap();
        assert!(first.place.is_some());
        assert!(next(&mut room).is_none());
        assert!(next(&mut room).is_none());
        drop(first);
        let second = room.later().await;
        assert!(second.place.is_some());
        assert!(room.later().await.place.is_none());

        for _ in 0..WAITING {
            assert!(next(&mut room).is_none());
        }
        let beyond = next(&mut room).unwrap();
        assert!(beyond.place.is_none());
    }

    #[test]
    fn places_are_called_for_now_and_then() {
        let mut room = Room::new(1);
        let mut wanted = room.wanted();
        let start = Instant::now();
        for (later, calls) in [
            (Duration::ZERO, true),
            (CALL_EVERY / 2, false),
            (CALL_EVERY, true),
        ] {
            room.call(start + later);
            assert_eq!(wanted.has_changed().unwrap(), calls, "{later:?}");
            wanted.mark_unchanged();
        }
    }
}

//! One upload between its requests.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kubepkg_core::name::RepositoryName;
use kubepkg_core::time::Time;
use kubepkg_core::{Algorithm, Hasher};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, OwnedMutexGuard};

use crate::access::Client;

/// `uploads/<id>.json`: whose upload it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) repository: RepositoryName,
    algorithm: String,
    started: Time,
}

impl About {
    pub(super) fn new(repository: &RepositoryName, algorithm: Algorithm) -> About {
        About {
            repository: repository.clone(),
            algorithm: algorithm.as_str().to_owned(),
            started: Time::now(),
        }
    }

    /// The algorithm that was announced.
    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm.parse().unwrap_or(Algorithm::Sha256)
    }
}

/// What one request at a time works on.
#[derive(Default)]
pub(super) struct Progress {
    /// The hash of the first `hashed` bytes.
    pub(super) hasher: Option<Hasher>,
    pub(super) hashed: u64,
    /// It was finished or cancelled.
    pub(super) ended: bool,
}

/// One upload.
pub(super) struct Session {
    pub(super) about: About,
    /// Failed syncs as of before its first byte, or, where an earlier process received that, as
    /// of when this one came to know it ([`crate::store::sync::Syncer::errors`]).
    pub(super) errors: u64,
    /// Who began it.
    pub(super) client: Client,
    received: AtomicU64,
    touched: Mutex<Instant>,
    progress: Arc<tokio::sync::Mutex<Progress>>,
    /// Requests that wait for the one that holds it.
    waiting: AtomicUsize,
    give_way: Arc<Notify>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("about", &self.about)
            .field("received", &self.received())
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(about: About, received: u64, errors: u64, client: Client) -> Session {
        Session {
            about,
            errors,
            client,
            received: AtomicU64::new(received),
            touched: Mutex::new(Instant::now()),
            progress: Arc::default(),
            waiting: AtomicUsize::new(0),
            give_way: Arc::default(),
        }
    }

    /// Bytes that are kept.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    /// Notes how many bytes are kept now.
    pub(super) fn set_received(&self, received: u64) {
        self.received.store(received, Ordering::Release);
        self.touch();
    }

    fn touch(&self) {
        *self.touched.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long nothing was received.
    pub(super) fn idle(&self) -> Duration {
        self.touched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed()
    }

    /// Waits for the request before, after asking it to end.
    pub(super) async fn hold(&self) -> OwnedMutexGuard<Progress> {
        if let Ok(held) = Arc::clone(&self.progress).try_lock_owned() {
            return held;
        }
        let _waiting = Waiting::on(self);
        self.give_way.notify_waiters();
        let held = Arc::clone(&self.progress).lock_owned().await;
        self.touch();
        held
    }

    /// Done when another request waits.
    pub(super) async fn wanted(self: Arc<Session>) {
        loop {
            let notified = self.give_way.notified();
            tokio::pin!(notified);
            // from here on no notification is missed
            notified.as_mut().enable();
            if self.waiting.load(Ordering::SeqCst) > 0 {
                return;
            }
            notified.await;
        }
    }

    /// Whether a request works on it or waits for it.
    pub(super) fn is_busy(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0 || self.progress.try_lock().is_err()
    }

    /// Ends it, unless a request works on it or waits for it.
    pub(super) fn end_if_idle(&self) -> Option<OwnedMutexGuard<Progress>> {
        let mut held = Arc::clone(&self.progress).try_lock_owned().ok()?;
        if self.waiting.load(Ordering::SeqCst) > 0 {
            return None;
        }
        held.ended = true;
        Some(held)
    }
}

/// Counts a waiting request, also one that is given up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn on(session: &'a Session) -> Waiting<'a> {
        session.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(&session.waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Arc<Session> {
        let about = About::new(&"a/b".parse().unwrap(), Algorithm::Sha256);
        Arc::new(Session::new(about, 0, 0, Client::Unknown))
    }

    #[tokio::test]
    async fn who_comes_later_goes_on_and_who_was_there_is_told() {
        let session = session();
        let first = session.hold().await;
        let told = Arc::clone(&session).wanted();
        let next = Arc::clone(&session);
        let second = tokio::spawn(async move { next.hold().await });
        told.await;
        assert!(session.end_if_idle().is_none());
        drop(first);
        drop(second.await.unwrap());
        assert!(session.end_if_idle().is_some());
    }

    #[tokio::test]
    async fn nobody_is_sent_away_for_a_request_that_gave_up() {
        let session = session();
        let held = session.hold().await;
        {
            let waiting = session.hold();
            tokio::pin!(waiting);
            tokio::select! {
                biased;
                _ = &mut waiting => panic!("held twice"),
                () = tokio::task::yield_now() => {}
            }
        }
        drop(held);
        assert!(session.end_if_idle().is_some());
    }
}

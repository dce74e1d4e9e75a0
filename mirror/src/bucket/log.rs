//! The log of commits: `commits/<n>.json`, each created only where there is none. Which replica
//! was first decides the server, so replicas that disagree about anything look here.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use kubepkg_core::store::{Cause, Record, StoreError};
use kubepkg_core::time::Time;

use super::keys;
use super::objects::{Bucket, Doubt};
use super::outage::Outage;
use super::snapshot;
use super::state::{Entry, State};
use crate::store::{decode_sealed, encode_sealed};

/// Bytes of an entry at most: an import of 100 000 manifests has 60 MB.
const MOST: u64 = 1024 * 1024 * 1024;

/// How often an entry is written again whose fate nobody knows.
const TRIES: usize = 3;

/// A state is kept in an object of its own after so many entries: who starts reads one object
/// and at most twice as many entries.
pub(super) const KEPT_EVERY: u64 = 128;

/// What this replica knows of the log.
pub(super) struct Log {
    bucket: Bucket,
    current: RwLock<Current>,
    /// Who reads on; the others wait for it.
    reading: tokio::sync::Mutex<()>,
    outage: Outage,
}

struct Current {
    state: Arc<State>,
    /// The server was asked for a newer one not before this.
    asked: Option<Instant>,
    /// The newest state that is kept in an object, as far as is known.
    kept: u64,
}

/// How an entry fared.
pub(super) enum Appended {
    /// It is there, and this is the state after it.
    Done(Arc<State>),
    /// Another one has its number, and this is the state after all that are there.
    Conflict(Arc<State>),
}

impl Log {
    /// Reads all of it.
    pub(super) async fn open(bucket: Bucket) -> Result<Log, StoreError> {
        let state = snapshot::newest(&bucket, u64::MAX).await?;
        let log = Log {
            bucket,
            current: RwLock::new(Current {
                kept: state.sequence(),
                state: Arc::new(state),
                asked: None,
            }),
            reading: tokio::sync::Mutex::default(),
            outage: Outage::default(),
        };
        log.read_on(Duration::ZERO).await?;
        Ok(log)
    }

    /// The newest state this replica knows.
    pub(super) fn known(&self) -> Arc<State> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current.state)
    }

    /// The newest state there was not longer than `age` ago.
    pub(super) async fn read_on(&self, age: Duration) -> Result<Arc<State>, StoreError> {
        self.read_for(Instant::now(), age).await
    }

    /// [`Log::read_on`] for who came at this moment.
    async fn read_for(&self, came: Instant, age: Duration) -> Result<Arc<State>, StoreError> {
        let wanted = came.checked_sub(age);
        if let Some(state) = self.fresh(wanted) {
            return Ok(state);
        }
        let _reading = self.reading.lock().await;
        // who was waited for may have asked late enough, or in vain
        if let Some(state) = self.fresh(wanted) {
            return Ok(state);
        }
        self.outage.since(came)?;
        let under_way = self.outage.begin();
        let read = self.read_further().await;
        under_way.ended(&read);
        read
    }

    /// [`Log::read_on`] for a request, which does not wait for long. What it began goes on.
    pub(super) async fn read_soon(
        self: &Arc<Self>,
        age: Duration,
    ) -> Result<Arc<State>, StoreError> {
        let now = Instant::now();
        if let Some(state) = self.fresh(now.checked_sub(age)) {
            return Ok(state);
        }
        self.outage.is_worth_waiting(now, self.bucket.place())?;
        let log = Arc::clone(self);
        let reading = self
            .bucket
            .spawn(async move { log.read_for(now, age).await });
        match tokio::time::timeout(self.outage.patience, reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => Err(StoreError::Io {
                action: "read",
                path: self.bucket.place().into(),
                source: std::io::Error::other(error),
            }),
            Err(_) => Err(self.outage.overdue(self.bucket.place())),
        }
    }

    /// [`Log::read_soon`], or while the bucket is away what is known: then nobody waits.
    pub(super) async fn read_or_known(self: &Arc<Self>, age: Duration) -> Arc<State> {
        let now = Instant::now();
        if let Some(state) = self.fresh(now.checked_sub(age)) {
            return state;
        }
        if !self.outage.is_on(now) {
            let read = self.read_soon(age).await;
            return read.unwrap_or_else(|_| self.known());
        }
        // somebody has to find out when that is over
        if self.outage.is_due(now) {
            let log = Arc::clone(self);
            self.bucket
                .spawn(async move { log.read_on(age).await.is_ok() });
        }
        self.known()
    }

    /// As if the last question was long ago, and requests wait only for so long.
    #[cfg(test)]
    pub(super) fn grow_old(&mut self, patience: Duration) {
        self.outage.patience = patience;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.asked = None;
    }

    /// The known state, if the server was asked at `wanted` or later; where there was no such
    /// moment yet, whatever was asked is fresh.
    fn fresh(&self, wanted: Option<Instant>) -> Option<Arc<State>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let fresh = current
            .asked
            .is_some_and(|asked| wanted.is_none_or(|w| asked >= w));
        fresh.then(|| Arc::clone(&current.state))
    }

    async fn read_further(&self) -> Result<Arc<State>, StoreError> {
        let asked = Instant::now();
        let mut state = self.known();
        while let Some(entry) = self.entry(state.sequence() + 1).await? {
            state = self.bring(Arc::new(state.apply(&entry)));
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.asked = current.asked.max(Some(asked));
        Ok(Arc::clone(&current.state))
    }

    /// Makes `state` the known one, where that is older; answers the known one.
    fn bring(&self, state: Arc<State>) -> Arc<State> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.state.sequence() < state.sequence() {
            current.state = state;
        }
        let newest = Arc::clone(&current.state);
        if newest.sequence() >= current.kept + KEPT_EVERY {
            current.kept = newest.sequence();
            drop(current);
            snapshot::keep(&self.bucket, Arc::clone(&newest));
        }
        newest
    }

    /// An entry.
    pub(super) async fn entry(&self, number: u64) -> Result<Option<Entry>, StoreError> {
        let key = keys::commit(number);
        let Some(bytes) = self.bucket.get(&key, MOST).await? else {
            return Ok(None);
        };
        let damaged = |why: String| StoreError::Damaged {
            path: self.bucket.place_of(&key).into(),
            why,
        };
        let entry: Entry = decode_sealed(&bytes).map_err(damaged)?;
        match entry.record.number == number {
            true => Ok(Some(entry)),
            false => Err(damaged(format!(
                "it says that it is commit {}",
                entry.record.number
            ))),
        }
    }

    /// The state right after commit `number`, which is then kept in an object.
    pub(super) async fn at(&self, number: u64) -> Result<Arc<State>, StoreError> {
        let mut state = snapshot::newest(&self.bucket, number).await?;
        if state.sequence() == number {
            return Ok(Arc::new(state));
        }
        while state.sequence() < number {
            let next = state.sequence() + 1;
            let entry = self.entry(next).await?.ok_or_else(|| StoreError::Damaged {
                path: self.bucket.place_of(&keys::commit(next)).into(),
                why: "it is not there, and later commits are".to_owned(),
            })?;
            state = state.apply(&entry);
        }
        let state = Arc::new(state);
        snapshot::write(&self.bucket, Arc::clone(&state)).await?;
        Ok(state)
    }

    /// An entry that could follow `state` and says nothing yet.
    pub(super) fn empty(&self, state: &State, cause: Cause, at: Time) -> Result<Entry, StoreError> {
        let record = Record {
            number: state.sequence() + 1,
            at,
            cause,
            changes: Vec::new(),
        };
        Ok(Entry::of(random(&self.bucket)?, record))
    }

    /// Adds `entry`, made for the state `before`. It goes on when nobody waits for it any more.
    pub(super) async fn append(
        self: &Arc<Self>,
        before: &Arc<State>,
        entry: Entry,
    ) -> Result<Appended, StoreError> {
        let (log, before) = (Arc::clone(self), Arc::clone(before));
        let task = self
            .bucket
            .spawn(async move { log.write(&before, &entry).await });
        match task.await {
            Ok(done) => done,
            Err(error) => Err(StoreError::Io {
                action: "write",
                path: self.bucket.place().into(),
                source: std::io::Error::other(error),
            }),
        }
    }

    async fn write(&self, before: &State, entry: &Entry) -> Result<Appended, StoreError> {
        let number = entry.record.number;
        let key = keys::commit(number);
        let bytes = encode_sealed(std::path::Path::new(&key), entry)?;
        let bytes = bytes::Bytes::from(bytes);
        let mut open = None;
        for _ in 0..TRIES {
            match self.bucket.create(&key, bytes.clone()).await {
                Ok(true) => return Ok(Appended::Done(self.bring(Arc::new(before.apply(entry))))),
                Ok(false) => {
                    // perhaps this one, written by a request whose answer was lost
                    let there = self.entry(number).await?;
                    if there.is_some_and(|there| there.by == entry.by) {
                        return Ok(Appended::Done(self.bring(Arc::new(before.apply(entry)))));
                    }
                    return Ok(Appended::Conflict(self.read_on(Duration::ZERO).await?));
                }
                Err((Doubt::Refused, error)) => match open {
                    // an earlier try may still come through
                    Some(_) => break,
                    None => return Err(error),
                },
                Err((Doubt::Open, error)) => open = Some(error),
            }
        }
        match open {
            Some(source) => Err(StoreError::Unsettled {
                number,
                source: Box::new(source),
            }),
            None => Err(StoreError::Unsettled {
                number,
                source: Box::new(StoreError::Io {
                    action: "write",
                    path: self.bucket.place_of(&key).into(),
                    source: std::io::ErrorKind::TimedOut.into(),
                }),
            }),
        }
    }
}

/// A word nobody else has.
pub(super) fn random(bucket: &Bucket) -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Io {
        action: "find a name in",
        path: bucket.place().into(),
        source: std::io::Error::other(error.to_string()),
    })?;
    Ok(hex::encode(bytes))
}

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
use super::written::{self, Limits, Prepared};

/// Entries at most that are read before one that came too late is offered again.
const PASSED: usize = 1000;

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
    limits: Limits,
}

struct Current {
    state: Arc<State>,
    /// The server was asked for a newer one not before this.
    asked: Option<Instant>,
}

/// How an entry fared.
pub(super) enum Appended {
    /// It is there, and this is the state after it.
    Done(Arc<State>),
    /// Another one has its number, and this is the state after those that are there.
    Conflict(Arc<State>),
}

/// The same, with what there is where another one was faster.
pub(super) enum Offer<T> {
    Done(Arc<State>),
    Conflict(Arc<State>, T),
}

impl Log {
    /// Reads all of it.
    pub(super) async fn open(bucket: Bucket, limits: Limits) -> Result<Log, StoreError> {
        let state = snapshot::newest(&bucket, u64::MAX, limits).await?;
        let log = Log {
            bucket,
            current: RwLock::new(Current {
                state: Arc::new(state),
                asked: None,
            }),
            reading: tokio::sync::Mutex::default(),
            outage: Outage::default(),
            limits,
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
        Arc::clone(&current.state)
    }

    /// An entry.
    pub(super) async fn entry(&self, number: u64) -> Result<Option<Entry>, StoreError> {
        written::read(&self.bucket, number, self.limits).await
    }

    /// An entry that must be there, for later ones are.
    pub(super) async fn require(&self, number: u64) -> Result<Entry, StoreError> {
        let entry = self.entry(number).await?;
        entry.ok_or_else(|| StoreError::Damaged {
            path: self.bucket.place_of(&keys::commit(number)).into(),
            why: "it is not there, and later commits are".to_owned(),
        })
    }

    /// The state right after commit `number`, which is then kept in an object.
    pub(super) async fn at(&self, number: u64) -> Result<Arc<State>, StoreError> {
        let mut state = snapshot::newest(&self.bucket, number, self.limits).await?;
        if state.sequence() == number {
            return Ok(Arc::new(state));
        }
        while state.sequence() < number {
            state = state.apply(&self.require(state.sequence() + 1).await?);
        }
        let state = Arc::new(state);
        self.keep(Arc::clone(&state)).await?;
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
        let prepared = self.prepare(entry).await?;
        Ok(match self.offer(before, prepared).await? {
            Offer::Done(state) => Appended::Done(state),
            Offer::Conflict(state, _) => Appended::Conflict(state),
        })
    }

    /// Writes what of an entry is too much to be written while others wait.
    pub(super) async fn prepare(&self, entry: Entry) -> Result<Prepared, StoreError> {
        written::prepare(&self.bucket, entry, self.limits).await
    }

    /// [`Log::append`]; an entry that came too late is given back, with those that were faster.
    pub(super) async fn offer(
        self: &Arc<Self>,
        before: &Arc<State>,
        prepared: Prepared,
    ) -> Result<Offer<(Prepared, Vec<Entry>)>, StoreError> {
        let (log, before) = (Arc::clone(self), Arc::clone(before));
        let task = self.bucket.spawn(async move {
            let mut prepared = prepared;
            // whatever goes wrong from here on, a commit may name its text; what none names is
            // swept
            let apart = prepared.stays();
            Ok(match log.write(&before, &prepared.entry).await? {
                Offer::Done(state) => Offer::Done(state),
                Offer::Conflict(state, faster) => {
                    prepared.goes(apart);
                    Offer::Conflict(state, (prepared, faster))
                }
            })
        });
        match task.await {
            Ok(done) => done,
            Err(error) => Err(StoreError::Io {
                action: "write",
                path: self.bucket.place().into(),
                source: std::io::Error::other(error),
            }),
        }
    }

    async fn write(&self, before: &State, entry: &Entry) -> Result<Offer<Vec<Entry>>, StoreError> {
        let number = entry.record.number;
        let key = keys::commit(number);
        let bytes = written::encode(entry)?;
        let mut open = None;
        for _ in 0..TRIES {
            match self.bucket.create(&key, bytes.clone()).await {
                Ok(true) => return Ok(Offer::Done(self.wrote(before, entry))),
                Ok(false) => {
                    // perhaps this one, written by a request whose answer was lost
                    let (there, next) = tokio::join!(self.require(number), self.entry(number + 1));
                    let there = match there {
                        Ok(there) => there,
                        // a newer kubepkg wrote that one, so it is not this one
                        Err(error @ StoreError::Unusable { .. }) => return Err(error),
                        Err(error) => {
                            let source = Box::new(error);
                            return Err(StoreError::Unsettled { number, source });
                        }
                    };
                    if there.by == entry.by {
                        return Ok(Offer::Done(self.wrote(before, entry)));
                    }
                    return self.pass(before, there, next?).await;
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

    /// Reads those that were faster: `there`, `next`, and whatever follows.
    async fn pass(
        &self,
        before: &State,
        there: Entry,
        mut next: Option<Entry>,
    ) -> Result<Offer<Vec<Entry>>, StoreError> {
        let mut state = before.apply(&there);
        let mut faster = vec![there];
        while let Some(entry) = next.take() {
            state = state.apply(&entry);
            faster.push(entry);
            // as many as others can write while these are read would be no end
            if faster.len() < PASSED {
                next = self.entry(state.sequence() + 1).await?;
            }
        }
        Ok(Offer::Conflict(self.bring(Arc::new(state)), faster))
    }

    /// The state after an entry this replica wrote. Of all replicas only that one keeps it in an
    /// object where that is due; should it die before, another one does half a turn later.
    fn wrote(&self, before: &State, entry: &Entry) -> Arc<State> {
        let state = Arc::new(before.apply(entry));
        let since = state.sequence() % KEPT_EVERY;
        if since == 0 {
            snapshot::keep(&self.bucket, Arc::clone(&state), self.limits);
        } else if since == KEPT_EVERY / 2 {
            snapshot::keep_if_late(&self.bucket, Arc::clone(&state), self.limits);
        }
        self.bring(state)
    }

    /// Keeps a state in an object.
    pub(super) async fn keep(&self, state: Arc<State>) -> Result<(), StoreError> {
        snapshot::write(&self.bucket, state, self.limits).await
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

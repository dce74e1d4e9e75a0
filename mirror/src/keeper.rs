//! What has to be done again and again while a store is served, in the background: counting
//! the time it is served, collection, and what others hand in.
//!
//! Of several processes that serve one store only one keeps it; when it ends another takes
//! over. It also answers on a socket in the store's folder, so that `mirror gc` has it collect
//! and needs no rights but those to the store.

mod socket;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kubepkg_core::store::StoreError;
use kubepkg_core::time::Time;
use tokio::task::JoinSet;

use crate::store::{Collected, Collecting, FileStore, GRACE, KEEP_IMPORTS, TICK};
use crate::told::told;
pub use socket::{Asked, ask};

/// How often a store is collected unless said otherwise.
pub const EVERY: Duration = Duration::from_secs(6 * 60 * 60);

/// Over how long the first collections of servers that start together are spread.
const SPREAD: Duration = Duration::from_secs(10 * 60);

/// How often abandoned uploads are looked for.
const UPLOADS_EVERY: Duration = Duration::from_secs(10 * 60);

/// An upload to which nothing was added for so long is dropped: no client comes back to it.
const UPLOAD_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// How a store is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How often to collect; zero for never.
    pub every: Duration,
    /// How long something stays condemned.
    pub grace: Duration,
    /// How many imports can be gone back to.
    pub keep_imports: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            every: EVERY,
            grace: GRACE,
            keep_imports: KEEP_IMPORTS,
        }
    }
}

/// A task's next turn.
pub type Turn = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// Something to be done every so often.
struct Chore {
    name: &'static str,
    every: Duration,
    turn: Arc<dyn Fn(FileStore) -> Turn + Send + Sync>,
}

/// Keeps a store while it is served.
pub struct Keeper {
    store: FileStore,
    settings: Settings,
    chores: Vec<Chore>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper")
            .field("store", &self.store)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Keeper {
    /// For a store that is open for writing.
    pub fn new(store: FileStore, settings: Settings) -> Keeper {
        Keeper {
            store,
            settings,
            chores: Vec::new(),
        }
    }

    /// Adds something to be done every so often, by the one process that keeps the store. What
    /// fails is said in the log and tried again next time. When serving ends, a turn under way
    /// is given up where it waits.
    #[must_use]
    pub fn chore<F>(
        mut self,
        name: &'static str,
        every: Duration,
        turn: impl Fn(FileStore) -> F + Send + Sync + 'static,
    ) -> Keeper
    where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        self.chores.push(Chore {
            name,
            every,
            turn: Arc::new(move |store| Box::pin(turn(store))),
        });
        self
    }

    /// Drops uploads nobody went on with for a day.
    #[must_use]
    pub fn uploads(self) -> Keeper {
        self.chore("uploads", UPLOADS_EVERY, |store: FileStore| async move {
            let (uploads, bytes) = store.expire_uploads(UPLOAD_IDLE).await?;
            if uploads > 0 {
                tracing::info!(uploads, bytes, "abandoned uploads were dropped");
            }
            Ok(())
        })
    }

    /// Looks for damaged content, reading at most `rate` bytes in a second; 0 for not at all.
    #[must_use]
    pub fn scrub(self, rate: u64) -> Keeper {
        // it goes on for ever and paces itself
        self.chore(
            "scrub",
            Duration::ZERO,
            move |store: FileStore| async move {
                store.scrub(rate).await;
                Ok(())
            },
        )
    }

    /// Keeps the store until `shutdown` is done.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        tokio::select! {
            () = shutdown => {}
            () = self.keep() => {}
        }
        if let Err(error) = self.store.stop_serving().await {
            tracing::warn!(error = %told(&error), "how long the store was served could not be noted");
        }
    }

    async fn keep(&self) {
        self.until_it_is_ours().await;
        // imports would say it too, but who restored a store should not have to wait for one
        if let Err(error) = self.store.trust_is_current().await {
            tracing::error!(error = %told(&error), "imports into this store are refused");
        }
        let mut everything: Vec<Turn> = vec![
            Box::pin(count(self.store.clone())),
            Box::pin(socket::answer(self.store.clone(), self.settings)),
        ];
        if !self.settings.every.is_zero() {
            let settings = self.settings;
            let turn = move |store: FileStore| -> Turn {
                Box::pin(async move {
                    let collected = store.collect(settings.collecting()).await?;
                    report(&collected);
                    Ok(())
                })
            };
            let last = self.store.last_collected();
            let first = first_wait(settings.every, last, Time::now(), share());
            everything.push(again(
                self.store.clone(),
                "collection",
                (first, settings.every),
                Arc::new(turn),
            ));
        }
        for chore in &self.chores {
            let (name, every) = (chore.name, chore.every);
            everything.push(again(
                self.store.clone(),
                name,
                (every, every),
                Arc::clone(&chore.turn),
            ));
        }
        // dropping the set ends them all
        let mut tasks = JoinSet::new();
        for turn in everything {
            tasks.spawn(turn);
        }
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::error!(error = %told(&error), "the store is kept without this")
                }
                Err(error) => tracing::error!(%error, "a part of the store's keeping ended"),
            }
        }
        std::future::pending().await
    }

    async fn until_it_is_ours(&self) {
        loop {
            match self.store.start_serving().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::warn!(error = %told(&error), "the store cannot be kept"),
            }
            tokio::time::sleep(TICK).await;
        }
    }
}

impl Settings {
    fn collecting(&self) -> Collecting {
        Collecting {
            grace: self.grace,
            keep_imports: self.keep_imports,
            ..Collecting::new(Time::now())
        }
    }
}

/// Counts the time the store is served.
async fn count(store: FileStore) -> Result<(), StoreError> {
    loop {
        tokio::time::sleep(TICK).await;
        if let Err(error) = store.note_served().await {
            tracing::warn!(error = %told(&error), "how long the store is served could not be noted");
        }
    }
}

/// How long to wait for the first collection: until it is due after the last one, and a little
/// longer, a `share` of [`SPREAD`], so that servers that start together do not all begin at once.
/// A server that is started anew each night would else never come to one.
fn first_wait(every: Duration, last: Option<Time>, now: Time, share: f64) -> Duration {
    let since = last.and_then(|last| u64::try_from(now.since(last)).ok());
    // a clock that was set back is no reason to wait for years
    let left = since.map_or(Duration::ZERO, |since| {
        every.saturating_sub(Duration::from_secs(since))
    });
    left + SPREAD.min(every).mul_f64(share)
}

/// A random number of at least 0 and below 1.
fn share() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

/// Does something every so often, for ever; the first time after another while.
fn again(
    store: FileStore,
    name: &'static str,
    (first, every): (Duration, Duration),
    turn: Arc<dyn Fn(FileStore) -> Turn + Send + Sync>,
) -> Turn {
    Box::pin(async move {
        let mut wait = first;
        loop {
            tokio::time::sleep(wait).await;
            wait = every;
            if let Err(error) = turn(store.clone()).await {
                tracing::warn!(error = %told(&error), task = name, "it is tried again later");
            }
        }
    })
}

/// Says in the log what a collection did.
pub(crate) fn report(collected: &Collected) {
    tracing::info!(
        condemned = collected.condemned.contents,
        removed = collected.removed.contents,
        bytes = collected.removed.bytes,
        "collected"
    );
    for (repository, manifest) in &collected.unreadable {
        tracing::warn!(%repository, %manifest, "nothing is collected there: a manifest cannot be read");
    }
    for record in &collected.damaged_records {
        tracing::warn!(
            record,
            "what was imported before stays: this commit record cannot be read"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_collection_is_due_after_the_last_one_of_the_server_before() {
        let hour = Duration::from_secs(3600);
        let now = Time::from_unix(1_796_000_000);
        let ago = |seconds: i64| Some(Time::from_unix(1_796_000_000 - seconds));
        let wait = |last| first_wait(6 * hour, last, now, 0.0);
        assert_eq!(wait(None), Duration::ZERO);
        assert_eq!(wait(ago(2 * 3600)), 4 * hour);
        assert_eq!(wait(ago(600 * 3600)), Duration::ZERO);
        assert_eq!(wait(ago(-3600)), Duration::ZERO);
        assert_eq!(first_wait(6 * hour, None, now, 0.5), SPREAD / 2);
        let often = Duration::from_secs(10);
        assert_eq!(first_wait(often, None, now, 0.5), often / 2);
        assert!((0.0..=1.0).contains(&share()));
    }
}

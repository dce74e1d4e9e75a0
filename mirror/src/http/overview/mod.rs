//! What a store is as a whole, for the page and the metrics: gathered when somebody asks, and
//! then not again for a while.

mod held;
mod sites;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kubepkg_core::store::{Names, StoreError};
use tokio::sync::Mutex;

pub(crate) use self::held::Held;
pub(crate) use self::sites::SiteSeen;
use crate::facts::Facts;
use crate::source::{Age, Source};

/// How old what was gathered may be when nothing was committed since.
const AGE: Duration = Duration::from_secs(10);

/// After commits it is gathered anew, but not so often that it takes more than one part in so
/// many of the time.
const SHARE: u32 = 20;

/// What was gathered.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The names it was gathered from.
    pub names: Arc<Names>,
    /// What the store tells of itself.
    pub facts: Arc<Facts>,
    /// What all repositories hold together.
    pub held: Arc<Held>,
    /// Indexes, in order of their URLs.
    pub sites: Arc<Vec<Arc<SiteSeen>>>,
}

/// The last look at a store.
#[derive(Debug, Default)]
pub(super) struct Overview {
    last: Arc<Mutex<Option<Last>>>,
}

#[derive(Debug)]
struct Last {
    seen: Arc<Seen>,
    at: Instant,
    took: Duration,
}

impl Last {
    fn is_fresh(&self, sequence: u64) -> bool {
        let age = self.at.elapsed();
        let committed = self.seen.names.sequence != sequence;
        age < AGE && (!committed || age < self.took * SHARE)
    }
}

impl Overview {
    /// What is known, gathered again where it is old. Those who ask meanwhile wait for it. It is
    /// gathered to its end and kept when nobody waits for it any more: a large store would else
    /// be read from the beginning, beside the reading still under way, for each of those who
    /// give up.
    pub(super) async fn fresh(&self, source: &Arc<dyn Source>) -> Result<Arc<Seen>, StoreError> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        let names = source.names(Age::Moment).await?;
        if let Some(last) = last.as_ref().filter(|last| last.is_fresh(names.sequence)) {
            return Ok(Arc::clone(&last.seen));
        }
        let source = Arc::clone(source);
        let gathering = tokio::spawn(async move {
            let began = Instant::now();
            let before = last.as_ref().map(|last| Arc::clone(&last.seen));
            let seen = Arc::new(gather(&source, names, before.as_deref()).await);
            *last = Some(Last {
                seen: Arc::clone(&seen),
                at: Instant::now(),
                took: began.elapsed(),
            });
            seen
        });
        gathering.await.map_err(|error| StoreError::Io {
            action: "read",
            path: std::path::PathBuf::new(),
            source: std::io::Error::other(error),
        })
    }
}

async fn gather(source: &Arc<dyn Source>, names: Arc<Names>, before: Option<&Seen>) -> Seen {
    let told = before.map(|seen| Arc::clone(&seen.facts));
    let facts = source.facts(told.unwrap_or_default(), names.sequence).await;
    let same = before.filter(|seen| Arc::ptr_eq(&seen.names, &names));
    let known = before.map(|seen| Arc::clone(&seen.sites));
    let held = same.map(|seen| Arc::clone(&seen.held));
    let (from, of) = (Arc::clone(source), Arc::clone(&names));
    let counted = tokio::task::spawn_blocking(move || {
        let held = held.unwrap_or_else(|| Arc::new(Held::of(&of)));
        (held, Arc::new(sites::of(&*from, &of, known.as_deref())))
    });
    // it fails only when the process ends
    let (held, sites) = counted.await.unwrap_or_default();
    Seen {
        names,
        facts: Arc::new(facts),
        held,
        sites,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kubepkg_core::Digest;
    use kubepkg_core::store::{FileRange, SiteEntry};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::source::{FactsFuture, NamesFuture, SizesFuture};

    /// A store whose facts take until it is told to go on.
    #[derive(Default)]
    struct Slow {
        names: Arc<Names>,
        begun: AtomicUsize,
        go_on: Option<Semaphore>,
    }

    impl Source for Slow {
        fn names(&self, _: Age) -> NamesFuture<'_> {
            Box::pin(std::future::ready(Ok(Arc::clone(&self.names))))
        }

        fn sizes(&self, digests: Vec<Digest>) -> SizesFuture<'_> {
            Box::pin(std::future::ready(Ok(vec![None; digests.len()])))
        }

        fn blob(&self, _: &Digest) -> Result<Option<FileRange>, StoreError> {
            Ok(None)
        }

        fn site_file(
            &self,
            _: &str,
            _: &SiteEntry,
            _: &str,
        ) -> Result<Option<FileRange>, StoreError> {
            Ok(None)
        }

        fn facts(&self, _: Arc<Facts>, _: u64) -> FactsFuture<'_> {
            Box::pin(async {
                self.begun.fetch_add(1, Ordering::SeqCst);
                if let Some(go_on) = &self.go_on {
                    go_on.acquire().await.unwrap().forget();
                }
                Facts {
                    quarantined: Some(7),
                    ..Facts::default()
                }
            })
        }
    }

    #[tokio::test]
    async fn what_is_gathered_is_kept_when_nobody_waits_for_it() {
        let slow = Arc::new(Slow {
            go_on: Some(Semaphore::new(0)),
            ..Slow::default()
        });
        let source: Arc<dyn Source> = slow.clone();
        let overview = Overview::default();
        let begun = async {
            while slow.begun.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
        };
        // who asks first gives up in the middle
        tokio::select! {
            _ = overview.fresh(&source) => panic!("it is held up"),
            () = begun => {}
        }
        slow.go_on.as_ref().unwrap().add_permits(1);
        let seen = overview.fresh(&source).await.unwrap();
        assert_eq!(seen.facts.quarantined, Some(7));
        assert_eq!(slow.begun.load(Ordering::SeqCst), 1);
    }
}

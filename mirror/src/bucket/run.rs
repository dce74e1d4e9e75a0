//! One collection of a bucket from beginning to end, like that of a store in a folder: it marks,
//! takes what an earlier one condemned, and condemns what it found.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kubepkg_core::Digest;
use kubepkg_core::manifest::MAX_MANIFEST;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Cause, Claim, Collect as _, Garbage, StoreError, Swept};
use kubepkg_core::time::Time;

use super::log::Appended;
use super::state::{Collector, State};
use super::{BucketStore, keys};
use crate::store::mark::{self, Kept, Marked, Reading};
use crate::store::{Amount, Collected, Collecting};

/// For how many seconds nobody else begins. A collection that takes longer goes on: two at once
/// only do the same work twice.
const ALONE: i64 = 3600;

/// Reads what a manifest names, on threads that may wait.
type Reader = Box<dyn FnMut(&Digest) -> Option<Vec<Digest>> + Send>;

/// What is reachable.
struct Reached {
    kept: Arc<Kept>,
    repositories: BTreeMap<RepositoryName, Marked>,
}

impl BucketStore {
    /// When this store was collected last; `None` where nobody knows.
    pub fn last_collected(&self) -> Option<Time> {
        self.log.known().collected
    }

    /// Collects: takes what an earlier collection condemned and nobody wanted since, and
    /// condemns what nothing reaches now. `None` while another replica does.
    pub async fn collect(&self, collecting: Collecting) -> Result<Option<Collected>, StoreError> {
        let by = super::log::random(&self.bucket)?;
        let until = |at: Time, seconds| Collector {
            by: by.clone(),
            until: at.plus(seconds),
        };
        if !self.say_who_collects(|at| until(at, ALONE), true).await? {
            return Ok(None);
        }
        let collected = self.collect_now(&collecting).await;
        // also where it failed, so that another replica can try
        self.say_who_collects(|at| until(at, 0), false).await?;
        collected.map(Some)
    }

    /// Says who collects; `false` when another replica does, and `only_if_free`.
    async fn say_who_collects(
        &self,
        collector: impl Fn(Time) -> Collector,
        only_if_free: bool,
    ) -> Result<bool, StoreError> {
        let mut state = self.log.read_on(Duration::ZERO).await?;
        for _ in 0..super::TRIES {
            let now = Time::now();
            let other = state.collector.as_ref();
            if only_if_free && other.is_some_and(|other| other.until > now) {
                return Ok(false);
            }
            let mut entry = self.log.empty(&state, Cause::Collect, now)?;
            entry.collector = Some(collector(now));
            match self.log.append(&state, entry).await? {
                Appended::Done(_) => return Ok(true),
                Appended::Conflict(newer) => state = newer,
            }
        }
        Err(self.crowded())
    }

    async fn collect_now(&self, collecting: &Collecting) -> Result<Collected, StoreError> {
        let before = self.log.read_on(Duration::ZERO).await?;
        let mut kept = Kept::default();
        let imports = before.imports.iter().rev().take(collecting.keep_imports);
        for number in imports {
            let left = self.log.at(*number).await?;
            kept.add_without(&left.names, |_, _| false);
        }
        let kept = Arc::new(kept);
        let mut reading: Reading<Reader> = Reading::new(self.reader(&before));
        let mut reached = Reached {
            kept: Arc::clone(&kept),
            repositories: BTreeMap::new(),
        };
        let all: Vec<RepositoryName> = before.names.repositories.keys().cloned().collect();
        for name in &all {
            let given_up = condemned(&before, name);
            let marked;
            (marked, reading) = self.mark(&before, name, &kept, given_up, reading).await?;
            reached
                .repositories
                .extend(marked.map(|m| (name.clone(), m)));
        }
        let mut report = Collected::new(collecting, &reached.repositories, &kept);

        // names first: each repository judged again right before
        let holds = |garbage: &Garbage| before.condemned.contains_key(garbage);
        let due = reached.repositories.iter();
        let due: Vec<RepositoryName> = due
            .filter(|(_, marked)| marked.garbage.iter().any(holds))
            .map(|(name, _)| name.clone())
            .collect();
        let mut swept = Swept::default();
        for name in due {
            let state = self.log.read_on(Duration::ZERO).await?;
            let leased = self.leases.oldest(&self.bucket).await?;
            let marked;
            let may_go = may_go(&state, &name, collecting.grace, leased);
            (marked, reading) = self.mark(&state, &name, &kept, may_go, reading).await?;
            let Some(marked) = marked else { continue };
            let now = self
                .sweep(
                    state.sequence(),
                    marked.garbage,
                    collecting.grace,
                    collecting.at,
                )
                .await?;
            // as it is from now on, for what is condemned
            let marked;
            let given_up = condemned(&before, &name);
            (marked, reading) = self.mark(&state, &name, &kept, given_up, reading).await?;
            reached
                .repositories
                .extend(marked.map(|m| (name.clone(), m)));
            add(&mut swept, now);
        }
        let marked = reached.repositories.values();
        let mut garbage: BTreeSet<Garbage> = marked
            .flat_map(|marked| marked.garbage.iter().cloned())
            .collect();
        for taken in &swept.names {
            garbage.remove(taken);
        }

        // content the names reached that the marking saw, and names that came since
        let state = self.log.read_on(Duration::ZERO).await?;
        let wanted = mark::wanted(&reached.kept, &reached.repositories, &state.names, &garbage);
        let sizes = self.unnamed(&state, &wanted).await?;
        let bytes = |digest: &Digest| Garbage {
            digest: *digest,
            claim: Claim::Bytes,
        };
        let listed = sizes.keys().map(bytes).filter(holds).collect();
        let now = self
            .sweep(state.sequence(), listed, collecting.grace, collecting.at)
            .await?;
        add(&mut swept, now);
        let removed: HashSet<Digest> = swept.contents.iter().map(|(digest, _)| *digest).collect();
        let left = sizes.keys().filter(|digest| !removed.contains(*digest));
        garbage.extend(left.map(bytes));
        report.removed = Amount {
            names: swept.names.len() as u64,
            contents: swept.contents.len() as u64,
            bytes: swept.contents.iter().map(|(_, size)| size).sum(),
        };
        report.condemn(&garbage, holds, &sizes);
        self.condemn(garbage).await?;
        report.wait(&swept.waiting, &sizes);
        Ok(report)
    }

    /// Marks one repository as it is in `state`; `None` where there is none.
    async fn mark(
        &self,
        state: &Arc<State>,
        name: &RepositoryName,
        kept: &Arc<Kept>,
        given_up: impl Fn(&Digest) -> bool + Send + 'static,
        mut reading: Reading<Reader>,
    ) -> Result<(Option<Marked>, Reading<Reader>), StoreError> {
        let Some(repository) = state.names.repositories.get(name) else {
            return Ok((None, reading));
        };
        let (repository, name) = (Arc::clone(repository), name.clone());
        let kept = Arc::clone(kept);
        self.bucket
            .blocking(move || {
                let kept = kept.repositories.get(&name);
                let marked = mark::repository(&name, &repository, kept, given_up, &mut reading);
                (Some(marked), reading)
            })
            .await
    }

    fn reader(&self, state: &Arc<State>) -> Reader {
        let (store, state) = (self.clone(), Arc::clone(state));
        Box::new(move |digest: &Digest| {
            let key = keys::blob(digest, state.removed(digest));
            let bucket = store.bucket.clone();
            let got = store
                .bucket
                .wait(async move { bucket.get(&key, MAX_MANIFEST).await });
            let bytes = got.ok()??;
            digest.matches(&bytes).then(|| mark::named_by(&bytes))?
        })
    }

    /// Content nothing wants, with its size. Objects that were given up and are there all the
    /// same are removed on the way.
    async fn unnamed(
        &self,
        state: &State,
        wanted: &HashSet<Digest>,
    ) -> Result<HashMap<Digest, u64>, StoreError> {
        let mut unnamed = HashMap::new();
        let mut listed = self.bucket.list_all(keys::BLOBS);
        while let Some(some) = listed.recv().await {
            for (key, size) in some? {
                let Some((digest, removed)) = keys::blob_of(&key) else {
                    continue;
                };
                if removed < state.removed(&digest) {
                    // its key is never used again
                    self.bucket.delete(&key).await?;
                } else if removed == state.removed(&digest) && !wanted.contains(&digest) {
                    unnamed.insert(digest, size);
                }
            }
        }
        Ok(unnamed)
    }
}

fn add(swept: &mut Swept, more: Swept) {
    swept.names.extend(more.names);
    swept.contents.extend(more.contents);
    swept.waiting.extend(more.waiting);
}

/// Whether a manifest of `name` was condemned.
fn condemned(
    state: &Arc<State>,
    name: &RepositoryName,
) -> impl Fn(&Digest) -> bool + Send + 'static {
    let (state, claim) = (Arc::clone(state), Claim::Manifest(name.clone()));
    move |digest| {
        let (digest, claim) = (*digest, claim.clone());
        state.condemned.contains_key(&Garbage { digest, claim })
    }
}

/// Whether a manifest of `name` may go now: one that may not keeps what it is made of.
fn may_go(
    state: &Arc<State>,
    name: &RepositoryName,
    grace: Duration,
    leased: Option<u64>,
) -> impl Fn(&Digest) -> bool + Send + 'static {
    let (state, claim) = (Arc::clone(state), Claim::Manifest(name.clone()));
    let now = Time::now();
    move |digest| {
        let (digest, claim) = (*digest, claim.clone());
        state
            .judge(&Garbage { digest, claim }, now, grace, leased)
            .is_ok()
    }
}

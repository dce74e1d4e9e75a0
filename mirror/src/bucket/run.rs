//! One collection of a bucket from beginning to end, like that of a store in a folder: it marks,
//! takes what an earlier one condemned, and condemns what it found.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Claim, Collect as _, Garbage, Record, StoreError, Swept, Wait};
use kubepkg_core::time::Time;

use super::state::State;
use super::{BucketStore, keys};
use crate::store::mark::{self, Kept, Marked, Reading};
use crate::store::{Amount, Collected, Collecting};

/// What is reachable.
struct Reached {
    kept: Arc<Kept>,
    repositories: BTreeMap<RepositoryName, Marked>,
}

/// What lies in the bucket.
#[derive(Default)]
struct Listed {
    /// Content nothing wants, with its size.
    unnamed: HashMap<Digest, u64>,
    /// Content no name needs, and going back to an import does.
    kept: Amount,
}

impl BucketStore {
    /// One collection, whoever else collects.
    pub(super) async fn collect_now(
        &self,
        collecting: &Collecting,
    ) -> Result<Collected, StoreError> {
        let before = self.log.read_on(Duration::ZERO).await?;
        let kept = Arc::new(self.kept(&before, collecting.keep_imports).await?);
        let mut reached = Reached {
            kept: Arc::clone(&kept),
            repositories: BTreeMap::new(),
        };
        for name in before.names.repositories.keys() {
            let given_up = given_up(&before, name, collecting.untagged);
            let marked = self.mark(&before, name, &kept, given_up).await?;
            reached
                .repositories
                .extend(marked.map(|m| (name.clone(), m)));
        }
        let mut report = Collected::new(collecting, &reached.repositories, &kept);
        let mut swept = Swept::default();
        if !collecting.dry_run {
            self.take_due_names(&before, collecting, &mut reached, &mut swept)
                .await?;
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
        let wanted = mark::wanted(&kept, &reached.repositories, &state.names, &garbage);
        let listed = self
            .listed(&state, &wanted, &kept, collecting.dry_run)
            .await?;
        let sizes = listed.unnamed;
        report.kept_for_imports = listed.kept;
        let holds = |garbage: &Garbage| before.condemned.contains_key(garbage);
        if !collecting.dry_run {
            let due = sizes.keys().map(bytes).filter(holds).collect();
            let now = self
                .sweep(state.sequence(), due, collecting.grace, collecting.at)
                .await?;
            add(&mut swept, now);
        }
        let removed: HashSet<Digest> = swept.contents.iter().map(|(digest, _)| *digest).collect();
        let left = sizes.keys().filter(|digest| !removed.contains(*digest));
        garbage.extend(left.map(bytes));
        report.removed = Amount {
            names: swept.names.len() as u64,
            contents: swept.contents.len() as u64,
            bytes: swept.contents.iter().map(|(_, size)| size).sum(),
        };
        report.condemn(&garbage, holds, &sizes);
        if collecting.dry_run {
            let leased = self.leases.oldest(&self.bucket).await?;
            for garbage in garbage.iter().filter(|garbage| holds(garbage)) {
                match state.judge(garbage, Time::now(), collecting.grace, leased) {
                    Ok(()) => report.would_remove(garbage, &sizes),
                    Err(wait) => swept.waiting.push((garbage.clone(), wait)),
                }
            }
        } else {
            self.condemn(garbage).await?;
            self.sweep_apart(&state).await?;
        }
        report.wait(&swept.waiting, &sizes);
        Ok(report)
    }

    /// The records of imports, the newest first. This thread waits for each: not one of a runtime
    /// that has others to serve.
    pub(crate) fn imports(&self) -> impl Iterator<Item = Result<Record, StoreError>> + use<> {
        let store = self.clone();
        let numbers = self.log.known().imports.to_vec();
        numbers.into_iter().rev().map(move |number| {
            let log = Arc::clone(&store.log);
            let entry = store
                .bucket
                .wait(async move { log.require(number).await })?;
            Ok(entry.record)
        })
    }

    /// Content that is kept so that one of the last `imports` imports can be gone back to.
    pub async fn kept_for_imports(&self, imports: usize) -> Result<HashSet<Digest>, StoreError> {
        let state = self.log.read_on(Duration::ZERO).await?;
        Ok(self.kept(&state, imports).await?.contents())
    }

    /// What the last imports left, but for what a prune took since.
    async fn kept(&self, state: &Arc<State>, imports: usize) -> Result<Kept, StoreError> {
        let mut kept = Kept::default();
        let mut pruned = HashSet::new();
        let mut prunes = state.prunes.iter().rev().peekable();
        for number in state.imports.iter().rev().take(imports) {
            while let Some(prune) = prunes.next_if(|prune| *prune > number) {
                let record = self.log.require(*prune).await?.record;
                pruned.extend(record.taken());
            }
            let left = self.log.at(*number).await?;
            kept.add_without(&left.names, |name, digest| {
                pruned.contains(&(name.clone(), *digest))
            });
        }
        Ok(kept)
    }

    /// Takes names that an earlier collection condemned, each repository judged again right before.
    async fn take_due_names(
        &self,
        before: &Arc<State>,
        collecting: &Collecting,
        reached: &mut Reached,
        swept: &mut Swept,
    ) -> Result<(), StoreError> {
        let holds = |garbage: &Garbage| before.condemned.contains_key(garbage);
        let due = reached.repositories.iter();
        let due: Vec<RepositoryName> = due
            .filter(|(_, marked)| marked.garbage.iter().any(holds))
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            let kept = Arc::clone(&reached.kept);
            let state = self.log.read_on(Duration::ZERO).await?;
            let leased = self.leases.oldest(&self.bucket).await?;
            let may_go = may_go(&state, &name, collecting.grace, leased);
            let Some(marked) = self.mark(&state, &name, &kept, may_go).await? else {
                continue;
            };
            let now = self
                .sweep(
                    state.sequence(),
                    marked.garbage,
                    collecting.grace,
                    collecting.at,
                )
                .await?;
            // as it is from now on, for what is condemned
            let given_up = given_up(before, &name, collecting.untagged);
            let marked = self.mark(&state, &name, &kept, given_up).await?;
            if let Some(marked) = marked {
                let told: BTreeSet<&Garbage> = (now.names.iter())
                    .chain(now.waiting.iter().map(|(garbage, _)| garbage))
                    .collect();
                let untold = marked.garbage.iter().filter(|found| !told.contains(found));
                let waiting = untold.filter(|found| holds(found)).map(|found| {
                    let judged = state.judge(found, Time::now(), collecting.grace, leased);
                    (found.clone(), judged.err().unwrap_or(Wait::Changed))
                });
                swept.waiting.extend(waiting);
                reached.repositories.insert(name, marked);
            }
            add(swept, now);
        }
        Ok(())
    }

    /// Marks one repository as it is in `state`; `None` where there is none.
    async fn mark(
        &self,
        state: &Arc<State>,
        name: &RepositoryName,
        kept: &Arc<Kept>,
        given_up: impl Fn(&Digest) -> bool + Send + 'static,
    ) -> Result<Option<Marked>, StoreError> {
        let Some(repository) = state.names.repositories.get(name) else {
            return Ok(None);
        };
        let mut children = self.children.of(&self.bucket, state, repository).await?;
        let (repository, name) = (Arc::clone(repository), name.clone());
        let kept = Arc::clone(kept);
        let marked = self.bucket.blocking(move || {
            let kept = kept.repositories.get(&name);
            let mut reading = Reading::new(|digest: &Digest| children.remove(digest));
            mark::repository(&name, &repository, kept, given_up, &mut reading)
        });
        Ok(Some(marked.await?))
    }

    /// Content nothing wants, with its size. Objects that were given up and are there all the
    /// same are removed on the way, but for a `dry_run`.
    async fn listed(
        &self,
        state: &State,
        wanted: &HashSet<Digest>,
        kept: &Kept,
        dry_run: bool,
    ) -> Result<Listed, StoreError> {
        let (named, kept) = (state.names.contents(), kept.contents());
        let mut found = Listed::default();
        let mut listed = self.bucket.list_all(keys::BLOBS);
        while let Some(some) = listed.recv().await {
            for (key, size) in some? {
                let Some((digest, removed)) = keys::blob_of(&key) else {
                    continue;
                };
                if removed < state.removed(&digest) {
                    if !dry_run {
                        // its key is never used again
                        self.bucket.delete(&key).await?;
                    }
                } else if removed == state.removed(&digest) {
                    if !wanted.contains(&digest) {
                        found.unnamed.insert(digest, size);
                    } else if kept.contains(&digest) && !named.contains(&digest) {
                        found.kept.contents += 1;
                        found.kept.bytes += size;
                    }
                }
            }
        }
        Ok(found)
    }

    /// Removes texts of commits that never came to be.
    async fn sweep_apart(&self, state: &State) -> Result<(), StoreError> {
        for (key, _) in self.bucket.list(keys::APART).await? {
            let after = keys::apart_after(&key);
            let stale = after.is_some_and(|after| after + self.limits.stale < state.sequence());
            if stale && !state.apart.contains(&key) {
                self.bucket.delete(&key).await?;
            }
        }
        Ok(())
    }
}

fn bytes(digest: &Digest) -> Garbage {
    Garbage {
        digest: *digest,
        claim: Claim::Bytes,
    }
}

fn add(swept: &mut Swept, more: Swept) {
    swept.names.extend(more.names);
    swept.contents.extend(more.contents);
    swept.waiting.extend(more.waiting);
}

/// Whether a manifest of `name` without a tag goes: it was condemned, or all of them go.
fn given_up(
    state: &Arc<State>,
    name: &RepositoryName,
    untagged: bool,
) -> impl Fn(&Digest) -> bool + Send + 'static {
    let (state, claim) = (Arc::clone(state), Claim::Manifest(name.clone()));
    move |digest| {
        let (digest, claim) = (*digest, claim.clone());
        untagged || state.condemned.contains_key(&Garbage { digest, claim })
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

//! The three steps of a collection as entries of the log. Why nothing that is wanted goes is
//! said in [`super`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Cause, Change, Claim, Collect, Garbage, StoreError, Swept, Wait};
use kubepkg_core::time::Time;
use kubepkg_core::{Algorithm, Digest};

use super::log::Appended;
use super::state::{APART, State};
use super::{AT_ONCE, BucketStore, TRIES, keys};
use crate::store::{Touched, touch_record};

/// How much content one entry gives up.
const SWEPT_AT_ONCE: usize = 500;

/// How much one entry puts on the list: written in a few milliseconds, or others would always get
/// in before.
const LISTED_AT_ONCE: usize = 2000;

/// What commits after some state touched, read as far as is needed.
struct Follow {
    upto: u64,
    touched: Touched,
}

impl BucketStore {
    async fn follow(&self, follow: &mut Follow, newest: u64) -> Result<(), StoreError> {
        while follow.upto < newest {
            let number = follow.upto + 1;
            let entry = self.log.require(number).await?;
            touch_record(&mut follow.touched, &entry.record);
            follow.touched.contents.extend(entry.rescued);
            follow.upto = number;
        }
        Ok(())
    }

    /// Those that may go in this state; the rest is noted with the reason.
    fn due(
        state: &State,
        touched: &Touched,
        batch: &[Garbage],
        grace: Duration,
        leased: Option<u64>,
        swept: &mut Swept,
    ) -> Vec<Garbage> {
        let now = Time::now();
        let mut due = Vec::new();
        for garbage in batch {
            let changed = match &garbage.claim {
                Claim::Bytes => touched.contents.contains(&garbage.digest),
                Claim::Blob(name) | Claim::Manifest(name) => touched.repositories.contains(name),
            };
            let judged = match changed {
                true => Err(Wait::Changed),
                false => state.judge(garbage, now, grace, leased),
            };
            match judged {
                Ok(()) => due.push(garbage.clone()),
                Err(wait) => swept.waiting.push((garbage.clone(), wait)),
            }
        }
        due
    }

    /// Takes names away, all of `batch` or, with `whole`, none of them.
    async fn take_names(
        &self,
        follow: &mut Follow,
        batch: &[Garbage],
        whole: bool,
        (grace, at): (Duration, Time),
        swept: &mut Swept,
    ) -> Result<bool, StoreError> {
        let mut state = self.log.read_on(Duration::ZERO).await?;
        for _ in 0..TRIES {
            self.follow(follow, state.sequence()).await?;
            let leased = self.leases.oldest(&self.bucket).await?;
            let mut waiting = Swept::default();
            let due = Self::due(&state, &follow.touched, batch, grace, leased, &mut waiting);
            if (whole && due.len() < batch.len()) || due.is_empty() {
                let wait = due.into_iter().map(|garbage| (garbage, Wait::Changed));
                swept
                    .waiting
                    .extend(waiting.waiting.into_iter().chain(wait));
                return Ok(false);
            }
            let mut entry = self.log.empty(&state, Cause::Collect, at)?;
            let mut names = kubepkg_core::store::Names::clone(&state.names);
            let number = entry.record.number;
            for change in due.iter().flat_map(|garbage| taken(&state, garbage)) {
                entry.record.changes.push(names.apply(&change, number));
            }
            entry.forgotten.clone_from(&due);
            match self.log.append(&state, entry).await? {
                Appended::Done(_) => {
                    swept.waiting.extend(waiting.waiting);
                    swept.names.extend(due);
                    return Ok(true);
                }
                Appended::Conflict(newer) => state = newer,
            }
        }
        Err(self.crowded())
    }

    /// Gives content up, and then removes its objects.
    async fn take_bytes(
        &self,
        follow: &mut Follow,
        batch: &[Garbage],
        (grace, at): (Duration, Time),
        swept: &mut Swept,
    ) -> Result<(), StoreError> {
        let mut state = self.log.read_on(Duration::ZERO).await?;
        for _ in 0..TRIES {
            self.follow(follow, state.sequence()).await?;
            let leased = self.leases.oldest(&self.bucket).await?;
            let mut waiting = Swept::default();
            let due = Self::due(&state, &follow.touched, batch, grace, leased, &mut waiting);
            // whoever judged it: no name may need it
            let named = named_among(&state, &due);
            let (kept, due): (Vec<Garbage>, Vec<Garbage>) = due
                .into_iter()
                .partition(|garbage| named.contains(&garbage.digest));
            let kept = kept.into_iter().map(|garbage| (garbage, Wait::Changed));
            waiting.waiting.extend(kept);
            if due.is_empty() {
                swept.waiting.extend(waiting.waiting);
                return Ok(());
            }
            let digests: Vec<Digest> = due.iter().map(|garbage| garbage.digest).collect();
            let mut entry = self.log.empty(&state, Cause::Collect, at)?;
            entry.removed.clone_from(&digests);
            match self.log.append(&state, entry).await? {
                Appended::Done(_) => {
                    swept.waiting.extend(waiting.waiting);
                    swept.contents.extend(self.remove(&state, &digests).await?);
                    return Ok(());
                }
                Appended::Conflict(newer) => state = newer,
            }
        }
        Err(self.crowded())
    }

    /// Removes the objects of content that was given up in the entry after `state`.
    async fn remove(
        &self,
        state: &Arc<State>,
        digests: &[Digest],
    ) -> Result<Vec<(Digest, u64)>, StoreError> {
        let removing = digests.iter().copied().map(|digest| async move {
            let key = keys::blob(&digest, state.removed(&digest));
            let size = self.bucket.size(&key).await?;
            if size.is_some() {
                self.bucket.delete(&key).await?;
            }
            Ok::<_, StoreError>(size.map(|size| (digest, size)))
        });
        let mut removing = futures_util::stream::iter(removing).buffer_unordered(AT_ONCE);
        let mut removed = Vec::new();
        while let Some(one) = removing.next().await {
            removed.extend(one?);
        }
        removed.sort_unstable();
        Ok(removed)
    }
}

/// The digests of `garbage` that some name stands for.
fn named_among(state: &State, garbage: &[Garbage]) -> BTreeSet<Digest> {
    let names = &state.names;
    let among: BTreeSet<Digest> = garbage.iter().map(|garbage| garbage.digest).collect();
    let mut named = BTreeSet::new();
    let files = names.sites.values().flat_map(|site| site.files.values());
    named.extend(files.map(|file| file.digest).filter(|d| among.contains(d)));
    for repository in names.repositories.values() {
        let (manifests, blobs) = (&repository.manifests, &repository.blobs);
        let in_it = |digest: &&Digest| manifests.contains_key(digest) || blobs.contains_key(digest);
        named.extend(among.iter().filter(in_it));
    }
    named
}

/// The changes that take a name away.
fn taken(state: &State, garbage: &Garbage) -> Vec<Change> {
    let digest = garbage.digest;
    match &garbage.claim {
        Claim::Bytes => Vec::new(),
        Claim::Blob(repository) => vec![Change::Blob {
            repository: repository.clone(),
            digest,
            new: None,
        }],
        Claim::Manifest(repository) => {
            let found = state.names.repositories.get(repository);
            let tags = found.into_iter().flat_map(|found| &found.tags);
            let tags = tags.filter(|(_, entry)| entry.digest == digest);
            let tags = tags.map(|(tag, _)| Change::Tag {
                repository: repository.clone(),
                tag: tag.clone(),
                new: None,
            });
            let manifest = Change::Manifest {
                repository: repository.clone(),
                digest,
                new: None,
            };
            tags.chain([manifest]).collect()
        }
    }
}

impl Collect for BucketStore {
    async fn list(&self, algorithm: Algorithm, first: u8) -> Result<Vec<Digest>, StoreError> {
        let state = self.log.read_on(Duration::ZERO).await?;
        let listed = self.bucket.list(&keys::blobs(algorithm, first)).await?;
        let found = listed.iter().filter_map(|(key, _)| keys::blob_of(key));
        let here = found.filter(|(digest, removed)| state.removed(digest) == *removed);
        Ok(here.map(|(digest, _)| digest).collect())
    }

    async fn condemn(&self, garbage: BTreeSet<Garbage>) -> Result<(), StoreError> {
        let mut tries = 0;
        let mut state = self.log.read_on(Duration::ZERO).await?;
        while tries < TRIES {
            let now = Time::now();
            let known = &state.condemned;
            // a time far ahead is one of a clock that is wrong: its grace would last for ever
            let counts = |garbage: &Garbage| {
                let since = known.get(garbage);
                since.is_some_and(|since| since.at <= now.plus(APART))
            };
            let added = garbage.iter().filter(|garbage| !counts(garbage));
            let added: Vec<Garbage> = added.take(LISTED_AT_ONCE).cloned().collect();
            let gone = known.keys().filter(|known| !garbage.contains(known));
            let again = added.iter().filter(|added| known.contains_key(added));
            let mut entry = self.log.empty(&state, Cause::Collect, now)?;
            entry.forgotten = gone.take(LISTED_AT_ONCE).chain(again).cloned().collect();
            entry.condemned = added;
            if entry.condemned.is_empty() && entry.forgotten.is_empty() {
                return Ok(());
            }
            match self.log.append(&state, entry).await? {
                Appended::Done(newer) => (state, tries) = (newer, 0),
                Appended::Conflict(newer) => (state, tries) = (newer, tries + 1),
            }
        }
        Err(self.crowded())
    }

    async fn rescue(&self, digests: Vec<Digest>) -> Result<(), StoreError> {
        BucketStore::rescue(self, digests).await
    }

    async fn sweep(
        &self,
        sequence: u64,
        garbage: BTreeSet<Garbage>,
        grace: Duration,
        at: Time,
    ) -> Result<Swept, StoreError> {
        let when = (grace, at);
        let mut follow = Follow {
            upto: sequence,
            touched: Touched::default(),
        };
        let mut swept = Swept::default();
        let mut manifests = BTreeMap::<RepositoryName, Vec<Garbage>>::new();
        let (mut blobs, mut contents) = (Vec::new(), Vec::new());
        for garbage in garbage {
            match &garbage.claim {
                Claim::Bytes => contents.push(garbage),
                Claim::Blob(_) => blobs.push(garbage),
                Claim::Manifest(name) => manifests.entry(name.clone()).or_default().push(garbage),
            }
        }
        // of each repository all manifests go, and first, or nothing does: what they are made
        // of was judged without them
        let mut relied_in_vain = BTreeSet::new();
        for (name, relied) in manifests {
            if !self
                .take_names(&mut follow, &relied, true, when, &mut swept)
                .await?
            {
                relied_in_vain.insert(name);
            }
        }
        let (wait, blobs): (Vec<Garbage>, Vec<Garbage>) = blobs.into_iter().partition(
            |garbage| matches!(&garbage.claim, Claim::Blob(name) if relied_in_vain.contains(name)),
        );
        let wait = wait.into_iter().map(|garbage| (garbage, Wait::Changed));
        swept.waiting.extend(wait);
        for batch in blobs.chunks(SWEPT_AT_ONCE) {
            self.take_names(&mut follow, batch, false, when, &mut swept)
                .await?;
        }
        for batch in contents.chunks(SWEPT_AT_ONCE) {
            self.take_bytes(&mut follow, batch, when, &mut swept)
                .await?;
        }
        Ok(swept)
    }
}

//! A mirror's store in a bucket (S3, or what speaks like it), shared by several mirrors that
//! know nothing of each other. No database, no lock server: they agree by creating objects only
//! where there are none.
//!
//! ```text
//! kubepkg-bucket.json                     says that this is a store, and its version
//! commits/<n>.json                        the log: commit records, numbered without gaps
//! apart/<n>-<word>.json                   the text of a large one, begun after commit n
//! names/<n>.json                          all names as of commit n; every 128 commits
//! blobs/<algorithm>/<2 hex>/<hex>         content
//! blobs/<algorithm>/<2 hex>/<hex>.<n>     content that commit n removed, and that came back
//! leases/<id>.json                        what must not be collected
//! probe                                   written to see whether that is possible
//! ```
//!
//! # Commits
//!
//! A commit is the creation of `commits/<n+1>.json` (`If-None-Match: *`) by a replica that has
//! read all entries up to `n`. Of several who try, the server lets one through; the others read
//! on, look again and try the next number. Names, and everything else replicas have to agree
//! on, are what the entries say in their order ([`state`]); nothing else is ever changed in
//! place. An object `names/<n>.json` says the same in one piece, so that a replica that starts
//! reads little. An entry carries a random word of its writer, so one whose answer was lost
//! finds out whether it was written. Where even that cannot be asked, the answer is
//! [`StoreError::Unsettled`].
//!
//! A large entry would never come through beside many small ones. So its content is looked for, and
//! its text written, before its turn ([`written`]); and where those before it touch nothing it was
//! judged by, it is only numbered anew.
//!
//! A reader asks for entry `n+1` at most once a second, before each change, and before it
//! says that something is not here, which lists do by what they leave out; the answer nearly
//! always is that there is none. Who reads through one replica what was written through another
//! thus sees a tag as it was up to a second ago, and never finds missing what was written before
//! it asked. Where that cannot be found out, because the bucket is away, that is what the client
//! is told; content the known names have is served all the same ([`crate::source::Age`]).
//!
//! # Content
//!
//! An object appears in one step and only after its hash was found to be right ([`content`]).
//! Uploads under way lie in a folder of the replica that took them ([`spool`]): behind a load
//! balancer a client has to stay with one replica; another answers 404. A replica that is
//! killed leaves nothing in the bucket but perhaps parts of an unfinished object, which nobody
//! can read; a rule of the bucket that ends incomplete multipart uploads after a day removes
//! those.
//!
//! # Collection
//!
//! Nothing that a name needs is ever removed, whatever replicas do at the same time:
//!
//! 1. Content is given up by an entry of the log (`removed`), before its object is removed. So
//!    all replicas agree which commits came before and which after.
//! 2. Who writes that entry has read all before it, and no name in them needs the content.
//! 3. A commit after it that names the content finds it absent, for from that entry on its key
//!    is another one, `<hex>.<n>`. It has to be brought again, under the new key.
//! 4. A key that was given up is never used again. So a removal that comes late, from a replica
//!    that was stopped for a week in between, removes nothing but what was given up.
//!
//! The rest is courtesy, so that nobody has to bring content twice: content is condemned by one
//! entry and removed by another one after a grace; who names, publishes or asks for condemned
//! content has it off the list by an entry of its own; leases keep what was published and has no
//! name yet. Those use clocks; the four points above do not. One replica collects at a time,
//! as an entry says, which only saves work.
//!
//! The log keeps which content was removed by which commit: 80 bytes each. Records stay.
//!
//! # What a server has to do
//!
//! Lists and reads that see what was written before them, and `If-None-Match: *` on PUT.
//! Tried with SeaweedFS 4.53: of four writers of one key at once, each with connections of its own,
//! exactly one came through in 200 of 200 rounds, the others got 412 and read what it had written;
//! `If-Match` let one of two through in 100 of 100 rounds (nothing here needs it, folders cannot
//! do it). On one machine a creation took 2 ms, a refused one 1 ms, asking for the next entry 1 ms;
//! of four at once on one key the last was now and then answered after 1 s, as that server lets
//! them wait for each other. Source: design page "mirror", "Store".

mod check;
mod children;
mod claim;
mod collect;
mod commit;
mod content;
mod facts;
mod keeping;
mod keys;
mod lease;
mod log;
mod move_in;
mod objects;
mod outage;
mod remembered;
mod run;
mod s3;
mod said;
mod serving;
#[cfg(test)]
mod serving_tests;
mod snapshot;
mod spool;
mod state;
#[cfg(test)]
mod tests;
mod written;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{
    Batch, Body, Cause, Committed, Names, Record, Repository, SiteEntry, Store, StoreError, Unit,
};
use kubepkg_core::time::Time;
use serde::{Deserialize, Serialize};

use self::children::Children;
use self::content::Contents;
pub use self::content::Staged;
pub use self::keeping::keep;
pub use self::lease::Lease;
use self::lease::Leases;
use self::log::{Appended, Log};
pub use self::move_in::{MoveError, Moved, move_in, weight};
pub use self::objects::Bucket;
pub use self::s3::S3;
pub use self::serving::Replica;
pub use self::spool::Spool;
use self::state::State;
use self::written::Limits;
use crate::store::{decode_sealed, encode_sealed};

/// The version of the layout this code reads and writes.
const VERSION: u32 = 1;

/// How old names may be that a request is answered from.
const FRESH: Duration = Duration::from_secs(1);

/// How old what a fill looks up may be: commits are held against the newest state anyway.
const LOOKED_UP: Duration = Duration::from_millis(200);

/// Requests under way at once for one call.
const AT_ONCE: usize = 16;

/// How often an entry is tried again that others keep getting in before.
const TRIES: usize = 100;

/// Bytes of the marker at most.
const MOST_MARK: u64 = 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    format: String,
    version: u32,
}

const FORMAT: &str = "kubepkg mirror store in a bucket";

/// Whether a store may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketMode {
    /// There has to be one.
    Open,
    /// One is made where there is none.
    OpenOrCreate,
}

/// A store in a bucket. Clones are the same store.
#[derive(Clone)]
pub struct BucketStore {
    bucket: Bucket,
    log: Arc<Log>,
    contents: Contents,
    leases: Leases,
    children: Children,
    limits: Limits,
}

impl std::fmt::Debug for BucketStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BucketStore").field(&self.bucket).finish()
    }
}

impl BucketStore {
    /// Opens the store in `bucket` and reads its names.
    pub async fn open(bucket: Bucket, mode: BucketMode) -> Result<BucketStore, StoreError> {
        BucketStore::open_within(bucket, mode, Limits::default()).await
    }

    async fn open_within(
        bucket: Bucket,
        mode: BucketMode,
        limits: Limits,
    ) -> Result<BucketStore, StoreError> {
        if !BucketStore::is_in(&bucket).await? {
            if mode == BucketMode::Open {
                let place = bucket.place();
                let why = format!(
                    "there is no store in it; make one with the first import (`bundle import FILE \
                     --store {place}`), with `mirror copy --from DIR --to {place}` or with `mirror \
                     serve --store {place} --new-store`"
                );
                return Err(unusable(&bucket, &why));
            }
            let mark = Mark {
                format: FORMAT.to_owned(),
                version: VERSION,
            };
            let bytes = encode_sealed(std::path::Path::new(keys::MARK), &mark)?;
            // who was faster wrote the same
            let created = bucket.create(keys::MARK, bytes.into()).await;
            created.map_err(|(_, error)| error)?;
            BucketStore::is_in(&bucket).await?;
        }
        honours_conditions(&bucket).await?;
        Ok(BucketStore {
            log: Arc::new(Log::open(bucket.clone(), limits).await?),
            contents: Contents::new(bucket.clone()),
            leases: Leases::default(),
            children: Children::default(),
            limits,
            bucket,
        })
    }

    /// [`BucketStore::is_in`], for which this thread waits: not for one of a runtime.
    pub fn is_in_blocking(bucket: &Bucket) -> Result<bool, StoreError> {
        let asked = bucket.clone();
        bucket.wait(async move { BucketStore::is_in(&asked).await })
    }

    /// Whether there is a store in it. An error when there is one that cannot be used.
    pub async fn is_in(bucket: &Bucket) -> Result<bool, StoreError> {
        let Some(bytes) = bucket.get(keys::MARK, MOST_MARK).await? else {
            return Ok(false);
        };
        let damaged = |why| StoreError::Damaged {
            path: bucket.place_of(keys::MARK).into(),
            why,
        };
        let mark: Mark = decode_sealed(&bytes).map_err(damaged)?;
        if mark.format != FORMAT {
            return Err(unusable(bucket, "its marker is not that of a store"));
        }
        if mark.version > VERSION {
            let why = format!(
                "a newer kubepkg made it (store version {}, this one knows {VERSION}); use that \
                 one",
                mark.version
            );
            return Err(unusable(bucket, &why));
        }
        Ok(true)
    }

    /// To be waited for before a process ends that filled the store: leases it gave back are then
    /// gone for others too.
    pub async fn settle(&self) {
        self.leases.settle().await;
    }

    /// The bucket as errors name it.
    pub fn place(&self) -> &str {
        self.bucket.place()
    }

    /// All names, not older than a second.
    pub async fn names(&self) -> Result<Arc<Names>, StoreError> {
        Ok(Arc::clone(&self.log.read_on(FRESH).await?.names))
    }

    /// Says that these are wanted: what is condemned among them is so no more.
    /// [`StoreError::Missing`] where one is gone.
    pub async fn rescue(&self, digests: Vec<Digest>) -> Result<(), StoreError> {
        let state = self.off_the_list(&digests).await?;
        for digest in &digests {
            if self.contents.size(&state, digest).await?.is_none() {
                return Err(StoreError::Missing { digest: *digest });
            }
        }
        Ok(())
    }

    /// Takes these off the list of what is condemned. Answers the state in which they are.
    async fn off_the_list(&self, digests: &[Digest]) -> Result<Arc<State>, StoreError> {
        let mut state = self.log.read_on(Duration::ZERO).await?;
        for _ in 0..TRIES {
            let condemned = digests.iter().filter(|digest| state.is_condemned(digest));
            let condemned: BTreeSet<Digest> = condemned.copied().collect();
            if condemned.is_empty() {
                return Ok(state);
            }
            let mut entry = self.log.empty(&state, Cause::Collect, Time::now())?;
            entry.rescued = condemned.into_iter().collect();
            state = match self.log.append(&state, entry).await? {
                Appended::Done(state) | Appended::Conflict(state) => state,
            };
        }
        Err(self.crowded())
    }

    fn crowded(&self) -> StoreError {
        StoreError::Bucket {
            action: "commit to",
            place: self.place().to_owned(),
            hint: Some("run the same command again when less is being pushed"),
            source: "other mirrors were faster every time".into(),
        }
    }

    /// Makes staged content readable. See [`Store::publish`].
    async fn place_all(&self, mut staged: Vec<Staged>) -> Result<(), StoreError> {
        let digests: Vec<Digest> = staged.iter().map(|staged| staged.digest).collect();
        for _ in 0..TRIES {
            // first off the list: then what is found to be here stays
            let state = self.off_the_list(&digests).await?;
            let (store, in_state) = (self, &state);
            let placing = staged.into_iter().map(|mut staged| async move {
                let placed = store.contents.place(in_state, &mut staged).await?;
                Ok::<_, StoreError>((staged, placed))
            });
            let mut placed = futures_util::stream::iter(placing).buffer_unordered(AT_ONCE);
            staged = Vec::with_capacity(digests.len());
            while let Some(done) = placed.next().await {
                let (one, done) = done?;
                if !done {
                    let digest = one.digest;
                    return Err(StoreError::Missing { digest });
                }
                staged.push(one);
            }
            drop(placed);
            // given up meanwhile, by a collection whose grace was shorter than this took?
            let now = self.log.known();
            let same = |digest: &Digest| now.removed(digest) == state.removed(digest);
            if digests.iter().all(same) {
                return Ok(());
            }
        }
        Err(self.crowded())
    }
}

/// Everything rests on a record that is created only where there is none. A server, or a proxy
/// before it, that passes over this would let one replica's pushes replace another's.
async fn honours_conditions(bucket: &Bucket) -> Result<(), StoreError> {
    let Some(mark) = bucket.get(keys::MARK, MOST_MARK).await? else {
        return Ok(());
    };
    match bucket.create(keys::MARK, mark).await {
        Ok(false) => Ok(()),
        Ok(true) => Err(unusable(
            bucket,
            "its server overwrites what is there although it is asked not to (If-None-Match: *), so \
             mirrors that share it would lose each other's pushes; use a server that heeds it, \
             without a proxy that drops the header",
        )),
        Err((_, error)) => Err(error),
    }
}

fn unusable(bucket: &Bucket, why: &str) -> StoreError {
    StoreError::Unusable {
        path: bucket.place().into(),
        why: why.to_owned(),
    }
}

impl Store for BucketStore {
    type Staged = Staged;
    type Lease = Lease;

    async fn lease(&self) -> Result<Lease, StoreError> {
        let number = self.log.read_on(Duration::ZERO).await?.sequence();
        self.leases.take(&self.bucket, number).await
    }

    async fn sequence(&self) -> Result<u64, StoreError> {
        Ok(self.log.read_on(Duration::ZERO).await?.sequence())
    }

    async fn stat(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        let state = self.log.read_on(LOOKED_UP).await?;
        let state = match state.is_condemned(digest) {
            true => self.off_the_list(&[*digest]).await?,
            false => state,
        };
        self.contents.size(&state, digest).await
    }

    async fn read(&self, digest: &Digest) -> Result<Option<Body>, StoreError> {
        let found = self.stream(digest, None).await?;
        Ok(found.map(|(_, stream)| Body::Stream(stream)))
    }

    async fn room(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    async fn stage(&self, digest: Digest, size: u64, body: Body) -> Result<Staged, StoreError> {
        let state = self.log.known();
        self.contents.stage(&state, digest, size, body).await
    }

    async fn publish(&self, staged: Vec<Staged>) -> Result<(), StoreError> {
        if staged.is_empty() {
            return Ok(());
        }
        self.place_all(staged).await
    }

    async fn repository(&self, name: &RepositoryName) -> Result<Option<Repository>, StoreError> {
        let state = self.log.read_on(LOOKED_UP).await?;
        let found = state.names.repositories.get(name);
        Ok(found.map(|repository| Repository::clone(repository)))
    }

    async fn site(&self, folder: &str) -> Result<Option<SiteEntry>, StoreError> {
        let state = self.log.read_on(LOOKED_UP).await?;
        Ok(state.names.sites.get(folder).cloned())
    }

    async fn trust(&self, entry: &str) -> Result<Option<serde_json::Value>, StoreError> {
        let state = self.log.read_on(LOOKED_UP).await?;
        Ok(state.names.trust.get(entry).cloned())
    }

    async fn record(&self, number: u64) -> Result<Option<Record>, StoreError> {
        Ok(self.log.entry(number).await?.map(|entry| entry.record))
    }

    async fn commit(&self, expected: u64, batch: Batch) -> Result<Committed, StoreError> {
        self.commit_after(expected, batch, None).await
    }

    async fn commit_beside(
        &self,
        expected: u64,
        batch: Batch,
        judged_by: &(dyn Fn(&Unit) -> bool + Sync),
    ) -> Result<Committed, StoreError> {
        let counts = |record: &Record| {
            let mut changes = record.changes.iter();
            changes.any(|recorded| judged_by(&recorded.change.unit()))
        };
        self.commit_after(expected, batch, Some(&counts)).await
    }
}

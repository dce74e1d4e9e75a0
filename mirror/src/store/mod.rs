//! A mirror's store on a file system: plain files that a person can read, without a database.
//!
//! ```text
//! kubepkg-store.json                   says that this is a store, and its version
//! blobs/<algorithm>/<2 hex>/<hex>      content
//! names/<2 hex>/<sha256 of name>.json  one repository: manifests, tags, blobs
//! names/<2 hex>/<…>-log.jsonl          above 1000 entries: what changed since that was written
//! sites/<folder>/<n>/                  repository files that commit n brought, as one set
//! sites/<folder>/current.json          which set is current
//! trust/<entry>.json                   what was accepted
//! commits/<n>.json                     commit records, numbered without gaps; old ones of pushes go
//! uploads/, leases/                    what is being pushed; what must not be collected
//! wanted, scrub                        what was asked for and is not here; how far the scrub is
//! condemned, quarantine/               what collection may remove; damaged content, kept aside
//! reserve, lock, generation            room for a full disk; the lock; number of the newest
//!                                      commit, and of changes of what is condemned
//! .tmp-<random>/                       what one process is making; removed when it is gone
//! ```
//!
//! Promises: what lies under a final name is whole, verified and durable. A commit happens
//! when its record appears, all of it; a process killed before leaves nothing but
//! temporaries, one killed after leaves a record that the next one finishes. Several processes
//! may write to one store. Source: design page "mirror", "Store".

mod backup;
mod blocking;
pub mod check;
mod collect;
mod commit;
mod content;
mod direct;
mod disk;
mod facts;
mod forms;
mod generation;
mod intake;
mod layout;
mod lease;
mod lock;
mod log;
mod look;
pub(crate) mod needed;
mod open;
mod part;
mod read_all;
mod records;
mod scrub;
mod sealed;
mod site_set;
mod snapshot;
mod sync;
#[cfg(test)]
mod testing;
mod trust_age;
mod unit;
mod upload;
mod wanted;
mod work;

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{
    Batch, Body, ByteStream, Committed, FileRange, Names, Record, Repository, SiteEntry, Store,
    StoreError, Unit,
};
use tokio::sync::Semaphore;

pub use backup::BackedUp;
use blocking::blocking;
pub use collect::{Amount, Collected, Collecting, GRACE, KEEP_IMPORTS, Reason, Waiting};
pub(crate) use collect::{TICK, Touched, mark, subject_of, touch_record};
use intake::Intake;
pub use intake::Staged;
pub use lease::Lease;
pub use look::Looked;
pub use open::OpenMode;
use open::{Opened, Writable};
pub use records::RecordsBack;
pub use scrub::Scrubbed;
pub(crate) use sealed::{decode as decode_sealed, encode as encode_sealed};
pub(crate) use upload::Receiver;
use upload::Uploads;

use crate::source::Standing;

/// How much of a stream is gathered before it is hashed and written in one go.
const GATHER: usize = 512 * 1024;

/// Threads of this process that may wait for the store's lock at once; who comes later waits
/// without a thread. Another process may hold the lock for long, and who only reads needs
/// threads of the same pool.
const WAITING: usize = 8;

/// A store on a file system. Clones are the same store.
#[derive(Clone)]
pub struct FileStore {
    opened: Arc<Opened>,
    /// More threads hashing than there is work for cores would only make others wait.
    hashing: Arc<Semaphore>,
    /// See [`WAITING`].
    locking: Arc<Semaphore>,
    /// What is being pushed.
    uploads: Arc<Uploads>,
    /// What was collected.
    collections: Arc<facts::CollectionsCount>,
    /// How often the scrub of this process had to stop, or could not look at something.
    scrub_failures: Arc<std::sync::atomic::AtomicU64>,
}

impl FileStore {
    /// Opens the store in the folder `root`. Does file work: call it before serving begins.
    pub fn open(root: impl AsRef<Path>, mode: OpenMode) -> Result<FileStore, StoreError> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        // while one waits for the disk another one hashes
        let hashing = Arc::new(Semaphore::new(cores * 2));
        Ok(FileStore {
            opened: Arc::new(open::open(root.as_ref(), mode)?),
            hashing,
            locking: Arc::new(Semaphore::new(WAITING)),
            uploads: Arc::default(),
            collections: Arc::default(),
            scrub_failures: Arc::default(),
        })
    }

    /// Whether there is a store in the folder `root`. An error when there is one that cannot
    /// be used. Touches nothing.
    pub fn is_at(root: impl AsRef<Path>) -> Result<bool, StoreError> {
        open::is_store(root.as_ref())
    }

    /// What [`FileStore::open`] would do in the folder `root`. Touches nothing.
    ///
    /// # Errors
    /// Why it would fail, as far as one can tell.
    pub fn look(root: impl AsRef<Path>, mode: OpenMode) -> Result<Looked, StoreError> {
        look::look(root.as_ref(), mode)
    }

    /// The store's folder.
    pub fn root(&self) -> &Path {
        self.opened.layout.root()
    }

    /// Where a mirror's users are kept in a store, unless they are elsewhere.
    pub fn users_file(root: &Path) -> PathBuf {
        root.join("users")
    }

    /// Where a mirror keeps a certificate it made for itself.
    pub fn tls_folder(root: &Path) -> PathBuf {
        root.join("tls")
    }

    /// Where a mirror keeps the key of its tokens, unless it is elsewhere.
    pub fn token_key_file(root: &Path) -> PathBuf {
        root.join("token-key")
    }

    /// Whether this process may change the store.
    pub fn can_write(&self) -> bool {
        self.opened.writable.is_some()
    }

    /// All names as of the newest commit, from memory. When nothing was committed since the
    /// last call, this costs one read of a few bytes; then readers get the same [`Arc`].
    /// [`FileStore::standing`] is brought up with it.
    pub async fn names(&self) -> Result<Arc<Names>, StoreError> {
        let counters = self.opened.generation.counters()?;
        if !self.opened.standings.is_fresh(counters.content) {
            self.work(move |opened| opened.standings.refresh(&opened.layout, counters.content))
                .await?;
        }
        if let Some(names) = self.opened.snapshot.fresh(counters.sequence) {
            return Ok(names);
        }
        self.work(|opened| opened.snapshot.refresh(&opened.layout, &opened.generation))
            .await
    }

    /// What is known of content besides that a name promises it, as of the last
    /// [`FileStore::names`].
    pub fn standing(&self, digest: &Digest) -> Standing {
        self.opened.standings.of(digest)
    }

    /// Says that these are wanted: what is condemned among them has its grace before it again,
    /// durably. Where one was removed meanwhile, that is [`StoreError::Missing`].
    pub async fn rescue(&self, digests: Vec<Digest>) -> Result<(), StoreError> {
        self.locked(move |opened| {
            let writable = opened.writable()?;
            let lock = writable.lock.hold()?;
            writable.rescue(&lock, digests.iter().copied())?;
            for digest in digests {
                if opened.content.size(&digest)?.is_none() {
                    return Err(StoreError::Missing { digest });
                }
            }
            Ok(())
        })
        .await
    }

    /// All commit records that are there, from the newest to the oldest. Numbers without a gap
    /// lead back to every state since the oldest import that [`FileStore::trim_records`] was to
    /// keep; below that, only imports are left. Reads a file at each step.
    pub fn records_back(&self) -> Result<RecordsBack, StoreError> {
        RecordsBack::new(&self.opened.layout)
    }

    /// Removes old commit records that neither collection nor going back to one of the newest
    /// `keep_imports` imports needs. Records of imports, with their receipts, stay for ever.
    /// Answers how many were removed.
    pub async fn trim_records(&self, keep_imports: usize) -> Result<u64, StoreError> {
        self.work(move |opened| {
            opened.writable()?;
            records::trim(&opened.layout, &opened.generation, keep_imports)
        })
        .await
    }

    /// The content with this digest. Opens one file, which is quick enough to do anywhere.
    pub fn blob_range(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError> {
        self.opened.content.range(digest)
    }

    /// The content with this digest, if its file can be opened without asking a disk.
    pub fn blob_range_at_once(&self, digest: &Digest) -> Option<FileRange> {
        self.opened.content.range_at_once(digest)
    }

    /// Size of the content with this digest. Looks at one file.
    pub fn blob_size(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        self.opened.content.size(digest)
    }

    /// Sizes of the content with these digests. Looks at one file for each, on the blocking pool.
    pub(crate) async fn blob_sizes(
        &self,
        digests: Vec<Digest>,
    ) -> Result<Vec<Option<u64>>, StoreError> {
        self.work(move |opened| digests.iter().map(|d| opened.content.size(d)).collect())
            .await
    }

    /// One of the files of the site `folder`, by its path there. Opens one file: the content it
    /// is made of. The set has second names of that, which stay what they were when damaged
    /// content is replaced; so the set is asked only where the content is gone, and not damaged.
    pub fn site_file(
        &self,
        folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError> {
        let inside = |text: &str| !text.split('/').any(|part| matches!(part, "" | "." | ".."));
        if folder.contains('/') || !inside(folder) || !inside(path) {
            return Ok(None);
        }
        let Some(file) = site.files.get(path) else {
            return Ok(None);
        };
        let set = self.opened.layout.site_set(folder, site.set);
        match self.blob_range(&file.digest)? {
            Some(range) => Ok(Some(range)),
            None if self.standing(&file.digest) == Standing::Quarantined => Ok(None),
            None => content::open_range(set.join(path)),
        }
    }

    /// Does file work on the blocking pool.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Opened) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let opened = Arc::clone(&self.opened);
        blocking(self.root(), move || work(&opened)).await
    }

    /// Does file work that takes the store's lock, on the blocking pool.
    async fn locked<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Opened) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = match tokio::runtime::Handle::try_current() {
            // never closed
            Ok(_) => Arc::clone(&self.locking).acquire_owned().await.ok(),
            // the caller's own thread waits
            Err(_) => None,
        };
        self.work(move |opened| {
            // the thread waits on when nobody wants its answer any more, so the turn is its
            let _turn = turn;
            work(opened)
        })
        .await
    }

    /// Does work that hashes, on the blocking pool.
    async fn hash<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Writable) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // never closed
        let _core = self.hashing.acquire().await.ok();
        self.work(|opened| work(opened.writable()?)).await
    }

    async fn stage_stream(
        &self,
        digest: Digest,
        size: u64,
        mut stream: ByteStream,
    ) -> Result<Staged, StoreError> {
        let mut intake = self
            .work(move |opened| Intake::begin(&opened.writable()?.work, digest, size))
            .await?;
        loop {
            let mut pieces = Vec::new();
            let mut gathered = 0;
            let mut ended = false;
            while gathered < GATHER {
                match poll_fn(|context| stream.as_mut().poll_next(context)).await {
                    Some(Ok(piece)) => {
                        gathered += piece.len();
                        pieces.push(piece);
                    }
                    Some(Err(e)) => return Err(intake.source(e)),
                    None => {
                        ended = true;
                        break;
                    }
                }
            }
            if ended {
                return self.hash(move |_| take_last(intake, &pieces)).await;
            }
            intake = self
                .hash(move |_| intake.take(&pieces).map(|()| intake))
                .await?;
        }
    }

    async fn stage_range(
        &self,
        digest: Digest,
        size: u64,
        range: FileRange,
    ) -> Result<Staged, StoreError> {
        let stop = StopOnDrop::default();
        let seen = Arc::clone(&stop.0);
        self.hash(move |writable| {
            let mut intake = Intake::begin(&writable.work, digest, size)?;
            intake.take_range(&range, &seen)?;
            intake.finish()
        })
        .await
    }
}

impl std::fmt::Debug for FileStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileStore")
            .field("root", &self.root())
            .finish_non_exhaustive()
    }
}

/// Tells the thread that does the work that nobody waits for it any more.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn take_last(mut intake: Intake, pieces: &[Bytes]) -> Result<Staged, StoreError> {
    intake.take(pieces)?;
    intake.finish()
}

impl Store for FileStore {
    type Staged = Staged;
    type Lease = Lease;

    async fn lease(&self) -> Result<Lease, StoreError> {
        self.locked(|opened| {
            let writable = opened.writable()?;
            let _lock = writable.lock.hold()?;
            let round = writable.ledger()?.round();
            Lease::take(&writable.layout, &writable.disk, round)
        })
        .await
    }

    async fn sequence(&self) -> Result<u64, StoreError> {
        let settled = self.work(|opened| {
            let pending = records::pending(&opened.layout, &opened.generation)?;
            let counted = opened.generation.read()?;
            Ok(match (&opened.writable, counted) {
                (_, Some(newest)) if pending.is_empty() => Some(newest),
                (Some(_), _) => None,
                (None, _) => Some(*pending.end()),
            })
        });
        if let Some(newest) = settled.await? {
            return Ok(newest);
        }
        self.locked(|opened| {
            let writable = opened.writable()?;
            let _lock = writable.lock.hold()?;
            writable.redo()
        })
        .await
    }

    async fn stat(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        let counters = self.opened.generation.counters()?;
        let digest = *digest;
        let looked = self.work(move |opened| {
            if !opened.standings.is_fresh(counters.content) {
                opened.standings.refresh(&opened.layout, counters.content)?;
            }
            let condemned = opened.standings.of(&digest) == Standing::Condemned;
            if condemned && opened.writable.is_some() {
                return Ok(None);
            }
            opened.content.size(&digest).map(Some)
        });
        if let Some(size) = looked.await? {
            return Ok(size);
        }
        self.locked(move |opened| {
            let writable = opened.writable()?;
            let lock = writable.lock.hold()?;
            writable.rescue(&lock, [digest])?;
            opened.content.size(&digest)
        })
        .await
    }

    async fn read(&self, digest: &Digest) -> Result<Option<Body>, StoreError> {
        Ok(self.blob_range(digest)?.map(Body::Range))
    }

    async fn room(&self) -> Result<Option<u64>, StoreError> {
        let root = self.root();
        match rustix::fs::statvfs(root) {
            Ok(found) => Ok(Some(found.f_bavail.saturating_mul(found.f_frsize))),
            Err(errno) => Err(disk::failed("ask for the free space of", root)(
                errno.into(),
            )),
        }
    }

    async fn stage(&self, digest: Digest, size: u64, body: Body) -> Result<Staged, StoreError> {
        match body {
            Body::Bytes(bytes) => {
                self.hash(move |writable| {
                    take_last(Intake::begin(&writable.work, digest, size)?, &[bytes])
                })
                .await
            }
            Body::Range(range) => self.stage_range(digest, size, range).await,
            Body::Stream(stream) => self.stage_stream(digest, size, stream).await,
        }
    }

    async fn publish(&self, staged: Vec<Staged>) -> Result<(), StoreError> {
        // what takes long, the bytes, is done before waiting for the lock
        let synced = self.work(move |opened| {
            opened.writable()?.sync_staged(&staged)?;
            Ok(staged)
        });
        let staged = synced.await?;
        self.locked(move |opened| opened.writable()?.place_staged(staged))
            .await
    }

    async fn repository(&self, name: &RepositoryName) -> Result<Option<Repository>, StoreError> {
        let name = name.clone();
        self.work(move |opened| {
            let unit = Unit::Repository(name.clone());
            let part = commit::current(&opened.layout, &opened.generation, unit)?;
            let found = part.names.repositories.get(&name);
            Ok(found.map(|repository| Repository::clone(repository)))
        })
        .await
    }

    async fn site(&self, folder: &str) -> Result<Option<SiteEntry>, StoreError> {
        let folder = folder.to_owned();
        self.work(move |opened| {
            if folder.contains('/') || folder.starts_with('.') {
                return Ok(None); // no commit takes such a folder
            }
            let unit = Unit::Site(folder.clone());
            let mut part = commit::current(&opened.layout, &opened.generation, unit)?;
            Ok(part.names.sites.remove(&folder))
        })
        .await
    }

    async fn trust(&self, entry: &str) -> Result<Option<serde_json::Value>, StoreError> {
        let entry = entry.to_owned();
        self.work(move |opened| {
            let unit = Unit::Trust(entry.clone());
            let mut part = commit::current(&opened.layout, &opened.generation, unit)?;
            opened.trust_is_current()?;
            Ok(part.names.trust.remove(&entry))
        })
        .await
    }

    async fn record(&self, number: u64) -> Result<Option<Record>, StoreError> {
        self.work(move |opened| records::read(&opened.layout, number))
            .await
    }

    async fn commit(&self, expected: u64, batch: Batch) -> Result<Committed, StoreError> {
        self.locked(move |opened| opened.writable()?.commit(expected, batch))
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_reads_has_threads_while_many_wait_for_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        // as another process holds it
        let lock = std::fs::File::open(folder.path().join("lock")).unwrap();
        lock.lock().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(2 * WAITING)
            .build()
            .unwrap();
        runtime.block_on(async {
            let waiting: Vec<_> = (0..8 * WAITING)
                .map(|_| {
                    let store = store.clone();
                    tokio::spawn(async move { store.rescue(Vec::new()).await })
                })
                .collect();
            // all of them have asked for the lock
            tokio::task::yield_now().await;
            let name: RepositoryName = "a".parse().unwrap();
            let read = tokio::time::timeout(Duration::from_secs(20), store.repository(&name));
            let read = read.await;
            lock.unlock().unwrap();
            for waiting in waiting {
                waiting.await.unwrap().unwrap();
            }
            assert!(read.expect("no thread was left to read").unwrap().is_none());
        });
    }
}

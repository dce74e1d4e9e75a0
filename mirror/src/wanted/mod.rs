//! What clients asked for and did not get: the list of what the next bundle should bring.
//!
//! A 404 is the most useful answer a mirror behind an air gap gives, if somebody hears of it.
//! Each process counts misses in a bounded table in memory ([`Wanted::miss`] takes one look-up
//! and no I/O), and brings what it counted into the store's file `wanted` now and then
//! ([`Wanted::flush`]), where those of other processes are too. A count that is lost with a
//! process is no error. References that are here by now leave the file.
//!
//! Only manifests make a reference an operator can carry. Probes for signatures and referrers,
//! which clients send for every image, for `/blobs/`, which follow a missing manifest, and
//! names that cannot exist are counted apart, as numbers.

mod table;

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Names, StoreError};
use kubepkg_core::time::Time;

pub(crate) use table::is_signature_tag;
pub use table::{Counted, Misses, Reference, Tally, WantedTable};

use crate::namespace::Own;
use crate::route::{Ask, Place, Target};
use crate::store::FileStore;
use crate::told::told;

/// How often a server brings its counts into the store.
pub const FLUSH: Duration = Duration::from_secs(10);

/// Something that was asked for and is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// A manifest. Tags of signatures are told apart by their form.
    Manifest(RepositoryName, Target),
    /// A blob.
    Blob,
    /// The referrers of something.
    Referrers,
    /// A name, tag or digest that cannot exist.
    Illegal,
}

impl Miss {
    /// The miss of a request for something in a repository, `None` where a miss tells nothing:
    /// lists and uploads.
    ///
    /// The reference is that of the last place looked at, which is the one a bundle would
    /// bring: Docker Hub's `library/` is filled in, doubled hosts and `/v2/` are gone.
    pub fn of(place: &Place, own: Own<'_>, ask: &Ask) -> Option<Miss> {
        match ask {
            Ask::Manifest(target) => Some(match place.candidates(own).pop() {
                Some(name) => Miss::Manifest(name, target.clone()),
                None => Miss::Illegal,
            }),
            Ask::Blob(_) => Some(Miss::Blob),
            Ask::Referrers { .. } => Some(Miss::Referrers),
            Ask::Tags(_) | Ask::Upload(_) => None,
        }
    }
}

/// The misses of this process that are not in the store's file yet.
#[derive(Debug, Default)]
pub struct Wanted {
    table: Mutex<WantedTable>,
    totals: [AtomicU64; MISS_KINDS.len()],
}

/// Kinds of misses, in the order in which [`Wanted::totals`] has them.
pub const MISS_KINDS: [&str; 5] = ["manifest", "signature", "blob", "referrers", "illegal"];

impl Wanted {
    /// Counts a miss.
    pub fn miss(&self, what: Miss, peer: Option<IpAddr>) {
        self.miss_at(what, peer, Time::now());
    }

    /// Counts a miss of that time.
    pub fn miss_at(&self, what: Miss, peer: Option<IpAddr>, at: Time) {
        let kind = match &what {
            Miss::Manifest(_, target) if table::is_signature(target) => 1,
            Miss::Manifest(..) => 0,
            Miss::Blob => 2,
            Miss::Referrers => 3,
            Miss::Illegal => 4,
        };
        self.totals[kind].fetch_add(1, Ordering::Relaxed);
        self.table().miss(what, peer, at);
    }

    /// How many misses of each kind there were since the process began.
    pub fn totals(&self) -> [u64; MISS_KINDS.len()] {
        self.totals.each_ref().map(|n| n.load(Ordering::Relaxed))
    }

    /// A copy of what is counted here and not in the file yet.
    pub fn pending(&self) -> WantedTable {
        self.table().clone()
    }

    /// Brings what was counted into the store's file and takes out what is here by now. With
    /// nothing counted and nothing in the file this costs a look at the file. After an error
    /// the counts stay here.
    pub async fn flush(&self, store: &FileStore) -> Result<(), StoreError> {
        let counted = std::mem::take(&mut *self.table());
        let kept = counted.clone();
        let flushed = match store.names().await {
            Ok(names) => store.add_wanted(counted, names).await,
            Err(error) => Err(error),
        };
        if flushed.is_err() {
            // what came in meanwhile is newer
            let mut table = self.table();
            let newer = std::mem::replace(&mut *table, kept);
            table.merge(newer);
        }
        flushed
    }

    /// Flushes every [`FLUSH`] until `shutdown`, and then once more. A store that is only read
    /// keeps nothing: then this only waits.
    pub async fn keep(&self, store: &FileStore, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        if !store.can_write() {
            return shutdown.await;
        }
        loop {
            let over = tokio::select! {
                biased;
                () = &mut shutdown => true,
                () = tokio::time::sleep(FLUSH) => false,
            };
            if let Err(error) = self.flush(store).await {
                tracing::warn!(error = %told(&error), "what is wanted is kept in memory only, for now");
            }
            if over {
                return;
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, WantedTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The manifest `reference` means among the names.
pub(crate) fn manifest_of(names: &Names, reference: &Reference) -> Option<Digest> {
    let repository = names.repositories.get(&reference.repository)?;
    match &reference.target {
        Target::Tag(tag) => repository.tags.get(tag).map(|entry| entry.digest),
        Target::Digest(digest) => repository.manifests.contains_key(digest).then_some(*digest),
    }
}

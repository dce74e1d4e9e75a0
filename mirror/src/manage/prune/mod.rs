//! `mirror prune`: names that old imports brought go, names of the last ones stay.
//!
//! Imports only add. What a site no longer wants is known by what its last imports were: their
//! receipts name packages, and the signed indexes say what these pin. [`ground`] reads that from
//! the store, [`mod@plan`] decides without touching anything, and [`prune`] commits it. Bytes are
//! left to collection, so that going back is possible until its grace is over.

mod beside;
mod ground;
mod plan;
mod weigh;

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{Batch, Body, Cause, Change, Committed, ReceiptPackage};
use kubepkg_core::time::Time;

use self::beside::Beside;
use super::ManageError;
use super::change::ATTEMPTS;
use super::closure::Closure;
use super::managed::Managed;
use crate::bucket::BucketStore;
use crate::source::Age;
use crate::store::FileStore;

/// A release of a package, as receipts and lists of what is here name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// Package name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Build, 0 where there is none.
    pub build: u32,
    /// Digest of the spec.
    pub digest: Digest,
}

impl From<&ReceiptPackage> for Release {
    fn from(package: &ReceiptPackage) -> Release {
        Release {
            name: package.name.clone(),
            version: package.version.clone(),
            build: package.build,
            digest: package.digest,
        }
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)?;
        match self.build {
            0 => Ok(()),
            build => write!(f, " build {build}"),
        }
    }
}

/// One of the imports that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptImport {
    /// Number of its commit.
    pub number: u64,
    /// When.
    pub at: Time,
    /// Bundle id.
    pub bundle: String,
}

/// Why something stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stays {
    /// A tag that no package brought: somebody pushed it, or set it by hand.
    Pushed,
    /// A package that a kept import names.
    Named {
        /// Commit of the newest such import.
        import: u64,
    },
    /// A package that stays has or pins it.
    Package {
        /// The package.
        release: String,
        /// Commit of the newest import that names the package.
        import: u64,
    },
    /// A kept import brought it.
    Brought {
        /// Commit of the import.
        import: u64,
    },
    /// It is about something that stays.
    About(Digest),
    /// A manifest that stays in its repository cannot be read: nobody knows what it needs.
    Unreadable(Digest),
}

/// What something weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Bytes that are freed with this alone.
    pub own: u64,
    /// Bytes that something else that goes, or something that stays, needs too.
    pub shared: u64,
}

/// What becomes of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays.
    Stays(Stays),
    /// Its name is taken away.
    Goes(Weight),
}

/// A package that is here, and what becomes of it.
#[derive(Clone, Debug)]
pub struct PackageFate {
    /// Its index.
    pub site: CanonicalUrl,
    /// The package.
    pub release: Release,
    /// What becomes of it.
    pub fate: Fate,
}

/// A tag, or a manifest without one, and what becomes of it.
#[derive(Clone, Debug)]
pub struct NameFate {
    /// The repository.
    pub repository: RepositoryName,
    /// The tag, `None` for a manifest without one.
    pub tag: Option<Tag>,
    /// The manifest.
    pub digest: Digest,
    /// What becomes of it.
    pub fate: Fate,
}

/// How much goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packages.
    pub packages: u64,
    /// Tags.
    pub tags: u64,
    /// Manifests, with all that only those tags lead to.
    pub manifests: u64,
    /// Blobs of repositories.
    pub blobs: u64,
    /// Files of content nothing needs afterwards.
    pub contents: u64,
    /// Their bytes: what collection frees.
    pub bytes: u64,
}

/// What a prune does.
#[derive(Clone, Debug, Default)]
pub struct Pruning {
    /// The imports that are kept, the newest first.
    pub imports: Vec<KeptImport>,
    /// Packages.
    pub packages: Vec<PackageFate>,
    /// Tags, and manifests without a tag, as far as nothing but themselves decides about them.
    pub names: Vec<NameFate>,
    /// What goes, all in all.
    pub totals: Totals,
    /// The changes of names.
    changes: Vec<Change>,
    /// Lists of what is here, to be published before the commit.
    files: Vec<(Digest, Bytes)>,
}

impl Pruning {
    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes of names.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }
}

/// What a prune that keeps the last `imports` imports would do.
pub async fn prune_plan<S: Managed>(store: &S, imports: usize) -> Result<Pruning, ManageError> {
    for _ in 0..ATTEMPTS {
        let expected = store.sequence().await?;
        if let Some(pruning) = planned(store, expected, imports).await? {
            return Ok(pruning);
        }
    }
    Err(ManageError::Busy)
}

/// Keeps what the last `imports` imports named, what was pushed, and what both need; takes away
/// the names of the rest in one commit. `None` for the commit where there was nothing to do.
///
/// Works on a full disk, in the store's reserve.
pub async fn prune(
    store: &FileStore,
    imports: usize,
) -> Result<(Option<u64>, Pruning), ManageError> {
    let _room = store.reserve_where_full().await?;
    match attempt(store, imports).await {
        // what is counted as free is not always what can be written
        Err(ManageError::Store(error)) if error.is_no_room() => {
            let _room = store.reserve().await?;
            attempt(store, imports).await
        }
        done => done,
    }
}

/// [`prune`] in a bucket, where nothing is set aside for a full disk.
pub async fn prune_in_bucket(
    store: &BucketStore,
    imports: usize,
) -> Result<(Option<u64>, Pruning), ManageError> {
    attempt(store, imports).await
}

async fn attempt<S: Beside>(
    store: &S,
    imports: usize,
) -> Result<(Option<u64>, Pruning), ManageError> {
    let _lease = store.lease().await?;
    for _ in 0..ATTEMPTS {
        // read before everything that is decided: a change in between makes the commit conflict
        let expected = store.sequence().await?;
        let Some(pruning) = planned(store, expected, imports).await? else {
            continue;
        };
        if pruning.is_empty() {
            return Ok((None, pruning));
        }
        let mut staged = Vec::new();
        for (digest, bytes) in &pruning.files {
            let body = Body::Bytes(bytes.clone());
            staged.push(store.stage(*digest, bytes.len() as u64, body).await?);
        }
        store.publish(staged).await?;
        let batch = Batch {
            at: Time::now(),
            cause: Cause::Prune,
            changes: pruning.changes.clone(),
        };
        let committed = store.commit_prune(expected, batch).await?;
        if let Committed::Done(number) = committed {
            return Ok((Some(number), pruning));
        }
    }
    Err(ManageError::Busy)
}

/// The plan on the names of commit `expected`; `None` where somebody was faster.
async fn planned<S: Managed>(
    store: &S,
    expected: u64,
    imports: usize,
) -> Result<Option<Pruning>, ManageError> {
    let names = store.names(Age::Now).await?;
    if names.sequence != expected {
        return Ok(None);
    }
    let ground = ground::Ground::read(store, &names, imports).await?;
    Ok(Some(plan::plan(&mut Closure::new(store), &names, &ground)?))
}

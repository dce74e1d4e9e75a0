//! Taking away what nothing reaches: what is to be collected, and the three steps by which a
//! store does it. What is reachable is decided above the store, from its names.
//!
//! First [`Collect::condemn`] puts what nothing reaches on a durable list. Who wants some of it
//! says [`Collect::rescue`], or publishes or names it, which rescues too. What is still on the
//! list after a grace is removed by [`Collect::sweep`]. So what a client was told is there stays
//! there for as long as a push takes, and nobody has to stop while content is collected.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Store, StoreError};
use crate::digest::{Algorithm, Digest};
use crate::name::RepositoryName;
use crate::time::Time;

/// What about a digest nothing reaches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Claim {
    /// Its bytes.
    Bytes,
    /// That it is a blob of this repository.
    Blob(RepositoryName),
    /// That it is a manifest of this repository.
    Manifest(RepositoryName),
}

/// A digest, and what about it nothing reaches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Garbage {
    /// The digest.
    pub digest: Digest,
    /// What about it.
    pub claim: Claim,
}

/// Why something is not removed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// No collection before this one condemned it, or somebody wanted it since.
    Uncondemned,
    /// So much of its grace is to come.
    Grace(Duration),
    /// A lease is older than its condemnation.
    Lease,
    /// Somebody changed what it is about while this was decided.
    Changed,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Names that were taken away.
    pub names: Vec<Garbage>,
    /// Content that was removed, with its size.
    pub contents: Vec<(Digest, u64)>,
    /// What stays for now.
    pub waiting: Vec<(Garbage, Wait)>,
}

/// A store whose content can be collected. One collection at a time.
pub trait Collect: Store {
    /// Digests of all content whose hash begins with the byte `first`.
    fn list(
        &self,
        algorithm: Algorithm,
        first: u8,
    ) -> impl Future<Output = Result<Vec<Digest>, StoreError>> + Send;

    /// Makes `garbage` the list of what is condemned. What was on it keeps since when.
    fn condemn(
        &self,
        garbage: BTreeSet<Garbage>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Takes these digests off the list, durably. [`StoreError::Missing`] where content is
    /// gone.
    fn rescue(&self, digests: Vec<Digest>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes those of `garbage` whose grace is over and that no lease protects: names by a
    /// commit, then bytes. They were unreachable in the names as of commit `sequence`; what a
    /// later commit may have to do with stays.
    fn sweep(
        &self,
        sequence: u64,
        garbage: BTreeSet<Garbage>,
        grace: Duration,
        at: Time,
    ) -> impl Future<Output = Result<Swept, StoreError>> + Send;
}

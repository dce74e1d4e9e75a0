//! What a collection says it did.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Claim, Garbage, Wait};
use serde::{Deserialize, Serialize};

use super::mark::{Kept, Marked};
use super::run::Collecting;

/// How much something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Amount {
    /// Names: manifests and blobs of repositories.
    pub names: u64,
    /// Pieces of content.
    pub contents: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why something that is condemned stays for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// Its grace is not over.
    Grace,
    /// An import or push that began before holds it.
    Lease,
    /// Its repository changed meanwhile.
    Changed,
}

/// What stays for now, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// How much.
    pub amount: Amount,
    /// Seconds the store has to be served until the last of it may go.
    pub seconds: u64,
}

/// What a collection did, or with `dry_run` would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Collected {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// What this collection found first: a later one removes it.
    pub condemned: Amount,
    /// What was removed, because an earlier collection condemned it.
    pub removed: Amount,
    /// Old sets of repository files that were removed.
    pub sets: u64,
    /// Old commit records that were removed.
    #[serde(default)]
    pub records: u64,
    /// What an earlier collection condemned and stays for now.
    pub waiting: BTreeMap<Reason, Waiting>,
    /// Seconds something stays condemned, in time the store is served.
    pub grace: u64,
    /// Repositories that stay as they are, because this manifest cannot be read.
    pub unreadable: BTreeMap<RepositoryName, Digest>,
    /// What no name needs, and going back to one of the last imports does.
    #[serde(default)]
    pub kept_for_imports: Amount,
    /// Commit records that cannot be read: what imports before them brought stays.
    #[serde(default)]
    pub damaged_records: BTreeSet<u64>,
}

impl Collected {
    pub(crate) fn new(
        collecting: &Collecting,
        marked: &BTreeMap<RepositoryName, Marked>,
        kept: &Kept,
    ) -> Collected {
        let unreadable = marked
            .iter()
            .filter_map(|(name, marked)| Some((name.clone(), marked.unreadable?)));
        Collected {
            dry_run: collecting.dry_run,
            grace: collecting.grace.as_secs(),
            unreadable: unreadable.collect(),
            damaged_records: kept.damaged.clone(),
            ..Collected::default()
        }
    }

    pub(crate) fn condemn(
        &mut self,
        garbage: &BTreeSet<Garbage>,
        before: impl Fn(&Garbage) -> bool,
        sizes: &HashMap<Digest, u64>,
    ) {
        for garbage in garbage.iter().filter(|garbage| !before(garbage)) {
            self.condemned.count(garbage, sizes);
        }
    }

    pub(crate) fn would_remove(&mut self, garbage: &Garbage, sizes: &HashMap<Digest, u64>) {
        self.removed.count(garbage, sizes);
    }

    pub(crate) fn wait(&mut self, waiting: &[(Garbage, Wait)], sizes: &HashMap<Digest, u64>) {
        for (garbage, wait) in waiting {
            let (reason, seconds) = match wait {
                Wait::Grace(left) => (Reason::Grace, left.as_millis().div_ceil(1000)),
                Wait::Lease => (Reason::Lease, 0),
                Wait::Changed => (Reason::Changed, 0),
                // found just now: that is said as condemned
                Wait::Uncondemned => continue,
            };
            let waiting = self.waiting.entry(reason).or_default();
            waiting.amount.count(garbage, sizes);
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            waiting.seconds = waiting.seconds.max(seconds);
        }
    }
}

impl Amount {
    fn count(&mut self, garbage: &Garbage, sizes: &HashMap<Digest, u64>) {
        if garbage.claim == Claim::Bytes {
            self.contents += 1;
            self.bytes += sizes.get(&garbage.digest).copied().unwrap_or_default();
        } else {
            self.names += 1;
        }
    }
}

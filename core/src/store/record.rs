//! Commit records: what was changed, why, and what stood there before.

use serde::{Deserialize, Serialize};

use super::names::{ManifestEntry, SiteEntry, TagEntry};
use crate::digest::Digest;
use crate::name::{RepositoryName, Tag};
use crate::time::Time;

/// One change of a name. `new` is the value afterwards, `None` takes the name away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "camelCase", deny_unknown_fields)]
pub enum Change {
    /// A manifest of a repository.
    Manifest {
        /// The repository.
        repository: RepositoryName,
        /// The manifest.
        digest: Digest,
        /// What is known of it.
        new: Option<ManifestEntry>,
    },
    /// A blob's membership in a repository.
    Blob {
        /// The repository.
        repository: RepositoryName,
        /// The blob.
        digest: Digest,
        /// Its size in bytes.
        new: Option<u64>,
    },
    /// A tag.
    Tag {
        /// The repository.
        repository: RepositoryName,
        /// The tag.
        tag: Tag,
        /// What it points at.
        new: Option<TagEntry>,
    },
    /// The upstream location of a repository.
    Upstream {
        /// The repository.
        repository: RepositoryName,
        /// Where its content comes from.
        new: Option<String>,
    },
    /// The files of one index. Each file's content is published under its digest; the store
    /// keeps a copy (or link) of the whole set under the number of the commit.
    Site {
        /// Folder name of the index.
        folder: String,
        /// The set.
        new: Option<SiteEntry>,
    },
    /// The memory of a trust entry.
    Trust {
        /// Id of the entry.
        entry: String,
        /// What was accepted, as `core::trust` writes it.
        new: Option<serde_json::Value>,
    },
}

/// What is kept, and changed, as one piece.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A repository.
    Repository(RepositoryName),
    /// The files of one index, by folder name.
    Site(String),
    /// The memory of a trust entry, by its id.
    Trust(String),
}

impl Change {
    /// The piece this changes.
    pub fn unit(&self) -> Unit {
        match self {
            Change::Manifest { repository, .. }
            | Change::Blob { repository, .. }
            | Change::Tag { repository, .. }
            | Change::Upstream { repository, .. } => Unit::Repository(repository.clone()),
            Change::Site { folder, .. } => Unit::Site(folder.clone()),
            Change::Trust { entry, .. } => Unit::Trust(entry.clone()),
        }
    }

    /// The content a repository loses by it.
    #[must_use]
    pub fn taken(&self) -> Option<(&RepositoryName, &Digest)> {
        match self {
            Change::Manifest {
                repository,
                digest,
                new: None,
            }
            | Change::Blob {
                repository,
                digest,
                new: None,
            } => Some((repository, digest)),
            _ => None,
        }
    }
}

/// A change as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The change.
    pub change: Change,
    /// The value before, `null` where there was none.
    #[serde(default)]
    pub old: serde_json::Value,
}

/// Changes that belong together, and why they are made.
#[derive(Clone, Debug)]
pub struct Batch {
    /// When, by the clock of who commits.
    pub at: Time,
    /// Why.
    pub cause: Cause,
    /// What. Later changes of one name win.
    pub changes: Vec<Change>,
}

/// Why names were changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// A bundle was imported.
    Import(Box<Receipt>),
    /// A client pushed, or a local tool filled the store.
    Push,
    /// An operator changed names by hand.
    Command {
        /// The verb, e.g. `rm`.
        verb: String,
    },
    /// A collection took away what nothing reached.
    Collect,
    /// Somebody asked that what old imports brought goes.
    Prune,
    /// What was accepted under a trust entry was dropped, because somebody asked for it.
    TrustReset {
        /// Id of the entry.
        entry: String,
    },
}

/// One entry of `commits/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// Its number: 1, 2, 3, … without gaps.
    pub number: u64,
    /// When.
    pub at: Time,
    /// Why.
    pub cause: Cause,
    /// What.
    pub changes: Vec<Recorded>,
}

impl Record {
    /// What its changes took from repositories.
    pub fn taken(&self) -> impl Iterator<Item = (RepositoryName, Digest)> {
        let taken = self.changes.iter().filter_map(|entry| entry.change.taken());
        taken.map(|(name, digest)| (name.clone(), *digest))
    }
}

/// What a site keeps of an import, for people and audits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Bundle id: digest of the head.
    pub bundle: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// The indexes it was judged by.
    pub repositories: Vec<ReceiptIndex>,
    /// The packages that entered.
    pub packages: Vec<ReceiptPackage>,
    /// Number of charts, trees, images and referrers.
    pub counts: std::collections::BTreeMap<String, u64>,
    /// Bytes that were new to the store.
    pub new_bytes: u64,
    /// What was said: holes, tags left alone, packages without images, unsigned indexes.
    pub warnings: Vec<String>,
    /// The time expiry was judged by, where it was not the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Time>,
}

/// An index a bundle was judged by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptIndex {
    /// Id of the trust entry.
    pub entry: String,
    /// Canonical URL of the index.
    pub url: String,
    /// Digest of the index file.
    pub digest: Digest,
    /// When it was generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<Time>,
    /// Ids of the keys that signed it; empty for an unsigned one.
    pub signed_by: Vec<String>,
    /// Version of the root it was judged by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<u32>,
    /// Until when clusters can accept the index the packages were judged by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptable_until: Option<Time>,
    /// Versions of that index that are left out: for another kubepkg, or not signed or approved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A package that entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptPackage {
    /// Package name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Build, 0 where there is none.
    pub build: u32,
    /// Spec digest.
    pub digest: Digest,
}

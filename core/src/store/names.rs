//! The names in a store: repositories with their manifests, tags and blobs, and the sites.
//!
//! [`Names::apply`] is the only place that says what a [`Change`] does. The file store uses it
//! on its files, a server on its memory, so the two cannot drift apart.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::interned::Interned;
use super::map::SortedMap;
use super::record::{Change, Record, Recorded};
use crate::digest::Digest;
use crate::location::CanonicalUrl;
use crate::manifest::Manifest;
use crate::name::{RepositoryName, Tag};

/// A manifest as one repository knows it: enough to answer HEAD, tag lists and referrers
/// without opening it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestEntry {
    /// Media type as pushed.
    pub media_type: Interned,
    /// Size in bytes.
    pub size: u64,
    /// The manifest it is about. Most have none, and a digest is large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Box<Digest>>,
    /// What a referrers answer shows as `artifactType`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<Interned>,
    /// Its own annotations; kept only where there is a subject.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl ManifestEntry {
    /// What a repository knows of a manifest of `size` bytes.
    pub fn of(manifest: &Manifest, size: u64) -> ManifestEntry {
        let subject = manifest.subject.as_ref().map(|subject| subject.digest);
        ManifestEntry {
            media_type: Interned::from(&manifest.media_type),
            size,
            artifact_type: manifest.referrer_type().map(Interned::from),
            annotations: match subject {
                Some(_) => manifest.annotations.clone(),
                None => BTreeMap::new(),
            },
            subject: subject.map(Box::new),
        }
    }
}

/// What a tag points at, and who put it there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TagEntry {
    /// The manifest.
    pub digest: Digest,
    /// The package that brought it; `None` for a pushed tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Origin>>,
}

/// The signed package a tag came with; empty where a bundle brought it and no package names it. Only the same entry and package may move the tag, to
/// the same or a newer version and build (design page "bundle format").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origin {
    /// Id of the trust entry of its repository.
    pub entry: String,
    /// Package name.
    pub package: String,
    /// Package version.
    pub version: String,
    /// Package build.
    pub build: u32,
}

impl Origin {
    /// Of what a bundle brought that belongs to no package.
    pub fn of_bundle() -> Origin {
        Origin {
            entry: String::new(),
            package: String::new(),
            version: String::new(),
            build: 0,
        }
    }

    /// Whether no package, but a bundle, brought it.
    pub fn is_of_bundle(&self) -> bool {
        self.entry.is_empty() && self.package.is_empty()
    }
}

/// The release it came with, in words.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_of_bundle() {
            return f.write_str("a bundle, of no package");
        }
        write!(f, "{} {}", self.package, self.version)
    }
}

/// One repository: everything that can be asked of it by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repository {
    /// Where imports bring its content from ([`super::check_upstream`]); `None` when it was
    /// only pushed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Manifests by digest.
    pub manifests: SortedMap<Digest, ManifestEntry>,
    /// Tags.
    pub tags: SortedMap<Tag, TagEntry>,
    /// Blobs that belong to it, with their sizes: named by a manifest here, uploaded or mounted.
    pub blobs: SortedMap<Digest, u64>,
}

/// The repository files of one accepted index, as one set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SiteEntry {
    /// Canonical URL of the index.
    pub url: CanonicalUrl,
    /// Number of the set, the commit that brought it; filled in by the store.
    #[serde(default)]
    pub set: u64,
    /// The files, by their path beside the index, e.g. `index.yaml`, `root/1.yaml`,
    /// `carried.json`.
    pub files: BTreeMap<String, SiteFile>,
}

/// One file of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SiteFile {
    /// Digest of the file.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

/// All names of a store at one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Number of the newest commit in it.
    pub sequence: u64,
    /// Repositories by name. Shared, so that a server takes the next commit into a copy of its
    /// names at the price of the repositories the commit touches.
    pub repositories: SortedMap<RepositoryName, Arc<Repository>>,
    /// Sites by folder.
    pub sites: BTreeMap<String, SiteEntry>,
    /// Memory of trust by entry id.
    pub trust: BTreeMap<String, serde_json::Value>,
}

impl Names {
    /// Every digest some name stands for.
    #[must_use]
    pub fn contents(&self) -> HashSet<Digest> {
        let mut contents = HashSet::new();
        for repository in self.repositories.values() {
            contents.extend(repository.manifests.keys().chain(repository.blobs.keys()));
        }
        for site in self.sites.values() {
            contents.extend(site.files.values().map(|file| file.digest));
        }
        contents
    }

    /// Does `change` as part of commit `number`, and says what stood there before.
    pub fn apply(&mut self, change: &Change, number: u64) -> Recorded {
        Recorded {
            change: change.clone(),
            old: self.enter(change, number).as_json(),
        }
    }

    /// Does `change`; the only place that says what one does.
    fn enter(&mut self, change: &Change, number: u64) -> Old {
        match change {
            Change::Manifest {
                repository,
                digest,
                new,
            } => {
                let repository = self.repository_mut(repository);
                Old::Manifest(match new {
                    Some(entry) => repository.manifests.insert(*digest, entry.clone()),
                    None => repository.manifests.remove(digest),
                })
            }
            Change::Blob {
                repository,
                digest,
                new,
            } => {
                let repository = self.repository_mut(repository);
                Old::Blob(match new {
                    Some(size) => repository.blobs.insert(*digest, *size),
                    None => repository.blobs.remove(digest),
                })
            }
            Change::Tag {
                repository,
                tag,
                new,
            } => {
                let repository = self.repository_mut(repository);
                Old::Tag(match new {
                    Some(entry) => repository.tags.insert(tag.clone(), entry.clone()),
                    None => repository.tags.remove(tag),
                })
            }
            Change::Upstream { repository, new } => Old::Upstream(std::mem::replace(
                &mut self.repository_mut(repository).upstream,
                new.clone(),
            )),
            Change::Site { folder, new } => Old::Site(match new {
                Some(entry) => {
                    let entry = SiteEntry {
                        set: number,
                        ..entry.clone()
                    };
                    self.sites.insert(folder.clone(), entry)
                }
                None => self.sites.remove(folder),
            }),
            Change::Trust { entry, new } => Old::Trust(match new {
                Some(memory) => self.trust.insert(entry.clone(), memory.clone()),
                None => self.trust.remove(entry),
            }),
        }
    }

    /// Does everything `record` says. Values are absolute: doing a run of records again, in
    /// order and to its end, gives the same names.
    pub fn apply_record(&mut self, record: &Record) {
        let changes = record.changes.iter().map(|recorded| &recorded.change);
        self.repeat(changes, record.number);
        self.sequence = self.sequence.max(record.number);
    }

    /// Does changes of commit `number` again, of which nobody asks what stood there before.
    pub fn repeat<'a>(&mut self, changes: impl IntoIterator<Item = &'a Change>, number: u64) {
        for change in changes {
            self.enter(change, number);
        }
    }

    fn repository_mut(&mut self, name: &RepositoryName) -> &mut Repository {
        Arc::make_mut(self.repositories.get_or_default(name))
    }

    /// Whether `change` would change anything.
    pub fn differs(&self, change: &Change) -> bool {
        match change {
            Change::Manifest {
                repository,
                digest,
                new,
            } => {
                self.repositories
                    .get(repository)
                    .and_then(|r| r.manifests.get(digest))
                    != new.as_ref()
            }
            Change::Blob {
                repository,
                digest,
                new,
            } => {
                self.repositories
                    .get(repository)
                    .and_then(|r| r.blobs.get(digest))
                    != new.as_ref()
            }
            Change::Tag {
                repository,
                tag,
                new,
            } => {
                self.repositories
                    .get(repository)
                    .and_then(|r| r.tags.get(tag))
                    != new.as_ref()
            }
            Change::Upstream { repository, new } => {
                self.repositories
                    .get(repository)
                    .and_then(|r| r.upstream.as_ref())
                    != new.as_ref()
            }
            Change::Site { folder, new } => match (self.sites.get(folder), new) {
                (Some(old), Some(new)) => old.url != new.url || old.files != new.files,
                (None, None) => false,
                _ => true,
            },
            Change::Trust { entry, new } => self.trust.get(entry) != new.as_ref(),
        }
    }
}

impl Repository {
    /// Whether nothing is in it: everything was taken away, or nothing ever came. Such a name
    /// stays, and is not listed.
    pub fn is_empty(&self) -> bool {
        self.manifests.is_empty() && self.blobs.is_empty()
    }

    /// Number of manifests, tags and blobs.
    pub fn entries(&self) -> usize {
        self.manifests.len() + self.tags.len() + self.blobs.len()
    }

    /// The manifests whose subject is `digest`, in order of their digests.
    pub fn referrers(&self, digest: &Digest) -> impl Iterator<Item = (&Digest, &ManifestEntry)> {
        self.manifests
            .iter()
            .filter(move |(_, entry)| entry.subject.as_deref() == Some(digest))
    }

    /// Everything this repository names, manifests and blobs.
    pub fn content(&self) -> BTreeSet<Digest> {
        self.manifests
            .keys()
            .chain(self.blobs.keys())
            .copied()
            .collect()
    }
}

/// What stood where a change was made. Only records want its JSON form; who follows them does
/// not pay for it.
enum Old {
    Manifest(Option<ManifestEntry>),
    Blob(Option<u64>),
    Tag(Option<TagEntry>),
    Upstream(Option<String>),
    Site(Option<SiteEntry>),
    Trust(Option<serde_json::Value>),
}

impl Old {
    fn as_json(&self) -> serde_json::Value {
        // names and entries are maps with text keys; they always have a JSON form
        match self {
            Old::Manifest(old) => serde_json::to_value(old),
            Old::Blob(old) => serde_json::to_value(old),
            Old::Tag(old) => serde_json::to_value(old),
            Old::Upstream(old) => serde_json::to_value(old),
            Old::Site(old) => serde_json::to_value(old),
            Old::Trust(old) => serde_json::to_value(old),
        }
        .unwrap_or(serde_json::Value::Null)
    }
}

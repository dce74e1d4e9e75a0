//! What processes do to a store, one step at a time, and what the names are afterwards.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::store::{Body, Change, Names, Store, StoreError};
use kubepkg_mirror::store::FileStore;

use crate::support::{blob, commit, manifest, noise, now, range_of, site, tag, trust};

/// More than are synced one by one, so that the group sync is in it.
const IMPORTED: u64 = 11;

/// So large that it is written around the page cache.
const LARGE: usize = 300_000;

const URL: &str = "https://packages.example/index.yaml";

/// One step; the numbers are seeds of contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Says the number of the newest commit.
    Look,
    /// Publishes content nobody names.
    Publish(u64),
    /// Publishes a manifest and a blob, then names both and the tag. Content that is here is not
    /// written again.
    Push {
        repository: String,
        tag: String,
        seed: u64,
    },
    /// A batch with repository files and trust.
    Import(u64),
    /// Content from a part of a file.
    Large(u64),
    /// Moves a tag to a manifest that was pushed.
    Tag {
        repository: String,
        tag: String,
        seed: u64,
    },
    Untag {
        repository: String,
        tag: String,
    },
    /// Takes a manifest and its blob out of a repository. No tag may point at it.
    Delete {
        repository: String,
        seed: u64,
    },
    /// Takes a manifest, its blob and the tag `e<seed>` out of a repository.
    Erase {
        repository: String,
        seed: u64,
    },
    /// Forgets what was accepted.
    Distrust,
    /// Takes the repository files away.
    NoSite,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Look => write!(f, "look"),
            Step::Publish(seed) => write!(f, "publish {seed}"),
            Step::Push {
                repository,
                tag,
                seed,
            } => write!(f, "push {repository} {tag} {seed}"),
            Step::Import(seed) => write!(f, "import {seed}"),
            Step::Large(seed) => write!(f, "large {seed}"),
            Step::Tag {
                repository,
                tag,
                seed,
            } => write!(f, "tag {repository} {tag} {seed}"),
            Step::Untag { repository, tag } => write!(f, "untag {repository} {tag}"),
            Step::Delete { repository, seed } => write!(f, "delete {repository} {seed}"),
            Step::Erase { repository, seed } => write!(f, "erase {repository} {seed}"),
            Step::Distrust => write!(f, "distrust"),
            Step::NoSite => write!(f, "nosite"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Step, String> {
        let words: Vec<&str> = text.split(' ').collect();
        let seed = |text: &str| text.parse::<u64>().map_err(|e| e.to_string());
        Ok(match words[..] {
            ["look"] => Step::Look,
            ["publish", of] => Step::Publish(seed(of)?),
            ["push", repository, tag, of] => Step::Push {
                repository: repository.to_owned(),
                tag: tag.to_owned(),
                seed: seed(of)?,
            },
            ["import", of] => Step::Import(seed(of)?),
            ["large", of] => Step::Large(seed(of)?),
            ["tag", repository, tag, of] => Step::Tag {
                repository: repository.to_owned(),
                tag: tag.to_owned(),
                seed: seed(of)?,
            },
            ["untag", repository, tag] => Step::Untag {
                repository: repository.to_owned(),
                tag: tag.to_owned(),
            },
            ["delete", repository, of] => Step::Delete {
                repository: repository.to_owned(),
                seed: seed(of)?,
            },
            ["erase", repository, of] => Step::Erase {
                repository: repository.to_owned(),
                seed: seed(of)?,
            },
            ["distrust"] => Step::Distrust,
            ["nosite"] => Step::NoSite,
            _ => return Err(format!("no step: {text}")),
        })
    }
}

/// Content of a manifest.
pub fn manifest_of(seed: u64) -> Bytes {
    noise(
        seed * 2 + 1,
        100 + usize::try_from(seed * 37 % 3000).unwrap(),
    )
}

/// Content of its blob.
pub fn blob_of(seed: u64) -> Bytes {
    noise(
        seed * 2 + 2,
        3 + usize::try_from(seed * 1013 % 9000).unwrap(),
    )
}

fn large_of(seed: u64) -> Bytes {
    noise(seed ^ 0xffff_0000, LARGE)
}

fn named(repository: &str, seed: u64) -> [Change; 2] {
    let (bytes, below) = (manifest_of(seed), blob_of(seed));
    [
        manifest(repository, Digest::sha256(&bytes), bytes.len()),
        blob(repository, Digest::sha256(&below), below.len()),
    ]
}

/// The same change, taking the name away.
fn without(change: Change) -> Change {
    match change {
        Change::Manifest {
            repository, digest, ..
        } => Change::Manifest {
            repository,
            digest,
            new: None,
        },
        Change::Blob {
            repository, digest, ..
        } => Change::Blob {
            repository,
            digest,
            new: None,
        },
        Change::Tag {
            repository, tag, ..
        } => Change::Tag {
            repository,
            tag,
            new: None,
        },
        Change::Site { folder, .. } => Change::Site { folder, new: None },
        Change::Trust { entry, .. } => Change::Trust { entry, new: None },
        other => other,
    }
}

impl Step {
    /// The content it brings.
    pub fn contents(&self) -> Vec<Bytes> {
        match self {
            Step::Publish(seed) => vec![blob_of(*seed)],
            Step::Push { seed, .. } => vec![manifest_of(*seed), blob_of(*seed)],
            Step::Import(seed) => (0..IMPORTED)
                .flat_map(|number| [manifest_of(seed + number), blob_of(seed + number)])
                .collect(),
            Step::Large(seed) => vec![large_of(*seed)],
            _ => Vec::new(),
        }
    }

    /// The names it changes.
    pub fn changes(&self) -> Vec<Change> {
        match self {
            Step::Look | Step::Publish(_) => Vec::new(),
            Step::Push {
                repository,
                tag: name,
                seed,
            } => {
                let mut changes = named(repository, *seed).to_vec();
                changes.push(tag(repository, name, Digest::sha256(manifest_of(*seed))));
                changes
            }
            Step::Import(seed) => {
                let (index, root) = (manifest_of(*seed), blob_of(*seed));
                let files = [("index.yaml", &index), ("root/1.yaml", &root)];
                let mut changes = vec![
                    site(URL, &files),
                    trust("packages", serde_json::json!({ "index": seed })),
                ];
                for number in 0..IMPORTED {
                    let repository = format!("docker.io/library/r{}", number % 3);
                    let seed = seed + number;
                    changes.extend(named(&repository, seed));
                    let digest = Digest::sha256(manifest_of(seed));
                    changes.push(tag(&repository, &format!("t{number}"), digest));
                }
                changes
            }
            Step::Large(seed) => vec![blob("large", Digest::sha256(large_of(*seed)), LARGE)],
            Step::Tag {
                repository,
                tag: name,
                seed,
            } => vec![tag(repository, name, Digest::sha256(manifest_of(*seed)))],
            Step::Untag {
                repository,
                tag: name,
            } => vec![without(tag(repository, name, Digest::sha256("")))],
            Step::Delete { repository, seed } => named(repository, *seed).map(without).to_vec(),
            Step::Erase { repository, seed } => {
                let mut changes = named(repository, *seed).map(without).to_vec();
                let name = format!("e{seed}");
                changes.push(without(tag(repository, &name, Digest::sha256(""))));
                changes
            }
            Step::Distrust => vec![without(trust("packages", serde_json::Value::Null))],
            Step::NoSite => vec![without(site(URL, &[]))],
        }
    }

    /// The names after it was done to `before`.
    pub fn after(&self, before: &Names) -> Names {
        let mut names = before.clone();
        names.sequence += 1;
        let number = names.sequence;
        for change in self.changes() {
            names.apply(&change, number);
        }
        names
    }

    /// Does it. Answers the number of its commit, or of the newest one.
    pub fn perform(&self, store: &FileStore) -> Result<u64, StoreError> {
        let _lease = now(store.lease())?;
        let mut staged = Vec::new();
        for bytes in self.contents() {
            let digest = Digest::sha256(&bytes);
            if now(store.stat(&digest))?.is_some() {
                continue;
            }
            let size = bytes.len() as u64;
            let body = match self {
                Step::Large(_) => Body::Range(range_of(&bytes)),
                _ => Body::Bytes(bytes),
            };
            staged.push(now(store.stage(digest, size, body))?);
        }
        if !staged.is_empty() {
            now(store.publish(staged))?;
        }
        match self.changes() {
            none if none.is_empty() => now(store.sequence()),
            changes => now(commit(store, changes)),
        }
    }
}

#[test]
fn steps_are_said_and_understood() {
    for text in [
        "look",
        "push a/b 1 7",
        "import 9",
        "tag a x 3",
        "untag a x",
        "delete a 7",
        "nosite",
    ] {
        assert_eq!(text.parse::<Step>().unwrap().to_string(), text);
    }
}

//! What processes do to a store, one step at a time, and what the names are afterwards.

use std::fmt;
use std::os::unix::fs::FileExt;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use kubepkg_core::progress::Silent;
use kubepkg_core::store::{Body, Change, Names, Store, StoreError};
use kubepkg_core::{Algorithm, Digest};
use kubepkg_mirror::access::Client;
use kubepkg_mirror::sink::{Sink, SinkError, Upload};
use kubepkg_mirror::store::FileStore;
use kubepkg_mirror::store::check::CheckSettings;

use crate::collecting::{GRACE, collect, image_of, names_of_image, serve, tear};
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
    /// Publishes an upload that came in two requests, and names it.
    Upload {
        repository: String,
        seed: u64,
    },
    /// Publishes a small one that came in one request, and names it.
    Put {
        repository: String,
        seed: u64,
    },
    /// The first part of an upload.
    Part {
        repository: String,
        seed: u64,
    },
    /// Brings a manifest and sets so many tags to it.
    Tags {
        repository: String,
        seed: u64,
        count: u64,
    },
    /// The disk changes a blob.
    Damage(u64),
    /// Looks at everything and mends what it can.
    Repair,
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
    /// Publishes an image, then names it and the tag.
    Image {
        repository: String,
        tag: String,
        seed: u64,
    },
    /// Names a blob that is here, as who mounts it does.
    Name {
        repository: String,
        seed: u64,
    },
    /// Says that a blob is wanted.
    Rescue(u64),
    /// Leaves the list of what is condemned as somebody does who is killed adding to it.
    Tear,
    /// Serves the store until it was served for so many seconds.
    Serve(u64),
    /// A collection; with `untagged` of manifests nobody tagged, too.
    Collect {
        untagged: bool,
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
            Step::Upload { repository, seed } => write!(f, "upload {repository} {seed}"),
            Step::Put { repository, seed } => write!(f, "put {repository} {seed}"),
            Step::Part { repository, seed } => write!(f, "part {repository} {seed}"),
            Step::Tags {
                repository,
                seed,
                count,
            } => write!(f, "tags {repository} {seed} {count}"),
            Step::Damage(seed) => write!(f, "damage {seed}"),
            Step::Repair => write!(f, "repair"),
            Step::Tag {
                repository,
                tag,
                seed,
            } => write!(f, "tag {repository} {tag} {seed}"),
            Step::Untag { repository, tag } => write!(f, "untag {repository} {tag}"),
            Step::Delete { repository, seed } => write!(f, "delete {repository} {seed}"),
            Step::Erase { repository, seed } => write!(f, "erase {repository} {seed}"),
            Step::Image {
                repository,
                tag,
                seed,
            } => write!(f, "image {repository} {tag} {seed}"),
            Step::Name { repository, seed } => write!(f, "name {repository} {seed}"),
            Step::Rescue(seed) => write!(f, "rescue {seed}"),
            Step::Tear => write!(f, "tear"),
            Step::Serve(seconds) => write!(f, "serve {seconds}"),
            Step::Collect { untagged: false } => write!(f, "collect"),
            Step::Collect { untagged: true } => write!(f, "collect untagged"),
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
            ["upload", repository, of] => Step::Upload {
                repository: repository.to_owned(),
                seed: seed(of)?,
            },
            ["put", repository, of] => Step::Put {
                repository: repository.to_owned(),
                seed: seed(of)?,
            },
            ["part", repository, of] => Step::Part {
                repository: repository.to_owned(),
                seed: seed(of)?,
            },
            ["tags", repository, of, count] => Step::Tags {
                repository: repository.to_owned(),
                seed: seed(of)?,
                count: seed(count)?,
            },
            ["damage", of] => Step::Damage(seed(of)?),
            ["repair"] => Step::Repair,
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
            ["image", repository, tag, of] => Step::Image {
                repository: repository.to_owned(),
                tag: tag.to_owned(),
                seed: seed(of)?,
            },
            ["name", repository, of] => Step::Name {
                repository: repository.to_owned(),
                seed: seed(of)?,
            },
            ["rescue", of] => Step::Rescue(seed(of)?),
            ["tear"] => Step::Tear,
            ["serve", seconds] => Step::Serve(seed(seconds)?),
            ["collect"] => Step::Collect { untagged: false },
            ["collect", "untagged"] => Step::Collect { untagged: true },
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
            Step::Publish(seed) | Step::Upload { seed, .. } | Step::Put { seed, .. } => {
                vec![blob_of(*seed)]
            }
            Step::Push { seed, .. } | Step::Tags { seed, .. } => {
                vec![manifest_of(*seed), blob_of(*seed)]
            }
            Step::Image { seed, .. } => image_of(*seed).to_vec(),
            Step::Import(seed) => (0..IMPORTED)
                .flat_map(|number| [manifest_of(seed + number), blob_of(seed + number)])
                .collect(),
            Step::Large(seed) => vec![large_of(*seed)],
            _ => Vec::new(),
        }
    }

    /// The content it is told is here once it is done.
    pub fn confirmed(&self) -> Vec<Digest> {
        match self {
            Step::Rescue(seed) => vec![Digest::sha256(blob_of(*seed))],
            _ => self.contents().iter().map(Digest::sha256).collect(),
        }
    }

    /// The names it changes.
    pub fn changes(&self) -> Vec<Change> {
        match self {
            Step::Look
            | Step::Publish(_)
            | Step::Part { .. }
            | Step::Damage(_)
            | Step::Repair
            | Step::Rescue(_)
            | Step::Tear
            | Step::Serve(_)
            // what it changes depends on what it finds
            | Step::Collect { .. } => Vec::new(),
            Step::Name { repository, seed } => named(repository, *seed)[1..].to_vec(),
            Step::Image {
                repository,
                tag: name,
                seed,
            } => {
                let mut changes = names_of_image(repository, *seed).to_vec();
                changes.push(tag(repository, name, Digest::sha256(&image_of(*seed)[0])));
                changes
            }
            Step::Upload { repository, seed } | Step::Put { repository, seed } => {
                named(repository, *seed)[1..].to_vec()
            }
            Step::Tags {
                repository,
                seed,
                count,
            } => {
                let digest = Digest::sha256(manifest_of(*seed));
                let tags = (0..*count).map(|number| tag(repository, &format!("f{number}"), digest));
                named(repository, *seed).into_iter().chain(tags).collect()
            }
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
    pub fn perform(&self, store: &FileStore) -> Result<u64, SinkError> {
        match self {
            Step::Upload { repository, seed } => {
                let _kept = now(store.keep())?;
                let id = begin(store, repository)?;
                let bytes = blob_of(*seed);
                let (first, rest) = (
                    bytes.slice(..bytes.len() / 2),
                    bytes.slice(bytes.len() / 2..),
                );
                let mut upload = resume(store, repository, &id)?;
                now(upload.write(first))?;
                now(upload.pause())?;
                let mut upload = resume(store, repository, &id)?;
                now(upload.write(rest))?;
                now(upload.finish(Digest::sha256(&bytes)))?;
                return Ok(now(commit(store, self.changes()))?);
            }
            Step::Part { repository, seed } => {
                let id = begin(store, repository)?;
                let mut upload = resume(store, repository, &id)?;
                now(upload.write(blob_of(*seed).slice(..2)))?;
                now(upload.pause())?;
            }
            Step::Put { seed, .. } => {
                let bytes = blob_of(*seed);
                let _kept = now(store.put(Digest::sha256(&bytes), bytes))?;
                return Ok(now(commit(store, self.changes()))?);
            }
            Step::Rescue(seed) => now(store.rescue(vec![Digest::sha256(blob_of(*seed))]))?,
            Step::Tear => tear(store.root()),
            Step::Serve(seconds) => serve(store.root(), *seconds),
            Step::Collect { untagged } => {
                collect(store, *untagged, GRACE)?;
            }
            Step::Damage(seed) => damage(store, &blob_of(*seed)),
            Step::Repair => {
                let settings = CheckSettings {
                    jobs: 1,
                    rate: None,
                };
                let go_on = AtomicBool::new(false);
                let mut checked = store.check(&settings, &Silent, &go_on)?;
                store.repair(&mut checked)?;
            }
            _ => {}
        }
        Ok(self.bring(store)?)
    }

    /// Brings what it brings as an import does.
    fn bring(&self, store: &FileStore) -> Result<u64, StoreError> {
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

fn begin(store: &FileStore, repository: &str) -> Result<String, SinkError> {
    now(store.begin(
        &repository.parse().unwrap(),
        Algorithm::Sha256,
        0,
        Client::Unknown,
    ))
}

fn resume(store: &FileStore, repository: &str, id: &str) -> Result<Box<dyn Upload>, SinkError> {
    let resumed = now(store.resume(&repository.parse().unwrap(), id, 0))?;
    Ok(resumed.unwrap())
}

/// Other bytes than it had, on the disk.
fn damage(store: &FileStore, bytes: &Bytes) {
    let hex = Digest::sha256(bytes).hex();
    let path = store.root().join("blobs/sha256").join(&hex[..2]).join(hex);
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[!bytes[0]], 0).unwrap();
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
        "upload a 1",
        "put a 1",
        "part a 1",
        "image a x 1",
        "name a 1",
        "rescue 1",
        "tear",
        "serve 10",
        "collect",
        "collect untagged",
        "tags a 1 9",
        "damage 1",
        "repair",
    ] {
        assert_eq!(text.parse::<Step>().unwrap().to_string(), text);
    }
}

//! The walk from pinned keys, or from the root accepted last, to the current root.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::root::{CURRENT, numbered};
use super::{Entry, KeySet, Memory, Root, RootMemory, TrustError};
use crate::Digest;

/// The root files of a repository, as they were found.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// `root.yaml`.
    pub current: Option<Bytes>,
    /// `root/<N>.yaml`. From [`first_root`] on they must be there, earlier ones may.
    pub numbered: BTreeMap<u32, Bytes>,
}

/// Where a walk ended.
pub(super) struct Walked {
    /// The current root. Nobody has looked at its expiry.
    pub root: Root,
    /// What to remember of the chain.
    pub memory: RootMemory,
    /// Whether it is an ancestor of the root accepted before.
    pub older: bool,
}

/// The number of the first root that judging an offer for `entry` needs: the accepted one, or 1
/// when nothing was accepted or other keys are pinned now.
pub fn first_root(entry: &Entry, memory: Option<&Memory>) -> u32 {
    start(entry, memory).map_or(1, |accepted| accepted.version)
}

fn start<'m>(entry: &Entry, memory: Option<&'m Memory>) -> Option<&'m RootMemory> {
    let memory = memory?;
    let same_anchor = |trust: &Entry| trust.anchor == entry.anchor;
    memory
        .trust
        .as_ref()
        .is_none_or(same_anchor)
        .then_some(())?;
    accepted(Some(memory))
}

fn accepted(memory: Option<&Memory>) -> Option<&RootMemory> {
    memory?.accepted.as_ref()?.root.as_ref()
}

/// Walks to the current root. Each step goes up by one and is signed by enough root keys of
/// both its ends; keys of other roles have no say.
pub(super) fn walk(
    entry: &Entry,
    pinned: &KeySet,
    roots: &Roots,
    memory: Option<&Memory>,
) -> Result<Walked, TrustError> {
    Walk { entry, roots }.walk(pinned, start(entry, memory), accepted(memory))
}

struct Walk<'a> {
    entry: &'a Entry,
    roots: &'a Roots,
}

impl Walk<'_> {
    fn walk(
        &self,
        pinned: &KeySet,
        start: Option<&RootMemory>,
        accepted: Option<&RootMemory>,
    ) -> Result<Walked, TrustError> {
        let last = self.current()?;
        if let Some(accepted) = accepted
            && last.version < accepted.version
        {
            return self.ancestor(last, accepted);
        }
        let mut at = match start {
            Some(_) => None,
            None => Some(self.first(pinned)?),
        };
        let mut digests = accepted.map_or_else(BTreeMap::new, |root| root.versions.clone());
        let mut index_keys = accepted.map_or_else(BTreeSet::new, |root| root.index_keys.clone());
        let from = start.map_or(1, |root| root.version);
        for number in from..=last.version {
            let root = match at.take() {
                None if number == from => self.read(number)?,
                Some(first) if number == from => first,
                before => self.step(before.as_ref(), number)?,
            };
            let digest = root.digest();
            if let Some(known) = digests.get(&number)
                && *known != digest
            {
                return Err(self.fork(&root, *known, accepted));
            }
            digests.insert(number, digest);
            index_keys.extend(root.index.ids());
            at = Some(root);
        }
        // a bundle carries the whole chain; what lies before the start must be what it was
        for number in 1..from {
            if let (Some(known), true) = (
                digests.get(&number),
                self.roots.numbered.contains_key(&number),
            ) {
                let root = self.read(number)?;
                if *known != root.digest() {
                    return Err(self.fork(&root, *known, accepted));
                }
            }
        }
        let root = at.unwrap_or(last);
        Ok(Walked {
            memory: RootMemory {
                version: root.version,
                expires: root.expires,
                versions: digests,
                index_keys,
            },
            root,
            older: false,
        })
    }

    /// The root that `root.yaml` is, which must be its numbered twin byte for byte: else
    /// readers that take the one and readers that take the other would follow two roots.
    fn current(&self) -> Result<Root, TrustError> {
        let url = || self.entry.url.clone();
        let Some(current) = &self.roots.current else {
            return Err(TrustError::NoRoot { url: url() });
        };
        let root = self.parse(CURRENT.to_owned(), current)?;
        let Some(twin) = self.roots.numbered.get(&root.version) else {
            return Err(self.missing(root.version));
        };
        if twin != current {
            return Err(TrustError::RootTwin {
                url: url(),
                version: root.version,
            });
        }
        Ok(root)
    }

    /// Version 1: pinned keys signed it, and its own.
    fn first(&self, pinned: &KeySet) -> Result<Root, TrustError> {
        let root = self.read(1)?;
        self.signed(&root, pinned, "the keys this side trusts")?;
        self.signed(&root, &root.root, "its own root keys")?;
        Ok(root)
    }

    fn step(&self, before: Option<&Root>, number: u32) -> Result<Root, TrustError> {
        let root = self.read(number)?;
        if let Some(before) = before {
            let by = format!("the root keys of version {}", before.version);
            self.signed(&root, &before.root, &by)?;
        }
        self.signed(&root, &root.root, "its own root keys")?;
        Ok(root)
    }

    /// A root older than the accepted one. It is harmless when it is one of those that led
    /// there: then it is judged like an older index, and replaces nothing.
    fn ancestor(&self, root: Root, accepted: &RootMemory) -> Result<Walked, TrustError> {
        match accepted.versions.get(&root.version) {
            Some(known) if *known == root.digest() => Ok(Walked {
                memory: accepted.clone(),
                root,
                older: true,
            }),
            Some(known) => Err(self.fork(&root, *known, Some(accepted))),
            None => Err(TrustError::RootOlder {
                url: self.entry.url.clone(),
                version: root.version,
                expires: root.expires,
                accepted: accepted.version,
                accepted_expires: accepted.expires,
            }),
        }
    }

    fn read(&self, number: u32) -> Result<Root, TrustError> {
        let bytes = self.roots.numbered.get(&number);
        let bytes = bytes.ok_or_else(|| self.missing(number))?;
        let root = self.parse(numbered(number), bytes)?;
        if root.version != number {
            return Err(TrustError::RootNumber {
                url: self.entry.url.clone(),
                number,
                found: root.version,
            });
        }
        Ok(root)
    }

    fn parse(&self, file: String, bytes: &[u8]) -> Result<Root, TrustError> {
        Root::read(bytes).map_err(|source| TrustError::Root {
            url: self.entry.url.clone(),
            file,
            source: Box::new(source),
        })
    }

    fn signed(&self, root: &Root, set: &KeySet, by: &str) -> Result<(), TrustError> {
        let have = root.signed_by(set).len();
        if set.met_by(have) {
            return Ok(());
        }
        Err(TrustError::RootUnsigned {
            url: self.entry.url.clone(),
            version: root.version,
            by: by.to_owned(),
            have,
            need: set.threshold(),
        })
    }

    fn missing(&self, number: u32) -> TrustError {
        TrustError::RootMissing {
            url: self.entry.url.clone(),
            number,
        }
    }

    fn fork(&self, root: &Root, known: Digest, accepted: Option<&RootMemory>) -> TrustError {
        TrustError::RootFork {
            url: self.entry.url.clone(),
            version: root.version,
            offered: Box::new(root.digest()),
            offered_expires: root.expires,
            accepted: Box::new(known),
            accepted_version: accepted.map_or(root.version, |root| root.version),
            accepted_expires: accepted.map_or(root.expires, |root| root.expires),
        }
    }
}

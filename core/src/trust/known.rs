//! What a store knows over all its repositories together.
//!
//! A memory is filed under the URL of an index. Who carries the files chooses that URL, so a
//! memory alone stops nobody who offers an old index under another one. This record closes
//! that: which keys signed for which repository, where each repository lies in the mirror,
//! and the newest time any accepted index has shown.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Entry, Memory, MemoryError, TrustError, Verdict};
use crate::keys::{KeyId, PublicKey};
use crate::location::CanonicalUrl;
use crate::time::Time;

/// What the record is filed under beside the memories. No entry has this id: those made of
/// URLs end in `-` and twelve hex digits, and a trust file may not give it.
pub const KNOWN_ID: &str = "known-keys";

/// The record. It is read as strictly as a memory, for the same reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Known {
    /// By entry id.
    entries: BTreeMap<String, KnownEntry>,
    /// The newest `generated` that was accepted under any entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    newest: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KnownEntry {
    url: CanonicalUrl,
    /// Every key that ever signed an accepted index: an old index may be signed by an old key.
    #[serde(default, with = "super::key_ids")]
    keys: BTreeSet<KeyId>,
    /// Every key that was ever trusted for it: pinned, or let sign its index by its root. They
    /// may have signed indexes that were never seen here.
    #[serde(
        default,
        skip_serializing_if = "BTreeSet::is_empty",
        with = "super::key_ids"
    )]
    trusted: BTreeSet<KeyId>,
    /// Its record was dropped because somebody asked for it. Without this, a record that is
    /// not there has been lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dropped: bool,
}

impl Known {
    /// Reads the record as a store holds it.
    pub fn from_value(value: &serde_json::Value) -> Result<Known, MemoryError> {
        Known::deserialize(value).map_err(MemoryError::new)
    }

    /// The record as a store holds it.
    pub fn to_value(&self) -> serde_json::Value {
        // maps with text keys and lists of texts always have a JSON form
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The newest `generated` that was accepted under any entry.
    pub fn newest(&self) -> Option<Time> {
        self.newest
    }

    /// The id of the entry of the repository at `url`.
    pub fn id_of(&self, url: &CanonicalUrl) -> Option<&str> {
        let mut entries = self.entries.iter();
        Some(entries.find(|(_, entry)| entry.url == *url)?.0.as_str())
    }

    /// Ids and URLs of all entries anything was accepted under.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &CanonicalUrl)> {
        self.entries
            .iter()
            .map(|(id, entry)| (id.as_str(), &entry.url))
    }

    /// The id of the entry a record must be there for: `entry` was known, and nobody has asked
    /// to drop what was accepted.
    pub fn must_have(&self, entry: &Entry) -> Option<&str> {
        let mut entries = self.entries.iter();
        let this =
            |(id, known): &(&String, &KnownEntry)| **id == entry.id || known.url == entry.url;
        let (id, known) = entries.find(this)?;
        (!known.dropped).then_some(id)
    }

    /// Notes that the record of `id` was dropped on purpose. The keys stay: they keep its old
    /// indexes from coming in as another repository's. `false` when it is not known, or was
    /// dropped before.
    pub fn dropped(&mut self, id: &str) -> bool {
        match self.entries.get_mut(id) {
            Some(known) => !std::mem::replace(&mut known.dropped, true),
            None => false,
        }
    }

    /// Whether `entry`, under which nothing was accepted yet, may begin with `verdict`.
    ///
    /// # Errors
    /// [`TrustError::SitesMeet`] when it and another one would be served at one place, and see
    /// [`Known::own`].
    pub fn admit(&self, entry: &Entry, verdict: &Verdict) -> Result<(), TrustError> {
        let place = entry.url.place();
        if let Some(other) = self.others(entry).find(|other| other.url.place() == place) {
            return Err(TrustError::SitesMeet {
                url: entry.url.clone(),
                other: other.url.clone(),
            });
        }
        self.own(entry, verdict)
    }

    /// Whether the index can only be that of `entry`: it says so, or no other repository has
    /// to do with the keys of this one.
    ///
    /// # Errors
    /// [`TrustError::KnownKey`] when it could be that of another repository in the store under
    /// another URL.
    pub fn own(&self, entry: &Entry, verdict: &Verdict) -> Result<(), TrustError> {
        if verdict.index.repository.is_some() {
            return Ok(()); // it was compared with the entry's
        }
        let mut keys: BTreeSet<KeyId> = verdict.signed_by.iter().copied().collect();
        keys.extend(entry.anchor.keys().iter().map(PublicKey::id));
        let shared = |other: &KnownEntry| {
            let mut keys = keys.iter();
            let known = |key: &&KeyId| other.keys.contains(key) || other.trusted.contains(key);
            keys.find(known).copied()
        };
        match self
            .others(entry)
            .find_map(|other| Some((other, shared(other)?)))
        {
            Some((other, key)) => Err(TrustError::KnownKey {
                url: entry.url.clone(),
                key,
                other: other.url.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The other repositories. The one at the same URL is the same one, whatever its id.
    fn others(&self, entry: &Entry) -> impl Iterator<Item = &KnownEntry> {
        let other =
            |(id, known): &(&String, &KnownEntry)| **id != entry.id && known.url != entry.url;
        let others = self.entries.iter().filter(other);
        others.map(|(_, known)| known)
    }

    /// Takes in what was accepted under `entry` now.
    pub fn note(&mut self, entry: &Entry, verdict: &Verdict) {
        self.note_memory(&verdict.memory);
        let known = self.entry(&entry.id, &entry.url);
        known.keys.extend(verdict.signed_by.iter().copied());
        let pinned = entry.anchor.keys().iter().map(PublicKey::id);
        known.trusted.extend(pinned);
    }

    /// Takes in what was accepted before.
    pub fn note_memory(&mut self, memory: &Memory) {
        let Some(accepted) = &memory.accepted else {
            return;
        };
        self.newest = self.newest.max(accepted.generated);
        let known = self.entry(&memory.entry, &memory.url);
        known.keys.extend(accepted.signed_by.iter().copied());
        let trust = memory.trust.iter();
        let pinned = trust.flat_map(|trust| trust.anchor.keys());
        known.trusted.extend(pinned.map(PublicKey::id));
        let roots = accepted.root.iter();
        known
            .trusted
            .extend(roots.flat_map(|root| &root.index_keys));
        known.dropped = false;
    }

    /// What is known of `id`, with what was known of its URL under another id.
    fn entry(&mut self, id: &str, url: &CanonicalUrl) -> &mut KnownEntry {
        let old = |(other, known): (&String, &KnownEntry)| {
            (other != id && known.url == *url).then(|| other.clone())
        };
        let old = self.entries.iter().find_map(old);
        let old = old.and_then(|old| self.entries.remove(&old));
        let known = self
            .entries
            .entry(id.to_owned())
            .or_insert_with(|| KnownEntry {
                url: url.clone(),
                keys: BTreeSet::new(),
                trusted: BTreeSet::new(),
                dropped: false,
            });
        if let Some(old) = old {
            known.keys.extend(old.keys);
            known.trusted.extend(old.trusted);
        }
        known
    }
}

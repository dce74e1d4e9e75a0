//! What a store knows over all its repositories together.
//!
//! A memory is filed under the URL of an index. Who carries the files chooses that URL, so a
//! memory alone stops nobody who offers an old index under another one. This record closes
//! that: which keys signed for which repository, where each repository lies in the mirror,
//! and the newest time any accepted index has shown.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Entry, Memory, MemoryError, TrustError, Verdict};
use crate::keys::KeyId;
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

    /// Whether `entry`, under which nothing was accepted yet, may begin with `verdict`.
    ///
    /// # Errors
    /// [`TrustError::KnownKey`] when the index could be that of another repository in the
    /// store under another URL, [`TrustError::SitesMeet`] when both would be served at one
    /// place.
    pub fn admit(&self, entry: &Entry, verdict: &Verdict) -> Result<(), TrustError> {
        let place = entry.url.place();
        let mut others = self.entries.iter().filter(|(id, _)| **id != entry.id);
        if let Some((_, other)) = others.clone().find(|(_, other)| other.url.place() == place) {
            return Err(TrustError::SitesMeet {
                url: entry.url.clone(),
                other: other.url.clone(),
            });
        }
        if verdict.index.repository.is_some() {
            return Ok(()); // it was compared with the entry's
        }
        let signed =
            |other: &KnownEntry| verdict.signed_by.iter().find(|id| other.keys.contains(id));
        match others.find_map(|(_, other)| Some((other, signed(other)?))) {
            Some((other, key)) => Err(TrustError::KnownKey {
                url: entry.url.clone(),
                key: *key,
                other: other.url.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Takes in what was accepted under `entry` now.
    pub fn note(&mut self, entry: &Entry, verdict: &Verdict) {
        self.note_memory(&verdict.memory);
        let known = self.entry(&entry.id, &entry.url);
        known.keys.extend(verdict.signed_by.iter().copied());
    }

    /// Takes in what was accepted before.
    pub fn note_memory(&mut self, memory: &Memory) {
        let Some(accepted) = &memory.accepted else {
            return;
        };
        self.newest = self.newest.max(accepted.generated);
        let known = self.entry(&memory.entry, &memory.url);
        known.keys.extend(accepted.signed_by.iter().copied());
    }

    fn entry(&mut self, id: &str, url: &CanonicalUrl) -> &mut KnownEntry {
        self.entries
            .entry(id.to_owned())
            .or_insert_with(|| KnownEntry {
                url: url.clone(),
                keys: BTreeSet::new(),
            })
    }
}

//! What a site remembers of a repository: who is trusted for it, and what was accepted last.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Entry;
use super::quick::Quick;
use super::withdrawn::Seen;
use crate::Digest;
use crate::error::{Classify, Kind, shown};
use crate::keys::KeyId;
use crate::location::CanonicalUrl;
use crate::time::Time;

/// Larger than any memory; a file over it is not read. Most of it could be versions seen
/// withdrawn, see [`super::MAX_WITHDRAWN`].
pub const MAX_MEMORY: usize = 8 * 1024 * 1024;

/// The record of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Id of the trust entry.
    pub entry: String,
    /// URL of the index.
    pub url: CanonicalUrl,
    /// Who is trusted. Absent in records of releases that did not keep it.
    pub trust: Option<Entry>,
    /// What was accepted. Absent when it was reset.
    pub accepted: Option<Accepted>,
}

/// What was accepted last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Digest of the index file.
    pub index: Digest,
    /// A second hash of it, by which a large one is known again.
    pub quick: Option<Quick>,
    /// The index's `generated`. Absent only while the first index had none.
    pub generated: Option<Time>,
    /// When this index was first accepted, by the site's clock.
    pub first_seen: Time,
    /// The trusted keys that signed it. Empty when it was accepted unsigned.
    pub signed_by: BTreeSet<KeyId>,
    /// Digest of the signature file that was verified.
    pub signature: Option<Digest>,
    /// Digest of the table that was made of the index.
    pub table: Option<Digest>,
    /// Whether it named its own URL. From then on the indexes of this entry have to, so that
    /// no index of another repository with the same key can follow it.
    pub names_url: bool,
    /// The root it was judged by.
    pub root: Option<RootMemory>,
    /// Versions that were seen withdrawn.
    pub withdrawn: Seen,
}

/// The root accepted last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootMemory {
    /// Its number.
    pub version: u32,
    /// When it expires.
    pub expires: Time,
    /// Digest of its signed bytes, and of those of each version that led to it: another one of
    /// that number is a fork.
    pub versions: BTreeMap<u32, Digest>,
    /// Keys that any of these versions let sign an index. Old indexes may be signed by them.
    #[serde(
        default,
        rename = "indexKeys",
        skip_serializing_if = "BTreeSet::is_empty",
        with = "super::key_ids"
    )]
    pub index_keys: BTreeSet<KeyId>,
}

impl RootMemory {
    /// Digest of the signed bytes of the accepted version.
    pub fn digest(&self) -> Option<&Digest> {
        self.versions.get(&self.version)
    }
}

/// The record as it is kept. It is read strictly: a record that cannot be understood is an
/// error. Taking it for none would undo the protection it exists for.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Form {
    entry: String,
    url: CanonicalUrl,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trust: Option<Entry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quick: Option<Quick>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generated: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_seen: Option<Time>,
    #[serde(
        default,
        skip_serializing_if = "BTreeSet::is_empty",
        with = "super::key_ids"
    )]
    signed_by: BTreeSet<KeyId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<Digest>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    names_url: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<RootMemory>,
    #[serde(default, skip_serializing_if = "Seen::is_empty")]
    withdrawn: Seen,
}

impl Form {
    fn memory(self) -> Result<Memory, MemoryError> {
        let damaged = |why: &str| Err(MemoryError(why.to_owned()));
        if let Some(trust) = &self.trust
            && (trust.id != self.entry || trust.url != self.url)
        {
            return damaged("it holds the trust in another repository");
        }
        if let Some(root) = &self.root
            && root.digest().is_none()
        {
            return damaged("it does not hold the digest of the accepted root");
        }
        let accepted = match (self.index, self.first_seen) {
            (Some(index), Some(first_seen)) => Some(Accepted {
                index,
                quick: self.quick,
                generated: self.generated,
                first_seen,
                signed_by: self.signed_by,
                signature: self.signature,
                table: self.table,
                names_url: self.names_url,
                root: self.root,
                withdrawn: self.withdrawn,
            }),
            // nothing but who is trusted stays after a reset
            (None, None)
                if self.trust.is_some()
                    && self.generated.is_none()
                    && self.signed_by.is_empty()
                    && self.signature.is_none()
                    && self.table.is_none()
                    && self.quick.is_none()
                    && !self.names_url
                    && self.root.is_none()
                    && self.withdrawn.is_empty() =>
            {
                None
            }
            _ => return damaged("it does not say which index was accepted, and when"),
        };
        Ok(Memory {
            entry: self.entry,
            url: self.url,
            trust: self.trust,
            accepted,
        })
    }

    fn of(memory: &Memory) -> Form {
        let accepted = memory.accepted.clone();
        let form = Form {
            entry: memory.entry.clone(),
            url: memory.url.clone(),
            trust: memory.trust.clone(),
            index: None,
            generated: None,
            first_seen: None,
            signed_by: BTreeSet::new(),
            signature: None,
            table: None,
            quick: None,
            names_url: false,
            root: None,
            withdrawn: Seen::default(),
        };
        match accepted {
            None => form,
            Some(accepted) => Form {
                index: Some(accepted.index),
                generated: accepted.generated,
                first_seen: Some(accepted.first_seen),
                signed_by: accepted.signed_by,
                signature: accepted.signature,
                table: accepted.table,
                quick: accepted.quick,
                names_url: accepted.names_url,
                root: accepted.root,
                withdrawn: accepted.withdrawn,
                ..form
            },
        }
    }
}

/// A memory is damaged. What it protects from cannot be checked then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of the index accepted last is damaged: {0}")]
pub struct MemoryError(String);

impl Classify for MemoryError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn hint(&self) -> Option<String> {
        Some(
            "restore the record from a backup of the store; without it an old index could be \
             taken for the current one"
                .to_owned(),
        )
    }
}

impl MemoryError {
    pub(super) fn new(error: impl std::fmt::Display) -> MemoryError {
        MemoryError(shown(&error.to_string()))
    }
}

impl Memory {
    /// Reads the JSON text of a memory.
    pub fn decode(bytes: &[u8]) -> Result<Memory, MemoryError> {
        if bytes.len() > MAX_MEMORY {
            return Err(MemoryError(format!("it is larger than {MAX_MEMORY} bytes")));
        }
        let form: Form = serde_json::from_slice(bytes).map_err(MemoryError::new)?;
        form.memory()
    }

    /// Reads a memory as a store holds it.
    pub fn from_value(value: &serde_json::Value) -> Result<Memory, MemoryError> {
        Form::deserialize(value).map_err(MemoryError::new)?.memory()
    }

    /// The memory as a store holds it.
    pub fn to_value(&self) -> serde_json::Value {
        // texts, numbers, lists and maps with text keys always have a JSON form
        serde_json::to_value(Form::of(self)).unwrap_or_default()
    }

    /// This record under another id.
    pub fn renamed(&self, id: &str) -> Memory {
        let mut renamed = self.clone();
        id.clone_into(&mut renamed.entry);
        if let Some(trust) = &mut renamed.trust {
            id.clone_into(&mut trust.id);
        }
        renamed
    }

    /// The JSON text, with a line end.
    pub fn encode(&self) -> Vec<u8> {
        format!("{}\n", self.to_value()).into_bytes()
    }

    /// This record without what was accepted; who is trusted stays. `None` when nothing is
    /// left then.
    ///
    /// Afterwards an old index can come in as the current one. It is for a publisher who lost
    /// its keys or its root and began anew, and somebody must ask for it.
    pub fn reset(&self) -> Option<Memory> {
        self.trust.as_ref()?;
        Some(Memory {
            accepted: None,
            ..self.clone()
        })
    }
}

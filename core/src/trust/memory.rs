//! What a site remembers of the index it accepted last.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::error::{Classify, Kind};
use crate::keys::KeyId;
use crate::location::CanonicalUrl;
use crate::time::Time;

/// Larger than any memory; a file over it is not read.
pub const MAX_MEMORY: usize = 64 * 1024;

/// The memory of one entry. It is read strictly: a record that cannot be understood is an
/// error. Taking it for none would undo the protection it exists for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Memory {
    /// Id of the trust entry.
    pub entry: String,
    /// URL of the index.
    pub url: CanonicalUrl,
    /// Digest of the accepted index file.
    pub index: Digest,
    /// The accepted index's `generated`. Absent only while the first index had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<Time>,
    /// When this index was first accepted, by the site's clock.
    pub first_seen: Time,
    /// The trusted keys that signed it. Empty when it was accepted unsigned.
    #[serde(
        default,
        skip_serializing_if = "BTreeSet::is_empty",
        with = "super::key_ids"
    )]
    pub signed_by: BTreeSet<KeyId>,
    /// Whether it named its own URL. From then on the indexes of this entry have to, so that
    /// no index of another repository with the same key can follow it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names_url: bool,
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
    pub(super) fn new(error: serde_json::Error) -> MemoryError {
        MemoryError(error.to_string())
    }
}

impl Memory {
    /// Reads the JSON text of a memory.
    pub fn decode(bytes: &[u8]) -> Result<Memory, MemoryError> {
        if bytes.len() > MAX_MEMORY {
            return Err(MemoryError(format!("it is larger than {MAX_MEMORY} bytes")));
        }
        serde_json::from_slice(bytes).map_err(MemoryError::new)
    }

    /// Reads a memory as a store holds it.
    pub fn from_value(value: &serde_json::Value) -> Result<Memory, MemoryError> {
        Memory::deserialize(value).map_err(MemoryError::new)
    }

    /// The memory as a store holds it.
    pub fn to_value(&self) -> serde_json::Value {
        let mut value = serde_json::json!({
            "entry": self.entry,
            "url": self.url.as_str(),
            "index": self.index.to_string(),
            "firstSeen": self.first_seen.to_string(),
        });
        if let Some(generated) = self.generated {
            value["generated"] = generated.to_string().into();
        }
        if !self.signed_by.is_empty() {
            let ids: Vec<String> = self.signed_by.iter().map(ToString::to_string).collect();
            value["signedBy"] = ids.into();
        }
        if self.names_url {
            value["namesUrl"] = true.into();
        }
        value
    }

    /// The JSON text, with a line end.
    pub fn encode(&self) -> Vec<u8> {
        format!("{}\n", self.to_value()).into_bytes()
    }
}

//! The root of trust of a repository: which keys decide what, signed by the keys it names.
//!
//! `root.yaml` is the current version, `root/<N>.yaml` each version from 1. Signed is the JSON
//! of the member `signed` as Go's encoder writes it, so what was read is kept as it was written
//! and gives the same bytes again. A root is read like everything published (Go's rules for
//! YAML), but whatever two readers could take for two things is refused: a key given twice, a
//! second document, a member this release does not know.

mod build;
mod error;
mod read;
mod wire;

use std::collections::BTreeMap;

pub use build::{DelegationDraft, RoleChange, RootChange, RootDraft};
pub use error::RootError;

use super::keyset::KeySet;
use super::pattern::Pattern;
use crate::Digest;
use crate::api::go_json;
use crate::index::signature::{self, decode};
use crate::keys::{KeyError, KeyId, PrivateKey, PublicKey};
use crate::time::Time;
use crate::yaml::write;

/// Largest root file, in bytes: a thousand times a usual one.
pub const MAX_ROOT: usize = 1024 * 1024;

/// Most versions of a root; they are all kept, and walked once from the first.
pub const MAX_ROOT_VERSION: u32 = 1_000;

/// Name of the file with the current version, beside the index.
pub const CURRENT: &str = "root.yaml";

/// Path beside the index of the version `number`.
pub fn numbered(number: u32) -> String {
    format!("root/{number}.yaml")
}

/// One version of a root, whose form holds. Who signed it is another question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its number, from 1.
    pub version: u32,
    /// When it stops being good.
    pub expires: Time,
    /// All keys it names.
    pub keys: BTreeMap<KeyId, PublicKey>,
    /// Who signs the next root.
    pub root: KeySet,
    /// Who signs the index.
    pub index: KeySet,
    /// Who approves versions; without this role none is wanted.
    pub approvals: Option<KeySet>,
    /// Packages whose versions others answer for; the first that fits counts.
    pub delegations: Vec<Delegation>,
    /// As written; this is what is signed.
    signed: wire::Signed,
    signatures: Vec<wire::Signature>,
}

/// Packages handed to other keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// What it is called.
    pub name: String,
    /// The packages.
    pub packages: Vec<Pattern>,
    /// Who signs their versions.
    pub signers: KeySet,
}

impl Root {
    /// The bytes that are signed.
    pub fn signed_bytes(&self) -> Vec<u8> {
        go_json(&self.signed)
    }

    /// The digest this version is known by.
    pub fn digest(&self) -> Digest {
        Digest::sha256(self.signed_bytes())
    }

    /// The file, as the existing program writes it: members sorted.
    pub fn to_yaml(&self) -> String {
        #[derive(serde::Serialize)]
        struct File<'a> {
            signed: &'a wire::Signed,
            signatures: &'a [wire::Signature],
        }
        let file = File {
            signed: &self.signed,
            signatures: &self.signatures,
        };
        // maps with text keys, texts and numbers always have a JSON form
        write::to_string(&file).unwrap_or_default()
    }

    /// How many signatures it carries, whoever made them.
    pub fn signature_count(&self) -> usize {
        self.signatures.len()
    }

    /// Which keys of `set` signed this version.
    pub fn signed_by(&self, set: &KeySet) -> Vec<KeyId> {
        let entry = |entry: &wire::Signature| {
            Some(signature::Entry {
                key_id: entry.keyid.clone(),
                signature: decode(&entry.sig)?,
            })
        };
        let entries: Vec<_> = self.signatures.iter().filter_map(entry).collect();
        set.signed_by(&self.signed_bytes(), &entries)
    }

    /// Adds the signature of `key`, or replaces the one it made before.
    pub fn sign(&mut self, key: &PrivateKey) -> Result<KeyId, KeyError> {
        let id = key.public()?.id();
        let keyid = id.to_string();
        let made = wire::Signature {
            sig: signature::encode(&key.sign(&self.signed_bytes())),
            keyid: keyid.clone(),
        };
        match self.signatures.iter_mut().find(|old| old.keyid == keyid) {
            Some(old) => *old = made,
            None => self.signatures.push(made),
        }
        Ok(id)
    }

    /// The delegation that answers for `package`.
    pub fn delegation(&self, package: &str) -> Option<&Delegation> {
        let fits = |delegation: &&Delegation| {
            delegation
                .packages
                .iter()
                .any(|pattern| pattern.matches(package))
        };
        self.delegations.iter().find(fits)
    }
}

#[cfg(test)]
mod tests;

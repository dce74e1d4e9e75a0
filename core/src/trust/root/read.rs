//! Reading a root, and holding it to its rules.

use std::collections::{BTreeMap, BTreeSet};

use super::wire::{self, Signed};
use super::{Delegation, MAX_ROOT, MAX_ROOT_VERSION, Root, RootError};
use crate::error::shown;
use crate::index::signature::MAX_SIGNATURES;
use crate::keys::{KeyId, PublicKey};
use crate::time::Time;
use crate::trust::keyset::KeySet;
use crate::yaml::go::Document;
use crate::yaml::{Limits, strict};

/// Values in a root: far more than [`MAX_ROOT`] of real ones holds.
const MAX_NODES: usize = 50_000;

impl Root {
    /// Reads a root file.
    ///
    /// # Errors
    /// See [`RootError`]. Signatures are not looked at.
    pub fn read(bytes: &[u8]) -> Result<Root, RootError> {
        if bytes.len() > MAX_ROOT {
            return Err(RootError::TooLarge);
        }
        let limits = Limits {
            bytes: MAX_ROOT,
            depth: 16,
            nodes: MAX_NODES,
            expansion: 0,
        };
        let document = Document::read_signed(bytes, &limits)?;
        one_document(bytes, &limits)?;
        let Some(node) = document.root().member("signed") else {
            return Err(RootError::NoRoot);
        };
        let signed = document.decode::<Signed>(node)?;
        let whole = document.decode::<wire::Signatures>(document.root())?;
        if let Some(name) = signed.doubled.first().or(whole.doubled.first()) {
            return Err(document.text().doubled(node, name).into());
        }
        if !signed.unknown.is_empty() {
            return Err(RootError::Newer {
                version: signed.value.version,
                unknown: signed.unknown,
            });
        }
        if whole.value.signatures.len() > MAX_SIGNATURES {
            return Err(RootError::TooManySignatures);
        }
        Root::from_wire(signed.value, whole.value.signatures)
    }

    /// The root that `signed` is, with its rules checked.
    pub(super) fn from_wire(
        signed: Signed,
        signatures: Vec<wire::Signature>,
    ) -> Result<Root, RootError> {
        known_roles(&signed)?;
        let version = match u32::try_from(signed.version) {
            Ok(version @ 1..=MAX_ROOT_VERSION) => version,
            _ => return Err(RootError::Version(signed.version)),
        };
        let keys = keys(&signed)?;
        let role = |name: &'static str| match signed.roles.get(name) {
            Some(role) => {
                set(&keys, &role.keyids, role.threshold, format!("role {name}")).map(Some)
            }
            None => Ok(None),
        };
        let wanted = |name| role(name)?.ok_or(RootError::NoRole(name));
        Ok(Root {
            version,
            expires: expires(&signed.expires)?,
            root: wanted("root")?,
            index: wanted("index")?,
            approvals: role("approvals")?,
            delegations: delegations(&signed, &keys)?,
            keys,
            signed,
            signatures,
        })
    }
}

/// A second document could be what another reader takes for the root.
fn one_document(bytes: &[u8], limits: &Limits) -> Result<(), RootError> {
    let Ok(text) = str::from_utf8(bytes) else {
        // UTF-16: the readers of other programs may not know it, and no tool writes a root so
        return Err(RootError::Documents);
    };
    match strict::documents(text, limits)?.len() {
        0 | 1 => Ok(()),
        _ => Err(RootError::Documents),
    }
}

/// A role is a duty. Who passes over one it does not know accepts what that role would refuse.
fn known_roles(signed: &Signed) -> Result<(), RootError> {
    let known = ["root", "index", "approvals"];
    let unknown: Vec<String> = signed
        .roles
        .keys()
        .filter(|name| !known.contains(&name.as_str()))
        .map(|name| format!("roles.{name}"))
        .collect();
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(RootError::Newer {
            version: signed.version,
            unknown,
        }),
    }
}

/// Only the one form is taken: the existing program may write the time anew before it hashes
/// it, and then a text in another form would have two digests.
fn expires(text: &str) -> Result<Time, RootError> {
    match text.parse::<Time>() {
        Ok(time) if time.to_string() == text => Ok(time),
        _ => Err(RootError::Expires(text.chars().take(64).collect())),
    }
}

fn keys(signed: &Signed) -> Result<BTreeMap<KeyId, PublicKey>, RootError> {
    let mut keys = BTreeMap::new();
    for (id, pem) in &signed.keys {
        let key = PublicKey::from_pem(pem).map_err(|source| RootError::Key {
            id: shown(id),
            source,
        })?;
        let own = key.id();
        if *id != own.to_string() {
            return Err(RootError::KeyId {
                id: shown(id),
                own: own.to_string(),
            });
        }
        keys.insert(own, key);
    }
    Ok(keys)
}

fn set(
    keys: &BTreeMap<KeyId, PublicKey>,
    ids: &[String],
    threshold: i64,
    of: String,
) -> Result<KeySet, RootError> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let key = id.parse::<KeyId>().ok().and_then(|id| keys.get(&id));
        // ids are compared as they are written
        match key.filter(|key| key.id().to_string() == *id) {
            Some(key) => found.push(key.clone()),
            None => {
                let id = shown(id);
                return Err(RootError::UnknownKey { of, id });
            }
        }
    }
    KeySet::new(found, threshold).map_err(|source| RootError::KeySet { of, source })
}

fn delegations(
    signed: &Signed,
    keys: &BTreeMap<KeyId, PublicKey>,
) -> Result<Vec<Delegation>, RootError> {
    let mut names = BTreeSet::new();
    let mut delegations = Vec::with_capacity(signed.delegations.len());
    for wire in &signed.delegations {
        if wire.name.is_empty() {
            return Err(RootError::NoName);
        }
        if !names.insert(&wire.name) {
            return Err(RootError::TwoDelegations(shown(&wire.name)));
        }
        let of = format!("delegation {}", shown(&wire.name));
        if wire.packages.is_empty() {
            return Err(RootError::NoPackages(of));
        }
        let patterns = wire.packages.iter().map(|pattern| pattern.parse());
        let packages =
            patterns
                .collect::<Result<Vec<_>, _>>()
                .map_err(|source| RootError::Pattern {
                    of: of.clone(),
                    source,
                })?;
        delegations.push(Delegation {
            name: wire.name.clone(),
            packages,
            signers: set(keys, &wire.keyids, wire.threshold, of)?,
        });
    }
    Ok(delegations)
}

//! Making roots: the first version, and the next one of a chain.

use super::wire::{self, Signed};
use super::{Root, RootError};
use crate::keys::PublicKey;
use crate::time::Time;

/// What a first version is to say.
#[derive(Clone, Debug)]
pub struct RootDraft {
    /// When it stops being good.
    pub expires: Time,
    /// Who signs the next root, and how many must.
    pub root: (Vec<PublicKey>, u32),
    /// Who signs the index, and how many must.
    pub index: (Vec<PublicKey>, u32),
    /// Who approves versions, where that is wanted.
    pub approvals: Option<(Vec<PublicKey>, u32)>,
    /// Packages handed to others, in the order in which they count.
    pub delegations: Vec<DelegationDraft>,
}

/// A delegation to be made.
#[derive(Clone, Debug)]
pub struct DelegationDraft {
    /// What it is called.
    pub name: String,
    /// Patterns of package names.
    pub packages: Vec<String>,
    /// Who signs their versions.
    pub keys: Vec<PublicKey>,
    /// How many must.
    pub threshold: u32,
}

/// What changes of a role; what is not given stays.
#[derive(Clone, Debug, Default)]
pub struct RoleChange {
    /// The keys from now on.
    pub keys: Option<Vec<PublicKey>>,
    /// The threshold from now on.
    pub threshold: Option<u32>,
}

/// What the next version says otherwise than this one.
#[derive(Clone, Debug)]
pub struct RootChange {
    /// When the next version stops being good.
    pub expires: Time,
    /// Who signs the root after it.
    pub root: RoleChange,
    /// Who signs the index.
    pub index: RoleChange,
    /// Who approves versions. Keys make the role where there is none; an empty list of keys
    /// takes it away.
    pub approvals: RoleChange,
    /// Delegations to take back, by name.
    pub undelegate: Vec<String>,
    /// Delegations to make. One of a name that is there takes its place, others come last.
    pub delegate: Vec<DelegationDraft>,
}

impl RootChange {
    /// Nothing but a new expiry.
    pub fn renewed(expires: Time) -> RootChange {
        RootChange {
            expires,
            root: RoleChange::default(),
            index: RoleChange::default(),
            approvals: RoleChange::default(),
            undelegate: Vec::new(),
            delegate: Vec::new(),
        }
    }
}

impl Root {
    /// Version 1, unsigned.
    ///
    /// # Errors
    /// What [`Root::read`] would refuse: thresholds, patterns, names.
    pub fn first(draft: &RootDraft) -> Result<Root, RootError> {
        let mut signed = Signed {
            version: 1,
            expires: draft.expires.to_string(),
            ..Signed::default()
        };
        signed.set_role("root", &draft.root.0, draft.root.1);
        signed.set_role("index", &draft.index.0, draft.index.1);
        if let Some((keys, threshold)) = &draft.approvals {
            signed.set_role("approvals", keys, *threshold);
        }
        for delegation in &draft.delegations {
            let made = signed.delegation(delegation);
            signed.delegations.push(made);
        }
        Root::from_wire(signed, Vec::new())
    }

    /// The version after this one, unsigned. It needs signatures by this one's root keys and
    /// by its own.
    ///
    /// # Errors
    /// What [`Root::read`] would refuse, and a delegation to take back that is not there.
    pub fn next(&self, change: &RootChange) -> Result<Root, RootError> {
        let mut signed = self.signed.clone();
        signed.version += 1;
        signed.expires = change.expires.to_string();
        signed.change_role("root", &change.root);
        signed.change_role("index", &change.index);
        signed.change_role("approvals", &change.approvals);
        for name in &change.undelegate {
            let before = signed.delegations.len();
            signed.delegations.retain(|known| known.name != *name);
            if signed.delegations.len() == before {
                return Err(RootError::NoDelegation(name.clone()));
            }
        }
        for delegation in &change.delegate {
            let made = signed.delegation(delegation);
            let mut known = signed.delegations.iter_mut();
            match known.find(|known| known.name == made.name) {
                Some(known) => *known = made,
                None => signed.delegations.push(made),
            }
        }
        signed.drop_unused_keys();
        Root::from_wire(signed, Vec::new())
    }
}

impl Signed {
    /// The ids of `keys`, sorted, each once; the keys themselves are taken in.
    fn ids(&mut self, keys: &[PublicKey]) -> Vec<String> {
        let mut ids: Vec<String> = keys.iter().map(|key| key.id().to_string()).collect();
        ids.sort();
        ids.dedup();
        let named = keys.iter().map(|key| (key.id().to_string(), key.to_pem()));
        self.keys.extend(named);
        ids
    }

    fn set_role(&mut self, name: &str, keys: &[PublicKey], threshold: u32) {
        let role = wire::Role {
            keyids: self.ids(keys),
            threshold: i64::from(threshold),
        };
        self.roles.insert(name.to_owned(), role);
    }

    fn change_role(&mut self, name: &str, change: &RoleChange) {
        if change.keys.as_ref().is_some_and(Vec::is_empty) && name == "approvals" {
            self.roles.remove(name);
            return;
        }
        if change.keys.is_none() && change.threshold.is_none() {
            return;
        }
        let keyids = change.keys.as_ref().map(|keys| self.ids(keys));
        let new = !self.roles.contains_key(name);
        let role = self.roles.entry(name.to_owned()).or_default();
        if let Some(keyids) = keyids {
            role.keyids = keyids;
        }
        // a single key decides alone; how many of several must is for people to say
        if new && role.keyids.len() == 1 {
            role.threshold = 1;
        }
        if let Some(threshold) = change.threshold {
            role.threshold = i64::from(threshold);
        }
    }

    fn delegation(&mut self, draft: &DelegationDraft) -> wire::Delegation {
        wire::Delegation {
            name: draft.name.clone(),
            packages: draft.packages.clone(),
            keyids: self.ids(&draft.keys),
            threshold: i64::from(draft.threshold),
        }
    }

    fn drop_unused_keys(&mut self) {
        let Signed {
            keys,
            roles,
            delegations,
            ..
        } = self;
        let used = |id: &String| {
            roles.values().any(|role| role.keyids.contains(id))
                || delegations.iter().any(|one| one.keyids.contains(id))
        };
        keys.retain(|id, _| used(id));
    }
}

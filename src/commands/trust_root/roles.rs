//! The flags that say who decides what in a root of trust.

use std::path::PathBuf;
use std::str::FromStr;

use kubepkg_core::keys::PublicKey;
use kubepkg_core::trust::{Delegation, DelegationDraft, RoleChange, Root};

use crate::cli::read_public_key;
use crate::error::CommandError;

const ROLES: &str = "Who decides";

/// Keys and thresholds of roles and delegations.
#[derive(Debug, clap::Args)]
pub struct Roles {
    /// Public key of somebody who signs roots (repeatable)
    #[arg(help_heading = ROLES, long, value_name = "FILE")]
    pub root_key: Vec<PathBuf>,
    /// How many root keys must sign; with one key: 1
    #[arg(help_heading = ROLES, long, value_name = "N")]
    pub root_threshold: Option<u32>,
    /// Public key of somebody who signs the index (repeatable)
    #[arg(help_heading = ROLES, long, value_name = "FILE")]
    pub index_key: Vec<PathBuf>,
    /// How many index keys must sign; with one key: 1
    #[arg(help_heading = ROLES, long, value_name = "N")]
    pub index_threshold: Option<u32>,
    /// Public key of somebody who approves versions (repeatable); with this role, versions
    /// without approvals are left out. Older programs refuse such a root
    #[arg(help_heading = ROLES, long, value_name = "FILE")]
    pub approvals_key: Vec<PathBuf>,
    /// How many must approve; with one key: 1
    #[arg(help_heading = ROLES, long, value_name = "N")]
    pub approvals_threshold: Option<u32>,
    /// Packages whose versions others sign, by patterns like kubevirt-* (repeatable: the first
    /// that fits a package counts)
    #[arg(help_heading = ROLES, long, value_name = "NAME=PATTERN[,PATTERN]")]
    pub delegate: Vec<Named>,
    /// Public key of somebody who signs the packages of a delegation (repeatable)
    #[arg(help_heading = ROLES, long, value_name = "NAME=FILE")]
    pub delegate_key: Vec<Named>,
    /// How many keys of a delegation must sign; 1 when not given
    #[arg(help_heading = ROLES, long, value_name = "NAME=N")]
    pub delegate_threshold: Vec<Named>,
}

/// `NAME=VALUE`.
#[derive(Clone, Debug)]
pub struct Named {
    name: String,
    value: String,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok(Named {
                name: name.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("write it as NAME=…, with the name of the delegation".to_owned()),
        }
    }
}

/// A role as given.
#[derive(Debug)]
pub struct Role {
    keys: Vec<PublicKey>,
    threshold: Option<u32>,
}

impl Role {
    /// What it changes of the role there is.
    pub fn change(&self) -> RoleChange {
        RoleChange {
            keys: (!self.keys.is_empty()).then(|| self.keys.clone()),
            threshold: self.threshold,
        }
    }
}

/// All of it, with the keys read.
#[derive(Debug)]
pub struct Read {
    /// Who signs roots.
    pub root: Role,
    /// Who signs the index.
    pub index: Role,
    /// Who approves.
    pub approvals: Role,
    delegate: Vec<Named>,
    delegate_keys: Vec<(String, PublicKey)>,
    delegate_thresholds: Vec<(String, u32)>,
}

impl Roles {
    /// Reads the keys.
    pub fn read(&self) -> Result<Read, CommandError> {
        let role = |files: &[PathBuf], threshold: Option<u32>| -> Result<Role, CommandError> {
            let keys = files.iter().map(|file| read_public_key(file));
            Ok(Role {
                keys: keys.collect::<Result<_, _>>()?,
                threshold,
            })
        };
        let delegate_keys = self.delegate_key.iter().map(|named| {
            let key = read_public_key(PathBuf::from(&named.value).as_path())?;
            Ok((named.name.clone(), key))
        });
        let delegate_thresholds = self.delegate_threshold.iter().map(|named| {
            let number = named.value.parse::<u32>().map_err(|_| {
                CommandError::usage(format!("\"{}\" is no number", named.value))
                    .at("--delegate-threshold")
            })?;
            Ok((named.name.clone(), number))
        });
        Ok(Read {
            root: role(&self.root_key, self.root_threshold)?,
            index: role(&self.index_key, self.index_threshold)?,
            approvals: role(&self.approvals_key, self.approvals_threshold)?,
            delegate: self.delegate.clone(),
            delegate_keys: delegate_keys.collect::<Result<_, CommandError>>()?,
            delegate_thresholds: delegate_thresholds.collect::<Result<_, CommandError>>()?,
        })
    }
}

impl Read {
    /// A role a first root has to have.
    pub fn wanted(
        &self,
        name: &str,
        key_flag: &str,
        threshold_flag: &str,
        role: &Role,
    ) -> Result<(Vec<PublicKey>, u32), CommandError> {
        match (role.keys.as_slice(), role.threshold) {
            ([], _) => Err(
                CommandError::usage(format!("no key is given for the role {name}"))
                    .hint(format!("add {key_flag} FILE.pub")),
            ),
            (keys, Some(threshold)) => Ok((keys.to_vec(), threshold)),
            ([key], None) => Ok((vec![key.clone()], 1)),
            // one of several would let a single stolen key decide, all of them a single lost
            // one stop everything: that is for people to choose
            (keys, None) => Err(CommandError::usage(format!(
                "how many of the {} {name} keys must sign is not said",
                keys.len()
            ))
            .hint(format!("add {threshold_flag} {}", keys.len() / 2 + 1))),
        }
    }

    /// The role that approves, where one is given.
    pub fn approvals(&self) -> Result<Option<(Vec<PublicKey>, u32)>, CommandError> {
        let role = &self.approvals;
        if role.keys.is_empty() && role.threshold.is_none() {
            return Ok(None);
        }
        self.wanted(
            "approvals",
            "--approvals-key",
            "--approvals-threshold",
            role,
        )
        .map(Some)
    }

    /// The change that makes a role that approves, where there is none yet.
    pub fn new_approvals(&self) -> Result<RoleChange, CommandError> {
        Ok(match self.approvals()? {
            Some((keys, threshold)) => RoleChange {
                keys: Some(keys),
                threshold: Some(threshold),
            },
            None => RoleChange::default(),
        })
    }

    /// The delegations given; what is not said of one is taken from the root it changes.
    pub fn delegations(&self, before: Option<&Root>) -> Result<Vec<DelegationDraft>, CommandError> {
        let mut names: Vec<&str> = Vec::new();
        let given = self.delegate.iter().map(|named| named.name.as_str());
        let of_keys = self.delegate_keys.iter().map(|(name, _)| name.as_str());
        let of_thresholds = self
            .delegate_thresholds
            .iter()
            .map(|(name, _)| name.as_str());
        for name in given.chain(of_keys).chain(of_thresholds) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let known = |name: &str| {
            before.and_then(|root| root.delegations.iter().find(|known| known.name == name))
        };
        names
            .into_iter()
            .map(|name| self.delegation(name, known(name)))
            .collect()
    }

    fn delegation(
        &self,
        name: &str,
        known: Option<&Delegation>,
    ) -> Result<DelegationDraft, CommandError> {
        let patterns = self.delegate.iter().filter(|named| named.name == name);
        let mut packages: Vec<String> = patterns
            .flat_map(|named| named.value.split(','))
            .map(|pattern| pattern.trim().to_owned())
            .filter(|pattern| !pattern.is_empty())
            .collect();
        let keys = self.delegate_keys.iter().filter(|(of, _)| of == name);
        let mut keys: Vec<PublicKey> = keys.map(|(_, key)| key.clone()).collect();
        let mut threshold = self
            .delegate_thresholds
            .iter()
            .rfind(|(of, _)| of == name)
            .map(|(_, threshold)| *threshold);
        if let Some(known) = known {
            if packages.is_empty() {
                packages = known
                    .packages
                    .iter()
                    .map(|p| p.as_str().to_owned())
                    .collect();
            }
            if keys.is_empty() {
                keys = known.signers.keys().to_vec();
            }
            threshold = threshold.or(Some(known.signers.threshold()));
        }
        let lacks = |what: &str, flag: &str| {
            CommandError::usage(format!("the delegation {name} has no {what}"))
                .hint(format!("add {flag} (both NAMEs are the same)"))
        };
        if packages.is_empty() {
            return Err(lacks("packages", &format!("--delegate {name}=PATTERN")));
        }
        if keys.is_empty() {
            return Err(lacks("key", &format!("--delegate-key {name}=FILE.pub")));
        }
        Ok(DelegationDraft {
            name: name.to_owned(),
            packages,
            keys,
            threshold: threshold.unwrap_or(1),
        })
    }
}

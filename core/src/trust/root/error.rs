//! What is wrong with the form of a root.

use super::{MAX_ROOT, MAX_ROOT_VERSION};
use crate::error::{Classify, Kind};
use crate::index::signature::MAX_SIGNATURES;
use crate::keys::KeyError;
use crate::trust::keyset::KeySetError;
use crate::trust::pattern::PatternError;
use crate::yaml::YamlError;

/// A root is refused, or cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// Over [`MAX_ROOT`].
    #[error("the root is larger than {MAX_ROOT} bytes")]
    TooLarge,
    /// Over [`MAX_SIGNATURES`]: each is checked with every key of a role.
    #[error("the root holds more than {MAX_SIGNATURES} signatures")]
    TooManySignatures,
    /// No YAML, a key given twice, a member of the wrong type.
    #[error("the root does not read: {0}")]
    Yaml(#[from] YamlError),
    /// More than one document: which one is signed?
    #[error("the root file holds more than one document")]
    Documents,
    /// There is nothing signed in it.
    #[error("this is no root: it has no member \"signed\"")]
    NoRoot,
    /// It has members this release does not know. They may take something away, so the rest
    /// cannot be used either.
    #[error(
        "made for a newer kubepkg: root version {version} uses features this kubepkg does not \
         know ({}); upgrade kubepkg",
        .unknown.join(", ")
    )]
    Newer {
        /// Version of the root.
        version: i64,
        /// The members.
        unknown: Vec<String>,
    },
    /// Not from 1 to the last possible.
    #[error("root version {0}; 1 to {MAX_ROOT_VERSION} are possible")]
    Version(i64),
    /// Not the one form of a time.
    #[error(
        "the root's expiry \"{0}\" is no time in the one form that is signed, like \
         2026-11-30T12:00:00Z"
    )]
    Expires(String),
    /// A key cannot be used.
    #[error("key {id} of the root: {source}")]
    Key {
        /// The id it is filed under.
        id: String,
        /// Why.
        source: KeyError,
    },
    /// A key is filed under an id that is not its own, so it could count twice.
    #[error("a key of the root is filed under {id}, and its id is {own}")]
    KeyId {
        /// The id it is filed under.
        id: String,
        /// Its own.
        own: String,
    },
    /// A role is missing.
    #[error("the root has no role \"{0}\"")]
    NoRole(&'static str),
    /// A role or delegation names a key the root does not have.
    #[error("{of} of the root names the key {id}, which is not among its keys")]
    UnknownKey {
        /// The role or delegation.
        of: String,
        /// The key id.
        id: String,
    },
    /// A role or delegation has no possible threshold.
    #[error("{of} of the root: {source}")]
    KeySet {
        /// The role or delegation.
        of: String,
        /// Why.
        source: KeySetError,
    },
    /// A pattern of a delegation.
    #[error("{of} of the root: {source}")]
    Pattern {
        /// The delegation.
        of: String,
        /// Why.
        source: PatternError,
    },
    /// A delegation for no package.
    #[error("{0} of the root names no package")]
    NoPackages(String),
    /// A delegation without a name.
    #[error("a delegation of the root has no name")]
    NoName,
    /// Two delegations of one name.
    #[error("the root has two delegations \"{0}\"")]
    TwoDelegations(String),
    /// A delegation to take back that is not there.
    #[error("the root has no delegation \"{0}\"")]
    NoDelegation(String),
}

impl Classify for RootError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn place(&self) -> Option<String> {
        match self {
            RootError::Yaml(error) => error.place(),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            RootError::Newer { .. } => "upgrade kubepkg, then try again",
            RootError::NoRoot => "give the file root.yaml or root/N.yaml of a repository",
            RootError::KeySet { .. } => {
                "give a threshold from 1 to the number of keys (--root-threshold N, \
                 --index-threshold N, --approvals-threshold N, --delegate-threshold NAME=N)"
            }
            RootError::Pattern { .. } | RootError::NoPackages(_) | RootError::NoName => {
                "write a delegation like --delegate virt=cdi,kubevirt-*"
            }
            RootError::NoDelegation(_) => "`kubepkg trust show root.yaml` lists the delegations",
            _ => "tell the publisher; make roots with `kubepkg trust root`",
        };
        Some(hint.to_owned())
    }
}

//! One version of a package as an index lists it, and what stands beside its spec: signatures
//! of delegated keys, a withdrawal, approvals. None of these is part of the spec's digest.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::spec::LazySpec;
use crate::Digest;
use crate::api::PackageSourceSpec;
use crate::time::Time;

/// A version of a package.
#[derive(Clone, Debug)]
pub struct IndexVersion {
    /// Exact semantic version, as written (a leading `v` is kept).
    pub version: String,
    /// Build of this version.
    pub build: u32,
    /// Digest of the spec.
    pub digest: Digest,
    /// Signatures by delegated keys, as written: nobody has verified them yet.
    pub signatures: Vec<VersionSignature>,
    /// Whether the publisher has withdrawn it.
    pub withdrawn: Option<Withdrawn>,
    /// Approvals, as written: nobody has verified them yet.
    pub approvals: Vec<Approval>,
    /// What the spec says under `provides`; versions that say the same share it.
    pub(super) provides: Arc<[String]>,
    pub(super) spec: LazySpec,
}

impl IndexVersion {
    /// The version that `spec` describes, without signatures and approvals.
    pub fn of(spec: PackageSourceSpec) -> IndexVersion {
        IndexVersion {
            version: spec.version.clone(),
            // No index is read or built with a negative build.
            build: spec.build.try_into().unwrap_or_default(),
            digest: spec.digest(),
            signatures: Vec::new(),
            withdrawn: None,
            approvals: Vec::new(),
            provides: spec.provides.as_slice().into(),
            spec: LazySpec::of(spec),
        }
    }

    /// What it is. Its digest is [`IndexVersion::digest`].
    pub fn spec(&self) -> &PackageSourceSpec {
        self.spec.get()
    }

    /// Whether the spec can have `word` in one of its texts. Says yes where only decoding
    /// the spec would tell, and costs a fraction of that.
    pub fn may_mention(&self, word: &str) -> bool {
        self.spec.may_mention(word)
    }

    /// The capabilities it says to offer, without decoding the spec.
    pub fn provides(&self) -> impl Iterator<Item = &str> {
        self.provides.iter().map(String::as_str)
    }

    /// Whether it says to offer `capability`.
    pub fn offers(&self, capability: &str) -> bool {
        self.provides().any(|offered| offered == capability)
    }

    /// Whether `other` offers the same capabilities for a reason that costs nothing to find:
    /// most versions of a package offer what the one before does.
    pub fn shares_provides(&self, other: &IndexVersion) -> bool {
        Arc::ptr_eq(&self.provides, &other.provides)
    }
}

/// The digest stands for the spec.
impl PartialEq for IndexVersion {
    fn eq(&self, other: &IndexVersion) -> bool {
        self.version == other.version
            && self.build == other.build
            && self.digest == other.digest
            && self.signatures == other.signatures
            && self.withdrawn == other.withdrawn
            && self.approvals == other.approvals
    }
}

impl Eq for IndexVersion {}

/// A signature of a version by a delegated key, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct VersionSignature {
    /// Id the key claims to have.
    pub keyid: String,
    /// The signature in base64.
    pub sig: String,
}

/// A publisher's statement that a version is not to be used any more.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Withdrawn {
    /// Since when.
    pub since: Time,
    /// Why, in the publisher's words.
    pub reason: String,
    /// What to use instead: a version of the same package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// When the statement was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifted: Option<Time>,
}

impl Withdrawn {
    /// Whether the statement holds: it was not taken back after it was made.
    pub fn holds(&self) -> bool {
        self.lifted.is_none_or(|lifted| lifted <= self.since)
    }
}

/// An approval of a version, as written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Approval {
    /// Id the key claims to have.
    pub keyid: String,
    /// The signature in base64.
    pub sig: String,
    /// When it was approved; part of what is signed.
    pub time: Time,
}

/// A version of an index that is not offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the package.
    pub package: String,
    /// Version, as written.
    pub version: String,
    /// Build.
    pub build: u32,
    /// Why.
    pub why: LeftOutWhy,
}

/// Why a version of an index is not offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOutWhy {
    /// It is made for another kubepkg: its spec has members this one does not know or does
    /// not know how to write, and its digest is not that of the rest.
    Newer {
        /// The members.
        unknown: Vec<String>,
    },
    /// The keys its package is delegated to have not signed it.
    Delegation {
        /// Name of the delegation.
        name: String,
        /// Keys that signed it.
        have: usize,
        /// Keys that must.
        need: usize,
    },
    /// Too few keys have approved it.
    Approvals {
        /// Keys that approved it.
        have: usize,
        /// Keys that must.
        need: usize,
    },
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = version_and_build(&self.version, self.build);
        write!(f, "{} {version}", self.package)
    }
}

/// A version for messages: builds have a number of their own, and 0 means that there is none.
pub(crate) fn version_and_build(version: &str, build: impl Into<i64>) -> String {
    match build.into() {
        0 => version.to_owned(),
        build => format!("{version} build {build}"),
    }
}

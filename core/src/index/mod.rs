//! The signed index of a repository: reading and checking it ([`Index::read`]), building one
//! ([`build`]), its signature ([`signature`]).

pub mod build;
mod read;
pub mod signature;

use std::collections::BTreeMap;

pub use read::IndexError;

use crate::Digest;
use crate::api::PackageSourceSpec;
use crate::location::CanonicalUrl;
use crate::time::Time;

/// Largest index that is read, in bytes.
pub const MAX_INDEX: u64 = 512 * 1024 * 1024;

/// An index whose every version was checked against its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// When it was made.
    pub generated: Option<Time>,
    /// When it stops being good.
    pub expires: Option<Time>,
    /// The URL it says it belongs to.
    pub repository: Option<CanonicalUrl>,
    /// The packages by name, each with at least one version.
    pub packages: BTreeMap<String, IndexPackage>,
    /// Versions made for a newer kubepkg.
    pub left_out: Vec<LeftOut>,
}

/// A package of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexPackage {
    /// One line on what it is; may be empty.
    pub description: String,
    /// Home page; may be empty.
    pub home: String,
    /// Its versions, in the order of the file (newest first, where a tool wrote it).
    pub versions: Vec<IndexVersion>,
}

/// A version of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexVersion {
    /// Exact semantic version, as written (a leading `v` is kept).
    pub version: String,
    /// Build of this version.
    pub build: u32,
    /// Digest of the spec.
    pub digest: Digest,
    /// What it is.
    pub spec: PackageSourceSpec,
}

/// A version that this release cannot check: its spec has members it does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the package.
    pub package: String,
    /// Version, as written.
    pub version: String,
    /// Build.
    pub build: u32,
    /// The members.
    pub unknown: Vec<String>,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LeftOut {
            package,
            version,
            build,
            ..
        } = self;
        write!(f, "{package} {}", version_and_build(version, *build))
    }
}

/// A version for messages: builds have a number of their own, and 0 means that there is none.
pub(crate) fn version_and_build(version: &str, build: impl Into<i64>) -> String {
    match build.into() {
        0 => version.to_owned(),
        build => format!("{version} build {build}"),
    }
}

/// An exact semantic version as an index lists it; a leading `v` is tolerated.
fn exact_version(text: &str) -> Option<semver::Version> {
    semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

/// Text from a file as shown in a message: bounded, control characters escaped.
fn shown(text: &str) -> String {
    text.chars()
        .take(120)
        .flat_map(char::escape_debug)
        .collect()
}

//! The signed index of a repository: reading and checking it ([`Index::read`]), building one
//! ([`build`]), its signature ([`signature`]).

pub mod build;
mod error;
mod named;
mod part;
mod read;
pub mod signature;
mod spec;
mod stream;
mod table;
mod version;

use std::collections::BTreeMap;

pub use error::{IndexError, Why};
pub use table::TableError;
pub(crate) use version::version_and_build;
pub use version::{Approval, IndexVersion, LeftOut, LeftOutWhy, VersionSignature, Withdrawn};

use crate::location::CanonicalUrl;
use crate::time::Time;

/// Largest index that is read, in bytes.
pub const MAX_INDEX: u64 = 512 * 1024 * 1024;

/// An index whose every version was checked against its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// When it was made.
    pub generated: Option<Time>,
    /// When it stops being good.
    pub expires: Option<Time>,
    /// The URL it says it belongs to.
    pub repository: Option<CanonicalUrl>,
    /// The packages by name, each with at least one version.
    pub packages: BTreeMap<String, IndexPackage>,
    /// Versions that are not offered: made for another kubepkg, not signed, not approved.
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

#[cfg(test)]
mod tests;

/// An exact semantic version as an index lists it; a leading `v` is tolerated.
fn exact_version(text: &str) -> Option<semver::Version> {
    semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

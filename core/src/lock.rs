//! A lock: exactly which version of which package, from where, so that another run takes the
//! same ones or says what differs.
//!
//! It is a YAML document that is read strictly:
//!
//! ```yaml
//! apiVersion: kubepkg.dev/v1
//! kind: Lock
//! packages:
//!   cert-manager:
//!     version: 1.21.0
//!     build: 2                      # left out when 0
//!     digest: sha256:…              # of the spec
//!     variants: [default]           # the one that is installed, or those that travel
//!     repository: https://packages.example.org/index.yaml
//! repositories:
//!   https://packages.example.org/index.yaml:
//!     digest: sha256:…              # of the index the choice was made from
//! outside:                          # needed by these, but from nowhere here; left out when none
//!   database:
//!     version: 2.0.0
//!     why: notCarried               # or handWritten, notInstalled
//! ```
//!
//! The digest of a spec says all that a version installs. The digest of an index is there to
//! show where a choice came from: an index that has grown since still offers the same
//! versions, so another one is worth a word ([`Lock::other_indexes`]) and no refusal.

mod build;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::error::{Classify, Kind, shown};
use crate::index::version_and_build;
use crate::resolve::Resolution;
use crate::resolve::state::State;
use crate::select::{Catalog, Selection};
use crate::yaml::{YamlError, strict, write};

/// `apiVersion` of a lock.
pub const API_VERSION: &str = "kubepkg.dev/v1";

/// Kind of a lock.
pub const KIND: &str = "Lock";

/// Exactly which packages, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The packages by name.
    pub packages: BTreeMap<String, Locked>,
    /// The repositories by URL.
    pub repositories: BTreeMap<String, LockedRepository>,
    /// What the packages need that comes from none of the repositories. It is not looked for:
    /// whoever uses the lock sees to it in another way.
    pub outside: BTreeMap<String, Outside>,
}

/// A package that locked ones need and that cannot be locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outside {
    /// Its version, where it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Why it cannot be locked.
    pub why: OutsideWhy,
}

/// Why a package cannot be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OutsideWhy {
    /// A PackageSource written by hand decides it.
    HandWritten,
    /// It is installed, and no repository carries that very version and build.
    NotCarried,
    /// It is missing in the cluster already, or is to break.
    NotInstalled,
}

impl fmt::Display for OutsideWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OutsideWhy::HandWritten => "it comes from a PackageSource written by hand",
            OutsideWhy::NotCarried => {
                "it is installed, and no repository carries this version and build"
            }
            OutsideWhy::NotInstalled => "it was not installed and was not to be",
        })
    }
}

/// One package of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Locked {
    /// Its version, as listed.
    pub version: String,
    /// The build of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub build: u32,
    /// Digest of its spec.
    pub digest: Digest,
    /// The variant that is installed, or those that travel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<String>,
    /// The repository that supplies it.
    pub repository: String,
}

/// One repository of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedRepository {
    /// Digest of the index.
    pub digest: Digest,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A lock as it stands in a file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    packages: BTreeMap<String, Locked>,
    #[serde(default)]
    repositories: BTreeMap<String, LockedRepository>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    outside: BTreeMap<String, Outside>,
}

impl Lock {
    /// The lock of what `resolution` chose from `catalog` for a cluster that holds `state`,
    /// and of what it needs of the packages that stay; `indexes` has the digest of each index
    /// by the name of its repository.
    pub fn of<'c>(
        resolution: &Resolution<'c>,
        catalog: &'c Catalog,
        state: &State,
        indexes: &'c BTreeMap<String, Digest>,
    ) -> Lock {
        build::build(resolution, catalog, state, indexes)
    }

    /// Reads a lock.
    pub fn read(text: &str) -> Result<Lock, LockError> {
        let document: Document = strict::from_str(text)?;
        if document.api_version != API_VERSION || document.kind != KIND {
            return Err(LockError::Kind {
                api_version: shown(&document.api_version),
                kind: shown(&document.kind),
            });
        }
        Ok(Lock {
            packages: document.packages,
            repositories: document.repositories,
            outside: document.outside,
        })
    }

    /// The lock as a file; the same lock always gives the same text.
    pub fn write(&self) -> String {
        let document = Document {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            packages: self.packages.clone(),
            repositories: self.repositories.clone(),
            outside: self.outside.clone(),
        };
        // texts, numbers and maps of them have no way to fail
        write::to_string(&document).unwrap_or_default()
    }

    /// What is locked of `package`.
    pub fn package(&self, package: &str) -> Option<LockedPackage<'_>> {
        let (name, locked) = self.packages.get_key_value(package)?;
        Some(LockedPackage { name, locked })
    }

    /// Whether it says something of `package`.
    pub fn knows(&self, package: &str) -> bool {
        self.packages.contains_key(package) || self.outside.contains_key(package)
    }

    /// The locked repositories whose index is another one now; `now` has the digests of
    /// today.
    pub fn other_indexes<'l>(
        &'l self,
        now: &'l BTreeMap<String, Digest>,
    ) -> impl Iterator<Item = &'l str> {
        let locked = self.repositories.iter();
        let other = locked.filter(|(name, locked)| {
            now.get(*name)
                .is_some_and(|digest| *digest != locked.digest)
        });
        other.map(|(name, _)| name.as_str())
    }

    /// Whether `catalog` has every locked package exactly as locked.
    pub fn check(&self, catalog: &Catalog) -> Result<(), LockError> {
        let packages = self.packages.iter();
        let differences: Vec<_> = packages
            .filter_map(|(name, locked)| LockedPackage { name, locked }.difference(catalog))
            .collect();
        match differences.is_empty() {
            true => Ok(()),
            false => Err(LockError::Differs(differences)),
        }
    }
}

/// A package of a lock with its name.
#[derive(Clone, Copy, Debug)]
pub struct LockedPackage<'l> {
    name: &'l str,
    locked: &'l Locked,
}

impl LockedPackage<'_> {
    /// The release that is locked. Withdrawn ones are found, too: the lock names them.
    pub(crate) fn find<'c>(&self, catalog: &'c Catalog) -> Option<Selection<'c>> {
        let mut releases = catalog.releases_and(self.name, |_| true).into_iter();
        releases.find(|release| {
            release.source.name == self.locked.repository
                && release.listed.version == self.locked.version
                && release.listed.build == self.locked.build
                && release.listed.digest == self.locked.digest
        })
    }

    fn difference(&self, catalog: &Catalog) -> Option<Difference> {
        if self.find(catalog).is_some() {
            return None;
        }
        let what = match catalog.supplier(self.name) {
            None => Differs::NotCarried,
            Some(now) if now.name != self.locked.repository => Differs::Repository {
                locked: self.locked.repository.clone(),
                now: now.name.clone(),
            },
            Some(_) => {
                let releases = catalog.releases_and(self.name, |_| true);
                let same = releases.iter().find(|release| {
                    release.listed.version == self.locked.version
                        && release.listed.build == self.locked.build
                });
                match same {
                    None => Differs::NoVersion,
                    Some(release) => Differs::Digest {
                        locked: self.locked.digest,
                        now: release.listed.digest,
                    },
                }
            }
        };
        Some(Difference {
            package: self.name.to_owned(),
            version: version_and_build(&self.locked.version, self.locked.build),
            what,
        })
    }
}

/// A locked package that cannot be had as locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The package.
    pub package: String,
    /// The locked version and build.
    pub version: String,
    /// What differs.
    pub what: Differs,
}

/// What differs from a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Differs {
    /// No repository carries the package.
    NotCarried,
    /// Another repository supplies the package.
    Repository {
        /// The one in the lock.
        locked: String,
        /// The one that supplies it now.
        now: String,
    },
    /// The repository does not have the version, or it may not be taken.
    NoVersion,
    /// The version is something else now.
    Digest {
        /// The digest in the lock.
        locked: Digest,
        /// The digest it has now.
        now: Digest,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.package, self.version)?;
        match &self.what {
            Differs::NotCarried => f.write_str("no repository carries the package"),
            Differs::Repository { locked, now } => {
                write!(f, "locked from {locked}, but {now} supplies it")
            }
            Differs::NoVersion => f.write_str("the repository does not offer this version"),
            Differs::Digest { locked, now } => {
                write!(f, "its spec is {now}, locked is {locked}")
            }
        }
    }
}

/// Why a lock cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The text is not a lock.
    #[error("this is no lock: {0}")]
    Yaml(#[from] YamlError),
    /// The document is something else, or of another version.
    #[error(
        "this is no lock this kubepkg can read: apiVersion {api_version}, kind {kind}; a lock has \
         {API_VERSION}, {KIND}"
    )]
    Kind {
        /// What it says.
        api_version: String,
        /// What it says.
        kind: String,
    },
    /// What is locked cannot be had.
    #[error("what the lock names cannot be had: {}", joined(.0))]
    Differs(Vec<Difference>),
}

fn joined(differences: &[Difference]) -> String {
    let texts: Vec<_> = differences.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

impl Classify for LockError {
    fn kind(&self) -> Kind {
        match self {
            LockError::Yaml(_) | LockError::Kind { .. } => Kind::Failed,
            LockError::Differs(_) => Kind::Refused,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            LockError::Differs(_) => Some(
                "write a new lock from what there is now: kubepkg plan … --lock FILE --force"
                    .into(),
            ),
            _ => None,
        }
    }
}

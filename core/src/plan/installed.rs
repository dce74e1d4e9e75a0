//! What a cluster holds, as a file: `plan --installed FILE` works without a cluster.
//!
//! A document of kind `Installed`, read strictly, and beside it any number of documents of
//! kind `PackageSource`: those written by hand, which win over repositories.
//!
//! ```yaml
//! apiVersion: kubepkg.dev/v1
//! kind: Installed
//! apis: [cert-manager.io/v1]
//! packages:
//!   - name: cert-manager
//!     version: 1.21.0
//!     build: 2
//!     variant: default
//!     repository: https://packages.example.org/index.yaml
//!     provides: [certificates]
//!     conflicts: []
//!     requires:
//!       - {package: cilium, version: "~1.18"}
//!     crds: [certificates.cert-manager.io]
//!     ready: true                    # so where it is left out
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::api::{PACKAGE_SOURCE_KIND, PackageSource, Requirement};
use crate::error::{Classify, Kind};
use crate::name::{NameError, PackageName};
use crate::resolve::state::{InstalledPackage, State};
use crate::version::{Constraint, ConstraintError, Version, VersionError};
use crate::yaml::{Limits, YamlError, strict};

/// `apiVersion` of the file.
pub const API_VERSION: &str = "kubepkg.dev/v1";

/// Kind of the document.
pub const KIND: &str = "Installed";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledFile {
    /// What is installed and served.
    pub state: State,
    /// The sources written by hand, for [`crate::select::Catalog::with_hand_written`].
    pub sources: Vec<PackageSource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    #[expect(dead_code, reason = "read before, to tell documents apart")]
    kind: String,
    #[serde(default)]
    apis: BTreeSet<String>,
    #[serde(default)]
    packages: Vec<Installed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Installed {
    name: String,
    version: String,
    #[serde(default)]
    build: u32,
    #[serde(default)]
    variant: String,
    #[serde(default)]
    provides: Vec<String>,
    #[serde(default)]
    conflicts: Vec<String>,
    #[serde(default)]
    requires: Vec<Required>,
    #[serde(default)]
    crds: Vec<String>,
    #[serde(default = "yes")]
    ready: bool,
    #[serde(default)]
    repository: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Required {
    package: String,
    capability: String,
    version: String,
    optional: bool,
    variant: String,
    values: BTreeMap<String, Value>,
}

fn yes() -> bool {
    true
}

/// Why a file does not say what is installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstalledError {
    /// The YAML is not as it must be.
    #[error("the installed packages cannot be read: {0}")]
    Yaml(#[from] YamlError),
    /// A document is of another kind.
    #[error("line {line}: kind \"{kind}\" has no place in a file of installed packages")]
    Kind {
        /// Where the document begins.
        line: usize,
        /// What it says.
        kind: String,
    },
    /// A document is of another version.
    #[error("apiVersion \"{0}\" is not {API_VERSION}")]
    ApiVersion(String),
    /// There is no document of the kind, or a second one.
    #[error("there must be one document of kind {KIND}, there are {0}")]
    Count(usize),
    /// A package stands there twice.
    #[error("{0} stands there twice")]
    Twice(String),
    /// A name is not legal.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A version is not legal.
    #[error("{package}: {source}")]
    Version {
        /// The package.
        package: String,
        /// What is wrong.
        source: VersionError,
    },
    /// The constraint of a requirement is not legal.
    #[error("{package} requires {required}: {source}")]
    Constraint {
        /// The package.
        package: String,
        /// What it requires.
        required: String,
        /// What is wrong.
        source: ConstraintError,
    },
    /// A requirement names neither a package nor a capability, or both.
    #[error("{0}: a requirement must name either a package or a capability")]
    Requirement(String),
}

impl Classify for InstalledError {
    fn kind(&self) -> Kind {
        Kind::Failed
    }

    fn hint(&self) -> Option<String> {
        match self {
            InstalledError::Kind { .. } | InstalledError::Count(_) => Some(format!(
                "the file holds one document of kind {KIND} and may hold PackageSource documents"
            )),
            _ => None,
        }
    }
}

/// Reads the file.
pub fn read(text: &str) -> Result<InstalledFile, InstalledError> {
    let mut file = InstalledFile::default();
    let mut count = 0;
    for document in strict::documents(text, &Limits::default())? {
        match document.kind().unwrap_or_default() {
            KIND => {
                count += 1;
                file.state = state(document.read()?)?;
            }
            PACKAGE_SOURCE_KIND => {
                let source: PackageSource = document.read()?;
                source.metadata.name.parse::<PackageName>()?;
                if !source.spec.version.is_empty() {
                    version(&source.metadata.name, &source.spec.version)?;
                }
                file.sources.push(source);
            }
            other => {
                return Err(InstalledError::Kind {
                    line: document.line(),
                    kind: other.chars().take(60).collect(),
                });
            }
        }
    }
    match count {
        1 => Ok(file),
        _ => Err(InstalledError::Count(count)),
    }
}

fn version(package: &str, text: &str) -> Result<(), InstalledError> {
    match Version::parse_published(text) {
        Ok(_) => Ok(()),
        Err(source) => Err(InstalledError::Version {
            package: package.to_owned(),
            source,
        }),
    }
}

fn state(document: Document) -> Result<State, InstalledError> {
    if document.api_version != API_VERSION {
        return Err(InstalledError::ApiVersion(document.api_version));
    }
    let mut state = State {
        apis: document.apis,
        ..State::default()
    };
    for package in document.packages {
        package.name.parse::<PackageName>()?;
        version(&package.name, &package.version)?;
        let name = package.name.clone();
        let requires = package.requires.into_iter();
        let requires = requires.map(|required| requirement(&name, required));
        let installed = InstalledPackage {
            requires: requires.collect::<Result<_, _>>()?,
            name: package.name,
            version: package.version,
            build: package.build,
            variant: package.variant,
            provides: package.provides,
            conflicts: package.conflicts,
            crds: package.crds,
            ready: package.ready,
            repository: package.repository,
        };
        if state.packages.insert(name.clone(), installed).is_some() {
            return Err(InstalledError::Twice(name));
        }
    }
    Ok(state)
}

fn requirement(package: &str, required: Required) -> Result<Requirement, InstalledError> {
    if required.package.is_empty() == required.capability.is_empty() {
        return Err(InstalledError::Requirement(package.to_owned()));
    }
    if let Err(source) = Constraint::parse_optional(&required.version) {
        return Err(InstalledError::Constraint {
            package: package.to_owned(),
            required: required.package,
            source,
        });
    }
    Ok(Requirement {
        package: required.package,
        capability: required.capability,
        version: required.version,
        optional: required.optional,
        variant: required.variant,
        values: required.values,
    })
}

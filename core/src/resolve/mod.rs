//! From requested packages to the set of packages that meets all their requirements.
//!
//! What is asked ([`Request`], [`Variants`]), what can be had ([`Catalog`]) and what comes
//! out ([`Resolution`]) do not depend on how the set is found; the search is one private
//! module.
//!
//! Requirements on packages are met here. Requirements on capabilities are not: a bundle is
//! packed without knowing the cluster, which may offer them already. Those that no chosen
//! package offers are listed in the resolution, to be said.

mod error;
mod needs;
mod search;

use std::fmt;
use std::str::FromStr;

pub use error::{DeadEnd, ResolveError};
pub use search::{MAX_EFFORT, MAX_STEPS};

use crate::error::{Classify, Kind};
use crate::index::IndexVersion;
use crate::name::{NameError, PackageName};
use crate::select::{Catalog, Source};
use crate::version::{Constraint, ConstraintError, Version};

/// A package somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub name: PackageName,
    /// Which versions will do; all without one.
    pub constraint: Option<Constraint>,
}

/// Why a text is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The name is not legal.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The constraint is not legal.
    #[error("{package}: {source}")]
    Constraint {
        /// The package.
        package: PackageName,
        /// What is wrong.
        source: ConstraintError,
    },
}

impl Classify for RequestError {
    fn kind(&self) -> Kind {
        Kind::Usage
    }

    fn hint(&self) -> Option<String> {
        Some("ask for a package as NAME or NAME@CONSTRAINT, e.g. cert-manager@~1.21".to_owned())
    }
}

impl FromStr for Request {
    type Err = RequestError;

    /// Reads `NAME` or `NAME@CONSTRAINT`.
    fn from_str(text: &str) -> Result<Self, RequestError> {
        let (name, constraint) = text.split_once('@').unwrap_or((text, ""));
        let name: PackageName = name.parse()?;
        match Constraint::parse_optional(constraint) {
            Ok(constraint) => Ok(Request { name, constraint }),
            Err(source) => Err(RequestError::Constraint {
                package: name,
                source,
            }),
        }
    }
}

/// Whose requirements count: a package may come in variants that need different packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variants {
    /// Those of every variant: whatever a site installs is there. Conflicts do not rule a
    /// set out then, for two variants may well need packages that exclude each other; they
    /// are reported.
    All,
    /// Those of variants with these names. A package without such a variant requires
    /// nothing; of two variants with one name the last counts, as in a cluster. The set is
    /// meant to be installed together, so conflicts rule it out.
    Named(Vec<String>),
}

/// Who wants a package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The call.
    Requested,
    /// A chosen package.
    Package {
        /// Its name.
        name: String,
        /// Its version as listed.
        version: String,
        /// The variant that wants it, where the package has several.
        variant: Option<String>,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Requested => f.write_str("requested"),
            Origin::Package {
                name,
                version,
                variant,
            } => {
                write!(f, "required by {name} {version}")?;
                match variant {
                    Some(variant) => write!(f, " (variant {variant})"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// A package of the set.
#[derive(Clone, Debug)]
pub struct Chosen<'c> {
    /// Its name.
    pub name: String,
    /// The repository that supplies it.
    pub source: &'c Source,
    /// The chosen version as listed in its index.
    pub listed: &'c IndexVersion,
    /// The chosen version, parsed.
    pub version: Version,
    /// Everybody who wants it, in the order met.
    pub why: Vec<Origin>,
}

/// A requirement that was not met, and need not be for packing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmet {
    /// The capability or package.
    pub what: String,
    /// Who requires it.
    pub by: Origin,
}

/// Two packages of the set that cannot be installed together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clash {
    /// The package that declares the conflict.
    pub package: String,
    /// The other one.
    pub with: String,
}

/// A set of packages that meets all requirements.
#[derive(Clone, Debug)]
pub struct Resolution<'c> {
    /// The packages, by name.
    pub packages: Vec<Chosen<'c>>,
    /// Required capabilities that no package of the set offers: the cluster must.
    pub capabilities: Vec<Unmet>,
    /// Optional requirements that were wanted but that no repository carries.
    pub missing_optional: Vec<Unmet>,
    /// Conflicts within the set. Empty unless the variants are [`Variants::All`].
    pub conflicts: Vec<Clash>,
}

/// Finds a set of packages in `catalog` that contains every requested package and whatever
/// the set requires, each in its newest version that all who want it accept. Optional
/// requirements count only `with_optional`.
pub fn resolve<'c>(
    catalog: &'c Catalog,
    requests: &[Request],
    variants: &Variants,
    with_optional: bool,
) -> Result<Resolution<'c>, ResolveError> {
    for request in requests {
        // a request that fails alone gets the more telling message
        catalog.select(request.name.as_str(), request.constraint.as_ref())?;
    }
    search::search(
        catalog,
        requests,
        &needs::Scope {
            variants,
            with_optional,
        },
    )
}

#[cfg(test)]
mod tests;

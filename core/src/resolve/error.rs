//! Why no set of packages could be found.

use std::fmt;

use super::Origin;
use crate::error::{Classify, Kind};
use crate::lock::LockError;
use crate::select::SelectError;

/// Why there is no resolution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A request cannot be met, whatever else is chosen.
    #[error(transparent)]
    Request(Box<SelectError>),
    /// A package is asked for and is to be removed.
    #[error("{0} is asked for and is to be removed")]
    AskedAndRemoved(String),
    /// A package that is to be removed is not installed.
    #[error("{0} is not installed, so it cannot be removed")]
    NotInstalled(String),
    /// The lock asks for what cannot be had.
    #[error(transparent)]
    Lock(Box<LockError>),
    /// Every combination fails.
    #[error("no set of packages meets all that is asked: {0}")]
    Unsatisfiable(Proof),
    /// The search was given up.
    #[error(
        "gave up the search for a set of packages after {rounds} rounds: too many variants depend on each other"
    )]
    GivenUp {
        /// Rounds made.
        rounds: usize,
    },
}

/// Why every combination fails: reasons that together leave none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// The reasons, the one with the shortest chain from a request first.
    pub reasons: Vec<Reason>,
    /// How many more there are.
    pub more: usize,
    /// What would help, the most likely first.
    pub help: Vec<String>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What is wrong.
    pub fault: Fault,
    /// How a request leads there, each link a sentence; empty where it is direct.
    pub chain: Vec<String>,
    /// How many other versions of the package fail for the same reason.
    pub others: usize,
}

/// What is wanted where nothing is said of the version.
pub(super) const ANY_VERSION: &str = "any version";

/// Somebody wants something of a package.
pub type Wants = Vec<(String, Origin)>;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// No repository carries a required package.
    Missing {
        /// The package.
        package: String,
        /// Who wants it.
        by: Origin,
    },
    /// No version of a package is as one package or request wants it.
    NoVersion {
        /// The package.
        package: String,
        /// What is wanted: `any version`, a constraint, a variant.
        wanted: String,
        /// Who wants it.
        by: Origin,
        /// The supplying repository.
        source: String,
        /// The versions there are.
        has: String,
    },
    /// The lock does not have a package as one package or request wants it.
    NotLocked {
        /// The package.
        package: String,
        /// What is wanted: `any version`, a constraint, a variant.
        wanted: String,
        /// Who wants it.
        by: Origin,
        /// The version in the lock.
        locked: Option<String>,
    },
    /// Nothing offers a required capability.
    NoProvider {
        /// The capability.
        capability: String,
        /// Who wants it.
        by: Origin,
    },
    /// No version of a package is as all want it.
    Disagree {
        /// The package.
        package: String,
        /// What is wanted, and by whom.
        wants: Wants,
    },
    /// Different values are passed to one key of a component.
    Values {
        /// The package.
        package: String,
        /// Its component and the key.
        key: String,
        /// The values, and who passes them.
        wants: Wants,
    },
    /// Two packages conflict.
    Clash {
        /// The one that declares it, or was named first.
        package: String,
        /// The other one.
        with: String,
    },
    /// A package that is to be removed is needed.
    Removed {
        /// The package.
        package: String,
        /// Who needs it.
        by: Vec<Origin>,
    },
    /// A version cannot be used.
    Unusable {
        /// The package and its version.
        package: String,
        /// Why.
        why: String,
    },
}

fn joined(wants: &Wants) -> String {
    let texts: Vec<_> = wants
        .iter()
        .map(|(what, origin)| format!("{what} ({origin})"))
        .collect();
    texts.join(" and ")
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Missing { package, by } => write!(f, "no repository carries {package} ({by})"),
            Fault::NoVersion {
                package,
                wanted,
                by,
                source,
                has,
            } => {
                write!(f, "no version of {package} ")?;
                match wanted.as_str() {
                    ANY_VERSION => f.write_str("can be taken")?,
                    variant if variant.starts_with("variant ") => write!(f, "has {variant}")?,
                    constraint => write!(f, "meets {constraint}")?,
                }
                write!(f, " ({by}); {source} has {has}")
            }
            Fault::NotLocked {
                package,
                wanted,
                by,
                locked,
            } => match locked {
                None => write!(f, "the lock does not name {package} ({by})"),
                Some(locked) => write!(
                    f,
                    "the lock names {package} {locked}, which is not {wanted} ({by})"
                ),
            },
            Fault::NoProvider { capability, by } => {
                write!(f, "nothing offers {capability} ({by})")
            }
            Fault::Disagree { package, wants } => {
                write!(f, "no version of {package} meets {}", joined(wants))
            }
            Fault::Values {
                package,
                key,
                wants,
            } => write!(
                f,
                "{package} is passed different values for {key}: {}",
                joined(wants)
            ),
            Fault::Clash { package, with } => write!(f, "{package} conflicts with {with}"),
            Fault::Removed { package, by } => {
                let by: Vec<_> = by.iter().map(ToString::to_string).collect();
                write!(f, "{package} is to be removed, but is {}", by.join(" and "))
            }
            Fault::Unusable { package, why } => write!(f, "{package} cannot be used: {why}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)?;
        match self.others {
            0 => {}
            1 => f.write_str(", and so with one other version")?,
            others => write!(f, ", and so with {others} other versions")?,
        }
        match self.chain.is_empty() {
            true => Ok(()),
            false => write!(f, " [{}]", self.chain.join("; ")),
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, reason) in self.reasons.iter().enumerate() {
            if at > 0 {
                f.write_str("; also: ")?;
            }
            reason.fmt(f)?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "; and {more} more reasons"),
        }
    }
}

impl From<SelectError> for ResolveError {
    fn from(error: SelectError) -> ResolveError {
        ResolveError::Request(Box::new(error))
    }
}

impl From<LockError> for ResolveError {
    fn from(error: LockError) -> ResolveError {
        ResolveError::Lock(Box::new(error))
    }
}

impl Classify for ResolveError {
    fn kind(&self) -> Kind {
        match self {
            ResolveError::Request(error) => error.kind(),
            ResolveError::Lock(error) => error.kind(),
            ResolveError::AskedAndRemoved(_) => Kind::Usage,
            ResolveError::NotInstalled(_) | ResolveError::Unsatisfiable(_) => Kind::NotFound,
            ResolveError::GivenUp { .. } => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ResolveError::Request(error) => error.hint(),
            ResolveError::Lock(error) => error.hint(),
            ResolveError::AskedAndRemoved(_) | ResolveError::NotInstalled(_) => None,
            ResolveError::Unsatisfiable(proof) if !proof.help.is_empty() => {
                Some(proof.help.join("; or "))
            }
            ResolveError::Unsatisfiable(_) => Some(
                "ask for other versions (NAME@CONSTRAINT) or variants (NAME:VARIANT)".to_owned(),
            ),
            ResolveError::GivenUp { .. } => Some(
                "ask for the variants that are meant (NAME:VARIANT) and for exact versions \
                 (NAME@VERSION)"
                    .to_owned(),
            ),
        }
    }
}

//! Why no set of packages could be found.

use std::fmt;

use super::Origin;
use crate::error::{Classify, Kind};
use crate::select::SelectError;
use crate::version::ConstraintError;

/// Why there is no resolution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A request cannot be met, whatever else is chosen.
    #[error(transparent)]
    Request(Box<SelectError>),
    /// Every combination fails. The reasons are distinct and in the order met, so the first
    /// is the one that rules out the newest versions.
    #[error("no set of versions meets all requirements: {}", joined(.0))]
    Unsatisfiable(Vec<DeadEnd>),
    /// The search was given up.
    #[error("gave up the search for a set of versions after {steps} steps; it failed so far because: {}", joined(.reasons))]
    Limit {
        /// Steps made.
        steps: usize,
        /// What ruled out the combinations tried.
        reasons: Vec<DeadEnd>,
    },
}

fn joined(reasons: &[DeadEnd]) -> String {
    let texts: Vec<_> = reasons.iter().map(ToString::to_string).collect();
    texts.join("; also: ")
}

impl From<SelectError> for ResolveError {
    fn from(error: SelectError) -> ResolveError {
        ResolveError::Request(Box::new(error))
    }
}

impl Classify for ResolveError {
    fn kind(&self) -> Kind {
        match self {
            ResolveError::Request(error) => error.kind(),
            ResolveError::Unsatisfiable(_) => Kind::NotFound,
            ResolveError::Limit { .. } => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ResolveError::Request(error) => error.hint(),
            ResolveError::Unsatisfiable(reasons) if reasons.iter().all(DeadEnd::is_absence) => {
                Some("add the repository that carries what is missing".to_owned())
            }
            ResolveError::Unsatisfiable(_) => Some(
                "ask for other versions (NAME@CONSTRAINT), pack the packages that disagree in \
                 separate bundles, or narrow the variants with --variant"
                    .to_owned(),
            ),
            ResolveError::Limit { .. } => {
                Some("ask for exact versions of the packages named here (NAME@VERSION)".to_owned())
            }
        }
    }
}

/// Why one combination was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadEnd {
    /// No repository carries a required package.
    Missing {
        /// The package.
        package: String,
        /// Who wants it.
        by: Origin,
    },
    /// No version meets all who want the package.
    NoVersion {
        /// The package.
        package: String,
        /// Constraint (none: any version) and who sets it.
        wants: Vec<(Option<String>, Origin)>,
        /// The supplying repository.
        source: String,
        /// The versions there are.
        has: String,
    },
    /// The package is chosen already, in a version that does not fit.
    Disagree {
        /// The package.
        package: String,
        /// The version chosen.
        version: String,
        /// Constraint (none: any version) and who set it, the one that failed last.
        wants: Vec<(Option<String>, Origin)>,
    },
    /// All versions that would fit conflict with a chosen package.
    Conflict {
        /// The package.
        package: String,
        /// The version tried.
        version: String,
        /// The chosen package it conflicts with.
        with: String,
    },
    /// A requirement's constraint is not legal.
    Constraint {
        /// The package it is about.
        package: String,
        /// Who wrote it.
        by: Origin,
        /// What is wrong.
        error: ConstraintError,
    },
}

impl DeadEnd {
    fn is_absence(&self) -> bool {
        matches!(self, DeadEnd::Missing { .. })
    }
}

fn listed(wants: &[(Option<String>, Origin)]) -> String {
    let texts: Vec<_> = wants
        .iter()
        .map(|(constraint, origin)| match constraint {
            Some(constraint) => format!("{constraint} ({origin})"),
            None => format!("any version ({origin})"),
        })
        .collect();
    texts.join(" and ")
}

impl fmt::Display for DeadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeadEnd::Missing { package, by } => {
                write!(f, "no repository carries {package} ({by})")
            }
            DeadEnd::NoVersion {
                package,
                wants,
                source,
                has,
            } => write!(
                f,
                "no version of {package} meets {}; {source} has {has}",
                listed(wants)
            ),
            DeadEnd::Disagree {
                package,
                version,
                wants,
            } => write!(f, "{package} {version} does not meet {}", listed(wants)),
            DeadEnd::Conflict {
                package,
                version,
                with,
            } => write!(f, "{package} {version} conflicts with {with}"),
            DeadEnd::Constraint { package, by, error } => {
                write!(f, "the version of {package} ({by}): {error}")
            }
        }
    }
}

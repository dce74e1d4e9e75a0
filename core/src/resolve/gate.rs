//! The check before a package is applied: whether what it requires is there and ready, and
//! whether an installed package conflicts with it. Other than a plan, it looks at readiness
//! and at the versions of optional requirements that are there.

use std::fmt;

use super::state::State;
use crate::api::Requirement;
use crate::version::Constraint;

/// A requirement that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// `package X C` or `capability Y`.
    pub what: String,
    /// What is wrong.
    pub why: WhyUnready,
}

/// Why a requirement does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyUnready {
    /// The package is not there.
    NotInstalled,
    /// The package is there and not ready.
    NotReady,
    /// The package is there in a version that does not fit.
    Version {
        /// The version that is there.
        installed: String,
        /// What is wanted.
        constraint: String,
    },
    /// The package is there and runs another variant.
    Variant {
        /// The variant that runs.
        running: String,
        /// The one that is wanted.
        wanted: String,
    },
    /// What offers the capability is not ready.
    ProviderNotReady,
    /// Nothing offers the capability.
    NoProvider,
    /// The constraint cannot be read.
    Constraint(String),
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.what)?;
        match &self.why {
            WhyUnready::NotInstalled => f.write_str("not installed"),
            WhyUnready::NotReady => f.write_str("not ready"),
            WhyUnready::Version {
                installed,
                constraint,
            } => write!(
                f,
                "installed version {installed} does not satisfy {constraint}"
            ),
            WhyUnready::Variant { running, wanted } => {
                write!(f, "runs variant {running}, not {wanted}")
            }
            WhyUnready::ProviderNotReady => f.write_str("provider not ready"),
            WhyUnready::NoProvider => f.write_str("no installed package provides it"),
            WhyUnready::Constraint(error) => f.write_str(error),
        }
    }
}

/// The requirements that do not hold, in their order. One that is optional counts only when
/// what it names is there.
pub fn requirements(state: &State, requirements: &[Requirement]) -> Vec<Unready> {
    let failed = requirements.iter().filter_map(|requirement| {
        let (what, why) = if !requirement.package.is_empty() {
            let what = format!("package {} {}", requirement.package, requirement.version);
            (what.trim_end().to_owned(), package(state, requirement)?)
        } else if !requirement.capability.is_empty() {
            let what = format!("capability {}", requirement.capability);
            (what, capability(state, &requirement.capability)?)
        } else {
            return None;
        };
        let absent = matches!(why, WhyUnready::NotInstalled | WhyUnready::NoProvider);
        (!requirement.optional || !absent).then_some(Unready { what, why })
    });
    failed.collect()
}

fn package(state: &State, wanted: &Requirement) -> Option<WhyUnready> {
    let Some(package) = state.packages.get(&wanted.package) else {
        return Some(WhyUnready::NotInstalled);
    };
    if !package.ready {
        return Some(WhyUnready::NotReady);
    }
    match Constraint::parse_optional(&wanted.version) {
        Err(error) => return Some(WhyUnready::Constraint(error.to_string())),
        Ok(constraint) if !package.meets(constraint.as_ref()) => {
            return Some(WhyUnready::Version {
                installed: package.version.clone(),
                constraint: wanted.version.clone(),
            });
        }
        Ok(_) => {}
    }
    (!wanted.variant.is_empty() && wanted.variant != package.running()).then(|| {
        WhyUnready::Variant {
            running: package.running().to_owned(),
            wanted: wanted.variant.clone(),
        }
    })
}

fn capability(state: &State, capability: &str) -> Option<WhyUnready> {
    if state.serves(capability) {
        return None;
    }
    let mut providers = state.packages.values().filter(|p| p.offers(capability));
    match providers.next() {
        None => Some(WhyUnready::NoProvider),
        Some(first) if first.ready || providers.any(|p| p.ready) => None,
        Some(_) => Some(WhyUnready::ProviderNotReady),
    }
}

/// The installed packages that conflict with a package of this name that offers `provides`
/// and declares `conflicts`, in either direction. Its own installed version does not count.
pub fn conflicts<'s>(
    state: &'s State,
    name: &str,
    provides: &[String],
    conflicts: &[String],
) -> Vec<&'s str> {
    let offers = |conflict: &String| conflict == name || provides.contains(conflict);
    let others = state.packages.values().filter(|other| other.name != name);
    others
        .filter(|other| {
            conflicts.iter().any(|conflict| other.offers(conflict))
                || other.conflicts.iter().any(offers)
        })
        .map(|other| other.name.as_str())
        .collect()
}

//! What a cluster holds already.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Requirement;
use crate::version::{Constraint, Version};

/// Prefix of a capability that an API server offers: `api:<group>/<version>`.
pub const API_PREFIX: &str = "api:";

/// The variant that is meant where none is named.
pub const DEFAULT_VARIANT: &str = "default";

/// What is installed and served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The installed packages by name.
    pub packages: BTreeMap<String, InstalledPackage>,
    /// The API group-versions the cluster serves, e.g. `cert-manager.io/v1`.
    pub apis: BTreeSet<String>,
}

/// An installed package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledPackage {
    /// Its name.
    pub name: String,
    /// The version that was applied.
    pub version: String,
    /// The build of it.
    pub build: u32,
    /// The variant that runs; the default one when empty.
    pub variant: String,
    /// The capabilities it offers.
    pub provides: Vec<String>,
    /// Packages and capabilities it cannot live with.
    pub conflicts: Vec<String>,
    /// What the running variant requires.
    pub requires: Vec<Requirement>,
    /// Custom resource definitions it owns.
    pub crds: Vec<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// The repository it came from; may be empty.
    pub repository: String,
}

impl State {
    /// Whether the API server offers `capability`.
    pub fn serves(&self, capability: &str) -> bool {
        let api = capability.strip_prefix(API_PREFIX);
        api.is_some_and(|api| self.apis.contains(api))
    }
}

impl InstalledPackage {
    /// Whether it offers `capability`: it says so, or it is called so.
    pub fn offers(&self, capability: &str) -> bool {
        self.name == capability || self.provides.iter().any(|offered| offered == capability)
    }

    /// The variant that runs.
    pub fn running(&self) -> &str {
        match self.variant.as_str() {
            "" => DEFAULT_VARIANT,
            variant => variant,
        }
    }

    /// Whether its version meets `constraint`. A version that cannot be read, and the one of
    /// a package without version, meet only none.
    pub fn meets(&self, constraint: Option<&Constraint>) -> bool {
        constraint.is_none_or(|constraint| meets(constraint, &self.version))
    }
}

/// Whether the version `text` meets `constraint`.
pub(super) fn meets(constraint: &Constraint, text: &str) -> bool {
    text != crate::select::UNVERSIONED
        && Version::parse(text).is_ok_and(|version| constraint.matches(&version))
}

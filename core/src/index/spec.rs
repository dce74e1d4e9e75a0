//! The spec of a listed version.

use crate::api::PackageSourceSpec;

/// A spec, shared between copies of its version.
#[derive(Clone)]
pub(super) struct LazySpec {
    spec: std::sync::Arc<PackageSourceSpec>,
}

impl LazySpec {
    pub(super) fn of(spec: PackageSourceSpec) -> LazySpec {
        LazySpec { spec: spec.into() }
    }

    pub(super) fn get(&self) -> &PackageSourceSpec {
        &self.spec
    }
}

impl std::fmt::Debug for LazySpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

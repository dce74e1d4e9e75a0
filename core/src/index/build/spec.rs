//! The spec of a version in a draft: its own, or one of the published index that is decoded
//! for as long as it is looked at.

use std::borrow::Cow;

use crate::Digest;
use crate::api::PackageSourceSpec;
use crate::index::IndexVersion;
use crate::index::spec::LazySpec;

#[derive(Clone, Debug)]
pub(super) enum Spec {
    /// Of a recipe; what is not pinned in it can still be.
    Own(Box<PackageSourceSpec>),
    /// Published, so it does not change.
    Published(LazySpec, Digest),
}

impl Spec {
    pub(super) fn published(version: &IndexVersion) -> Spec {
        Spec::Published(version.spec.clone(), version.digest)
    }

    pub(super) fn get(&self) -> Cow<'_, PackageSourceSpec> {
        match self {
            Spec::Own(spec) => Cow::Borrowed(spec),
            Spec::Published(spec, _) => spec.decoded(),
        }
    }

    pub(super) fn own_mut(&mut self) -> Option<&mut PackageSourceSpec> {
        match self {
            Spec::Own(spec) => Some(spec),
            Spec::Published(..) => None,
        }
    }

    pub(super) fn digest(&self) -> Digest {
        match self {
            Spec::Own(spec) => spec.digest(),
            Spec::Published(_, digest) => *digest,
        }
    }
}

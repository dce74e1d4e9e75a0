//! Which upstream location each repository of the store stands for.

use kubepkg_core::bundle::Bundle;
use kubepkg_core::bundle::verify::{PlacementError, Upstream};
use kubepkg_core::store::{Change, Names, OtherUpstream, check_upstream};

use crate::{Checked, ImportError};

/// The changes that record where new repositories come from. Refuses a bundle that would mix
/// two upstream locations in one repository.
pub fn upstreams(
    bundle: &Bundle,
    checked: &Checked,
    names: &Names,
) -> Result<Vec<Change>, ImportError> {
    let mut changes = Vec::new();
    for place in &checked.placements {
        let name = &place.repository;
        let current = names.repositories.get(name).map(AsRef::as_ref);
        let change = check_upstream(name, current, &location(&place.upstream));
        let change = change.map_err(|error| ImportError::from(meet(error)).of(bundle))?;
        // the place is taken only by what a signed package says, or it could be kept from it
        changes.extend(change.filter(|_| place.by_package));
    }
    Ok(changes)
}

/// How a store writes an upstream location.
fn location(upstream: &Upstream) -> String {
    let kind = if upstream.helm { "helm" } else { "oci" };
    format!("{kind}://{}/{}", upstream.host, upstream.path)
}

fn meet(error: OtherUpstream) -> PlacementError {
    PlacementError::Meet {
        repository: error.repository,
        first: error.recorded,
        second: error.offered,
    }
}

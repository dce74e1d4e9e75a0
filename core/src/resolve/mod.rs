//! From requested packages to the set of packages that meets all their requirements.
//!
//! There are two goals. A set may be there to be carried away ([`pack`]): the cluster is not
//! known, so capabilities that no chosen package offers are reported, and so are conflicts.
//! Or it is there to be installed in a cluster that holds something already ([`install`]).
//!
//! The set is found by a SAT solver with conflict-driven learning, `resolvo`; `pubgrub` was
//! weighed against it and has neither alternatives (a capability that any of several packages
//! offers) nor conflicts. What the solver is asked is in the private modules `terms` (the
//! words), `model` (how it asks), `pack` and `install` (what is required); what is done with
//! its answer in `follow`, `ground` and `solve`, and with its proof in `explain`. Nothing
//! here recurses over the depth of requirements, which come from others.
//!
//! What decides between sets that fit: what is installed stays unless it is asked for; the
//! repository of the highest priority that carries a package supplies it; the newest version
//! and of that the newest build is taken. The same input always gives the same set.

mod error;
mod explain;
mod follow;
pub mod gate;
mod ground;
mod help;
mod install;
mod knowledge;
mod model;
mod origin;
mod pack;
mod request;
mod resolution;
mod solve;
pub mod state;
mod terms;
mod values;
mod world;

pub use error::{Fault, Proof, Reason, ResolveError, Wants};
pub use install::Install;
pub use origin::Origin;
pub use pack::Pack;
pub use request::{Request, RequestError, Variants};
pub use resolution::{Breaks, Chosen, Clash, HeldBack, Resolution, Stays, Unmet};
pub use solve::MAX_ROUNDS;

use std::collections::BTreeMap;

use self::model::Goal;
use self::world::World;
use crate::lock::Lock;
use crate::select::Catalog;
use crate::version::{Constraint, Version};

/// Finds a set of packages in `catalog` that contains every requested package and whatever
/// the set requires by name, each in its newest version that all who want it accept.
pub fn pack<'c>(catalog: &'c Catalog, pack: &Pack<'c>) -> Result<Resolution<'c>, ResolveError> {
    let world = world(catalog, pack.requests, pack.lock)?;
    let goal = Goal::Pack(pack);
    let solved = solve::solve(&world, goal)?;
    Ok(resolution::packed(&world, pack, &solved))
}

/// Finds what is to be installed, changed and kept in a cluster, so that every request and
/// every requirement of what is chosen is met, and nothing that is there breaks.
pub fn install<'c>(
    catalog: &'c Catalog,
    install: &Install<'c>,
) -> Result<Resolution<'c>, ResolveError> {
    for package in install.remove {
        if install.requests_package(package.as_str()) {
            return Err(ResolveError::AskedAndRemoved(package.to_string()));
        }
        if !install.state.packages.contains_key(package.as_str()) {
            return Err(ResolveError::NotInstalled(package.to_string()));
        }
    }
    let world = world(catalog, install.requests, install.lock)?;
    let goal = Goal::Install(install);
    let solved = solve::solve(&world, goal)?;
    let mut resolution = resolution::installed(&world, install, &solved);
    held_back(&world, install, &mut resolution);
    Ok(resolution)
}

/// How many requested packages are asked about why their newest version is not taken: each
/// answer costs one more search.
const MAX_HELD_BACK: usize = 8;

/// Says of requested packages why not their newest version is taken, where the call would
/// take it: something else holds it back.
fn held_back(world: &World<'_>, install: &Install<'_>, resolution: &mut Resolution<'_>) {
    let mut asked = 0;
    for chosen in &mut resolution.packages {
        let requests = install.requests.iter();
        let requests = requests.filter(|r| r.name.as_str() == chosen.name);
        let constraints: Vec<_> = requests.map(|r| r.constraint.as_ref()).collect();
        if constraints.is_empty() || asked == MAX_HELD_BACK {
            continue;
        }
        let fits = |version: &Version| {
            constraints
                .iter()
                .flatten()
                .all(|constraint| constraint.matches(version))
        };
        let releases = world.releases(&chosen.name);
        let Some(newest) = releases.iter().find(|release| fits(&release.version)) else {
            continue;
        };
        let Ok(name) = chosen.name.parse() else {
            continue;
        };
        if newest.version <= chosen.version {
            continue;
        }
        asked += 1;
        let mut requests = install.requests.to_vec();
        requests.push(Request {
            name,
            variant: None,
            constraint: Constraint::parse(&newest.version.to_string()).ok(),
        });
        let newest_asked = Install {
            requests: &requests,
            ..install.clone()
        };
        let why = match solve::refuted(world, Goal::Install(&newest_asked)) {
            Some(ResolveError::Unsatisfiable(proof)) => proof.to_string(),
            _ => "it does not fit what else was chosen".to_owned(),
        };
        chosen.held_back = Some(HeldBack {
            version: newest.listed.version.clone(),
            why,
        });
    }
}

fn world<'c>(
    catalog: &'c Catalog,
    requests: &[Request],
    lock: Option<&'c Lock>,
) -> Result<World<'c>, ResolveError> {
    if let Some(lock) = lock {
        lock.check(catalog)?;
    } else {
        for request in requests {
            // a request that fails alone gets the more telling message
            catalog.select(request.name.as_str(), request.constraint.as_ref())?;
        }
    }
    let mut exact: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for request in requests {
        if let Some(version) = request.constraint.as_ref().and_then(Constraint::exact) {
            let versions = exact.entry(request.name.to_string()).or_default();
            versions.push(version.clone());
        }
    }
    Ok(World::new(catalog, exact, lock))
}

#[cfg(test)]
mod tests;

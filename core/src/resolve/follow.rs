//! What follows from the requests within a set the solver found.
//!
//! The solver meets every requirement, but it does not know that a package is there for a
//! reason only: it may leave one in the set that nothing needs any more, or run a variant
//! nobody asks for because that makes the rest fit. So the set is walked from the requests
//! on; what is not reached is dropped, and a variant that nobody reached asks for is refused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use super::knowledge::Knowledge;
use super::model::Goal;
use super::origin::Origin;
use super::terms::Item;
use super::world::{self, Demand, What, World};

/// The items the solver chose, by package.
pub(super) type Set = BTreeMap<Rc<str>, Item>;

/// What was reached.
#[derive(Default)]
pub(super) struct Followed {
    /// The packages that are there for a reason, with all reasons, in the order met.
    pub(super) why: BTreeMap<Rc<str>, Vec<Origin>>,
    /// Packages that are needed, but in a variant that nobody reached asks for.
    pub(super) blocked: BTreeSet<Rc<str>>,
    /// Packages that are the only one to offer something needed.
    sole: BTreeSet<Rc<str>>,
    /// Packages needed by name.
    named: BTreeSet<Rc<str>>,
    /// A capability that is needed and that nobody left in the set offers.
    lacking: bool,
    asked: BTreeSet<(Rc<str>, Rc<str>)>,
    queue: VecDeque<Rc<str>>,
    queued: BTreeSet<Rc<str>>,
}

/// Walks `set` from the requests on, as if the packages in `without` were not in it.
pub(super) fn follow(
    world: &World<'_>,
    goal: Goal<'_>,
    knowledge: &Knowledge,
    set: &Set,
    without: &BTreeSet<Rc<str>>,
) -> Followed {
    let mut followed = Followed::default();
    let requests = match goal {
        Goal::Pack(pack) => pack.requests,
        Goal::Install(install) => install.requests,
    };
    for request in requests {
        let variant = request.variant.as_deref().unwrap_or_default();
        followed.name(set, request.name.as_str(), variant, Origin::Requested);
    }
    if let Goal::Install(install) = goal {
        for package in install.state.packages.keys() {
            followed.reach(set, &package.as_str().into());
        }
    }
    let offering = Offering::new(world, goal, set, without);
    let mut walked = BTreeSet::new();
    while let Some(package) = followed.queue.pop_front() {
        if without.contains(&package) || !walked.insert(Rc::clone(&package)) {
            continue;
        }
        let Some(item) = set.get(&package) else {
            continue;
        };
        for (demand, by) in demands(world, goal, knowledge, item) {
            match demand.what {
                What::Package { name, .. } => followed.name(set, name, demand.variant, by),
                // then the cluster is to offer it
                What::Capability(_) if matches!(goal, Goal::Pack(p) if !p.with_providers) => {}
                What::Capability(capability) => {
                    followed.capability(set, &offering, &package, capability, by);
                }
            }
        }
    }
    followed
}

impl Followed {
    /// Whether everything needed is there as it may be.
    pub(super) fn is_whole(&self) -> bool {
        self.blocked.is_empty() && !self.lacking
    }

    /// Whether a package of the set was reached.
    pub(super) fn is_reached(&self, package: &Rc<str>) -> bool {
        self.queued.contains(package)
    }

    /// Packages that only offer what another one offers, too.
    pub(super) fn doubtful(&self) -> Vec<Rc<str>> {
        let reached = self.why.keys();
        let doubtful = reached.filter(|p| !self.named.contains(*p) && !self.sole.contains(*p));
        doubtful.cloned().collect()
    }

    fn name(&mut self, set: &Set, package: &str, variant: &str, by: Origin) {
        let package: Rc<str> = package.into();
        if !set.contains_key(&package) {
            return;
        }
        if !variant.is_empty() {
            self.asked.insert((Rc::clone(&package), variant.into()));
        }
        self.named.insert(Rc::clone(&package));
        self.because(&package, by);
        self.reach(set, &package);
    }

    fn because(&mut self, package: &Rc<str>, by: Origin) {
        let why = self.why.entry(Rc::clone(package)).or_default();
        if !why.contains(&by) {
            why.push(by);
        }
    }

    fn reach(&mut self, set: &Set, package: &Rc<str>) {
        match set.get(package) {
            Some(Item::Release(_, _, Some(variant)))
                if !self
                    .asked
                    .contains(&(Rc::clone(package), Rc::clone(variant))) =>
            {
                self.blocked.insert(Rc::clone(package));
            }
            Some(_) => {
                self.blocked.remove(package);
                if self.queued.insert(Rc::clone(package)) {
                    self.queue.push_back(Rc::clone(package));
                }
            }
            None => {}
        }
    }

    fn capability(
        &mut self,
        set: &Set,
        offering: &Offering<'_>,
        package: &Rc<str>,
        capability: &str,
        by: Origin,
    ) {
        let providers = offering.providers(capability);
        if providers.contains(package) || offering.served.contains(capability) {
            return;
        }
        let others: Vec<_> = providers.iter().filter(|p| **p != *package).collect();
        match others.as_slice() {
            [] => self.lacking |= offering.offered_before(capability, package),
            [one] => {
                self.sole.insert(Rc::clone(one));
            }
            _ => {}
        }
        for provider in others {
            self.because(provider, by.clone());
            self.reach(set, provider);
        }
    }
}

/// Who in a set offers what.
struct Offering<'w> {
    without: &'w BTreeSet<Rc<str>>,
    by_capability: BTreeMap<String, Vec<Rc<str>>>,
    served: BTreeSet<String>,
    set: BTreeSet<Rc<str>>,
}

impl<'w> Offering<'w> {
    fn new(
        world: &World<'_>,
        goal: Goal<'_>,
        set: &Set,
        without: &'w BTreeSet<Rc<str>>,
    ) -> Offering<'w> {
        let mut offering = Offering {
            without,
            by_capability: BTreeMap::new(),
            served: BTreeSet::new(),
            set: BTreeSet::new(),
        };
        if let Goal::Install(install) = goal {
            let served = install.state.apis.iter();
            offering.served = served
                .map(|api| format!("{}{api}", super::state::API_PREFIX))
                .filter(|capability| install.serves_anyway(capability))
                .collect();
        }
        for (package, item) in set {
            offering.set.insert(Rc::clone(package));
            let mut add = |capability: &str| {
                let offered = offering.by_capability.entry(capability.to_owned());
                offered.or_default().push(Rc::clone(package));
            };
            match (item, goal) {
                (Item::Release(_, at, _), _) => {
                    world.releases(package)[*at]
                        .listed
                        .provides()
                        .for_each(&mut add);
                }
                (Item::Stays(_), Goal::Install(install)) => {
                    let installed = install.state.packages.get(package.as_ref());
                    let provides = installed.into_iter().flat_map(|i| &i.provides);
                    provides.for_each(|capability| add(capability));
                }
                _ => {}
            }
        }
        offering
    }

    fn all(&self, capability: &str) -> impl Iterator<Item = &Rc<str>> {
        let listed = self.by_capability.get(capability).into_iter().flatten();
        listed.chain(self.set.get(capability))
    }

    fn providers(&self, capability: &str) -> BTreeSet<Rc<str>> {
        let there = self.all(capability);
        there
            .filter(|p| !self.without.contains(*p))
            .cloned()
            .collect()
    }

    /// Whether another package of the whole set offers it.
    fn offered_before(&self, capability: &str, package: &Rc<str>) -> bool {
        self.all(capability).any(|p| p != package)
    }
}

/// What `item` asks for, and as whom.
pub(super) fn demands<'a, 'c: 'a>(
    world: &World<'c>,
    goal: Goal<'a>,
    knowledge: &Knowledge,
    item: &Item,
) -> Vec<(Demand<'a>, Origin)> {
    let mut found = Vec::new();
    match (item, goal) {
        (Item::Release(package, at, slot), _) => {
            let release = &world.releases(package)[*at];
            let several = release.listed.spec().variants.len() > 1;
            let demands: Vec<Demand<'a>> = match goal {
                Goal::Pack(pack) => pack.demands(package, release, &knowledge.variants(package)),
                Goal::Install(install) => {
                    let usual = install.usual_variant(package);
                    let variant = world::variant(release, slot.as_deref().unwrap_or(usual));
                    let demands = variant.into_iter().flat_map(world::demands);
                    demands.filter(|demand| !demand.optional).collect()
                }
            };
            for demand in demands {
                let by = Origin::Package {
                    name: package.to_string(),
                    version: release.listed.version.clone(),
                    variant: several.then(|| demand.by.to_owned()),
                    via: via(&demand),
                };
                found.push((demand, by));
            }
        }
        // where it may break, it asks for nothing
        (Item::Stays(package), Goal::Install(install)) if !install.allow_breaking => {
            let Some(installed) = install.state.packages.get(package.as_ref()) else {
                return found;
            };
            let required = installed.requires.iter().filter(|r| !r.optional);
            for requirement in required.filter(|r| install.holds(installed, r)) {
                let demand = world::demand_of(requirement);
                let by = Origin::Installed {
                    name: package.to_string(),
                    version: installed.version.clone(),
                    via: via(&demand),
                };
                found.push((demand, by));
            }
        }
        _ => {}
    }
    found
}

fn via(demand: &Demand<'_>) -> Option<String> {
    match demand.what {
        What::Package { .. } => None,
        What::Capability(capability) => Some(capability.to_owned()),
    }
}

//! When a set rests on a variant that nobody asks for: what could have asked for it.
//!
//! The packages of a set that nothing reaches support each other only. Each of them may be
//! chosen only together with something outside of them that leads to one of them; saying so
//! to the solver rules the set out, and no set that has a reason.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use super::follow::{Followed, Set, demands};
use super::knowledge::Knowledge;
use super::model::Goal;
use super::terms::Item;
use super::world::{self, What, World};

/// Notes what the blocked packages of `set` may be chosen with. Everything that can be
/// reached from the requests is read for that; only sets with variants come here.
pub(super) fn rule_out(
    world: &World<'_>,
    goal: Goal<'_>,
    knowledge: &mut Knowledge,
    set: &Set,
    followed: &Followed,
) {
    let floating: BTreeSet<&Item> = set
        .iter()
        .filter(|(package, _)| !followed.is_reached(package))
        .map(|(_, item)| item)
        .collect();
    let leads_in = |from: &Item, knowledge: &Knowledge| {
        let asked = demands(world, goal, knowledge, from);
        asked.iter().any(|(demand, _)| {
            floating.iter().any(|item| {
                let Item::Release(package, at, slot) = item else {
                    return false;
                };
                let release = &world.releases(package)[*at];
                match (demand.what, slot) {
                    (What::Package { name, constraint }, slot) => {
                        name == package.as_ref()
                            && world::meets(release, &world.constraint(constraint))
                            && slot.as_deref().is_none_or(|slot| slot == demand.variant)
                    }
                    (What::Capability(capability), None) => {
                        world::offers(package, release, capability)
                    }
                    (What::Capability(_), Some(_)) => false,
                }
            })
        })
    };
    let reachable = reachable(world, goal, knowledge);
    let supports: Rc<[Item]> = reachable
        .iter()
        .filter(|item| !floating.contains(item) && leads_in(item, knowledge))
        .cloned()
        .collect();
    for package in &followed.blocked {
        if let Some(item) = set.get(package) {
            let rules = knowledge.only_with.entry(item.clone()).or_default();
            rules.push(Rc::clone(&supports));
        }
    }
}

/// Reads everything a set could hold for variants that somebody asks for; whether there are
/// some that nobody had come to. Costly, so only where there seems to be no solution.
pub(super) fn learns_of_variants(
    world: &World<'_>,
    goal: Goal<'_>,
    knowledge: &mut Knowledge,
) -> bool {
    let before = knowledge.variants_known();
    reachable(world, goal, knowledge);
    knowledge.variants_known() > before
}

/// Every release, in every variant that somebody asks for, that some set could hold.
fn reachable(world: &World<'_>, goal: Goal<'_>, knowledge: &mut Knowledge) -> BTreeSet<Item> {
    let Goal::Install(install) = goal else {
        return BTreeSet::new();
    };
    let requested = install.requests.iter().map(|r| r.name.as_str());
    let installed = install.state.packages.keys().map(String::as_str);
    let mut queue: VecDeque<Rc<str>> = requested.chain(installed).map(Rc::from).collect();
    for installed in install.state.packages.values() {
        let wanted = installed.requires.iter().filter(|r| r.package.is_empty());
        for requirement in wanted {
            let providers = world.providers(&requirement.capability);
            queue.extend(providers.iter().copied().map(Rc::from));
        }
    }
    let mut found = BTreeSet::new();
    let mut read: BTreeMap<Rc<str>, usize> = BTreeMap::new();
    while let Some(package) = queue.pop_front() {
        // once more only where another variant is asked for since
        let known = knowledge.variants(&package).len();
        if read.insert(Rc::clone(&package), known) == Some(known) {
            continue;
        }
        let usual = install.usual_variant(&package);
        let releases = world.releases(&package);
        for (at, release) in releases.iter().enumerate() {
            let asked = knowledge.variants(&package).into_iter();
            let slots = asked
                .filter(|v| v.as_ref() != usual && world::variant(release, v).is_some())
                .map(Some);
            for slot in std::iter::once(None).chain(slots) {
                let item = Item::Release(Rc::clone(&package), at, slot);
                if !found.insert(item.clone()) {
                    continue;
                }
                for (demand, _) in demands(world, goal, knowledge, &item) {
                    match demand.what {
                        What::Package { name, .. } => {
                            if !demand.variant.is_empty() {
                                knowledge.expect_variant(name, demand.variant);
                            }
                            queue.push_back(name.into());
                        }
                        What::Capability(capability) => {
                            let providers = world.providers(capability);
                            queue.extend(providers.iter().copied().map(Rc::from));
                        }
                    }
                }
            }
        }
    }
    found
}

//! Rounds of the solver, until the set it finds is one that has a reason for everything.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use resolvo::{Problem, Solver, UnsolvableOrCancelled};

use super::error::ResolveError;
use super::explain;
use super::follow::{Followed, Set, follow};
use super::ground;
use super::knowledge::Knowledge;
use super::model::{Goal, Model};
use super::terms::Item;
use super::world::{What, World};

/// Rounds before the search is given up. One is the rule, two where variants, values or
/// exclusive capabilities come to light late; more only where sets rest on themselves.
pub const MAX_ROUNDS: usize = 1_000;

/// How many installed packages that changed without being asked for are tried in their old
/// version: each costs a round.
const MAX_TRIED: usize = 64;

/// A set that meets everything, and why each package is in it.
pub(super) struct Solved {
    pub(super) set: Set,
    pub(super) followed: Followed,
    pub(super) knowledge: Knowledge,
}

pub(super) fn solve<'a>(world: &'a World<'_>, goal: Goal<'a>) -> Result<Solved, ResolveError> {
    let knowledge = expected(goal);
    let mut rounds = 0;
    let (mut set, mut followed) = settle(world, goal, &knowledge, &mut rounds)?;
    let displaced = displaced(world, goal, &knowledge.borrow(), &set);
    for package in displaced {
        knowledge.borrow_mut().to_stay.insert(Rc::clone(&package));
        match settle(world, goal, &knowledge, &mut rounds) {
            Ok(other) if is_better(goal, &set, &other.0) => (set, followed) = other,
            _ => {
                knowledge.borrow_mut().to_stay.remove(&package);
            }
        }
    }
    Ok(Solved {
        set,
        followed,
        knowledge: knowledge.into_inner(),
    })
}

/// What is known before the first round: the variants that are asked for whatever is chosen.
fn expected(goal: Goal<'_>) -> RefCell<Knowledge> {
    let mut knowledge = Knowledge::default();
    match goal {
        Goal::Install(install) => {
            for (package, variant) in install.expected_variants() {
                knowledge.expect_variant(package, variant);
            }
        }
        Goal::Pack(pack) => {
            for request in pack.requests {
                if let Some(variant) = &request.variant {
                    knowledge.expect_variant(request.name.as_str(), variant);
                }
            }
        }
    }
    RefCell::new(knowledge)
}

/// The proof that there is no set, where there is none; what there is is not improved.
pub(super) fn refuted(world: &World<'_>, goal: Goal<'_>) -> Option<ResolveError> {
    let knowledge = expected(goal);
    settle(world, goal, &knowledge, &mut 0).err()
}

/// Whether fewer installed packages change in `new`, and no requested one gets older for it.
fn is_better(goal: Goal<'_>, old: &Set, new: &Set) -> bool {
    let Goal::Install(install) = goal else {
        return false;
    };
    let older = |request: &super::Request| {
        let at = |set: &Set| match set.get(request.name.as_str()) {
            Some(Item::Release(_, at, _)) => Some(*at),
            _ => None,
        };
        match (at(old), at(new)) {
            // of releases the newest comes first
            (Some(old), Some(new)) => new > old,
            (Some(_), None) => true,
            (None, _) => false,
        }
    };
    let changed = |set: &Set| {
        let items = set
            .iter()
            .filter(|(package, _)| is_installed(goal, package));
        items
            .filter(|(_, item)| matches!(item, Item::Release(..)))
            .count()
    };
    changed(new) < changed(old) && !install.requests.iter().any(older)
}

/// Solves until nothing came too late, and nothing is there without a reason.
fn settle(
    world: &World<'_>,
    goal: Goal<'_>,
    knowledge: &RefCell<Knowledge>,
    rounds: &mut usize,
) -> Result<(Set, Followed), ResolveError> {
    loop {
        *rounds += 1;
        if *rounds > MAX_ROUNDS {
            return Err(ResolveError::GivenUp { rounds: MAX_ROUNDS });
        }
        let found = round(world, goal, knowledge);
        let mut knowledge = knowledge.borrow_mut();
        let set = match found {
            Ok(set) => set,
            // each time there is a package more of which all releases are looked at together
            Err(_) if knowledge.begin_again => {
                *rounds -= 1;
                continue;
            }
            Err(_) if knowledge.missed_a_variant() => continue,
            // what was refuted may fit in a variant that a release not looked at asks for
            Err(_) if ground::learns_of_variants(world, goal, &mut knowledge) => continue,
            Err(error) => return Err(error),
        };
        if set.values().any(|item| knowledge.was_late(item)) {
            continue;
        }
        let followed = follow(world, goal, &knowledge, &set, &BTreeSet::new());
        if !followed.is_whole() {
            ground::rule_out(world, goal, &mut knowledge, &set, &followed);
            continue;
        }
        if learns_variants(world, goal, &mut knowledge, &set, &followed) {
            continue;
        }
        return Ok(pruned(world, goal, &knowledge, set, followed));
    }
}

fn round(
    world: &World<'_>,
    goal: Goal<'_>,
    knowledge: &RefCell<Knowledge>,
) -> Result<Set, ResolveError> {
    knowledge.borrow_mut().begin();
    let model = Model::new(world, goal, knowledge);
    let root = model.root();
    let problem = Problem::new()
        .requirements(root.requirements)
        .constraints(root.constraints);
    let mut solver = Solver::new(model);
    match solver.solve(problem) {
        Ok(chosen) => {
            let items = chosen
                .into_iter()
                .map(|id| solver.provider().terms.item_of(id));
            let packages = items.filter_map(|item| Some((Rc::clone(item.package()?), item)));
            Ok(packages.collect())
        }
        Err(UnsolvableOrCancelled::Unsolvable(conflict)) => {
            let graph = conflict.graph(&solver);
            Err(explain::explain(&graph, solver.provider()))
        }
        // it is to begin again
        Err(UnsolvableOrCancelled::Cancelled(_)) => Err(ResolveError::GivenUp { rounds: 1 }),
    }
}

/// When packing: whether chosen packages ask for variants whose requirements do not count
/// yet. They only ever become more.
fn learns_variants(
    world: &World<'_>,
    goal: Goal<'_>,
    knowledge: &mut Knowledge,
    set: &Set,
    followed: &Followed,
) -> bool {
    let Goal::Pack(_) = goal else { return false };
    let mut learned = false;
    for (_, item) in set
        .iter()
        .filter(|(package, _)| followed.is_reached(package))
    {
        for (demand, _) in super::follow::demands(world, goal, knowledge, item) {
            if let (What::Package { name, .. }, false) = (demand.what, demand.variant.is_empty()) {
                learned |= knowledge.expect_variant(name, demand.variant);
            }
        }
    }
    learned
}

/// The set without what is not reached, and without providers that others make needless.
fn pruned(
    world: &World<'_>,
    goal: Goal<'_>,
    knowledge: &Knowledge,
    mut set: Set,
    mut followed: Followed,
) -> (Set, Followed) {
    let mut without = BTreeSet::new();
    for package in followed.doubtful() {
        if matches!(set.get(&package), Some(Item::Stays(_))) || is_installed(goal, &package) {
            continue;
        }
        without.insert(Rc::clone(&package));
        let less = follow(world, goal, knowledge, &set, &without);
        if less.is_whole() {
            followed = less;
        } else {
            without.remove(&package);
        }
    }
    set.retain(|package, _| followed.is_reached(package) && !without.contains(package));
    (set, followed)
}

fn is_installed(goal: Goal<'_>, package: &str) -> bool {
    match goal {
        Goal::Install(install) => install.state.packages.contains_key(package),
        Goal::Pack(_) => false,
    }
}

/// Installed packages that change, though neither the call asks for it nor a requirement that
/// the installed version would not meet.
fn displaced(world: &World<'_>, goal: Goal<'_>, knowledge: &Knowledge, set: &Set) -> Vec<Rc<str>> {
    let Goal::Install(install) = goal else {
        return Vec::new();
    };
    let mut changed: BTreeSet<&str> = set
        .iter()
        .filter(|(_, item)| matches!(item, Item::Release(..)))
        .map(|(package, _)| package.as_ref())
        .filter(|package| is_installed(goal, package) && !install.requests_package(package))
        .collect();
    if changed.is_empty() {
        return Vec::new();
    }
    for item in set.values() {
        for (demand, _) in super::follow::demands(world, goal, knowledge, item) {
            let What::Package { name, constraint } = demand.what else {
                continue;
            };
            let Some(installed) = install.state.packages.get(name) else {
                continue;
            };
            let read = world.constraint(constraint);
            let fits = read
                .as_ref()
                .as_ref()
                .is_ok_and(|c| installed.meets(c.as_ref()));
            if !fits || !demand.variant.is_empty() && installed.running() != demand.variant {
                changed.remove(name);
            }
        }
    }
    changed.into_iter().take(MAX_TRIED).map(Rc::from).collect()
}

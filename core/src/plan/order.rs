//! The order of a plan: requirements before those that need them, else by name. A cycle is
//! entered at its first package by name.

use std::collections::{BTreeMap, BTreeSet};

use super::note::variant;
use crate::api::Need;
use crate::resolve::Resolution;
use crate::resolve::state::InstalledPackage;

/// The packages of `resolution` in the order in which they are installed.
pub(super) fn changes<'r>(resolution: &'r Resolution<'_>) -> Vec<&'r str> {
    let mut offers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut needs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for stays in &resolution.stays {
        needs.insert(&stays.name, BTreeSet::new());
        offers.entry(&stays.name).or_default().insert(&stays.name);
    }
    for chosen in &resolution.packages {
        needs.insert(&chosen.name, BTreeSet::new());
        for capability in chosen.listed.provides().chain([chosen.name.as_str()]) {
            offers.entry(capability).or_default().insert(&chosen.name);
        }
    }
    for chosen in &resolution.packages {
        // optional ones count, too: what is there must be ready first
        for need in variant(chosen).into_iter().flat_map(|v| v.needs()) {
            let wanted = needs.entry(&chosen.name).or_default();
            match need.need {
                Need::Package { name, .. } => {
                    wanted.extend(offers.get(name).and_then(|by| by.get(name)));
                }
                Need::Capability(capability) => {
                    wanted.extend(offers.get(capability).into_iter().flatten());
                }
            }
        }
    }
    sorted(&needs)
}

/// Installed packages in the order in which they go: those that need others before these.
pub(super) fn removals(packages: Vec<&InstalledPackage>) -> Vec<&InstalledPackage> {
    let mut needs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &packages {
        let needed = packages.iter().filter(|other| {
            let mut requires = package.requires.iter();
            requires.any(|r| r.package == other.name || other.offers(&r.capability))
        });
        needs.insert(
            &package.name,
            needed.map(|other| other.name.as_str()).collect(),
        );
    }
    let mut order = sorted(&needs);
    order.reverse();
    let by_name: BTreeMap<&str, &InstalledPackage> = packages
        .iter()
        .map(|package| (package.name.as_str(), *package))
        .collect();
    order
        .iter()
        .filter_map(|name| by_name.get(name).copied())
        .collect()
}

/// Everything after what it needs. Without recursion, because chains come from others.
fn sorted<'r>(needs: &BTreeMap<&'r str, BTreeSet<&'r str>>) -> Vec<&'r str> {
    let mut order = Vec::with_capacity(needs.len());
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for start in needs.keys() {
        if !seen.insert(start) {
            continue;
        }
        let mut stack = vec![(*start, needs[start].iter())];
        while let Some((name, left)) = stack.last_mut() {
            match left.next() {
                Some(next) if seen.insert(next) => {
                    if let Some((name, needed)) = needs.get_key_value(next) {
                        stack.push((name, needed.iter()));
                    }
                }
                Some(_) => {}
                None => {
                    order.push(*name);
                    stack.pop();
                }
            }
        }
    }
    order
}

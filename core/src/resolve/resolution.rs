//! What comes out: the chosen packages with the reasons for each, and what must be said.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::follow::demands;
use super::install::Install;
use super::model::Goal;
use super::origin::Origin;
use super::pack::Pack;
use super::solve::Solved;
use super::state::{InstalledPackage, State};
use super::terms::Item;
use super::world::{What, World};
use crate::api::Requirement;
use crate::index::IndexVersion;
use crate::select::{Selection, Source};
use crate::version::{Constraint, Version};

/// A package of the set.
#[derive(Clone, Debug)]
pub struct Chosen<'c> {
    /// Its name.
    pub name: String,
    /// The repository that supplies it.
    pub source: &'c Source,
    /// The chosen version as listed in its index.
    pub listed: &'c IndexVersion,
    /// The chosen version, parsed.
    pub version: Version,
    /// The variant to install, or those that travel, by name. None where the package has none
    /// of the name that counts.
    pub variants: Vec<String>,
    /// Everybody who wants it, in the order met.
    pub why: Vec<Origin>,
    /// A newer version that the call would take, and why it cannot be had. Only for
    /// installing.
    pub held_back: Option<HeldBack>,
}

/// A newer version of a requested package that is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// The version.
    pub version: String,
    /// Why not, in words.
    pub why: String,
}

impl Chosen<'_> {
    /// Whether it comes from a repository, not from what was written by hand.
    pub fn is_published(&self) -> bool {
        self.source.name != crate::select::HAND_WRITTEN
    }
}

/// An installed package that stays as it is and that the set needs by name.
#[derive(Clone, Debug)]
pub struct Stays<'c> {
    /// Its name.
    pub name: String,
    /// The repository that offers the installed version now, or where it came from.
    pub repository: String,
    /// The installed version, where the supplying repository lists it.
    pub listed: Option<&'c IndexVersion>,
    /// Everybody who wants it, in the order met.
    pub why: Vec<Origin>,
}

/// A requirement that was not met, and need not be for packing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmet {
    /// The capability or package.
    pub what: String,
    /// Who requires it.
    pub by: Origin,
}

/// Two packages of the set that cannot be installed together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clash {
    /// The package that declares the conflict.
    pub package: String,
    /// The other one.
    pub with: String,
}

/// A requirement of an installed package that held and will not hold any more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breaks {
    /// The installed package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// What it requires.
    pub requires: String,
}

/// A set of packages that meets all requirements.
#[derive(Clone, Debug, Default)]
pub struct Resolution<'c> {
    /// The packages that are taken from the catalog, by name.
    pub packages: Vec<Chosen<'c>>,
    /// Installed packages that stay and are needed by name, by name. Empty for packing.
    pub stays: Vec<Stays<'c>>,
    /// Installed packages that go, by name.
    pub removed: Vec<String>,
    /// Required capabilities that no package of the set offers: the cluster must. Only for
    /// packing.
    pub capabilities: Vec<Unmet>,
    /// Optional requirements that were wanted but that no repository carries.
    pub missing_optional: Vec<Unmet>,
    /// Conflicts within the set. Only for packing.
    pub conflicts: Vec<Clash>,
    /// What breaks. Empty unless that was allowed.
    pub breaks: Vec<Breaks>,
}

fn chosen<'c>(
    package: &Rc<str>,
    release: &Selection<'c>,
    variants: Vec<String>,
    solved: &Solved,
) -> Chosen<'c> {
    let why = solved.followed.why.get(package).cloned();
    let mut why = why.unwrap_or_else(|| vec![Origin::Displaced]);
    // a call's own wish is the first reason whoever else has one
    why.sort_by_key(|origin| !origin.is_requested());
    Chosen {
        name: package.to_string(),
        source: release.source,
        listed: release.listed,
        version: release.version.clone(),
        variants,
        why,
        held_back: None,
    }
}

/// The releases of the set.
fn releases(solved: &Solved) -> impl Iterator<Item = (&Rc<str>, usize, Option<&str>)> {
    solved.set.iter().filter_map(|(package, item)| match item {
        Item::Release(_, at, slot) => Some((package, *at, slot.as_deref())),
        _ => None,
    })
}

pub(super) fn packed<'c>(world: &World<'c>, pack: &Pack<'c>, solved: &Solved) -> Resolution<'c> {
    let mut resolution = Resolution::default();
    let mut offered: BTreeSet<&str> = BTreeSet::new();
    for (package, at, _) in releases(solved) {
        let release = &world.releases(package)[at];
        let asked = solved.knowledge.variants(package);
        let variants: BTreeSet<String> = pack
            .variants(package, release, &asked)
            .into_iter()
            .map(|variant| variant.name.clone())
            .collect();
        let variants = variants.into_iter().collect();
        resolution
            .packages
            .push(chosen(package, release, variants, solved));
        offered.extend(release.listed.provides());
    }
    let names: BTreeSet<&str> = solved.set.keys().map(AsRef::as_ref).collect();
    let mut capabilities = BTreeSet::new();
    let mut optional = BTreeSet::new();
    for item in solved.set.values() {
        for (demand, mut by) in demands(world, Goal::Pack(pack), &solved.knowledge, item) {
            match demand.what {
                What::Capability(what) if !demand.optional => {
                    if let Origin::Package { via, .. } = &mut by {
                        *via = None;
                    }
                    if !offered.contains(what) && !names.contains(what) {
                        let what = what.to_owned();
                        capabilities.insert(Unmet { what, by });
                    }
                }
                What::Package { name, .. } if demand.optional && !names.contains(name) => {
                    let what = name.to_owned();
                    optional.insert(Unmet { what, by });
                }
                _ => {}
            }
        }
    }
    resolution.capabilities = capabilities.into_iter().collect();
    resolution.missing_optional = optional.into_iter().collect();
    resolution.conflicts = clashes(&resolution.packages);
    resolution
}

/// Which packages declare a conflict with which others.
fn clashes(packages: &[Chosen<'_>]) -> Vec<Clash> {
    let mut offering: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let name = package.name.as_str();
        for capability in package.listed.provides().chain([name]) {
            offering.entry(capability).or_default().insert(name);
        }
    }
    let mut found = BTreeSet::new();
    for package in packages {
        for conflict in &package.listed.spec().conflicts {
            let others = offering.get(conflict.as_str()).into_iter().flatten();
            for other in others.filter(|other| **other != package.name) {
                found.insert(Clash {
                    package: package.name.clone(),
                    with: (*other).to_owned(),
                });
            }
        }
    }
    found.into_iter().collect()
}

pub(super) fn installed<'c>(
    world: &World<'c>,
    install: &Install<'c>,
    solved: &Solved,
) -> Resolution<'c> {
    let mut resolution = Resolution::default();
    for (package, at, slot) in releases(solved) {
        let release = &world.releases(package)[at];
        let variant = slot.unwrap_or_else(|| install.usual_variant(package));
        let variant = super::world::variant(release, variant);
        let variants = variant.into_iter().map(|variant| variant.name.clone());
        let variants = variants.collect();
        resolution
            .packages
            .push(chosen(package, release, variants, solved));
    }
    for (package, item) in &solved.set {
        let (Item::Stays(_), Some(installed)) = (item, install.state.packages.get(&**package))
        else {
            continue;
        };
        let why = solved.followed.why.get(package).into_iter().flatten();
        let why: Vec<_> = why.filter(|origin| by_name(origin)).cloned().collect();
        if !why.is_empty() {
            let same = listed(world, installed);
            resolution.stays.push(Stays {
                name: package.to_string(),
                repository: match &same {
                    Some(release) => release.source.name.clone(),
                    None => installed.repository.clone(),
                },
                listed: same.map(|release| release.listed),
                why,
            });
        }
    }
    resolution.removed = install.remove.iter().map(ToString::to_string).collect();
    resolution.removed.sort();
    resolution.removed.dedup();
    resolution.breaks = breaks(install, &resolution);
    resolution
}

/// Whether a package is wanted by a package that changes, and by its name.
fn by_name(origin: &Origin) -> bool {
    matches!(
        origin,
        Origin::Package { via: None, .. } | Origin::Requested
    )
}

/// The installed version and build as its supplier lists them.
fn listed<'c>(world: &World<'c>, installed: &InstalledPackage) -> Option<Selection<'c>> {
    let releases = world.catalog().releases_and(&installed.name, |_| true);
    let version = Version::parse(&installed.version).ok()?;
    let same = |r: &Selection<'_>| r.version == version && r.listed.build == installed.build;
    releases.into_iter().find(same)
}

/// The requirements of installed packages that stay which held and do not hold any more.
fn breaks(install: &Install<'_>, resolution: &Resolution<'_>) -> Vec<Breaks> {
    let mut after = State {
        packages: install.state.packages.clone(),
        apis: install.state.apis.clone(),
    };
    for removed in &resolution.removed {
        after.packages.remove(removed);
    }
    for chosen in &resolution.packages {
        let now = InstalledPackage {
            name: chosen.name.clone(),
            version: chosen.listed.version.clone(),
            variant: chosen.variants.first().cloned().unwrap_or_default(),
            provides: chosen.listed.provides().map(str::to_owned).collect(),
            ..InstalledPackage::default()
        };
        after.packages.insert(chosen.name.clone(), now);
    }
    let afterwards = Install::new(&[], &after);
    let mut found = BTreeSet::new();
    for package in install.state.packages.values() {
        let changes = resolution.packages.iter().any(|c| c.name == package.name);
        if changes || resolution.removed.contains(&package.name) {
            continue;
        }
        for requirement in package.requires.iter().filter(|r| !r.optional) {
            if install.holds(package, requirement) && !afterwards.holds(package, requirement) {
                found.insert(Breaks {
                    package: package.name.clone(),
                    version: package.version.clone(),
                    requires: shown(requirement),
                });
            }
        }
    }
    found.into_iter().collect()
}

fn shown(requirement: &Requirement) -> String {
    let mut text = match requirement.package.as_str() {
        "" => return requirement.capability.clone(),
        package => package.to_owned(),
    };
    if !requirement.variant.is_empty() {
        text = format!("{text}:{}", requirement.variant);
    }
    match Constraint::parse_optional(&requirement.version) {
        Ok(Some(constraint)) => format!("{text} {constraint}"),
        _ => text,
    }
}

//! Installing: what the chosen releases and the installed packages that stay require of each
//! other and of the cluster.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::model::{Model, Needs};
use super::request::Request;
use super::state::{DEFAULT_VARIANT, InstalledPackage, State};
use super::terms::{Item, Name, Place, Rule, Standing};
use super::values::leaves;
use super::world::{self, Demand, What};
use crate::api::Requirement;
use crate::lock::Lock;
use crate::name::PackageName;
use crate::version::Constraint;

/// What is wanted of a cluster.
#[derive(Clone, Debug)]
pub struct Install<'a> {
    /// The packages asked for.
    pub requests: &'a [Request],
    /// The packages that are to go.
    pub remove: &'a [PackageName],
    /// What is there.
    pub state: &'a State,
    /// The variant of packages that are not installed and of which nobody asks for another.
    pub variant: &'a str,
    /// Whether requirements of installed packages may be broken.
    pub allow_breaking: bool,
    /// The only releases that may be taken.
    pub lock: Option<&'a Lock>,
}

impl<'a> Install<'a> {
    /// Asks for `requests` in a cluster that holds `state`.
    pub fn new(requests: &'a [Request], state: &'a State) -> Install<'a> {
        Install {
            requests,
            remove: &[],
            state,
            variant: DEFAULT_VARIANT,
            allow_breaking: false,
            lock: None,
        }
    }

    /// The variant of `package` where nobody asks for one: the one that runs, the locked one,
    /// or the default.
    pub(super) fn usual_variant(&self, package: &str) -> &str {
        match self.state.packages.get(package) {
            Some(installed) => installed.running(),
            None => {
                let locked = self.lock.and_then(|lock| lock.packages.get(package));
                let locked = locked.and_then(|locked| locked.variants.first());
                locked.map_or(self.variant, String::as_str)
            }
        }
    }

    pub(super) fn requests_package(&self, package: &str) -> bool {
        self.requests.iter().any(|r| r.name.as_str() == package)
    }

    pub(super) fn removes(&self, package: &str) -> bool {
        self.remove.iter().any(|name| name.as_str() == package)
    }

    /// The variants that are asked for whatever is chosen.
    pub(super) fn expected_variants(&self) -> Vec<(&str, &str)> {
        let requests = self.requests.iter();
        let requested = requests.filter_map(|r| Some((r.name.as_str(), r.variant.as_deref()?)));
        let installed = self.state.packages.values().flat_map(|i| &i.requires);
        let required = installed
            .filter(|r| !r.variant.is_empty())
            .map(|r| (r.package.as_str(), r.variant.as_str()));
        requested.chain(required).collect()
    }

    pub(super) fn root(&self, model: &Model<'_, '_>) -> Needs {
        let mut needs = Needs::default();
        for request in self.requests {
            needs.require(model.requested(request));
        }
        let to_stay = model.knowledge().to_stay.clone();
        for package in self.state.packages.keys().filter(|p| !self.removes(p)) {
            let package: Rc<str> = package.as_str().into();
            let rule = match to_stay.contains(&package) {
                true => Rule::Stays,
                false => Rule::Any,
            };
            needs.require(model.package_set(&package, rule));
        }
        for package in self.remove {
            let package = package.as_str().into();
            let set = model.package_set(&package, Rule::Nothing);
            needs.constraints.push(set);
        }
        needs
    }

    /// What a release requires and rules out.
    pub(super) fn release_needs(
        &self,
        model: &Model<'_, '_>,
        item: &Item,
        needs: &mut Needs,
    ) -> Result<(), String> {
        let Item::Release(package, at, slot) = item else {
            return Ok(());
        };
        let release = &model.world.releases(package)[*at];
        let variant = slot
            .as_deref()
            .unwrap_or_else(|| self.usual_variant(package));
        if let Some(variant) = world::variant(release, variant) {
            for demand in world::demands(variant).filter(|demand| !demand.optional) {
                match demand.what {
                    What::Package { name, constraint } => {
                        self.package_need(model, item, &demand, (name, constraint), needs)?;
                    }
                    What::Capability(capability) => {
                        let own = world::offers(package, release, capability);
                        if !own && !self.serves_anyway(capability) {
                            self.capability_need(model, capability, needs);
                        }
                    }
                }
            }
        }
        self.conflicts(
            model,
            item,
            package,
            &release.listed.spec().conflicts,
            needs,
        );
        Ok(())
    }

    fn package_need(
        &self,
        model: &Model<'_, '_>,
        item: &Item,
        demand: &Demand<'_>,
        (name, constraint): (&str, &str),
        needs: &mut Needs,
    ) -> Result<(), String> {
        if let Err(error) = model.world.constraint(constraint).as_ref() {
            return Err(format!("the version of {name}: {error}"));
        }
        let package: Rc<str> = name.into();
        let wanted: Rc<str> = demand.variant.into();
        let in_time = wanted.is_empty() || model.knowledge().variant(&package, &wanted, item);
        let rule = Rule::Version {
            constraint: constraint.into(),
            variant: if in_time { wanted } else { "".into() },
            requested: false,
        };
        needs.require(model.package_set(&package, rule));
        for (component, values) in demand.passed {
            for (key, value) in leaves(values) {
                let place = Rc::new(Place {
                    package: Rc::clone(&package),
                    component: component.clone(),
                    key,
                });
                pass(model, item, place, value.into(), needs);
            }
        }
        Ok(())
    }

    /// Requires one of those that offer `capability`: installed ones before others, then by
    /// name, each only in versions that really offer it.
    fn capability_need(&self, model: &Model<'_, '_>, capability: &str, needs: &mut Needs) {
        let installed = self.state.packages.values();
        let installed: BTreeSet<&str> = installed
            .filter(|i| i.offers(capability))
            .map(|i| i.name.as_str())
            .collect();
        let others: BTreeSet<&str> = model.world.providers(capability).into_iter().collect();
        let providers = installed.iter().chain(others.difference(&installed));
        let rule = Rule::Offers(capability.into());
        let sets: Vec<_> = providers
            .map(|package| model.package_set(&(*package).into(), rule.clone()))
            .collect();
        if sets.is_empty() {
            needs.require(
                model
                    .terms
                    .set(Name::Unoffered(capability.into()), Rule::Any),
            );
        } else {
            needs.require_one(model.terms.union(sets));
        }
    }

    /// Conflicts in both directions. Those between two packages that are installed already
    /// are passed over: they are not for this plan to mend.
    fn conflicts(
        &self,
        model: &Model<'_, '_>,
        item: &Item,
        package: &Rc<str>,
        declared: &[String],
        needs: &mut Needs,
    ) {
        let Item::Release(_, at, _) = item else {
            return;
        };
        let release = &model.world.releases(package)[*at];
        let provides: BTreeSet<&str> = release.listed.provides().collect();
        let declared: BTreeSet<&str> = declared
            .iter()
            .map(String::as_str)
            .filter(|conflict| *conflict != package.as_ref())
            .collect();
        let mut leaving = BTreeSet::new();
        for conflict in &declared {
            if model.world.carries(conflict) || self.state.packages.contains_key(*conflict) {
                let set = model.package_set(&(*conflict).into(), Rule::Nothing);
                needs.constraints.push(set);
            }
            let standing = match provides.contains(conflict) {
                true => Standing::Alone(Rc::clone(package)),
                false => Standing::Unwanted,
            };
            stand(model, item, (*conflict).into(), standing, needs);
            leaving.extend(self.installed_that(package, |i| i.offers(conflict)));
        }
        for capability in provides.difference(&declared) {
            stand(model, item, (*capability).into(), Standing::Shared, needs);
        }
        leaving.extend(self.installed_that(package, |i| {
            let mut declared = i.conflicts.iter().map(String::as_str);
            declared.any(|c| c == package.as_ref() || provides.contains(c))
        }));
        for other in leaving {
            let set = model.package_set(&other.into(), Rule::Changes);
            needs.constraints.push(set);
        }
    }

    fn installed_that<'s>(
        &'s self,
        package: &'s str,
        test: impl Fn(&InstalledPackage) -> bool + 's,
    ) -> impl Iterator<Item = &'s str> {
        let others = self
            .state
            .packages
            .values()
            .filter(move |i| i.name != package);
        others.filter(move |i| test(i)).map(|i| i.name.as_str())
    }

    /// What an installed package that stays still requires: whatever of its requirements
    /// holds now must hold afterwards.
    pub(super) fn installed_needs(
        &self,
        model: &Model<'_, '_>,
        package: &Rc<str>,
        needs: &mut Needs,
    ) {
        let Some(installed) = self.state.packages.get(package.as_ref()) else {
            return;
        };
        let item = Item::Stays(Rc::clone(package));
        for requirement in installed.requires.iter().filter(|r| !r.optional) {
            for (component, values) in &requirement.values {
                for (key, value) in leaves(values) {
                    let place = Place {
                        package: requirement.package.as_str().into(),
                        component: component.clone(),
                        key,
                    };
                    // installed packages that disagree already are not for this plan to mend
                    if self.first_to_pass(&place) == Some(value.clone()) {
                        pass(model, &item, Rc::new(place), value.into(), needs);
                    }
                }
            }
            if self.allow_breaking || !self.holds(installed, requirement) {
                continue;
            }
            if requirement.package.is_empty() {
                self.capability_need(model, &requirement.capability, needs);
            } else {
                let rule = Rule::Version {
                    constraint: requirement.version.as_str().into(),
                    variant: requirement.variant.as_str().into(),
                    requested: false,
                };
                let package = requirement.package.as_str().into();
                needs.require(model.package_set(&package, rule));
            }
        }
    }

    /// Whether a requirement of an installed package holds now by another installed one.
    pub(super) fn holds(&self, of: &InstalledPackage, requirement: &Requirement) -> bool {
        if !requirement.package.is_empty() {
            let Ok(constraint) = Constraint::parse_optional(&requirement.version) else {
                return false;
            };
            let there = self.state.packages.get(&requirement.package);
            return there.is_some_and(|there| {
                let variant = requirement.variant.as_str();
                there.meets(constraint.as_ref())
                    && (variant.is_empty() || there.running() == variant)
            });
        }
        let capability = requirement.capability.as_str();
        let met = capability.is_empty() || of.offers(capability) || self.serves_anyway(capability);
        !met && self.state.packages.values().any(|i| i.offers(capability))
    }

    /// Whether the cluster serves this API whatever is chosen: no installed package brings it,
    /// with which it would go.
    pub(super) fn serves_anyway(&self, capability: &str) -> bool {
        let brings = |installed: &InstalledPackage| installed.offers(capability);
        self.state.serves(capability) && !self.state.packages.values().any(brings)
    }

    fn first_to_pass(&self, place: &Place) -> Option<String> {
        let passing = self.state.packages.values().flat_map(|i| &i.requires);
        passing
            .filter(|r| !r.optional && r.package == place.package.as_ref())
            .filter_map(|r| r.values.get(&place.component))
            .find_map(|values| {
                let mut leaves = leaves(values).into_iter();
                leaves.find_map(|(key, value)| (key == place.key).then_some(value))
            })
    }
}

/// `item` passes a value; others must pass the same one or none.
fn pass(model: &Model<'_, '_>, item: &Item, place: Rc<Place>, value: Rc<str>, needs: &mut Needs) {
    if model.knowledge().value(&place, &value, item) {
        let rule = Rule::Is(Item::Value(Rc::clone(&place), value));
        needs.require(model.terms.set(Name::Value(place), rule));
    }
}

/// `item` requires that the chosen packages stand to `capability` as it does.
fn stand(
    model: &Model<'_, '_>,
    item: &Item,
    capability: Rc<str>,
    standing: Standing,
    needs: &mut Needs,
) {
    if let Standing::Alone(package) = &standing
        && !model.knowledge().alone(&capability, package, item)
    {
        return;
    }
    let rule = Rule::Is(Item::Standing(Rc::clone(&capability), standing));
    needs.require(model.terms.set(Name::Standing(capability), rule));
}

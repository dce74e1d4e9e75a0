//! The problem as the solver asks for it: items of a name, which of them a rule takes, what
//! an item requires and rules out.

use std::any::Any;
use std::cell::{RefCell, RefMut};
use std::fmt::Display;
use std::rc::Rc;

use resolvo::{
    Candidates, Condition, ConditionId, ConditionalRequirement, Dependencies, DependencyProvider,
    HintDependenciesAvailable, Interner, KnownDependencies, NameId, Requirement, SolvableId,
    SolverCache, StringId, VersionSetId, VersionSetUnionId,
};

use super::install::Install;
use super::knowledge::Knowledge;
use super::pack::Pack;
use super::request::Request;
use super::terms::{Item, Name, Rule, Standing, Terms};
use super::world::{self, World};
use crate::select::Selection;
use crate::version::Version;

/// What the set of packages is for.
#[derive(Clone, Copy)]
pub(super) enum Goal<'a> {
    /// To be carried away.
    Pack(&'a Pack<'a>),
    /// To be installed.
    Install(&'a Install<'a>),
}

/// The problem of one round.
pub(super) struct Model<'a, 'c> {
    pub(super) world: &'a World<'c>,
    pub(super) goal: Goal<'a>,
    pub(super) terms: Terms,
    knowledge: &'a RefCell<Knowledge>,
}

/// What an item requires and rules out, as it is gathered.
#[derive(Default)]
pub(super) struct Needs {
    pub(super) requirements: Vec<ConditionalRequirement>,
    pub(super) constraints: Vec<VersionSetId>,
}

impl Needs {
    pub(super) fn require(&mut self, set: VersionSetId) {
        self.requirements.push(Requirement::Single(set).into());
    }

    pub(super) fn require_one(&mut self, sets: VersionSetUnionId) {
        self.requirements.push(Requirement::Union(sets).into());
    }

    fn known(self) -> Dependencies {
        Dependencies::Known(KnownDependencies {
            requirements: self.requirements,
            constrains: self.constraints,
        })
    }
}

impl<'a, 'c> Model<'a, 'c> {
    pub(super) fn new(
        world: &'a World<'c>,
        goal: Goal<'a>,
        knowledge: &'a RefCell<Knowledge>,
    ) -> Model<'a, 'c> {
        Model {
            world,
            goal,
            terms: Terms::default(),
            knowledge,
        }
    }

    pub(super) fn knowledge(&self) -> RefMut<'_, Knowledge> {
        self.knowledge.borrow_mut()
    }

    /// A release of the world.
    pub(super) fn release(&self, package: &str, at: usize) -> Selection<'c> {
        self.world.releases(package)[at].clone()
    }

    /// A rule about a package.
    pub(super) fn package_set(&self, package: &Rc<str>, rule: Rule) -> VersionSetId {
        self.terms.set(Name::Package(Rc::clone(package)), rule)
    }

    /// What a request asks for.
    pub(super) fn requested(&self, request: &Request) -> VersionSetId {
        let constraint = request.constraint.as_ref().map_or("", |c| c.as_str());
        let rule = Rule::Version {
            constraint: constraint.into(),
            variant: request.variant.as_deref().unwrap_or_default().into(),
            requested: true,
        };
        self.package_set(&request.name.as_str().into(), rule)
    }

    /// What is required whatever is chosen.
    pub(super) fn root(&self) -> Needs {
        match self.goal {
            Goal::Pack(pack) => pack.root(self),
            Goal::Install(install) => install.root(self),
        }
    }

    /// The items of `name`, the preferred one first.
    fn items(&self, name: &Name) -> Vec<Item> {
        match name {
            Name::Unoffered(_) => Vec::new(),
            Name::Package(package) => self.package_items(package),
            Name::Standing(capability) => {
                let alone = self.knowledge().those_alone(capability);
                let standings = [Standing::Shared, Standing::Unwanted].into_iter();
                standings
                    .chain(alone.into_iter().map(Standing::Alone))
                    .map(|standing| Item::Standing(Rc::clone(capability), standing))
                    .collect()
            }
            Name::Value(place) => {
                let values = self.knowledge().values(place);
                let value = |value| Item::Value(Rc::clone(place), value);
                values.into_iter().map(value).collect()
            }
        }
    }

    fn package_items(&self, package: &Rc<str>) -> Vec<Item> {
        let releases = self.world.releases(package);
        let release = |at: usize| Item::Release(Rc::clone(package), at, None);
        let Goal::Install(install) = self.goal else {
            return (0..releases.len()).map(release).collect();
        };
        let usual = install.usual_variant(package);
        let asked: Vec<Rc<str>> = self
            .knowledge()
            .variants(package)
            .into_iter()
            .filter(|variant| variant.as_ref() != usual)
            .collect();
        let mut items = Vec::with_capacity(releases.len() * (1 + asked.len()) + 1);
        let mut add = |at: usize| {
            items.push(release(at));
            let there = asked.iter();
            let there = there.filter(|v| world::variant(&releases[at], v).is_some());
            items.extend(there.map(|v| Item::Release(Rc::clone(package), at, Some(Rc::clone(v)))));
        };
        let Some(installed) = install.state.packages.get(package.as_ref()) else {
            (0..releases.len()).for_each(add);
            return items;
        };
        if install.requests_package(package) {
            (0..releases.len()).for_each(add);
            items.push(Item::Stays(Rc::clone(package)));
        } else {
            // what changes only for others' sake changes as little as it can
            let version = Version::parse(&installed.version).ok();
            let same = |at: &usize| Some(&releases[*at].version) == version.as_ref();
            (0..releases.len()).filter(same).for_each(&mut add);
            (0..releases.len()).filter(|at| !same(at)).for_each(add);
            items.insert(0, Item::Stays(Rc::clone(package)));
        }
        items
    }

    /// Whether `rule` takes `item`.
    pub(super) fn takes(&self, rule: &Rule, item: &Item) -> bool {
        self.takes_by(rule, self.constraint_of(rule).as_ref(), item)
    }

    fn constraint_of(&self, rule: &Rule) -> Option<world::Read> {
        match rule {
            Rule::Version { constraint, .. } => Some(self.world.constraint(constraint)),
            _ => None,
        }
    }

    /// Whether `rule` with its `constraint` takes `item`.
    fn takes_by(&self, rule: &Rule, constraint: Option<&world::Read>, item: &Item) -> bool {
        match rule {
            Rule::Any => true,
            Rule::Nothing => false,
            Rule::Stays => matches!(item, Item::Stays(_)),
            Rule::Changes => !matches!(item, Item::Stays(_)),
            Rule::Is(wanted) => item == wanted,
            Rule::Among(wanted) => wanted.contains(item),
            Rule::Offers(capability) => match item {
                Item::Stays(package) => self.installed(package, |i| i.offers(capability)),
                Item::Release(package, at, _) => {
                    world::offers(package, &self.world.releases(package)[*at], capability)
                }
                Item::Standing(..) | Item::Value(..) => false,
            },
            Rule::Version {
                variant, requested, ..
            } => {
                let Some(constraint) = constraint else {
                    return false;
                };
                match item {
                    Item::Stays(package) => self.installed(package, |installed| {
                        let fits = constraint.as_ref().as_ref();
                        !requested
                            && fits.is_ok_and(|c| installed.meets(c.as_ref()))
                            && (variant.is_empty() || installed.running() == variant.as_ref())
                    }),
                    Item::Release(package, at, slot) => {
                        let release = &self.world.releases(package)[*at];
                        world::meets(release, constraint)
                            && (variant.is_empty() || self.runs(package, release, slot, variant))
                    }
                    Item::Standing(..) | Item::Value(..) => false,
                }
            }
        }
    }

    /// Whether a release in a variant that was asked for (none: the usual one) runs `wanted`.
    fn runs(
        &self,
        package: &str,
        release: &Selection<'_>,
        slot: &Option<Rc<str>>,
        wanted: &str,
    ) -> bool {
        match (slot, self.goal) {
            (Some(variant), _) => variant.as_ref() == wanted,
            (None, Goal::Install(install)) => {
                install.usual_variant(package) == wanted
                    && world::variant(release, wanted).is_some()
            }
            // a packed release holds all its variants
            (None, Goal::Pack(_)) => world::variant(release, wanted).is_some(),
        }
    }

    fn installed(
        &self,
        package: &str,
        test: impl Fn(&super::state::InstalledPackage) -> bool,
    ) -> bool {
        match self.goal {
            Goal::Install(install) => install.state.packages.get(package).is_some_and(test),
            Goal::Pack(_) => false,
        }
    }

    /// Requires one of the items that `supports` names, by package in the order of names.
    fn require_among(&self, supports: &[Item], needs: &mut Needs) {
        let mut packages: Vec<&Rc<str>> = supports.iter().filter_map(Item::package).collect();
        packages.sort();
        packages.dedup();
        let sets = packages
            .into_iter()
            .map(|package| {
                let of = supports.iter().filter(|s| s.package() == Some(package));
                self.package_set(package, Rule::Among(of.cloned().collect()))
            })
            .collect();
        needs.require_one(self.terms.union(sets));
    }

    /// What `item` requires and rules out, or why it cannot be chosen at all.
    fn needs(&self, item: &Item) -> Result<Needs, String> {
        let mut needs = Needs::default();
        match (item, self.goal) {
            (Item::Standing(..) | Item::Value(..), _) => {}
            (Item::Release(..), Goal::Pack(pack)) => pack.needs(self, item, &mut needs)?,
            (Item::Release(..), Goal::Install(install)) => {
                install.release_needs(self, item, &mut needs)?;
            }
            (Item::Stays(package), Goal::Install(install)) => {
                install.installed_needs(self, package, &mut needs);
            }
            (Item::Stays(_), Goal::Pack(_)) => {}
        }
        let supports = self.knowledge().only_with.get(item).cloned();
        for supports in supports.into_iter().flatten() {
            if supports.is_empty() {
                return Err("nobody asks for that variant".to_owned());
            }
            self.require_among(&supports, &mut needs);
        }
        Ok(needs)
    }

    /// How an item is called in messages.
    pub(super) fn shown(&self, item: &Item) -> String {
        match item {
            Item::Stays(package) => match self.goal {
                Goal::Install(install) => match install.state.packages.get(package.as_ref()) {
                    Some(installed) => format!("{package} {} (installed)", installed.version),
                    None => package.to_string(),
                },
                Goal::Pack(_) => package.to_string(),
            },
            Item::Release(package, at, slot) => {
                let version = &self.release(package, *at).listed.version;
                match slot {
                    Some(variant) => format!("{package}:{variant} {version}"),
                    None => format!("{package} {version}"),
                }
            }
            Item::Standing(capability, _) => capability.to_string(),
            Item::Value(place, value) => format!("{} = {value}", place.key),
        }
    }
}

impl Interner for Model<'_, '_> {
    type NameId = NameId;
    type SolvableId = SolvableId;

    fn display_solvable(&self, solvable: SolvableId) -> impl Display + '_ {
        self.shown(&self.terms.item_of(solvable))
    }

    fn display_name(&self, name: NameId) -> impl Display + '_ {
        format!("{:?}", self.terms.name_of(name))
    }

    fn display_version_set(&self, set: VersionSetId) -> impl Display + '_ {
        format!("{:?}", self.terms.set_of(set).1)
    }

    fn display_string(&self, text: StringId) -> impl Display + '_ {
        self.terms.text_of(text)
    }

    fn version_set_name(&self, set: VersionSetId) -> NameId {
        self.terms.set_of(set).0
    }

    fn solvable_name(&self, solvable: SolvableId) -> NameId {
        self.terms.item_name(solvable)
    }

    fn version_sets_in_union(
        &self,
        union: VersionSetUnionId,
    ) -> impl Iterator<Item = VersionSetId> {
        let sets = self.terms.union_of(union);
        (0..sets.len()).map(move |at| sets[at])
    }

    fn resolve_condition(&self, _: ConditionId) -> Condition {
        // no requirement is put under a condition
        Condition::Requirement(VersionSetId::default())
    }
}

impl DependencyProvider for Model<'_, '_> {
    async fn filter_candidates(
        &self,
        candidates: &[SolvableId],
        set: VersionSetId,
        inverse: bool,
    ) -> Vec<SolvableId> {
        let (name, rule) = self.terms.set_of(set);
        if let (Rule::Is(item), false) = (&rule, inverse) {
            let known = self.terms.known_item(item);
            let known = known.filter(|id| self.terms.item_name(*id) == name);
            return known.into_iter().collect();
        }
        let constraint = self.constraint_of(&rule);
        let taken = candidates.iter().copied();
        taken
            .filter(|id| {
                let item = self.terms.item_of(*id);
                self.takes_by(&rule, constraint.as_ref(), &item) != inverse
            })
            .collect()
    }

    async fn get_candidates(&self, name: NameId) -> Option<Candidates<SolvableId>> {
        let name = self.terms.name_of(name);
        self.knowledge().give(&name);
        let items = self.items(&name);
        let candidates: Vec<_> = items
            .into_iter()
            .map(|item| self.terms.item(item))
            .collect();
        // following the preferred item at once spares a round of the solver per link of a
        // chain; looking at all of them would decode every spec that can be reached
        let eager = match &name {
            Name::Package(package) => self.knowledge().eager.contains(package),
            _ => false,
        };
        // what is installed comes first; where it cannot stay, the release behind it is next
        let first = candidates.first().copied();
        let next = candidates
            .get(1)
            .copied()
            .filter(|_| first.is_some_and(|id| matches!(self.terms.item_of(id), Item::Stays(_))));
        Some(Candidates {
            hint_dependencies_available: match eager {
                true => HintDependenciesAvailable::All,
                false => HintDependenciesAvailable::Some(first.into_iter().chain(next).collect()),
            },
            candidates,
            ..Candidates::default()
        })
    }

    async fn sort_candidates(&self, _: &SolverCache<Self>, candidates: &mut [SolvableId]) {
        // numbers were given in the order of preference
        candidates.sort_by_key(|id| id.into_raw());
    }

    fn should_cancel_with_value(&self) -> Option<Box<dyn Any>> {
        let again: Option<Box<dyn Any>> = Some(Box::new(()));
        again.filter(|_| self.knowledge().begin_again)
    }

    async fn get_dependencies(&self, solvable: SolvableId) -> Dependencies {
        let item = self.terms.item_of(solvable);
        if let Item::Release(package, ..) = &item {
            self.knowledge().look_at(package);
        }
        match self.needs(&item) {
            Ok(needs) => needs.known(),
            Err(reason) => Dependencies::Unknown(self.terms.text(reason)),
        }
    }
}

//! What is learned from one round of solving to the next.
//!
//! The solver wants all items of a name at once, but which variants of a package somebody
//! asks for, which packages want to be the only one to offer a capability, and which values
//! are passed comes to light only as requirements are read. What is learned in time goes
//! into the round; what is learned too late is left out of it, noted, and there in the next.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

use super::terms::{Item, Name, Place};

/// How many releases of a package are looked at one by one: two or three are the rule, and
/// 5 000 versions that all fail would otherwise take 5 000 starts of the solver, each longer
/// than the one before.
const ONE_BY_ONE: usize = 24;

/// What is known, and about the round that runs: what came too late.
#[derive(Default)]
pub(super) struct Knowledge {
    /// Variants somebody asks for, by package.
    variants: BTreeMap<Rc<str>, BTreeSet<Rc<str>>>,
    /// Packages that want to be the only ones to offer a capability.
    alone: BTreeMap<Rc<str>, BTreeSet<Rc<str>>>,
    /// Values passed, by place.
    values: BTreeMap<Rc<Place>, BTreeSet<Rc<str>>>,
    /// An item may be chosen only together with one of these; several lists must all hold.
    pub(super) only_with: BTreeMap<Item, Vec<Rc<[Item]>>>,
    /// Installed packages that are to stay.
    pub(super) to_stay: BTreeSet<Rc<str>>,
    /// Packages all of whose releases are looked at at once.
    pub(super) eager: BTreeSet<Rc<str>>,
    /// How many releases of a package were looked at one by one in this round.
    tried: BTreeMap<Rc<str>, usize>,
    /// Whether this round is better begun again, because a package became eager.
    pub(super) begin_again: bool,
    /// Names whose items the solver has.
    given: HashSet<Name>,
    /// What was learned after that.
    missing: HashSet<(Name, Rc<str>)>,
    /// Items whose requirements are not complete in this round.
    late: HashSet<Item>,
    late_variant: bool,
}

impl Knowledge {
    /// A new round begins.
    pub(super) fn begin(&mut self) {
        self.tried.clear();
        self.begin_again = false;
        self.given.clear();
        self.missing.clear();
        self.late.clear();
        self.late_variant = false;
    }

    /// A release of `package` is looked at. The solver starts over for each release that turns
    /// out not to fit, so after a few all of them are put before it together.
    pub(super) fn look_at(&mut self, package: &Rc<str>) {
        if self.eager.contains(package) {
            return;
        }
        let tried = self.tried.entry(Rc::clone(package)).or_default();
        *tried += 1;
        if *tried > ONE_BY_ONE {
            self.eager.insert(Rc::clone(package));
            self.begin_again = true;
        }
    }

    /// The solver gets the items of `name`.
    pub(super) fn give(&mut self, name: &Name) {
        self.given.insert(name.clone());
    }

    /// `by` asks for a variant; false when it comes too late for this round.
    pub(super) fn variant(&mut self, package: &Rc<str>, variant: &Rc<str>, by: &Item) -> bool {
        let new = learn(&mut self.variants, package, variant);
        let in_time = self.arrive(new, Name::Package(Rc::clone(package)), variant, by);
        self.late_variant |= !in_time;
        in_time
    }

    /// `by`, a release of `package`, wants to be the only one to offer `capability`.
    pub(super) fn alone(&mut self, capability: &Rc<str>, package: &Rc<str>, by: &Item) -> bool {
        let new = learn(&mut self.alone, capability, package);
        self.arrive(new, Name::Standing(Rc::clone(capability)), package, by)
    }

    /// `by` passes a value.
    pub(super) fn value(&mut self, place: &Rc<Place>, value: &Rc<str>, by: &Item) -> bool {
        let new = learn(&mut self.values, place, value);
        self.arrive(new, Name::Value(Rc::clone(place)), value, by)
    }

    fn arrive(&mut self, new: bool, name: Name, value: &Rc<str>, by: &Item) -> bool {
        let missing = (name, Rc::clone(value));
        if new && self.given.contains(&missing.0) {
            self.missing.insert(missing.clone());
        }
        let late = self.missing.contains(&missing);
        if late {
            self.late.insert(by.clone());
        }
        !late
    }

    /// The variants of `package` somebody asks for.
    pub(super) fn variants(&self, package: &str) -> Vec<Rc<str>> {
        listed(&self.variants, package)
    }

    /// How many variants somebody asks for.
    pub(super) fn variants_known(&self) -> usize {
        self.variants.values().map(BTreeSet::len).sum()
    }

    /// Notes a variant between rounds; whether it is new.
    pub(super) fn expect_variant(&mut self, package: &str, variant: &str) -> bool {
        learn(&mut self.variants, &package.into(), &variant.into())
    }

    pub(super) fn those_alone(&self, capability: &str) -> Vec<Rc<str>> {
        listed(&self.alone, capability)
    }

    pub(super) fn values(&self, place: &Rc<Place>) -> Vec<Rc<str>> {
        listed(&self.values, place.as_ref())
    }

    /// Whether the requirements of `item` were not complete.
    pub(super) fn was_late(&self, item: &Item) -> bool {
        self.late.contains(item)
    }

    /// Whether a variant came to light too late: with it there may be a solution.
    pub(super) fn missed_a_variant(&self) -> bool {
        self.late_variant
    }
}

fn learn<K: Ord + Clone>(
    all: &mut BTreeMap<K, BTreeSet<Rc<str>>>,
    key: &K,
    value: &Rc<str>,
) -> bool {
    match all.get_mut(key) {
        Some(known) => known.insert(Rc::clone(value)),
        None => {
            all.insert(key.clone(), [Rc::clone(value)].into());
            true
        }
    }
}

fn listed<K, Q: ?Sized + Ord>(all: &BTreeMap<K, BTreeSet<Rc<str>>>, key: &Q) -> Vec<Rc<str>>
where
    K: Ord + std::borrow::Borrow<Q>,
{
    all.get(key).into_iter().flatten().cloned().collect()
}

//! The words in which a problem is put to the solver: names of which at most one item is
//! chosen, items, and rules that say which items of a name will do.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use resolvo::{DenseIndex, NameId, SolvableId, StringId, VersionSetId, VersionSetUnionId};

/// Of each name at most one item is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Name {
    /// A package: its releases, or that it stays as installed.
    Package(Rc<str>),
    /// How the chosen packages stand to a capability that some declare a conflict with.
    Standing(Rc<str>),
    /// A value passed to a component of a package.
    Value(Rc<Place>),
    /// A capability nobody offers: it has no items.
    Unoffered(Rc<str>),
}

/// Where a passed value goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) package: Rc<str>,
    pub(super) component: String,
    /// The keys on the way, joined by dots.
    pub(super) key: String,
}

/// Something that can be chosen. The same from one round to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Item {
    /// An installed package stays as it is.
    Stays(Rc<str>),
    /// A release of a package, by its place among its releases, in the variant it runs when
    /// nobody asks for one, or in one that somebody asks for.
    Release(Rc<str>, usize, Option<Rc<str>>),
    /// How packages stand to a capability.
    Standing(Rc<str>, Standing),
    /// What is passed, as JSON.
    Value(Rc<Place>, Rc<str>),
}

/// How the chosen packages stand to a capability that some declare a conflict with. At most
/// one of these is true; each package that declares the conflict or offers the capability
/// requires its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Some declare a conflict with it, and nobody offers it.
    Unwanted,
    /// Some offer it, and nobody declares a conflict with it.
    Shared,
    /// One package offers it and declares the conflict: it wants to be the only one.
    Alone(Rc<str>),
}

/// Which items of a name will do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// Any.
    Any,
    /// None.
    Nothing,
    /// Only what is installed.
    Stays,
    /// Anything but what is installed.
    Changes,
    /// Versions that meet a constraint (empty: all), in a variant (empty: any); where it was
    /// the call that asked, only releases.
    Version {
        constraint: Rc<str>,
        variant: Rc<str>,
        requested: bool,
    },
    /// Versions that offer a capability.
    Offers(Rc<str>),
    /// This one.
    Is(Item),
    /// One of these: those that ask for a variant.
    Among(Rc<[Item]>),
}

/// Everything the solver was told of, under the numbers it knows it by.
#[derive(Default)]
pub(super) struct Terms {
    names: Table<Name>,
    items: Table<Item>,
    item_names: RefCell<Vec<NameId>>,
    sets: Table<(NameId, Rule)>,
    unions: Table<Rc<[VersionSetId]>>,
    texts: Table<String>,
}

impl Terms {
    pub(super) fn name(&self, name: Name) -> NameId {
        NameId::from_index(self.names.number(name))
    }

    pub(super) fn item(&self, item: Item) -> SolvableId {
        let name = self.name(item.name());
        let number = self.items.number(item);
        let mut names = self.item_names.borrow_mut();
        if names.len() == number {
            names.push(name);
        }
        SolvableId::from_index(number)
    }

    /// The number of an item the solver was given.
    pub(super) fn known_item(&self, item: &Item) -> Option<SolvableId> {
        self.items.known(item).map(SolvableId::from_index)
    }

    pub(super) fn set(&self, name: Name, rule: Rule) -> VersionSetId {
        let name = self.name(name);
        VersionSetId::from_index(self.sets.number((name, rule)))
    }

    pub(super) fn union(&self, sets: Vec<VersionSetId>) -> VersionSetUnionId {
        VersionSetUnionId::from_index(self.unions.number(sets.into()))
    }

    pub(super) fn text(&self, text: String) -> StringId {
        StringId::from_index(self.texts.number(text))
    }

    pub(super) fn name_of(&self, id: NameId) -> Name {
        self.names.get(id.to_index())
    }

    pub(super) fn item_of(&self, id: SolvableId) -> Item {
        self.items.get(id.to_index())
    }

    pub(super) fn item_name(&self, id: SolvableId) -> NameId {
        self.item_names.borrow()[id.to_index()]
    }

    pub(super) fn set_of(&self, id: VersionSetId) -> (NameId, Rule) {
        self.sets.get(id.to_index())
    }

    pub(super) fn union_of(&self, id: VersionSetUnionId) -> Rc<[VersionSetId]> {
        self.unions.get(id.to_index())
    }

    pub(super) fn text_of(&self, id: StringId) -> String {
        self.texts.get(id.to_index())
    }
}

impl Item {
    /// The name of which this is an item.
    pub(super) fn name(&self) -> Name {
        match self {
            Item::Stays(package) | Item::Release(package, ..) => Name::Package(Rc::clone(package)),
            Item::Standing(capability, _) => Name::Standing(Rc::clone(capability)),
            Item::Value(place, _) => Name::Value(Rc::clone(place)),
        }
    }

    /// The package it is of; none for the others.
    pub(super) fn package(&self) -> Option<&Rc<str>> {
        match self {
            Item::Stays(package) | Item::Release(package, ..) => Some(package),
            Item::Standing(..) | Item::Value(..) => None,
        }
    }
}

/// Values and their numbers, given in the order of first use.
struct Table<T> {
    values: RefCell<Vec<T>>,
    numbers: RefCell<HashMap<T, usize>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table {
            values: RefCell::default(),
            numbers: RefCell::default(),
        }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn number(&self, value: T) -> usize {
        let mut numbers = self.numbers.borrow_mut();
        let mut values = self.values.borrow_mut();
        *numbers.entry(value).or_insert_with_key(|value| {
            values.push(value.clone());
            values.len() - 1
        })
    }

    fn known(&self, value: &T) -> Option<usize> {
        self.numbers.borrow().get(value).copied()
    }

    fn get(&self, number: usize) -> T {
        self.values.borrow()[number].clone()
    }
}

//! What can be had: the releases of each package, what they require and offer. Read from the
//! catalog when asked for, once, because an index may hold 200 000 specs and a resolution
//! comes across a few hundred of them.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use crate::api::{self, Variant};
use crate::lock::Lock;
use crate::select::{Catalog, Selection, UNVERSIONED};
use crate::version::{Constraint, ConstraintError, Version};

/// A constraint as it was read, shared between all that write it the same way.
pub(super) type Read = Rc<Result<Option<Constraint>, ConstraintError>>;

/// The releases of one package: of each version the newest build, newest version first.
pub(super) type Releases<'c> = Rc<Vec<Selection<'c>>>;

/// The catalog behind memory.
pub(super) struct World<'c> {
    catalog: &'c Catalog,
    /// Versions that requests name exactly: those are taken even when withdrawn.
    exact: BTreeMap<String, Vec<Version>>,
    /// Only these, where a lock is given.
    lock: Option<&'c Lock>,
    releases: RefCell<HashMap<String, Releases<'c>>>,
    constraints: RefCell<HashMap<String, Read>>,
    /// Who offers what; read when the first capability is looked for.
    providers: OnceCell<HashMap<&'c str, Vec<&'c str>>>,
}

/// What a release asks for.
#[derive(Clone, Debug)]
pub(super) struct Demand<'c> {
    pub(super) what: What<'c>,
    pub(super) optional: bool,
    /// The variant the package must run; any when empty.
    pub(super) variant: &'c str,
    /// Values passed, by component.
    pub(super) passed: &'c BTreeMap<String, serde_json::Value>,
    /// The variant that asks.
    pub(super) by: &'c str,
}

/// A package or a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What<'c> {
    Package { name: &'c str, constraint: &'c str },
    Capability(&'c str),
}

impl<'c> World<'c> {
    pub(super) fn new(
        catalog: &'c Catalog,
        exact: BTreeMap<String, Vec<Version>>,
        lock: Option<&'c Lock>,
    ) -> World<'c> {
        World {
            catalog,
            exact,
            lock,
            releases: RefCell::default(),
            constraints: RefCell::default(),
            providers: OnceCell::new(),
        }
    }

    pub(super) fn catalog(&self) -> &'c Catalog {
        self.catalog
    }

    /// The lock, where only what it names may be chosen.
    pub(super) fn lock(&self) -> Option<&'c Lock> {
        self.lock
    }

    /// The releases of `package` that may be chosen.
    pub(super) fn releases(&self, package: &str) -> Releases<'c> {
        if let Some(known) = self.releases.borrow().get(package) {
            return Rc::clone(known);
        }
        let releases = Rc::new(self.read_releases(package));
        let mut all = self.releases.borrow_mut();
        all.insert(package.to_owned(), Rc::clone(&releases));
        releases
    }

    fn read_releases(&self, package: &str) -> Vec<Selection<'c>> {
        if let Some(lock) = self.lock {
            let locked = lock.package(package);
            let found = locked.and_then(|locked| locked.find(self.catalog));
            return found.into_iter().collect();
        }
        let exact = self.exact.get(package);
        let asked = |version: &Version| exact.is_some_and(|exact| exact.contains(version));
        let mut releases = self.catalog.releases_and(package, asked);
        // they are sorted: of each version the newest build comes first
        let mut seen = BTreeSet::new();
        releases.retain(|release| seen.insert(release.listed.version.as_str()));
        releases
    }

    /// Whether anybody carries `package`.
    pub(super) fn carries(&self, package: &str) -> bool {
        self.catalog.supplier(package).is_some()
    }

    /// A constraint; each text is read once.
    pub(super) fn constraint(&self, text: &str) -> Read {
        if let Some(known) = self.constraints.borrow().get(text) {
            return Rc::clone(known);
        }
        let read: Read = Rc::new(Constraint::parse_optional(text));
        let mut all = self.constraints.borrow_mut();
        all.insert(text.to_owned(), Rc::clone(&read));
        read
    }

    /// The packages that offer `capability` in some version, by name. Their own names are
    /// capabilities, too.
    pub(super) fn providers(&self, capability: &str) -> Vec<&'c str> {
        let index = self.providers.get_or_init(|| self.index_providers());
        let mut found: Vec<&str> = index.get(capability).cloned().unwrap_or_default();
        let own = self.catalog.supplier(capability);
        let own = own.and_then(|s| s.index.packages.get_key_value(capability));
        if let Some((own, _)) = own
            && let Err(at) = found.binary_search(&own.as_str())
        {
            found.insert(at, own);
        }
        found
    }

    /// Who offers what. Most versions of a package offer what the one before does.
    fn index_providers(&self) -> HashMap<&'c str, Vec<&'c str>> {
        let mut index: HashMap<&str, Vec<&str>> = HashMap::new();
        let mut supplied: Vec<_> = self.catalog.supplied().collect();
        supplied.sort_by_key(|(package, _)| *package);
        for (package, versions) in supplied {
            for (at, listed) in versions.iter().enumerate() {
                if at > 0 && listed.shares_provides(&versions[at - 1]) {
                    continue;
                }
                for capability in listed.provides() {
                    let packages = index.entry(capability).or_default();
                    if packages.last() != Some(&package) {
                        packages.push(package);
                    }
                }
            }
        }
        index
    }
}

/// Whether `release` of `package` offers `capability`: it says so, or it is called so.
pub(super) fn offers(package: &str, release: &Selection<'_>, capability: &str) -> bool {
    package == capability || release.listed.offers(capability)
}

/// Whether the version of `release` meets `constraint`.
pub(super) fn meets(release: &Selection<'_>, constraint: &Read) -> bool {
    match constraint.as_ref() {
        Ok(None) => true,
        Ok(Some(constraint)) => {
            release.listed.version != UNVERSIONED && constraint.matches(&release.version)
        }
        Err(_) => false,
    }
}

/// The variant `name` of `release`; of two with one name the last counts, as in a cluster.
pub(super) fn variant<'c>(release: &Selection<'c>, name: &str) -> Option<&'c Variant> {
    let variants = &release.listed.spec().variants;
    variants.iter().rfind(|variant| variant.name == name)
}

/// What `variant` asks for.
pub(super) fn demands(variant: &Variant) -> impl Iterator<Item = Demand<'_>> {
    variant.needs().map(|need| Demand {
        what: match need.need {
            api::Need::Package { name, constraint } => What::Package { name, constraint },
            api::Need::Capability(capability) => What::Capability(capability),
        },
        optional: need.optional,
        variant: need.wanted_variant,
        passed: need.passed,
        by: &variant.name,
    })
}

/// What a requirement asks for, outside of a variant.
pub(super) fn demand_of(requirement: &api::Requirement) -> Demand<'_> {
    Demand {
        what: match requirement.package.as_str() {
            "" => What::Capability(&requirement.capability),
            name => What::Package {
                name,
                constraint: &requirement.version,
            },
        },
        optional: requirement.optional,
        variant: &requirement.variant,
        passed: &requirement.values,
        by: "",
    }
}

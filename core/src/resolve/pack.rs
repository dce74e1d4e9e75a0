//! Packing: what is to travel together. The cluster is not known, so a capability that no
//! chosen package offers is for it to offer, and conflicts are only reported.

use std::rc::Rc;

use super::model::{Model, Needs};
use super::request::{Request, Variants};
use super::terms::{Item, Rule};
use super::world::{self, Demand, What};
use crate::api::Variant;
use crate::lock::Lock;
use crate::select::Selection;

/// What is to be packed.
#[derive(Clone, Debug)]
pub struct Pack<'a> {
    /// The packages asked for.
    pub requests: &'a [Request],
    /// Whose requirements count.
    pub variants: &'a Variants,
    /// Whether optional requirements come, too, where they can be had.
    pub with_optional: bool,
    /// Whether packages are chosen that offer required capabilities.
    pub with_providers: bool,
    /// The only releases that may be taken. Of all variants then only the locked ones count,
    /// and what is outside of the lock is not looked for.
    pub lock: Option<&'a Lock>,
}

impl<'a> Pack<'a> {
    /// Packs `requests` with all that any of their variants requires by name.
    pub fn new(requests: &'a [Request]) -> Pack<'a> {
        Pack {
            requests,
            variants: &Variants::All,
            with_optional: false,
            with_providers: false,
            lock: None,
        }
    }

    /// The variants of `release` of `package` that travel; `asked` are those somebody asks
    /// for.
    pub(super) fn variants<'c>(
        &self,
        package: &str,
        release: &Selection<'c>,
        asked: &[Rc<str>],
    ) -> Vec<&'c Variant> {
        let locked = self.lock.and_then(|lock| lock.packages.get(package));
        let named = match (self.variants, locked) {
            (Variants::Named(names), _) => Some(names),
            (Variants::All, locked) => locked.map(|locked| &locked.variants),
        };
        match named {
            None => release.listed.spec().variants.iter().collect(),
            Some(names) => {
                let asked = asked.iter().map(|variant| variant.as_ref());
                let mut found: Vec<&Variant> = Vec::new();
                for name in names.iter().map(String::as_str).chain(asked) {
                    if found.iter().all(|known| known.name != name) {
                        found.extend(world::variant(release, name));
                    }
                }
                found
            }
        }
    }

    /// What counts of the requirements of `release` of `package`.
    pub(super) fn demands<'c>(
        &self,
        package: &str,
        release: &Selection<'c>,
        asked: &[Rc<str>],
    ) -> Vec<Demand<'c>> {
        let variants = self.variants(package, release, asked).into_iter();
        let demands = variants.flat_map(world::demands);
        demands
            .filter(|d| self.with_optional || !d.optional)
            .filter(|d| match d.what {
                What::Package { name, .. } => !self.is_outside(name),
                What::Capability(_) => true,
            })
            .collect()
    }

    fn is_outside(&self, package: &str) -> bool {
        self.lock
            .is_some_and(|lock| lock.outside.contains_key(package))
    }

    pub(super) fn root(&self, model: &Model<'_, '_>) -> Needs {
        let mut needs = Needs::default();
        for request in self.requests {
            needs.require(model.requested(request));
        }
        needs
    }

    pub(super) fn needs(
        &self,
        model: &Model<'_, '_>,
        item: &Item,
        needs: &mut Needs,
    ) -> Result<(), String> {
        let Item::Release(package, at, _) = item else {
            return Ok(());
        };
        let release = &model.world.releases(package)[*at];
        let asked = model.knowledge().variants(package);
        for demand in self.demands(package, release, &asked) {
            match demand.what {
                What::Package { name, constraint } => {
                    let read = model.world.constraint(constraint);
                    if let Err(error) = read.as_ref() {
                        return Err(format!("the version of {name}: {error}"));
                    }
                    let releases = model.world.releases(name);
                    let there = releases.iter().any(|r| world::meets(r, &read));
                    if demand.optional && !there {
                        continue;
                    }
                    let rule = Rule::Version {
                        constraint: constraint.into(),
                        variant: demand.variant.into(),
                        requested: false,
                    };
                    needs.require(model.package_set(&name.into(), rule));
                }
                What::Capability(capability) if self.with_providers => {
                    if world::offers(package, release, capability) {
                        continue;
                    }
                    let rule = Rule::Offers(capability.into());
                    let providers = model.world.providers(capability);
                    let sets: Vec<_> = providers
                        .iter()
                        .map(|provider| model.package_set(&(*provider).into(), rule.clone()))
                        .collect();
                    if !sets.is_empty() {
                        needs.require_one(model.terms.union(sets));
                    }
                }
                What::Capability(_) => {}
            }
        }
        Ok(())
    }
}

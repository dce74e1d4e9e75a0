//! The lock of a resolution: what was chosen, and what stays installed and is needed by it, so
//! that all of it can be had again where nothing is installed yet.

use std::collections::BTreeMap;

use super::{Lock, Locked, LockedRepository, Outside, OutsideWhy};
use crate::Digest;
use crate::api;
use crate::index::IndexVersion;
use crate::resolve::Resolution;
use crate::resolve::state::{InstalledPackage, State};
use crate::select::{Catalog, Selection, Source};
use crate::version::Version;

/// What a lock is made from.
struct Builder<'c> {
    catalog: &'c Catalog,
    indexes: &'c BTreeMap<String, Digest>,
    lock: Lock,
    /// Versions whose requirements are to be looked at, in these variants.
    queue: Vec<(&'c IndexVersion, Vec<String>)>,
}

pub(super) fn build<'c>(
    resolution: &Resolution<'c>,
    catalog: &'c Catalog,
    state: &State,
    indexes: &'c BTreeMap<String, Digest>,
) -> Lock {
    let mut builder = Builder {
        catalog,
        indexes,
        lock: Lock::default(),
        queue: Vec::new(),
    };
    for chosen in &resolution.packages {
        let variants = chosen.variants.clone();
        builder.add(&chosen.name, chosen.source, chosen.listed, variants);
    }
    while let Some((listed, variants)) = builder.queue.pop() {
        let all = &listed.spec().variants;
        let of = variants
            .iter()
            .filter_map(|name| all.iter().rfind(|variant| variant.name == *name));
        for need in of.flat_map(api::Variant::needs).filter(|n| !n.optional) {
            let api::Need::Package { name, .. } = need.need else {
                continue;
            };
            if builder.lock.knows(name) {
                continue;
            }
            let gone = resolution.removed.iter().any(|removed| removed == name);
            match state.packages.get(name).filter(|_| !gone) {
                Some(installed) => builder.keep(installed),
                None => builder.outside(name, String::new(), OutsideWhy::NotInstalled),
            }
        }
    }
    builder.lock
}

impl<'c> Builder<'c> {
    fn add(
        &mut self,
        package: &str,
        source: &Source,
        listed: &'c IndexVersion,
        variants: Vec<String>,
    ) {
        self.queue.push((listed, variants.clone()));
        if source.name == crate::select::HAND_WRITTEN {
            self.outside(package, listed.version.clone(), OutsideWhy::HandWritten);
            return;
        }
        let repository = source.name.clone();
        if let Some(digest) = self.indexes.get(&repository) {
            let digest = LockedRepository { digest: *digest };
            self.lock.repositories.insert(repository.clone(), digest);
        }
        let locked = Locked {
            version: listed.version.clone(),
            build: listed.build,
            digest: listed.digest,
            variants,
            repository,
        };
        self.lock.packages.insert(package.to_owned(), locked);
    }

    fn keep(&mut self, installed: &InstalledPackage) {
        let Some(release) = same(self.catalog, installed) else {
            let version = installed.version.clone();
            return self.outside(&installed.name, version, OutsideWhy::NotCarried);
        };
        let variants = &release.listed.spec().variants;
        let running = installed.running();
        let running = variants.iter().any(|variant| variant.name == running);
        let variants = running.then(|| installed.running().to_owned());
        let variants = variants.into_iter().collect();
        self.add(&installed.name, release.source, release.listed, variants);
    }

    fn outside(&mut self, package: &str, version: String, why: OutsideWhy) {
        let outside = Outside { version, why };
        self.lock.outside.insert(package.to_owned(), outside);
    }
}

/// Exactly the version and build that is installed, as its supplier lists it.
fn same<'c>(catalog: &'c Catalog, installed: &InstalledPackage) -> Option<Selection<'c>> {
    let version = Version::parse(&installed.version).ok()?;
    let mut releases = catalog.releases_and(&installed.name, |_| true).into_iter();
    releases.find(|r| r.version == version && r.listed.build == installed.build)
}

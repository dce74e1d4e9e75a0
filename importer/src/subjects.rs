//! Which packages a signature belongs to: those of the images it is about.
//!
//! Nobody signs that a signature belongs to a package, so this is derived: its subject is part
//! of an image, chart or tree of a package in the same upstream repository, or is itself such
//! a referrer.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kubepkg_core::bundle::head::Head;
use kubepkg_core::bundle::verify::{Closure, Upstream};
use kubepkg_core::digest::Digest;
use kubepkg_core::name::{PackageName, Tag};

/// How far a signature of a signature of a signature is followed; two is unusual.
const MAX_CHAIN: usize = 8;

/// The referrers of a bundle and what they are about.
pub struct Subjects<'a> {
    closure: &'a Closure,
    /// Subjects of the tags of referrers.
    tags: BTreeMap<(Upstream, &'a Tag), Digest>,
    /// Subjects of the referrers themselves.
    referrers: BTreeMap<(Upstream, Digest), Digest>,
    /// The packages behind every manifest of a repository, where it has such tags.
    behind: BTreeMap<Upstream, HashMap<Digest, BTreeSet<&'a PackageName>>>,
}

impl<'a> Subjects<'a> {
    /// Those of a bundle.
    pub fn of(head: &'a Head, closure: &'a Closure) -> Subjects<'a> {
        let mut subjects = Subjects {
            closure,
            tags: BTreeMap::new(),
            referrers: BTreeMap::new(),
            behind: BTreeMap::new(),
        };
        for referrer in &head.referrers {
            let upstream = Upstream::of_registry(&referrer.repository);
            if let Some(tag) = &referrer.tag {
                let key = (upstream.clone(), tag);
                subjects.tags.insert(key, referrer.subject);
                subjects.behind.entry(upstream.clone()).or_default();
            }
            let key = (upstream, referrer.manifest.digest);
            subjects.referrers.insert(key, referrer.subject);
        }
        let images = head
            .images
            .iter()
            .map(|image| (&image.reference, &image.manifest, &image.packages));
        let trees = head
            .trees
            .iter()
            .map(|tree| (&tree.reference, &tree.manifest, &tree.packages));
        for (reference, manifest, packages) in images.chain(trees) {
            let upstream = Upstream::registry(reference.host(), reference.path());
            subjects.pin(upstream, manifest.digest, packages);
        }
        for chart in &head.charts {
            let upstream = Upstream::chart(&chart.repository, &chart.name);
            subjects.pin(upstream, chart.manifest.digest, &chart.packages);
        }
        subjects
    }

    /// Notes `packages` for the manifest `root` and all below it.
    fn pin(&mut self, upstream: Upstream, root: Digest, packages: &'a [PackageName]) {
        let Some(behind) = self.behind.get_mut(&upstream) else {
            return;
        };
        let mut open = vec![root];
        let mut seen = BTreeSet::new();
        while let Some(next) = open.pop() {
            if !seen.insert(next) {
                continue;
            }
            behind.entry(next).or_default().extend(packages);
            open.extend_from_slice(self.closure.children(&next));
        }
    }

    /// The packages behind the tag of a referrer, sorted. `None` when it is no such tag.
    pub fn packages(&self, upstream: &Upstream, tag: &Tag) -> Option<Vec<PackageName>> {
        let mut subject = *self.tags.get(&(upstream.clone(), tag))?;
        let behind = self.behind.get(upstream)?;
        for _ in 0..MAX_CHAIN {
            if let Some(packages) = behind.get(&subject) {
                return Some(packages.iter().copied().cloned().collect());
            }
            match self.referrers.get(&(upstream.clone(), subject)) {
                Some(next) => subject = *next,
                None => break,
            }
        }
        Some(Vec::new())
    }
}

//! What the head of a bundle claims, against what signed packages say: every package is in a
//! signed index with that spec, and charts, trees and images are exactly what those specs pin,
//! none extra and none missing. What belongs to no package is judged elsewhere ([`crate::vouched`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubepkg_core::api::PackageSourceSpec;
use kubepkg_core::bundle::head::{Head, HeadImage, HeadPackage};
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::name::PackageName;
use kubepkg_core::pins::{ChartPin, Pins};
use kubepkg_core::reference::Reference;
use kubepkg_core::trust::{self, GivenError};

use crate::listed;
use crate::{ImportError, Judged};

/// One thing the head claims wrongly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Problem {
    /// Content no signed package pins.
    #[error("{0} is in the bundle, but no signed package pins it")]
    Extra(String),
    /// Content a signed package pins.
    #[error("{what} is missing; {by} pins it")]
    Missing {
        /// The content.
        what: String,
        /// The packages that pin it.
        by: String,
    },
    /// The packages named for some content are not those that pin it.
    #[error("{what} is said to belong to {claimed}; it belongs to {by}")]
    Packages {
        /// The content.
        what: String,
        /// What the head says.
        claimed: String,
        /// The packages that pin it.
        by: String,
    },
    /// The manifest of a tree or image is not the one its reference pins.
    #[error("{0} is carried with another manifest than its digest says")]
    Manifest(Reference),
    /// An image by tag only.
    #[error("image {image} of {by} is pinned only by the bundle, not by the signed package")]
    Unpinned {
        /// The image.
        image: Reference,
        /// The packages that name its tag.
        by: String,
    },
    /// A package pins no images and the head does not say so, or the other way round.
    #[error(
        "package {0} pins no images; that must be said when the bundle is created (--no-images {0})"
    )]
    NoImages(PackageName),
    /// The head says that a package has no images, and it has.
    #[error("package {0} is said to have no images, and its signed spec names some")]
    HasImages(PackageName),
    /// An image that would lose its tag to nobody.
    #[error("image {0} is to be without its tag, and no other image of a package takes that")]
    Untagged(Reference),
    /// A variant the package does not have.
    #[error("package {package} has no variant \"{variant}\"")]
    Variant {
        /// The package.
        package: PackageName,
        /// The variant.
        variant: String,
    },
}

/// Everything the head claims wrongly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimError {
    /// The problems, sorted.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bundle does not hold what its signed packages pin: ")?;
        listed::write(f, &self.problems)
    }
}

impl std::error::Error for ClaimError {}

impl Classify for ClaimError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn hint(&self) -> Option<String> {
        let unpinned = |problem: &Problem| matches!(problem, Problem::Unpinned { .. });
        let text = if self.problems.iter().all(unpinned) {
            "have the package pin its images, or take the bundle's word with --allow-unpinned-images"
        } else {
            "this file was not made by kubepkg from these packages; ask for one that was, and do not use it"
        };
        Some(text.to_owned())
    }
}

/// Checks the head against the judged repositories. `judged` is in the order of the head's
/// repositories.
pub fn check(head: &Head, judged: &[Judged], allow_unpinned: bool) -> Result<(), ImportError> {
    let mut pins = Pins::default();
    let mut problems = Vec::new();
    for package in &head.packages {
        let spec = signed_spec(package, judged)?;
        pins.add(&package.name, spec)?;
        check_variants(package, spec, &mut problems);
    }
    check_images_said(head, &pins, &mut problems);
    compare(
        claimed_charts(head),
        &pins.charts,
        show_chart,
        &mut problems,
    );
    let trees = head
        .trees
        .iter()
        .map(|tree| (tree.reference.clone(), tree.packages.as_slice()));
    compare(
        trees.collect(),
        &pins.trees,
        |tree| format!("package tree {tree}"),
        &mut problems,
    );
    let pinned = head.images.iter().filter(|image| image.pinned);
    let pinned = pinned.map(|image| (image.reference.clone(), image.packages.as_slice()));
    compare(
        pinned.collect(),
        &pins.images,
        |image| format!("image {image}"),
        &mut problems,
    );
    check_unpinned(head, &pins, allow_unpinned, &mut problems);
    check_untagged(head, &mut problems);
    let manifests = head
        .images
        .iter()
        .map(|image| (&image.reference, &image.manifest));
    let manifests = manifests.chain(
        head.trees
            .iter()
            .map(|tree| (&tree.reference, &tree.manifest)),
    );
    for (reference, manifest) in manifests {
        if reference.digest() != Some(&manifest.digest) {
            problems.push(Problem::Manifest(reference.clone()));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    problems.sort();
    Err(ClaimError { problems }.into())
}

/// The spec of `package` in the signed index it claims to come from.
fn signed_spec<'j>(
    package: &HeadPackage,
    judged: &'j [Judged],
) -> Result<&'j PackageSourceSpec, ImportError> {
    let of = judged
        .iter()
        .find(|judged| judged.entry.url == package.repository);
    let Some(judged) = of else {
        return Err(GivenError::NoKey(package.repository.clone()).into());
    };
    let found = trust::find(
        judged.index(),
        package.name.as_str(),
        &package.version,
        package.build,
        &package.digest,
    );
    match found {
        Ok(version) => Ok(version.spec()),
        Err(source) => Err(ImportError::Trust {
            url: judged.entry.url.clone(),
            source: Box::new(source),
        }),
    }
}

fn check_variants(package: &HeadPackage, spec: &PackageSourceSpec, problems: &mut Vec<Problem>) {
    for variant in &package.variants {
        if spec.variant(variant).is_none() {
            problems.push(Problem::Variant {
                package: package.name.clone(),
                variant: variant.clone(),
            });
        }
    }
}

fn check_images_said(head: &Head, pins: &Pins, problems: &mut Vec<Problem>) {
    for package in &head.packages {
        let name = &package.name;
        match (pins.without_images.contains(name), package.no_images) {
            (true, false) => problems.push(Problem::NoImages(name.clone())),
            (false, true) => problems.push(Problem::HasImages(name.clone())),
            _ => {}
        }
    }
}

fn claimed_charts(head: &Head) -> BTreeMap<ChartPin, &[PackageName]> {
    let pin = |chart: &kubepkg_core::bundle::head::HeadChart| ChartPin {
        repository: chart.repository.clone(),
        name: chart.name.clone(),
        version: chart.version.clone(),
        archive: chart.archive,
    };
    let charts = head.charts.iter().filter(|chart| !chart.is_unpackaged());
    charts
        .map(|chart| (pin(chart), chart.packages.as_slice()))
        .collect()
}

fn show_chart(chart: &ChartPin) -> String {
    format!(
        "chart {} {} of {}",
        chart.name, chart.version, chart.repository
    )
}

/// Claimed and pinned content must be the same, each with the same packages.
fn compare<K: Ord>(
    claimed: BTreeMap<K, &[PackageName]>,
    pinned: &BTreeMap<K, BTreeSet<PackageName>>,
    show: impl Fn(&K) -> String,
    problems: &mut Vec<Problem>,
) {
    for (key, packages) in &claimed {
        match pinned.get(key) {
            None => problems.push(Problem::Extra(show(key))),
            Some(by) if !by.iter().eq(packages.iter()) => problems.push(Problem::Packages {
                what: show(key),
                claimed: names(packages.iter()),
                by: names(by.iter()),
            }),
            Some(_) => {}
        }
    }
    for (key, by) in pinned.iter().filter(|(key, _)| !claimed.contains_key(key)) {
        problems.push(Problem::Missing {
            what: show(key),
            by: names(by.iter()),
        });
    }
}

/// `host/path:tag` of an image.
fn tag_of(image: &HeadImage) -> Option<Reference> {
    let tag = image.reference.tag()?;
    Some(image.reference.tagged(tag.clone()))
}

/// The images of `head` that lose their tag, each with the one that gets it.
pub fn untagged(head: &Head) -> Vec<(&HeadImage, Option<&HeadImage>)> {
    let tagged = head.images.iter().filter(|image| !image.untagged);
    let winners: BTreeMap<Reference, &HeadImage> = tagged
        .filter_map(|image| Some((tag_of(image)?, image)))
        .collect();
    let losers = head.images.iter().filter(|image| image.untagged);
    let pairs = losers.map(|image| {
        let winner = tag_of(image).and_then(|tag| winners.get(&tag).copied());
        (image, winner)
    });
    pairs.collect()
}

/// A tag is lost only to another image: else whoever makes a bundle could take the tags from
/// images, and clusters that ask by tag would go elsewhere. What belongs to no package takes
/// none from a package.
fn check_untagged(head: &Head, problems: &mut Vec<Problem>) {
    for (image, winner) in untagged(head) {
        let fair = winner.is_some_and(|winner| image.is_unpackaged() || !winner.is_unpackaged());
        if !fair {
            problems.push(Problem::Untagged(image.reference.clone()));
        }
    }
}

/// Images by tag: each is carried once with a digest of the bundle's choice, or its tag is that
/// of an image another package pins.
fn check_unpinned(head: &Head, pins: &Pins, allowed: bool, problems: &mut Vec<Problem>) {
    let mut claimed = BTreeMap::new();
    let unpinned = head.images.iter().filter(|image| !image.pinned);
    for image in unpinned.filter(|image| !image.is_unpackaged()) {
        match tag_of(image) {
            Some(tag) if !claimed.contains_key(&tag) => {
                claimed.insert(tag, image.packages.as_slice());
            }
            // the second one of a tag would come in with nobody asking for it
            Some(_) | None => problems.push(Problem::Extra(format!("image {}", image.reference))),
        }
    }
    if !allowed {
        problems.extend(claimed.iter().map(|(image, packages)| Problem::Unpinned {
            image: image.clone(),
            by: names(packages.iter()),
        }));
    }
    let tagged = head
        .images
        .iter()
        .filter(|image| image.pinned && !image.untagged);
    let tagged: BTreeSet<Reference> = tagged.filter_map(tag_of).collect();
    let mut wanted = pins.unpinned.clone();
    wanted.retain(|tag, _| claimed.contains_key(tag) || !tagged.contains(tag));
    compare(claimed, &wanted, |image| format!("image {image}"), problems);
}

fn names<'a>(packages: impl Iterator<Item = &'a PackageName>) -> String {
    let names: Vec<&str> = packages.map(PackageName::as_str).collect();
    if names.is_empty() {
        "nobody".to_owned()
    } else {
        names.join(", ")
    }
}

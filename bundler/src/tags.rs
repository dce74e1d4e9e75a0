//! Which digest each image has, and which of several images with one tag keeps the tag.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kubepkg_core::digest::Digest;
use kubepkg_core::name::PackageName;
use kubepkg_core::pins::Pins;
use kubepkg_core::reference::Reference;
use kubepkg_remote::Registry;

use crate::CreateError;

/// An image that goes into the bundle; its reference has a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The packages that name it.
    pub by: BTreeSet<PackageName>,
    /// Whether they pin it; otherwise it is what its tag points at now.
    pub pinned: bool,
    /// It loses its tag to another image.
    pub untagged: bool,
}

/// Every image by its reference with a digest.
pub type Images = BTreeMap<Reference, Wanted>;

/// Every image of `pins`; those named by tag only get the digest their tag has now, `jobs`
/// looked up at a time. One that a package pins to that very digest is that image: the pin
/// says more than the tag, so the entry stays the one of the packages that pin it.
pub async fn images(registry: &Registry, pins: &Pins, jobs: usize) -> Result<Images, CreateError> {
    let looked_up: Vec<(Reference, BTreeSet<PackageName>)> = stream::iter(&pins.unpinned)
        .map(async |(image, by)| {
            let digest = registry.manifest(image).await?.digest;
            Ok::<_, CreateError>((image.pinned(digest), by.clone()))
        })
        .buffer_unordered(jobs)
        .try_collect()
        .await?;
    Ok(merged(pins, looked_up))
}

fn merged(pins: &Pins, looked_up: Vec<(Reference, BTreeSet<PackageName>)>) -> Images {
    let wanted = |by: &BTreeSet<PackageName>, pinned| Wanted {
        by: by.clone(),
        pinned,
        untagged: false,
    };
    let mut images: Images = pins
        .images
        .iter()
        .map(|(image, by)| (image.clone(), wanted(by, true)))
        .collect();
    for (image, by) in looked_up {
        images.entry(image).or_insert_with(|| wanted(&by, false));
    }
    images
}

/// Decides which images lose their tag to another one, after `decisions` (tag to digest).
/// Without a decision, two images with one tag are an error.
pub fn decide(
    images: &mut Images,
    decisions: &BTreeMap<Reference, Digest>,
) -> Result<(), CreateError> {
    let mut by_tag: BTreeMap<Reference, Vec<(&Reference, &mut Wanted)>> = BTreeMap::new();
    for (image, wanted) in images {
        if let Some(tag) = image.tag() {
            let rivals = by_tag.entry(image.tagged(tag.clone())).or_default();
            rivals.push((image, wanted));
        }
    }
    for (tag, digest) in decisions {
        let gets_it = |image: &Reference| image.digest() == Some(digest);
        let rivals = by_tag.get_mut(tag).map_or(&mut [][..], Vec::as_mut_slice);
        if rivals.len() < 2 || !rivals.iter().any(|(image, _)| gets_it(image)) {
            return Err(CreateError::NeedlessTag(Box::new(tag.clone())));
        }
        for (image, wanted) in rivals {
            wanted.untagged = !gets_it(image);
        }
    }
    for (tag, rivals) in &by_tag {
        if let ([(first, a), (second, b), ..], None) = (rivals.as_slice(), decisions.get(tag)) {
            return Err(CreateError::TagTwice {
                tag: Box::new(tag.clone()),
                first: named_by(first, a),
                second: named_by(second, b),
            });
        }
    }
    Ok(())
}

fn named_by(image: &Reference, wanted: &Wanted) -> String {
    let names: Vec<&str> = wanted.by.iter().map(PackageName::as_str).collect();
    let digest = image.digest().map(ToString::to_string).unwrap_or_default();
    let how = if wanted.pinned { "" } else { ", by tag only" };
    format!("{digest} ({}{how})", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(tag: &str, content: &str) -> Reference {
        format!("ghcr.io/a/b:{tag}@{}", Digest::sha256(content))
            .parse()
            .unwrap()
    }

    fn by(name: &str) -> BTreeSet<PackageName> {
        BTreeSet::from([name.parse().unwrap()])
    }

    fn untagged(images: &Images) -> Vec<&Reference> {
        let losers = images.iter().filter(|(_, wanted)| wanted.untagged);
        losers.map(|(image, _)| image).collect()
    }

    #[test]
    fn one_tag_for_two_images_needs_a_decision() {
        let pins = Pins {
            images: BTreeMap::from([
                (image("v1", "x"), by("web")),
                (image("v1", "y"), by("db")),
                (image("v2", "z"), by("db")),
            ]),
            ..Pins::default()
        };
        let mut images = merged(&pins, Vec::new());
        let error = decide(&mut images, &BTreeMap::new()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("(web)") && text.contains("(db)"), "{text}");
        let tag: Reference = "ghcr.io/a/b:v1".parse().unwrap();
        let decided = BTreeMap::from([(tag, Digest::sha256("x"))]);
        decide(&mut images, &decided).unwrap();
        assert_eq!(untagged(&images), [&image("v1", "y")]);
        let needless = BTreeMap::from([("ghcr.io/a/b:v2".parse().unwrap(), Digest::sha256("z"))]);
        assert!(matches!(
            decide(&mut images, &needless),
            Err(CreateError::NeedlessTag(_))
        ));
    }

    #[test]
    fn a_tag_without_digest_takes_part() {
        let pins = Pins {
            images: BTreeMap::from([(image("v1", "x"), by("web"))]),
            ..Pins::default()
        };
        // it points at the pinned image: that is one image
        let same = merged(&pins, vec![(image("v1", "x"), by("db"))]);
        assert_eq!(same, merged(&pins, Vec::new()));
        // it points at another one
        let mut other = merged(&pins, vec![(image("v1", "y"), by("db"))]);
        let error = decide(&mut other, &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("(db, by tag only)"), "{error}");
        for (chosen, loser) in [("x", "y"), ("y", "x")] {
            let tag: Reference = "ghcr.io/a/b:v1".parse().unwrap();
            let decided = BTreeMap::from([(tag, Digest::sha256(chosen))]);
            decide(&mut other, &decided).unwrap();
            assert_eq!(untagged(&other), [&image("v1", loser)]);
        }
    }
}

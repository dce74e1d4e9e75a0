//! Which digest each image has, and which of several images with one tag keeps the tag.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kubepkg_core::digest::Digest;
use kubepkg_core::name::PackageName;
use kubepkg_core::pins::Pins;
use kubepkg_core::reference::Reference;
use kubepkg_remote::{RawManifest, Registry};

use crate::CreateError;
use crate::collect::Fetched;
use crate::unpackaged::Unpackaged;

/// What was found of the images that are asked for.
pub struct Found {
    /// Every image.
    pub images: Images,
    /// Manifests that were fetched on the way.
    pub fetched: Fetched,
    /// What should be said.
    pub notes: Vec<String>,
}

/// An image that goes into the bundle; its reference has a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The packages that name it; none where somebody named it beside packages.
    pub by: BTreeSet<PackageName>,
    /// Whether they pin it; otherwise it is what its tag points at now.
    pub pinned: bool,
    /// It loses its tag to another image.
    pub untagged: bool,
    /// A mirror was asked for it in vain, and nobody else names it: it may exist nowhere.
    pub may_lack: bool,
}

impl Wanted {
    /// Whose tag counts: that of a package, then that of who names an image, then what a mirror was
    /// asked for.
    fn rank(&self) -> u8 {
        match (self.by.is_empty(), self.may_lack) {
            (false, _) => 2,
            (true, false) => 1,
            (true, true) => 0,
        }
    }
}

/// Every image by its reference with a digest.
pub type Images = BTreeMap<Reference, Wanted>;

/// Every image of `pins`; those named by tag only get the digest their tag has now, `jobs`
/// looked up at a time. One that a package pins to that very digest is that image: the pin
/// says more than the tag, so the entry stays the one of the packages that pin it. The same
/// holds of images that are named `beside` packages.
pub async fn images(
    registry: &Registry,
    pins: &Pins,
    beside: &Unpackaged,
    jobs: usize,
) -> Result<Found, CreateError> {
    let of_packages = pins.unpinned.iter();
    let of_packages = of_packages.map(|(image, by)| Asked {
        image: image.clone(),
        by: by.clone(),
        may_lack: false,
    });
    let new = |image: &&Reference| {
        !pins.images.contains_key(*image) && !pins.unpinned.contains_key(*image)
    };
    let named = beside.images.iter().filter(new).map(|image| (image, false));
    let wanted = beside.wanted.iter().filter(new);
    let wanted = wanted.filter(|image| !beside.images.contains(*image));
    let beside = named.chain(wanted.map(|image| (image, true)));
    let beside = beside.map(|(image, may_lack)| Asked {
        image: image.clone(),
        by: BTreeSet::new(),
        may_lack,
    });
    let asked: Vec<Asked> = of_packages.chain(beside).collect();
    let found: Vec<Result<LookedUp, String>> = stream::iter(asked)
        .map(|asked| look_up(registry, asked))
        .buffer_unordered(jobs)
        .try_collect()
        .await?;
    let (mut found, mut notes) = split(found);
    // answers come in any order
    found.sort_by(|a, b| (&a.image, &b.by).cmp(&(&b.image, &a.by)));
    notes.sort();
    let mut fetched = Fetched::new();
    let mut looked_up = Vec::with_capacity(found.len());
    for one in found {
        if let Some(raw) = one.raw {
            fetched.insert((one.image.repository(), raw.digest), raw);
        }
        notes.extend(one.note);
        looked_up.push((one.image, one.by, one.may_lack));
    }
    Ok(Found {
        images: merged(pins, looked_up),
        fetched,
        notes,
    })
}

/// What was found, and what is to be said of what was not.
fn split(answers: Vec<Result<LookedUp, String>>) -> (Vec<LookedUp>, Vec<String>) {
    let mut found = Vec::with_capacity(answers.len());
    let mut notes = Vec::new();
    for answer in answers {
        match answer {
            Ok(one) => found.push(one),
            Err(note) => notes.push(note),
        }
    }
    (found, notes)
}

struct Asked {
    image: Reference,
    by: BTreeSet<PackageName>,
    /// It may be that it exists nowhere.
    may_lack: bool,
}

struct LookedUp {
    image: Reference,
    by: BTreeSet<PackageName>,
    may_lack: bool,
    raw: Option<RawManifest>,
    note: Option<String>,
}

/// Gives `image` the digest of its tag. One with a digest is what that says; whether its tag
/// has moved since is said.
///
/// # Errors
/// Within: what is to be said of an image that cannot be had and may lack.
async fn look_up(
    registry: &Registry,
    asked: Asked,
) -> Result<Result<LookedUp, String>, CreateError> {
    let mut found = LookedUp {
        image: asked.image,
        by: asked.by,
        may_lack: asked.may_lack,
        raw: None,
        note: None,
    };
    if asked.may_lack {
        match registry.manifest(&found.image).await {
            Ok(raw) => {
                found.image = found.image.pinned(raw.digest);
                found.raw = Some(raw);
                return Ok(Ok(found));
            }
            Err(error) if error.is_of_us() => return Err(error.into()),
            Err(error) => return Ok(Err(lacking(&found.image, &error))),
        }
    }
    match (found.image.tag(), found.image.digest()) {
        (Some(tag), Some(digest)) => {
            found.note = moved(registry, &found.image.tagged(tag.clone()), digest).await;
        }
        (None, Some(_)) => {}
        (_, None) => {
            let raw = registry.manifest(&found.image).await?;
            found.image = found.image.pinned(raw.digest);
            found.raw = Some(raw);
        }
    }
    Ok(Ok(found))
}

/// What is to be said of an image that a mirror was asked for and that cannot be had.
pub fn lacking(image: &Reference, error: &dyn std::error::Error) -> String {
    format!("{image} is wanted and left out, for it cannot be had: {error}")
}

/// What is to be said of a tag that is not what its digest says. The digest decides, so that a
/// tag that is gone, or cannot be asked for, is no error.
async fn moved(registry: &Registry, tag: &Reference, digest: &Digest) -> Option<String> {
    match registry.resolve(tag).await {
        Ok(now) if now.digest == *digest => None,
        Ok(now) => Some(format!(
            "{tag} has moved: it is {} by now; {digest} is carried, as asked for, under this tag",
            now.digest
        )),
        Err(error) if error.is_not_found() => Some(format!(
            "there is no tag {tag} any more; {digest} is carried under it, as asked for"
        )),
        Err(error) => Some(format!(
            "whether {tag} is still {digest} could not be found out: {error}"
        )),
    }
}

fn merged(pins: &Pins, looked_up: Vec<(Reference, BTreeSet<PackageName>, bool)>) -> Images {
    let wanted = |by: &BTreeSet<PackageName>, pinned, may_lack| Wanted {
        may_lack,
        by: by.clone(),
        pinned,
        untagged: false,
    };
    let mut images: Images = pins
        .images
        .iter()
        .map(|(image, by)| (image.clone(), wanted(by, true, false)))
        .collect();
    let pinned: BTreeSet<Reference> = pins.images.keys().filter_map(untagged).collect();
    for (image, by, may_lack) in looked_up {
        // asked for by digest, it is the image a package pins under its tag
        if by.is_empty() && image.tag().is_none() && pinned.contains(&image) {
            continue;
        }
        if let Some(known) = images.get_mut(&image) {
            known.may_lack &= may_lack;
            continue;
        }
        images
            .entry(image)
            .or_insert_with(|| wanted(&by, false, may_lack));
    }
    images
}

fn untagged(image: &Reference) -> Option<Reference> {
    image.digest().map(|digest| image.at(*digest))
}

/// Decides which images lose their tag to another one, after `decisions` (tag to digest). What
/// belongs to no package gives way to what does. Without a decision, two images with one tag
/// are an error.
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
    for rivals in by_tag.values_mut() {
        let first = rivals.iter().map(|(_, wanted)| wanted.rank()).max();
        for (_, wanted) in rivals.iter_mut() {
            wanted.untagged = Some(wanted.rank()) < first;
        }
        rivals.retain(|(_, wanted)| !wanted.untagged);
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
    let mut names: Vec<&str> = wanted.by.iter().map(PackageName::as_str).collect();
    if names.is_empty() {
        names.push("asked for beside packages");
    }
    let digest = image.digest().map(ToString::to_string).unwrap_or_default();
    let by_tag = !wanted.pinned && !wanted.by.is_empty();
    let how = if by_tag { ", by tag only" } else { "" };
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

    fn losers(images: &Images) -> Vec<&Reference> {
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
        assert_eq!(losers(&images), [&image("v1", "y")]);
        let needless = BTreeMap::from([("ghcr.io/a/b:v2".parse().unwrap(), Digest::sha256("z"))]);
        assert!(matches!(
            decide(&mut images, &needless),
            Err(CreateError::NeedlessTag(_))
        ));
    }

    #[test]
    fn what_belongs_to_no_package_gives_way() {
        let pins = Pins {
            images: BTreeMap::from([(image("v1", "x"), by("web"))]),
            ..Pins::default()
        };
        let beside = vec![(image("v1", "y"), BTreeSet::new(), false)];
        let mut images = merged(&pins, beside);
        decide(&mut images, &BTreeMap::new()).unwrap();
        assert_eq!(losers(&images), [&image("v1", "y")]);
        // and cannot be given the tag
        let decided = BTreeMap::from([("ghcr.io/a/b:v1".parse().unwrap(), Digest::sha256("y"))]);
        assert!(matches!(
            decide(&mut images, &decided),
            Err(CreateError::NeedlessTag(_))
        ));
        // two of them need a decision
        let both = vec![
            (image("v2", "y"), BTreeSet::new(), false),
            (image("v2", "z"), BTreeSet::new(), false),
        ];
        let mut images = merged(&Pins::default(), both);
        let error = decide(&mut images, &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("beside packages"), "{error}");
        // asked for by digest, a pinned image is the package's
        let digest = Digest::sha256("x");
        let bare = vec![(image("v1", "x").at(digest), BTreeSet::new(), false)];
        assert_eq!(merged(&pins, bare).len(), 1);
    }

    #[test]
    fn a_tag_without_digest_takes_part() {
        let pins = Pins {
            images: BTreeMap::from([(image("v1", "x"), by("web"))]),
            ..Pins::default()
        };
        // it points at the pinned image: that is one image
        let same = merged(&pins, vec![(image("v1", "x"), by("db"), false)]);
        assert_eq!(same, merged(&pins, Vec::new()));
        // it points at another one
        let mut other = merged(&pins, vec![(image("v1", "y"), by("db"), false)]);
        let error = decide(&mut other, &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("(db, by tag only)"), "{error}");
        for (chosen, loser) in [("x", "y"), ("y", "x")] {
            let tag: Reference = "ghcr.io/a/b:v1".parse().unwrap();
            let decided = BTreeMap::from([(tag, Digest::sha256(chosen))]);
            decide(&mut other, &decided).unwrap();
            assert_eq!(losers(&other), [&image("v1", loser)]);
        }
    }
}

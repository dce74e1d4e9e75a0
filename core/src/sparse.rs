//! Which manifests of an index travel when only some platforms are wanted.
//!
//! The digest of an index never changes: one whose other platforms were left out is a *sparse
//! index*. Creation and import read the rule here, so that a bundle can leave out what was not
//! asked for and nothing else. The rule, for each index at any depth:
//!
//! * A manifest that says no platform travels: it is an index of its own, or an artifact.
//! * A manifest for a wanted platform travels; others are left out. Where nothing is wanted in
//!   particular, all travel.
//! * An attestation (`unknown/unknown`, as BuildKit writes them) travels with what it is about;
//!   where it does not say what that is, it travels.

use std::collections::BTreeSet;

use crate::descriptor::{Descriptor, Platform, media_type};
use crate::digest::Digest;

/// The required feature of bundles with sparse indexes.
pub const FEATURE: &str = "sparse-indexes";

/// Where an attestation in an index says what it is about (BuildKit, "Attestation storage").
const ABOUT: &str = "vnd.docker.reference.digest";

/// What travels of one index, and what does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// What travels, in the order of the index.
    pub kept: Vec<&'a Descriptor>,
    /// What does not: manifests for other platforms, and attestations about these.
    pub left_out: Vec<&'a Descriptor>,
}

impl Selection<'_> {
    /// Whether the index is for other platforms only: something was left out, and nothing that
    /// is kept can run, or be an index of what can.
    pub fn is_empty(&self) -> bool {
        let runs = |child: &&Descriptor| match &child.platform {
            Some(platform) => is_known(platform),
            None => media_type::is_index(&child.media_type),
        };
        !self.left_out.is_empty() && !self.kept.iter().any(runs)
    }

    /// The platforms that are left out.
    pub fn platforms(&self) -> impl Iterator<Item = &Platform> {
        let left_out = self.left_out.iter();
        left_out.filter_map(|child| {
            child
                .platform
                .as_ref()
                .filter(|platform| is_known(platform))
        })
    }
}

/// What travels of the `children` of an index when `wanted` is asked for.
pub fn select<'a>(children: &'a [Descriptor], wanted: &[Platform]) -> Selection<'a> {
    let travels = |child: &Descriptor| match &child.platform {
        Some(platform) if is_known(platform) => {
            wanted.is_empty() || wanted.iter().any(|one| serves(platform, one))
        }
        _ => true,
    };
    let dropped: BTreeSet<Digest> = children
        .iter()
        .filter(|child| !travels(child))
        .map(|child| child.digest)
        .collect();
    let goes_along = |child: &Descriptor| {
        let about = child.annotations.get(ABOUT);
        let about = about.and_then(|text| text.parse::<Digest>().ok());
        !is_attestation(child) || about.is_none_or(|digest| !dropped.contains(&digest))
    };
    let (kept, left_out) = children
        .iter()
        .partition(|child| travels(child) && goes_along(child));
    Selection { kept, left_out }
}

/// Whether content for `has` runs where `wanted` is asked for. A wanted platform without a
/// variant takes any; variants that processors have without saying it count as said.
pub fn serves(has: &Platform, wanted: &Platform) -> bool {
    has.os == wanted.os
        && has.architecture == wanted.architecture
        && (wanted.variant.is_none() || variant(has) == variant(wanted))
}

/// Whether this manifest of an index is an attestation about another one.
pub fn is_attestation(child: &Descriptor) -> bool {
    let platform = child.platform.as_ref();
    platform.is_some_and(|platform| platform.os == "unknown" && platform.architecture == "unknown")
}

/// The platforms of an image as a head lists them: sorted, without doubles and without the
/// `unknown/unknown` of attestations.
pub fn known(platforms: impl Iterator<Item = Platform>) -> Vec<Platform> {
    let mut platforms: Vec<Platform> = platforms.filter(is_known).collect();
    platforms.sort();
    platforms.dedup();
    platforms
}

/// Whether something runs on it.
pub fn is_known(platform: &Platform) -> bool {
    !platform.os.is_empty() && platform.os != "unknown" && !platform.architecture.is_empty()
}

/// The variant, with the one that goes without saying.
fn variant(platform: &Platform) -> Option<&str> {
    match (platform.architecture.as_str(), platform.variant.as_deref()) {
        ("arm64", None | Some("8")) => Some("v8"),
        ("arm", None | Some("7")) => Some("v7"),
        ("amd64", None) => Some("v1"),
        (_, variant) => variant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        text.parse().unwrap()
    }

    fn child(name: &str, on: &str) -> Descriptor {
        let mut child = Descriptor::new("a/b", Digest::sha256(name), 1);
        if !on.is_empty() {
            child.platform = Some(platform(on));
        }
        child
    }

    fn about(name: &str, other: &Descriptor) -> Descriptor {
        let mut child = child(name, "unknown/unknown");
        let annotations = &mut child.annotations;
        annotations.insert(ABOUT.to_owned(), other.digest.to_string());
        child
    }

    #[test]
    fn variants_that_go_without_saying() {
        for (has, wanted, does) in [
            ("linux/arm64", "linux/arm64/v8", true),
            ("linux/arm64/v8", "linux/arm64", true),
            ("linux/arm64/v9", "linux/arm64/v8", false),
            ("linux/arm/v6", "linux/arm", true),
            ("linux/arm/v6", "linux/arm/v7", false),
            ("linux/arm", "linux/arm/v7", true),
            ("linux/amd64/v3", "linux/amd64/v1", false),
            ("windows/amd64", "linux/amd64", false),
            ("linux/386", "linux/amd64", false),
        ] {
            assert_eq!(
                serves(&platform(has), &platform(wanted)),
                does,
                "{has} {wanted}"
            );
        }
    }

    #[test]
    fn attestations_go_with_what_they_are_about() {
        let (amd, arm) = (child("1", "linux/amd64"), child("2", "linux/arm64"));
        let stray = child("5", "unknown/unknown");
        let children = [
            amd.clone(),
            about("3", &amd),
            arm.clone(),
            about("4", &arm),
            stray.clone(),
            child("6", ""),
        ];
        let all = select(&children, &[]);
        assert_eq!((all.kept.len(), all.left_out.len()), (6, 0));
        let some = select(&children, &[platform("linux/amd64")]);
        let kept: Vec<&Descriptor> = [0, 1, 4, 5].map(|n| &children[n]).into();
        assert_eq!(some.kept, kept);
        let left: Vec<String> = some.platforms().map(ToString::to_string).collect();
        assert_eq!(left, ["linux/arm64"]);
        assert!(!some.is_empty());
    }

    #[test]
    fn an_index_for_other_platforms_only_is_empty() {
        let arm = child("2", "linux/arm64");
        let children = [arm.clone(), child("5", "unknown/unknown"), child("8", "")];
        assert!(select(&children, &[platform("linux/s390x")]).is_empty());
        let mut inner = child("7", "");
        inner.media_type = media_type::OCI_INDEX.to_owned();
        assert!(!select(&[arm, inner], &[platform("linux/s390x")]).is_empty());
        assert!(!select(&[child("7", "")], &[platform("linux/s390x")]).is_empty());
        assert!(!select(&[], &[platform("linux/s390x")]).is_empty());
    }
}

//! Who may move a tag: only the entry and package that put it there, and only to the same or
//! a newer version and build. So no repository takes over another's tag, and an old bundle
//! takes none back. Source: design page "bundle format", "Who is trusted".
//!
//! Two packages of one repository may pin one tag. It belongs to the one it came with first
//! (in one bundle: by name). As long as both want the same image, nothing happens; when the
//! other one wants another image, its image is found by digest and that is said. Which of two
//! packages is right about a tag is for their publisher to settle, not for the order in which
//! bundles arrive.
//!
//! What belongs to no package has no release to compare. Its tags go where the bundle that came
//! last says, and give way to a package at once; they never take a tag of a package, or one that
//! was pushed here.
//!
//! The tag of a signature follows the packages of the image it is about. Nobody signs which
//! signatures there are, so within one release a tag only moves to what holds all that it
//! held before: signatures are added, never taken away.
//!
//! The same goes for the provenance file of a chart, which no package pins either: within one
//! release the tag of an archive keeps the file that is there.

use std::cmp::Ordering;

use kubepkg_core::digest::Digest;
use kubepkg_core::store::{Origin, TagEntry};
use kubepkg_core::version::Version;

/// What becomes of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It points there already, put by the same or a newer release.
    Stays,
    /// It is set.
    Set(TagEntry),
    /// It is left alone; the text says why.
    Refused(String),
}

/// What a bundle wants of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Where it should point.
    pub digest: Digest,
    /// The signed packages that pin it, or the image it is a signature of.
    pub origins: Vec<Origin>,
    /// What sort of tag it is.
    pub kind: WishKind,
}

/// The sorts of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WishKind {
    /// A signed package pins it.
    Pinned,
    /// That of a signature or another referrer.
    Referrer {
        /// Whether everything the tag held before is in what it should point at.
        adds: bool,
    },
    /// A signed package pins the archive of the chart there.
    Chart {
        /// Whether the tag points at the same archive with a provenance file that is not in what
        /// it should point at.
        loses: bool,
    },
}

/// Decides about a tag. With `allow_back` the owner may go back to an older release.
pub fn decide(old: Option<&TagEntry>, wish: &Wish, allow_back: bool) -> Decision {
    let Wish {
        digest,
        origins,
        kind,
    } = wish;
    let set = |origin: Option<&Origin>| {
        Decision::Set(TagEntry {
            digest: *digest,
            origin: origin.cloned().map(Box::new),
        })
    };
    let Some(old) = old else {
        return set(origins.first());
    };
    let same = old.digest == *digest;
    let Some(owner) = &old.origin else {
        return match same {
            true => Decision::Stays,
            false => Decision::Refused("it was pushed here and belongs to no package".to_owned()),
        };
    };
    // what nobody signed gives way to what a package pins
    let of_package = origins.iter().find(|origin| !origin.is_of_bundle());
    if owner.is_of_bundle()
        && let Some(origin) = of_package
    {
        return set(Some(origin));
    }
    let same_package = |o: &&Origin| o.entry == owner.entry && o.package == owner.package;
    let Some(origin) = origins.iter().find(same_package) else {
        return match same {
            true => Decision::Stays,
            false => Decision::Refused(belongs_to(owner, origins)),
        };
    };
    if owner.is_of_bundle() {
        return if same {
            Decision::Stays
        } else {
            set(Some(origin))
        };
    }
    match (release_order(origin, owner), kind) {
        (Ordering::Less | Ordering::Equal, _) if same => Decision::Stays,
        (Ordering::Less, _) if allow_back => set(Some(origin)),
        (Ordering::Less, _) => Decision::Refused(format!(
            "it was set by the newer {} {} build {} (--allow-tag-back moves it)",
            owner.package, owner.version, owner.build
        )),
        (Ordering::Equal, WishKind::Referrer { adds: false }) if !allow_back => {
            Decision::Refused(format!(
                "it holds what this one lacks, and is of the same release, {owner} build {} \
                 (--allow-tag-back moves it)",
                owner.build
            ))
        }
        (Ordering::Equal, WishKind::Chart { loses: true }) if !allow_back => {
            Decision::Refused(format!(
                "it has the same archive with a provenance file that this one lacks, and is of \
                 the same release, {owner} build {} (--allow-tag-back moves it)",
                owner.build
            ))
        }
        (Ordering::Equal | Ordering::Greater, _) => set(Some(origin)),
    }
}

fn belongs_to(owner: &Origin, origins: &[Origin]) -> String {
    match origins.iter().find(|origin| origin.entry == owner.entry) {
        Some(other) => format!(
            "it belongs to package {} of {}, and package {} of the same repository wants another \
             image under it; ask the publisher to give each its own tag",
            owner.package, owner.entry, other.package
        ),
        None if owner.is_of_bundle() => "an earlier bundle brought it".to_owned(),
        None => format!("it belongs to package {} of {}", owner.package, owner.entry),
    }
}

/// Order of two releases of one package: version, then build. A version that does not parse
/// was accepted by an index once, so this cannot happen; it then counts as older.
fn release_order(a: &Origin, b: &Origin) -> Ordering {
    let key = |origin: &Origin| (Version::parse_published(&origin.version).ok(), origin.build);
    key(a).cmp(&key(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(entry: &str, package: &str, version: &str, build: u32) -> Origin {
        Origin {
            entry: entry.into(),
            package: package.into(),
            version: version.into(),
            build,
        }
    }

    fn ask(
        old: Option<&TagEntry>,
        digest: Digest,
        origins: &[Origin],
        allow_back: bool,
    ) -> Decision {
        let wish = Wish {
            digest,
            origins: origins.to_vec(),
            kind: WishKind::Pinned,
        };
        decide(old, &wish, allow_back)
    }

    fn tag(text: &str, origin: Option<Origin>) -> TagEntry {
        TagEntry {
            digest: Digest::sha256(text),
            origin: origin.map(Box::new),
        }
    }

    #[test]
    fn the_owner_moves_it_forward_only() {
        let old = tag("a", Some(origin("e", "web", "1.10.0", 1)));
        let new = Digest::sha256("b");
        for (version, build, moves) in [
            ("1.10.0", 1, true),
            ("1.10.0", 2, true),
            ("1.11.0", 0, true),
            ("1.9.0", 9, false),
            ("1.10.0", 0, false),
        ] {
            let decision = ask(
                Some(&old),
                new,
                &[origin("e", "web", version, build)],
                false,
            );
            assert_eq!(
                matches!(decision, Decision::Set(_)),
                moves,
                "{version} {build}"
            );
        }
    }

    #[test]
    fn going_back_has_to_be_asked_for() {
        let old = tag("a", Some(origin("e", "web", "1.10.0", 1)));
        let back = origin("e", "web", "1.9.0", 1);
        let new = Digest::sha256("b");
        assert!(matches!(
            ask(Some(&old), new, std::slice::from_ref(&back), true),
            Decision::Set(_)
        ));
        let other = origin("f", "web", "1.9.0", 1);
        assert!(matches!(
            ask(Some(&old), new, &[other], true),
            Decision::Refused(_)
        ));
    }

    #[test]
    fn nobody_takes_over_anothers_tag() {
        let old = tag("a", Some(origin("e", "web", "1.0.0", 1)));
        let new = Digest::sha256("b");
        for other in [
            origin("f", "web", "2.0.0", 1),
            origin("e", "other", "2.0.0", 1),
        ] {
            assert!(matches!(
                ask(Some(&old), new, &[other], false),
                Decision::Refused(_)
            ));
        }
        assert!(matches!(
            ask(
                Some(&tag("a", None)),
                new,
                &[origin("e", "web", "1.0.0", 1)],
                false
            ),
            Decision::Refused(_)
        ));
    }

    #[test]
    fn the_same_content_is_no_change() {
        let old = tag("a", Some(origin("e", "web", "1.0.0", 1)));
        assert_eq!(
            ask(
                Some(&old),
                old.digest,
                &[origin("f", "x", "1.0.0", 1)],
                false
            ),
            Decision::Stays
        );
        assert_eq!(
            ask(
                Some(&old),
                old.digest,
                &[origin("e", "web", "1.0.0", 1)],
                false
            ),
            Decision::Stays
        );
        assert_eq!(
            ask(Some(&tag("a", None)), old.digest, &[], false),
            Decision::Stays
        );
    }

    #[test]
    fn a_newer_release_of_the_same_content_takes_the_tag() {
        let old = tag("a", Some(origin("e", "web", "1.0.0", 1)));
        let newer = origin("e", "web", "1.0.1", 1);
        assert!(matches!(
            ask(Some(&old), old.digest, &[newer], false),
            Decision::Set(_)
        ));
    }

    fn signature(text: &str, version: &str, adds: bool) -> Wish {
        Wish {
            digest: Digest::sha256(text),
            origins: vec![origin("e", "web", version, 0)],
            kind: WishKind::Referrer { adds },
        }
    }

    #[test]
    fn an_older_bundle_takes_no_signature_tag_back() {
        let old = tag("a", Some(origin("e", "web", "1.1.0", 0)));
        for (version, adds, moves) in [
            ("1.0.0", true, false),
            ("1.1.0", false, false),
            ("1.1.0", true, true),
            ("1.2.0", false, true),
        ] {
            let decision = decide(Some(&old), &signature("b", version, adds), false);
            let set = matches!(decision, Decision::Set(_));
            assert_eq!(set, moves, "{version} {adds}: {decision:?}");
        }
    }

    #[test]
    fn a_chart_keeps_its_provenance_file_within_a_release() {
        let old = tag("a", Some(origin("e", "web", "1.1.0", 2)));
        for (build, loses, back, moves) in [
            (2, true, false, false),
            (2, true, true, true),
            (2, false, false, true),
            (3, true, false, true),
            (1, false, false, false),
        ] {
            let wish = Wish {
                digest: Digest::sha256("b"),
                origins: vec![origin("e", "web", "1.1.0", build)],
                kind: WishKind::Chart { loses },
            };
            let decision = decide(Some(&old), &wish, back);
            let set = matches!(decision, Decision::Set(_));
            assert_eq!(set, moves, "{build} {loses} {back}: {decision:?}");
        }
    }

    #[test]
    fn a_tag_of_nobody_is_not_moved() {
        let pushed = tag("a", None);
        let mut wish = signature("b", "1.0.0", true);
        assert!(matches!(
            decide(Some(&pushed), &wish, false),
            Decision::Refused(_)
        ));
        wish.origins.clear();
        assert!(matches!(
            decide(Some(&pushed), &wish, false),
            Decision::Refused(_)
        ));
        wish.digest = pushed.digest;
        assert_eq!(decide(Some(&pushed), &wish, false), Decision::Stays);
    }

    #[test]
    fn what_belongs_to_no_package_gives_way_and_takes_nothing() {
        let word = [Origin::of_bundle()];
        let new = Digest::sha256("b");
        let brought = tag("a", Some(Origin::of_bundle()));
        let set = |decision: &Decision, by: &Origin| {
            matches!(decision, Decision::Set(entry)
                if entry.digest == new && entry.origin.as_deref() == Some(by))
        };
        // free, or brought by an earlier bundle: the last one says
        for old in [None, Some(&brought)] {
            assert!(set(&ask(old, new, &word, false), &word[0]));
        }
        assert_eq!(
            ask(Some(&brought), brought.digest, &word, false),
            Decision::Stays
        );
        // a package takes it, whatever its release
        let package = origin("e", "web", "0.0.1", 0);
        let asked = std::slice::from_ref(&package);
        assert!(set(&ask(Some(&brought), new, asked, false), &package));
        // a package's, or one that was pushed, is not taken, and not with the flag either
        for owner in [Some(package), None] {
            for back in [false, true] {
                let decision = ask(Some(&tag("a", owner.clone())), new, &word, back);
                assert!(matches!(decision, Decision::Refused(_)), "{owner:?}");
            }
        }
    }

    #[test]
    fn two_packages_of_one_repository_that_differ_over_a_tag_are_named() {
        let old = tag("a", Some(origin("e", "web", "1.0.0", 1)));
        let other = origin("e", "app", "9.0.0", 1);
        let asked = std::slice::from_ref(&other);
        let Decision::Refused(why) = ask(Some(&old), Digest::sha256("b"), asked, false) else {
            panic!("it is not app's tag");
        };
        assert!(why.contains("package web of e") && why.contains("package app"));
        assert_eq!(ask(Some(&old), old.digest, asked, false), Decision::Stays);
    }
}

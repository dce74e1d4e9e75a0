//! Whether what a bundle says it carries is what the signed index lists.

use super::TrustError;
use crate::Digest;
use crate::index::{Index, IndexVersion, LeftOut, LeftOutWhy, version_and_build};

/// The entry of `index` for this version and build of `package`, if it has this digest.
/// Everything a bundle claims of a package is looked up so, and what the bundle itself says
/// of it is not used any further.
pub fn find<'i>(
    index: &'i Index,
    package: &str,
    version: &str,
    build: u32,
    digest: &Digest,
) -> Result<&'i IndexVersion, TrustError> {
    let shown = || format!("{package} {}", version_and_build(version, build));
    let versions = index.packages.get(package).map(|p| p.versions.as_slice());
    let found = versions
        .unwrap_or_default()
        .iter()
        .find(|listed| listed.version == version && listed.build == build);
    match found {
        Some(listed) if listed.digest == *digest => Ok(listed),
        Some(listed) => Err(TrustError::OtherSpec {
            package: shown(),
            listed: Box::new(listed.digest),
            claimed: Box::new(*digest),
        }),
        None => Err(not_listed(index, package, version, build, shown())),
    }
}

/// Why a version is not among those that can be chosen: it is listed and left out, or it is
/// not listed.
fn not_listed(
    index: &Index,
    package: &str,
    version: &str,
    build: u32,
    shown: String,
) -> TrustError {
    let left_out = || index.left_out.iter().filter(|left| left.package == package);
    let this = left_out().find(|left| left.version == version && left.build == build);
    let newer = |left: &LeftOut| matches!(left.why, LeftOutWhy::Newer { .. });
    match this {
        Some(left) => TrustError::LeftOut {
            package: shown,
            generated: index.generated,
            why: Box::new(left.why.clone()),
        },
        None => TrustError::NotListed {
            package: shown,
            generated: index.generated,
            // their versions and builds may be among what is not understood
            too_new: left_out().any(newer),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PackageSourceSpec;
    use crate::error::Classify;
    use crate::index::IndexPackage;

    fn index() -> Index {
        let listed = IndexVersion::of(PackageSourceSpec {
            version: "1.0.0".to_owned(),
            build: 2,
            ..PackageSourceSpec::default()
        });
        let package = IndexPackage {
            versions: vec![listed],
            ..IndexPackage::default()
        };
        Index {
            generated: "2026-12-31T00:00:00Z".parse().ok(),
            expires: None,
            repository: None,
            packages: [("app".to_owned(), package)].into(),
            left_out: vec![LeftOut {
                package: "new".to_owned(),
                version: "1.0.0".to_owned(),
                build: 0,
                why: LeftOutWhy::Newer {
                    unknown: vec!["shiny".to_owned()],
                },
            }],
        }
    }

    #[test]
    fn a_bundle_cannot_claim_what_nobody_signed() {
        let index = index();
        let digest = index.packages["app"].versions[0].digest;
        assert!(find(&index, "app", "1.0.0", 2, &digest).is_ok());
        // a genuine digest under another version, build or name is no claim of the index
        for (name, version, build) in [
            ("app", "1.0.1", 2),
            ("app", "1.0.0", 1),
            ("web", "1.0.0", 2),
        ] {
            let error = find(&index, name, version, build, &digest).unwrap_err();
            assert!(matches!(error, TrustError::NotListed { .. }), "{error}");
            assert!(
                error.to_string().contains("2026-12-31T00:00:00Z"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_changed_spec_is_refused_and_both_digests_are_named() {
        let index = index();
        let listed = index.packages["app"].versions[0].digest;
        let claimed = Digest::sha256("other");
        let text = find(&index, "app", "1.0.0", 2, &claimed)
            .unwrap_err()
            .to_string();
        assert!(text.contains(&listed.to_string()), "{text}");
        assert!(text.contains(&claimed.to_string()), "{text}");
    }

    #[test]
    fn a_package_for_a_newer_program_says_so() {
        // the version itself, and one of which nothing is known
        for version in ["1.0.0", "1.1.0"] {
            let error = find(&index(), "new", version, 0, &Digest::sha256("x")).unwrap_err();
            assert!(error.hint().unwrap().contains("upgrade kubepkg"));
        }
    }

    #[test]
    fn a_version_that_lacks_signatures_says_how_many() {
        let mut index = index();
        let (have, need) = (0, 2);
        let name = "team".to_owned();
        for (why, said, hint) in [
            (
                LeftOutWhy::Approvals { have, need },
                "0 of 2 approvals",
                "approve",
            ),
            (
                LeftOutWhy::Delegation { name, have, need },
                "0 of 2 signatures of those that team is handed to",
                "sign",
            ),
        ] {
            index.left_out[0].why = why;
            let error = find(&index, "new", "1.0.0", 0, &Digest::sha256("x")).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert!(error.hint().unwrap().contains(hint), "{error}");
            // it says nothing of other versions
            let error = find(&index, "new", "1.1.0", 0, &Digest::sha256("x")).unwrap_err();
            assert!(!error.hint().unwrap().contains("upgrade"), "{error}");
        }
    }
}

//! What the recorded cases do not cover: all variants at once, messages, bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::api::{PackageSourceSpec, Requirement, Variant};
use crate::index::{Index, IndexPackage};

/// A package version with one variant per list of requirements.
fn listed(version: &str, variants: &[(&str, &[&str])]) -> IndexVersion {
    let requirement = |text: &&str| {
        let optional = text.ends_with('?');
        let text = text.trim_end_matches('?');
        let (name, version) = text.split_once('@').unwrap_or((text, ""));
        let (capability, package) = match name.strip_prefix("cap:") {
            Some(capability) => (capability, ""),
            None => ("", name),
        };
        Requirement {
            package: package.to_owned(),
            capability: capability.to_owned(),
            version: version.to_owned(),
            optional,
            ..Requirement::default()
        }
    };
    let spec = PackageSourceSpec {
        version: version.to_owned(),
        variants: variants
            .iter()
            .map(|(name, requires)| Variant {
                name: (*name).to_owned(),
                requires: requires.iter().map(requirement).collect(),
                ..Variant::default()
            })
            .collect(),
        ..PackageSourceSpec::default()
    };
    IndexVersion::of(spec)
}

fn catalog(packages: Vec<(&str, Vec<IndexVersion>)>) -> Catalog {
    let packages: BTreeMap<_, _> = packages
        .into_iter()
        .map(|(name, versions)| {
            let package = IndexPackage {
                versions,
                ..IndexPackage::default()
            };
            (name.to_owned(), package)
        })
        .collect();
    Catalog::new(vec![Source {
        name: "https://r.example.com/index.yaml".to_owned(),
        priority: 0,
        index: Arc::new(Index {
            generated: None,
            expires: None,
            repository: None,
            packages,
            left_out: Vec::new(),
        }),
    }])
}

fn requests(texts: &[&str]) -> Vec<Request> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn names(resolution: &Resolution<'_>) -> Vec<String> {
    let chosen = resolution.packages.iter();
    chosen
        .map(|c| format!("{} {}", c.name, c.listed.version))
        .collect()
}

#[test]
fn the_requirements_of_every_variant_are_carried() {
    let catalog = catalog(vec![
        (
            "app",
            vec![listed(
                "1.0.0",
                &[("default", &["big"]), ("small", &["little@<2"])],
            )],
        ),
        ("big", vec![listed("1.0.0", &[])]),
        ("little", vec![listed("1.0.0", &[]), listed("2.0.0", &[])]),
    ]);
    let resolution = resolve(&catalog, &requests(&["app"]), &Variants::All, false).unwrap();
    assert_eq!(
        names(&resolution),
        ["app 1.0.0", "big 1.0.0", "little 1.0.0"]
    );
    assert_eq!(
        resolution.packages[2].why[0].to_string(),
        "required by app 1.0.0 (variant small)"
    );
    let small = Variants::Named(vec!["small".to_owned()]);
    let resolution = resolve(&catalog, &requests(&["app"]), &small, false).unwrap();
    assert_eq!(names(&resolution), ["app 1.0.0", "little 1.0.0"]);
}

#[test]
fn variants_that_exclude_each_other_can_be_packed_together() {
    let nginx = IndexVersion::of(PackageSourceSpec {
        version: "1.0.0".to_owned(),
        conflicts: vec!["traefik".to_owned()],
        ..PackageSourceSpec::default()
    });
    let catalog = catalog(vec![
        (
            "app",
            vec![listed(
                "1.0.0",
                &[("nginx", &["nginx"]), ("traefik", &["traefik"])],
            )],
        ),
        ("nginx", vec![nginx]),
        ("traefik", vec![listed("1.0.0", &[])]),
    ]);
    let wanted = requests(&["app"]);
    let resolution = resolve(&catalog, &wanted, &Variants::All, false).unwrap();
    assert_eq!(
        resolution.conflicts,
        [Clash {
            package: "nginx".to_owned(),
            with: "traefik".to_owned()
        }]
    );
    let both = Variants::Named(vec!["nginx".to_owned(), "traefik".to_owned()]);
    let error = resolve(&catalog, &wanted, &both, false).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("traefik 1.0.0 conflicts with nginx"),
        "{error}"
    );
}

#[test]
fn optional_requirements_come_only_when_asked_for() {
    let catalog = catalog(vec![
        (
            "app",
            vec![listed("1.0.0", &[("default", &["extra@<2?", "gone?"])])],
        ),
        ("extra", vec![listed("1.0.0", &[]), listed("2.0.0", &[])]),
    ]);
    let wanted = requests(&["app"]);
    let without = resolve(&catalog, &wanted, &Variants::All, false).unwrap();
    assert_eq!(names(&without), ["app 1.0.0"]);
    let with = resolve(&catalog, &wanted, &Variants::All, true).unwrap();
    assert_eq!(names(&with), ["app 1.0.0", "extra 1.0.0"]);
    assert_eq!(with.missing_optional[0].what, "gone");
}

#[test]
fn capabilities_nobody_in_the_set_offers_are_reported() {
    let cilium = IndexVersion::of(PackageSourceSpec {
        version: "1.0.0".to_owned(),
        provides: vec!["cni".to_owned()],
        ..PackageSourceSpec::default()
    });
    let needs: &[&str] = &["cap:cni", "cap:ingress", "cap:metrics?", "cilium"];
    let catalog = catalog(vec![
        ("app", vec![listed("1.0.0", &[("default", needs)])]),
        ("cilium", vec![cilium]),
    ]);
    let resolution = resolve(&catalog, &requests(&["app"]), &Variants::All, true).unwrap();
    let unmet: Vec<_> = resolution
        .capabilities
        .iter()
        .map(|u| u.what.as_str())
        .collect();
    assert_eq!(unmet, ["ingress"]);
}

#[test]
fn an_error_names_everybody_who_disagrees() {
    let catalog = catalog(vec![
        ("a", vec![listed("1.0.0", &[("default", &["base@>=2"])])]),
        ("b", vec![listed("3.1.0", &[("default", &["base@<2"])])]),
        ("base", vec![listed("1.0.0", &[]), listed("2.0.0", &[])]),
    ]);
    let error = resolve(&catalog, &requests(&["a", "b"]), &Variants::All, false).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(
            "base 2.0.0 does not meet >=2 (required by a 1.0.0) and <2 (required by b 3.1.0)"
        ),
        "{text}"
    );
}

#[test]
fn a_request_nobody_can_meet_says_what_there_is() {
    let catalog = catalog(vec![("cert-manager", vec![listed("1.21.0", &[])])]);
    let fail = |text: &str| {
        let error = resolve(&catalog, &requests(&[text]), &Variants::All, false).unwrap_err();
        (error.to_string(), error.hint().unwrap_or_default())
    };
    let (text, _) = fail("cert-manager@~1.22");
    assert!(
        text.contains("~1.22") && text.contains("it has 1.21.0"),
        "{text}"
    );
    let (text, hint) = fail("cert");
    assert!(
        text.contains("no repository carries a package \"cert\""),
        "{text}"
    );
    assert!(hint.contains("cert-manager"), "{hint}");
}

#[test]
fn a_hostile_tangle_ends_at_the_limit() {
    let names: Vec<String> = (0..12).map(|n| format!("p{n}")).collect();
    let mut packages = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let next = names.get(at + 1).map_or("gone", String::as_str);
        let versions = (0..6)
            .map(|v| listed(&format!("{v}.0.0"), &[("default", &[next])]))
            .collect();
        packages.push((name.as_str(), versions));
    }
    let catalog = catalog(packages);
    let error = resolve(&catalog, &requests(&["p0"]), &Variants::All, false).unwrap_err();
    let ResolveError::Limit { steps, reasons } = error else {
        panic!("{error}");
    };
    assert_eq!(steps, MAX_STEPS);
    assert!(!reasons.is_empty());
}

#[test]
fn a_chain_deeper_than_any_stack_is_followed() {
    let names: Vec<String> = (0..9_000).map(|n| format!("p{n}")).collect();
    let packages = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let next: Vec<&str> = names.get(at + 1).map(String::as_str).into_iter().collect();
            (name.as_str(), vec![listed("1.0.0", &[("default", &next)])])
        })
        .collect();
    let catalog = catalog(packages);
    let resolution = resolve(&catalog, &requests(&["p0"]), &Variants::All, false).unwrap();
    assert_eq!(resolution.packages.len(), names.len());
}

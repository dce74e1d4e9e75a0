//! What neither the recorded cases nor the random ones cover: packing, variants and values,
//! withdrawn versions, sources written by hand, and the words of a refusal.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::{InstalledPackage, State};
use super::*;
use crate::api::{Metadata, PackageSource, PackageSourceSpec, Requirement, Variant};
use crate::error::Classify as _;
use crate::index::{Index, IndexPackage, IndexVersion, Withdrawn};
use crate::select::Source;
use crate::time::Time;

/// `NAME[:VARIANT][@CONSTRAINT][?]`, or `cap:CAPABILITY[?]`.
fn requirement(text: &str) -> Requirement {
    let optional = text.ends_with('?');
    let text = text.trim_end_matches('?');
    if let Some(capability) = text.strip_prefix("cap:") {
        return Requirement {
            capability: capability.to_owned(),
            optional,
            ..Requirement::default()
        };
    }
    let (package, version) = text.split_once('@').unwrap_or((text, ""));
    let (package, variant) = package.split_once(':').unwrap_or((package, ""));
    Requirement {
        package: package.to_owned(),
        version: version.to_owned(),
        variant: variant.to_owned(),
        optional,
        ..Requirement::default()
    }
}

/// A spec with one variant per list of requirements.
fn spec(version: &str, variants: &[(&str, &[&str])]) -> PackageSourceSpec {
    PackageSourceSpec {
        version: version.to_owned(),
        variants: variants
            .iter()
            .map(|(name, requires)| Variant {
                name: (*name).to_owned(),
                requires: requires.iter().map(|text| requirement(text)).collect(),
                ..Variant::default()
            })
            .collect(),
        ..PackageSourceSpec::default()
    }
}

/// A spec with the variant `default`.
fn plain(version: &str, requires: &[&str]) -> PackageSourceSpec {
    spec(version, &[("default", requires)])
}

fn source(name: &str, priority: i32, packages: Vec<(&str, Vec<PackageSourceSpec>)>) -> Source {
    let packages: BTreeMap<_, _> = packages
        .into_iter()
        .map(|(name, specs)| {
            let package = IndexPackage {
                versions: specs.into_iter().map(IndexVersion::of).collect(),
                ..IndexPackage::default()
            };
            (name.to_owned(), package)
        })
        .collect();
    Source {
        name: name.to_owned(),
        priority,
        index: Arc::new(Index {
            packages,
            ..Index::default()
        }),
    }
}

fn catalog(packages: Vec<(&str, Vec<PackageSourceSpec>)>) -> Catalog {
    Catalog::new(vec![source("main", 0, packages)])
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

fn state(packages: &[(&str, &str, &[&str])]) -> State {
    let packages = packages.iter().map(|(name, version, requires)| {
        let installed = InstalledPackage {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            requires: requires.iter().map(|text| requirement(text)).collect(),
            ready: true,
            ..InstalledPackage::default()
        };
        ((*name).to_owned(), installed)
    });
    State {
        packages: packages.collect(),
        ..State::default()
    }
}

/// The chosen packages with their variants, or the message and the hint.
fn installs(catalog: &Catalog, texts: &[&str], state: &State) -> Result<Vec<String>, String> {
    let requests = requests(texts);
    match install(catalog, &Install::new(&requests, state)) {
        Ok(found) => Ok(found
            .packages
            .iter()
            .map(|c| format!("{}:{} {}", c.name, c.variants.join(","), c.listed.version))
            .collect()),
        Err(error) => Err(format!("{error} // {}", error.hint().unwrap_or_default())),
    }
}

#[test]
fn the_requirements_of_every_variant_are_packed() {
    let catalog = catalog(vec![
        (
            "app",
            vec![spec(
                "1.0.0",
                &[("default", &["big"]), ("small", &["little@<2"])],
            )],
        ),
        ("big", vec![plain("1.0.0", &[])]),
        ("little", vec![plain("1.0.0", &[]), plain("2.0.0", &[])]),
    ]);
    let wanted = requests(&["app"]);
    let all = pack(&catalog, &Pack::new(&wanted)).unwrap();
    assert_eq!(names(&all), ["app 1.0.0", "big 1.0.0", "little 1.0.0"]);
    assert_eq!(
        all.packages[2].why[0].to_string(),
        "required by app 1.0.0 (variant small)"
    );
    let small = Variants::Named(vec!["small".to_owned()]);
    let named = Pack {
        variants: &small,
        ..Pack::new(&wanted)
    };
    let named = pack(&catalog, &named).unwrap();
    assert_eq!(names(&named), ["app 1.0.0", "little 1.0.0"]);
    assert_eq!(named.packages[0].variants, ["small"]);
}

#[test]
fn a_variant_that_a_packed_package_asks_for_is_packed_with_it() {
    let catalog = catalog(vec![
        ("distro", vec![plain("1.0.0", &["member:small"])]),
        (
            "member",
            vec![spec("1.0.0", &[("default", &[]), ("small", &["cache"])])],
        ),
        ("cache", vec![plain("1.0.0", &[])]),
    ]);
    let wanted = requests(&["distro"]);
    let default = Variants::Named(vec!["default".to_owned()]);
    let named = Pack {
        variants: &default,
        ..Pack::new(&wanted)
    };
    let found = pack(&catalog, &named).unwrap();
    assert_eq!(
        names(&found),
        ["cache 1.0.0", "distro 1.0.0", "member 1.0.0"]
    );
    assert_eq!(found.packages[2].variants, ["default", "small"]);
}

#[test]
fn packages_that_exclude_each_other_can_be_packed_together_and_that_is_said() {
    let mut nginx = plain("1.0.0", &[]);
    nginx.conflicts = vec!["traefik".to_owned()];
    let catalog = catalog(vec![
        ("nginx", vec![nginx]),
        ("traefik", vec![plain("1.0.0", &[])]),
    ]);
    let wanted = requests(&["nginx", "traefik"]);
    let found = pack(&catalog, &Pack::new(&wanted)).unwrap();
    assert_eq!(
        found.conflicts,
        [Clash {
            package: "nginx".to_owned(),
            with: "traefik".to_owned()
        }]
    );
}

#[test]
fn optional_requirements_are_packed_only_when_asked_for() {
    let catalog = catalog(vec![
        ("app", vec![plain("1.0.0", &["extra@<2?", "gone?"])]),
        ("extra", vec![plain("1.0.0", &[]), plain("2.0.0", &[])]),
    ]);
    let wanted = requests(&["app"]);
    let without = pack(&catalog, &Pack::new(&wanted)).unwrap();
    assert_eq!(names(&without), ["app 1.0.0"]);
    let with = Pack {
        with_optional: true,
        ..Pack::new(&wanted)
    };
    let with = pack(&catalog, &with).unwrap();
    assert_eq!(names(&with), ["app 1.0.0", "extra 1.0.0"]);
    assert_eq!(with.missing_optional[0].what, "gone");
}

#[test]
fn capabilities_nobody_packed_offers_are_reported_or_packed() {
    let mut cilium = plain("1.0.0", &[]);
    cilium.provides = vec!["cni".to_owned()];
    let catalog = catalog(vec![
        (
            "app",
            vec![plain("1.0.0", &["cap:cni", "cap:ingress", "cap:metrics?"])],
        ),
        ("cilium", vec![cilium]),
    ]);
    let wanted = requests(&["app"]);
    let what = |found: &Resolution<'_>| {
        let unmet = found.capabilities.iter().map(|unmet| unmet.what.clone());
        unmet.collect::<Vec<_>>()
    };
    let found = pack(&catalog, &Pack::new(&wanted)).unwrap();
    assert_eq!(what(&found), ["cni", "ingress"]);
    let with = Pack {
        with_providers: true,
        ..Pack::new(&wanted)
    };
    let with = pack(&catalog, &with).unwrap();
    assert_eq!(names(&with), ["app 1.0.0", "cilium 1.0.0"]);
    assert_eq!(what(&with), ["ingress"]);
}

#[test]
fn a_variant_comes_from_who_asks_for_it_and_from_nobody_else() {
    let member = spec("1.0.0", &[("default", &["gone"]), ("small", &[])]);
    let catalog = catalog(vec![
        ("asks", vec![plain("1.0.0", &["member:small"])]),
        ("plain", vec![plain("1.0.0", &["member"])]),
        ("member", vec![member]),
    ]);
    let nothing = State::default();
    assert_eq!(
        installs(&catalog, &["plain", "asks"], &nothing).unwrap(),
        [
            "asks:default 1.0.0",
            "member:small 1.0.0",
            "plain:default 1.0.0"
        ]
    );
    // small would do, but nobody asks for it
    let error = installs(&catalog, &["plain"], &nothing).unwrap_err();
    assert!(error.contains("no repository carries gone"), "{error}");
    assert_eq!(
        installs(&catalog, &["member:small"], &nothing).unwrap(),
        ["member:small 1.0.0"]
    );
}

#[test]
fn two_that_ask_for_different_variants_are_both_named() {
    let member = spec("1.0.0", &[("ha", &[]), ("small", &[])]);
    let catalog = catalog(vec![
        ("a", vec![plain("1.0.0", &["member:small"])]),
        ("b", vec![plain("2.0.0", &["member:ha"])]),
        ("member", vec![member]),
    ]);
    let error = installs(&catalog, &["a", "b"], &State::default()).unwrap_err();
    assert!(
        error.contains(
            "no version of member meets variant ha (required by b 2.0.0) and variant small \
             (required by a 1.0.0)"
        ) || error.contains(
            "no version of member meets variant small (required by a 1.0.0) and variant ha \
             (required by b 2.0.0)"
        ),
        "{error}"
    );
}

#[test]
fn two_that_pass_different_values_are_both_named() {
    let passing = |value: serde_json::Value| {
        let mut spec = plain("1.0.0", &["db"]);
        let values = [("server".to_owned(), value)].into();
        spec.variants[0].requires[0].values = values;
        spec
    };
    let one = serde_json::json!({"replicas": 1, "port": 1});
    let same = serde_json::json!({"replicas": 1, "host": "x"});
    let other = serde_json::json!({"replicas": {"min": 1}});
    let catalog = catalog(vec![
        ("a", vec![passing(one)]),
        ("b", vec![passing(same)]),
        ("c", vec![passing(other)]),
        ("db", vec![plain("1.0.0", &[])]),
    ]);
    let nothing = State::default();
    assert_eq!(installs(&catalog, &["a", "b"], &nothing).unwrap().len(), 3);
    let error = installs(&catalog, &["a", "c"], &nothing).unwrap_err();
    for part in [
        "db is passed different values for replicas of component server",
        "1 (required by a 1.0.0)",
        "an object (required by c 1.0.0)",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_set_does_not_rest_on_a_variant_that_only_it_asks_for() {
    // x:small needs y, and y asks for x:small; nobody else asks for either
    let x = spec("1.0.0", &[("default", &["gone"]), ("small", &["y"])]);
    let catalog = catalog(vec![
        ("x", vec![x]),
        ("y", vec![plain("1.0.0", &["x:small"])]),
    ]);
    let error = installs(&catalog, &["x"], &State::default()).unwrap_err();
    assert!(error.contains("gone"), "{error}");
    let both = installs(&catalog, &["x", "y"], &State::default()).unwrap();
    assert_eq!(both, ["x:small 1.0.0", "y:default 1.0.0"]);
}

#[test]
fn what_is_installed_is_not_broken_unless_that_is_allowed() {
    let catalog = catalog(vec![(
        "b",
        vec![
            plain("1.0.0", &[]),
            plain("1.5.0", &[]),
            plain("2.0.0", &[]),
        ],
    )]);
    let state = state(&[("a", "1.0.0", &["b@<2"]), ("b", "1.0.0", &[])]);
    assert_eq!(
        installs(&catalog, &["b"], &state).unwrap(),
        ["b:default 1.5.0"]
    );
    let wanted = requests(&["b"]);
    let found = install(&catalog, &Install::new(&wanted, &state)).unwrap();
    let held_back = found.packages[0].held_back.as_ref().unwrap();
    assert_eq!(held_back.version, "2.0.0");
    assert!(
        held_back.why.contains("required by a 1.0.0 (installed)"),
        "{held_back:?}"
    );
    let error = installs(&catalog, &["b@2"], &state).unwrap_err();
    assert!(
        error.contains("<2 (required by a 1.0.0 (installed))"),
        "{error}"
    );
    assert!(error.contains("--allow-breaking"), "{error}");
    let wanted = requests(&["b"]);
    let breaking = Install {
        allow_breaking: true,
        ..Install::new(&wanted, &state)
    };
    let found = install(&catalog, &breaking).unwrap();
    assert_eq!(names(&found), ["b 2.0.0"]);
    assert_eq!(found.breaks[0].package, "a");
    assert_eq!(found.breaks[0].requires, "b <2");
}

#[test]
fn an_installed_package_makes_way_when_it_must_and_that_is_its_reason() {
    let mut new = plain("1.0.0", &[]);
    new.conflicts = vec!["old-lb".to_owned()];
    let mut old = plain("1.0.0", &[]);
    old.provides = vec!["old-lb".to_owned()];
    let catalog = catalog(vec![
        ("new", vec![new]),
        ("lb", vec![old, plain("2.0.0", &[])]),
    ]);
    let mut state = state(&[("lb", "1.0.0", &[])]);
    let lb = state.packages.get_mut("lb").unwrap();
    lb.provides = vec!["old-lb".to_owned()];
    let wanted = requests(&["new"]);
    let found = install(&catalog, &Install::new(&wanted, &state)).unwrap();
    assert_eq!(names(&found), ["lb 2.0.0", "new 1.0.0"]);
    assert_eq!(found.packages[0].why, [Origin::Displaced]);
}

#[test]
fn what_is_removed_must_not_be_needed() {
    let catalog = catalog(vec![("app", vec![plain("1.0.0", &["db"])])]);
    let state = state(&[("a", "1.0.0", &["db"]), ("db", "1.0.0", &[])]);
    let remove = |names: &[&str], requested: &[&str]| {
        let remove: Vec<_> = names.iter().map(|name| name.parse().unwrap()).collect();
        let requested = requests(requested);
        let wanted = Install {
            remove: &remove,
            ..Install::new(&requested, &state)
        };
        let found = install(&catalog, &wanted);
        found
            .map(|found| found.removed)
            .map_err(|error| format!("{error} // {}", error.hint().unwrap_or_default()))
    };
    assert_eq!(remove(&["db", "a"], &[]).unwrap(), ["a", "db"]);
    let error = remove(&["db"], &[]).unwrap_err();
    assert!(
        error.contains("db is to be removed, but is required by a 1.0.0 (installed)"),
        "{error}"
    );
    assert!(error.contains("remove a, too"), "{error}");
    assert!(remove(&["db", "a"], &["app"]).is_err());
    assert!(
        remove(&["other"], &[])
            .unwrap_err()
            .contains("not installed")
    );
}

#[test]
fn a_withdrawn_version_is_taken_only_when_named() {
    let mut main = source(
        "main",
        0,
        vec![("app", vec![plain("1.0.0", &[]), plain("1.1.0", &[])])],
    );
    let index = Arc::make_mut(&mut main.index);
    let versions = &mut index.packages.get_mut("app").unwrap().versions;
    versions[1].withdrawn = Some(Withdrawn {
        since: Time::from_unix(0),
        reason: "loses data".to_owned(),
        replacement: None,
        lifted: None,
    });
    let catalog = Catalog::new(vec![main]);
    let nothing = State::default();
    assert_eq!(
        installs(&catalog, &["app"], &nothing).unwrap(),
        ["app:default 1.0.0"]
    );
    assert_eq!(
        installs(&catalog, &["app@1.1.0"], &nothing).unwrap(),
        ["app:default 1.1.0"]
    );
    let error = installs(&catalog, &["app@>=1.1"], &nothing).unwrap_err();
    assert!(error.contains("1.1.0 was withdrawn"), "{error}");
    assert!(error.contains("app@1.1.0"), "{error}");
}

#[test]
fn a_source_written_by_hand_wins_over_every_repository() {
    let written = PackageSource {
        metadata: Metadata {
            name: "db".to_owned(),
            ..Metadata::default()
        },
        spec: plain("", &[]),
        ..PackageSource::default()
    };
    let catalog = catalog(vec![
        ("app", vec![plain("1.0.0", &["db"])]),
        ("strict", vec![plain("1.0.0", &["db@>=1"])]),
        ("db", vec![plain("1.0.0", &[])]),
    ])
    .with_hand_written(vec![written]);
    let nothing = State::default();
    assert_eq!(
        installs(&catalog, &["app"], &nothing).unwrap(),
        ["app:default 1.0.0", "db:default 0.0.0-unversioned"]
    );
    // what has no version meets no constraint
    assert!(installs(&catalog, &["strict"], &nothing).is_err());
}

#[test]
fn a_refusal_tells_the_shortest_chain_first_and_what_would_help() {
    let vendor = source("vendor", 1, vec![("base", vec![plain("1.0.0", &[])])]);
    let community = source(
        "community",
        0,
        vec![
            ("base", vec![plain("2.0.0", &[])]),
            (
                "middle",
                vec![plain("1.0.0", &["base@>=2"]), plain("1.1.0", &["base@>=2"])],
            ),
            ("top", vec![plain("1.0.0", &["middle"])]),
        ],
    );
    let catalog = Catalog::new(vec![vendor, community]);
    let error = installs(&catalog, &["top"], &State::default()).unwrap_err();
    for part in [
        "no version of base meets >=2 (required by middle 1.0.0); vendor has 1.0.0",
        "and so with one other version",
        "top 1.0.0 requires middle",
        "community has base 2.0.0, but vendor comes first",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_request_nobody_can_meet_says_what_there_is() {
    let catalog = catalog(vec![("cert-manager", vec![plain("1.21.0", &[])])]);
    let fail = |text: &str| installs(&catalog, &[text], &State::default()).unwrap_err();
    let text = fail("cert-manager@~1.22");
    assert!(
        text.contains("~1.22") && text.contains("it has 1.21.0"),
        "{text}"
    );
    let text = fail("cert");
    assert!(
        text.contains("no repository carries a package \"cert\""),
        "{text}"
    );
    assert!(text.contains("did you mean cert-manager?"), "{text}");
    let text = fail("cert-manager:huge");
    assert!(
        text.contains(
            "no version of cert-manager has variant huge (requested); main has 1.21.0; its \
             variants: default"
        ),
        "{text}"
    );
    assert!(text.ends_with("ask for cert-manager:default"), "{text}");
}

#[test]
fn what_an_installed_package_and_its_twin_in_the_repository_want_is_told_once() {
    let catalog = catalog(vec![
        ("app", vec![plain("1.0.0", &["db@>=2"])]),
        ("old", vec![plain("1.0.0", &["db@<2"])]),
        ("db", vec![plain("1.0.0", &[]), plain("2.0.0", &[])]),
    ]);
    let state = state(&[("old", "1.0.0", &["db@<2"]), ("db", "1.0.0", &[])]);
    let error = installs(&catalog, &["app"], &state).unwrap_err();
    let wanted = error.matches("<2 (required by old 1.0.0").count();
    assert_eq!(wanted, 1, "{error}");
    assert!(error.contains("--allow-breaking"), "{error}");
}

#[test]
fn of_a_locked_package_only_the_locked_variants_count_unless_others_are_named() {
    let web = spec("1.0.0", &[("default", &["db"]), ("small", &["sqlite"])]);
    let catalog = catalog(vec![
        ("web", vec![web]),
        ("db", vec![plain("1.0.0", &["disk?"])]),
        ("sqlite", vec![plain("1.0.0", &[])]),
        ("disk", vec![plain("1.0.0", &[])]),
    ]);
    let state = State::default();
    let none = BTreeMap::new();
    let requests = requests(&["web"]);
    let planned = install(&catalog, &Install::new(&requests, &state)).unwrap();
    let lock = Lock::of(&planned, &catalog, &state, &none);
    let with_lock = |variants: &Variants| {
        let wanted = Pack {
            lock: Some(&lock),
            variants,
            with_optional: true,
            ..Pack::new(&requests)
        };
        let packed = pack(&catalog, &wanted).map_err(|error| error.to_string())?;
        let variants = packed.packages.iter().map(|c| c.variants.join(","));
        Ok::<_, String>((names(&packed), variants.collect::<Vec<_>>()))
    };
    let (packed, variants) = with_lock(&Variants::All).unwrap();
    assert_eq!(packed, ["db 1.0.0", "web 1.0.0"]);
    assert_eq!(variants, ["default", "default"]);
    let error = with_lock(&Variants::Named(vec!["small".to_owned()])).unwrap_err();
    assert!(error.contains("the lock does not name sqlite"), "{error}");
}

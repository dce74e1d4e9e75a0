//! Inputs of a size or shape made to hurt: no stack overflow, no blow-up. The bounds in time
//! are generous; they catch a quadratic loop, not a slow machine.
#![expect(clippy::unwrap_used, reason = "what cannot be read is a failed test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use kubepkg_core::api::{PackageSourceSpec, Requirement, Variant};
use kubepkg_core::index::{Index, IndexPackage, IndexVersion};
use kubepkg_core::resolve::state::State;
use kubepkg_core::resolve::{Install, Pack, Request, ResolveError, install, pack};
use kubepkg_core::select::{Catalog, Source};

/// What all of it may take on a slow machine in a build without optimisation.
const BOUND: Duration = Duration::from_secs(60);

fn spec(version: &str, requires: &[(&str, &str)]) -> PackageSourceSpec {
    let requirement = |(package, version): &(&str, &str)| Requirement {
        package: (*package).to_owned(),
        version: (*version).to_owned(),
        ..Requirement::default()
    };
    PackageSourceSpec {
        version: version.to_owned(),
        variants: vec![Variant {
            name: "default".to_owned(),
            requires: requires.iter().map(requirement).collect(),
            ..Variant::default()
        }],
        ..PackageSourceSpec::default()
    }
}

fn catalog(packages: impl IntoIterator<Item = (String, Vec<PackageSourceSpec>)>) -> Catalog {
    let packages = packages.into_iter().map(|(name, specs)| {
        let versions = specs.into_iter().map(IndexVersion::of).collect();
        let package = IndexPackage {
            versions,
            ..IndexPackage::default()
        };
        (name, package)
    });
    Catalog::new(vec![Source {
        name: "https://r.example.com/index.yaml".to_owned(),
        priority: 0,
        index: Arc::new(Index {
            packages: packages.collect(),
            ..Index::default()
        }),
    }])
}

fn requests(names: impl IntoIterator<Item = String>) -> Vec<Request> {
    names
        .into_iter()
        .map(|name| name.parse().unwrap())
        .collect()
}

/// The number of packages installed, or the error, within the bound.
fn resolved(catalog: &Catalog, requests: &[Request]) -> Result<usize, ResolveError> {
    let begun = Instant::now();
    let state = State::default();
    let outcome = install(catalog, &Install::new(requests, &state));
    let packed = pack(catalog, &Pack::new(requests));
    let took = begun.elapsed();
    assert!(took < BOUND, "took {took:?}");
    drop(packed);
    outcome.map(|resolution| resolution.packages.len())
}

fn chain(length: usize, last: &str) -> Catalog {
    let names: Vec<String> = (0..=length).map(|n| format!("p{n}")).collect();
    let packages = (0..length).map(|n| {
        let needs = if n + 1 < length {
            names[n + 1].as_str()
        } else {
            last
        };
        let needs: &[(&str, &str)] = if needs.is_empty() {
            &[]
        } else {
            &[(needs, ">=1")]
        };
        (names[n].clone(), vec![spec("1.0.0", needs)])
    });
    catalog(packages)
}

#[test]
fn ten_thousand_chained_requirements_are_followed() {
    let catalog = chain(10_000, "");
    assert_eq!(resolved(&catalog, &requests(["p0".to_owned()])), Ok(10_000));
}

#[test]
fn a_chain_that_leads_nowhere_is_explained_in_few_words() {
    let catalog = chain(10_000, "gone");
    let error = resolved(&catalog, &requests(["p0".to_owned()])).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("no repository carries gone (required by p9999 1.0.0)"),
        "{text}"
    );
    assert!(text.len() < 1_000, "{text}");
}

#[test]
fn ten_thousand_packages_in_one_cycle_are_installed_together() {
    let catalog = chain(10_000, "p0");
    assert_eq!(
        resolved(&catalog, &requests(["p77".to_owned()])),
        Ok(10_000)
    );
}

#[test]
fn two_thousand_packages_that_all_exclude_each_other_are_refused() {
    let names: Vec<String> = (0..2_000).map(|n| format!("p{n:04}")).collect();
    let packages = names.iter().map(|name| {
        let mut spec = spec("1.0.0", &[]);
        spec.provides = vec!["cni".to_owned()];
        spec.conflicts = vec!["cni".to_owned()];
        (name.clone(), vec![spec])
    });
    let error = resolved(&catalog(packages), &requests(names.clone())).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("conflicts with"), "{text}");
    assert!(text.len() < 2_000, "{text}");
}

#[test]
fn two_thousand_packages_that_one_excludes_by_name_are_refused() {
    let names: Vec<String> = (0..2_000).map(|n| format!("p{n:04}")).collect();
    let packages = names.iter().map(|name| {
        let mut spec = spec("1.0.0", &[]);
        spec.conflicts = match name.as_str() {
            "p0000" => names.clone(),
            _ => vec!["p0000".to_owned()],
        };
        (name.clone(), vec![spec])
    });
    let error = resolved(&catalog(packages), &requests(names.clone())).unwrap_err();
    assert!(error.to_string().contains("conflicts with"), "{error}");
}

#[test]
fn a_few_hundred_packages_that_all_name_each_other_are_refused() {
    let names: Vec<String> = (0..300).map(|n| format!("p{n:04}")).collect();
    let packages = names.iter().map(|name| {
        let mut spec = spec("1.0.0", &[]);
        spec.conflicts = names.clone();
        (name.clone(), vec![spec])
    });
    let error = resolved(&catalog(packages), &requests(names.clone())).unwrap_err();
    assert!(error.to_string().contains("conflicts with"), "{error}");
}

#[test]
fn one_of_two_thousand_providers_that_exclude_each_other_is_chosen() {
    let names: Vec<String> = (0..2_000).map(|n| format!("p{n:04}")).collect();
    let mut packages: Vec<_> = names
        .iter()
        .map(|name| {
            let mut spec = spec("1.0.0", &[]);
            spec.provides = vec!["cni".to_owned()];
            spec.conflicts = vec!["cni".to_owned()];
            (name.clone(), vec![spec])
        })
        .collect();
    let mut app = spec("1.0.0", &[]);
    app.variants[0].requires.push(Requirement {
        capability: "cni".to_owned(),
        ..Requirement::default()
    });
    packages.push(("app".to_owned(), vec![app]));
    assert_eq!(
        resolved(&catalog(packages), &requests(["app".to_owned()])),
        Ok(2)
    );
}

#[test]
fn the_oldest_of_five_thousand_versions_is_found() {
    let versions = (0..5_000).map(|n| match n {
        0 => spec("1.0.0", &[]),
        n => spec(&format!("1.{n}.0"), &[("gone", "")]),
    });
    let packages = [("app".to_owned(), versions.collect())];
    assert_eq!(
        resolved(&catalog(packages), &requests(["app".to_owned()])),
        Ok(1)
    );
}

#[test]
fn five_thousand_versions_that_all_fail_are_one_reason() {
    let versions = (0..5_000).map(|n| spec(&format!("1.{n}.0"), &[("gone", "")]));
    let packages = [("app".to_owned(), versions.collect())];
    let error = resolved(&catalog(packages), &requests(["app".to_owned()])).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("and so with 4999 other versions"), "{text}");
    assert!(text.len() < 1_000, "{text}");
}

#[test]
fn a_tangle_with_no_way_out_ends() {
    // twelve packages in six versions each, all of which lead to one that is not there
    let names: Vec<String> = (0..12).map(|n| format!("p{n}")).collect();
    let packages = names.iter().enumerate().map(|(at, name)| {
        let next = names.get(at + 1).map_or("gone", String::as_str);
        let versions = (0..6).map(|v| spec(&format!("{v}.0.0"), &[(next, "")]));
        (name.clone(), versions.collect())
    });
    let error = resolved(&catalog(packages), &requests(["p0".to_owned()])).unwrap_err();
    assert!(
        error.to_string().contains("no repository carries gone"),
        "{error}"
    );
}

/// Run with `--release -- --ignored --nocapture` for the figure in the notes.
#[test]
#[ignore = "a measurement; it needs an optimised build and a large index"]
fn a_distribution_of_300_members_over_200_000_specs() {
    let mut text = String::from(
        "apiVersion: kubepkg.dev/v1alpha1\ngenerated: 2026-11-30T00:00:00Z\nkind: RepositoryIndex\n\
         packages:\n",
    );
    let member = |n: usize, minor: usize| {
        let requires: Vec<(String, String)> = (1..4)
            .map(|step| {
                (
                    format!("p{:05}", (n / 33 + step * 7) % 300 * 33),
                    ">=1.5".to_owned(),
                )
            })
            .collect();
        let requires: Vec<(&str, &str)> = requires
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        let mut spec = spec(
            &format!("1.{minor}.0"),
            if n.is_multiple_of(3) { &requires } else { &[] },
        );
        spec.provides = match n % 50 {
            0 => vec![format!("cap{}", n % 7)],
            _ => Vec::new(),
        };
        spec.images = vec![format!("registry.example.com/p{n}@sha256:{}", "0".repeat(64)); 4];
        if n % 40 == 1 {
            spec.variants[0].requires.push(Requirement {
                capability: format!("cap{}", n % 3),
                ..Requirement::default()
            });
        }
        spec
    };
    for n in 0..10_000 {
        text.push_str(&format!("  p{n:05}:\n    versions:\n"));
        for minor in (0..20).rev() {
            let spec = member(n, minor);
            let json: serde_json::Value = serde_json::to_value(&spec).unwrap();
            text.push_str(&format!("    - digest: {}\n      spec:\n", spec.digest()));
            write_yaml(&json, 8, &mut text);
            text.push_str(&format!("      version: 1.{minor}.0\n"));
        }
    }
    let begun = Instant::now();
    let index = Index::read(text.as_bytes()).unwrap();
    eprintln!("read {} MiB in {:?}", text.len() >> 20, begun.elapsed());
    let members: Vec<(String, String)> = (0..300)
        .map(|n| (format!("p{:05}", n * 33), "~1.15".to_owned()))
        .collect();
    let members: Vec<(&str, &str)> = members
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let distribution = spec("1.0.0", &members);
    let mut packages = index.packages.clone();
    let package = IndexPackage {
        versions: vec![IndexVersion::of(distribution)],
        ..IndexPackage::default()
    };
    packages.insert("distribution".to_owned(), package);
    let catalog = Catalog::new(vec![Source {
        name: "https://r.example.com/index.yaml".to_owned(),
        priority: 0,
        index: Arc::new(Index { packages, ..index }),
    }]);
    let wanted = requests(["distribution".to_owned()]);
    for _ in 0..3 {
        let begun = Instant::now();
        let state = State::default();
        let found = install(&catalog, &Install::new(&wanted, &state)).unwrap();
        eprintln!("{} packages in {:?}", found.packages.len(), begun.elapsed());
    }
}

/// Block YAML with the keys sorted, as an index is written.
fn write_yaml(value: &serde_json::Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    let scalar = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    };
    match value {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                match value {
                    serde_json::Value::Array(items) => {
                        out.push_str(&format!("{pad}{key}:\n"));
                        for item in items {
                            if item.is_object() {
                                let mut inner = String::new();
                                write_yaml(item, indent + 2, &mut inner);
                                inner.replace_range(indent..indent + 2, "- ");
                                out.push_str(&inner);
                            } else {
                                out.push_str(&format!("{pad}- {}\n", scalar(item)));
                            }
                        }
                    }
                    value => out.push_str(&format!("{pad}{key}: {}\n", scalar(value))),
                }
            }
        }
        value => out.push_str(&format!("{pad}{}\n", scalar(value))),
    }
}

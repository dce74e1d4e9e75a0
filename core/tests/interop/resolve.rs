//! `resolve.jsonl`: the set of packages that meets requests and requirements.
//!
//! Run are the cases about packages alone. The others are listed with what they still need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubepkg_core::index::{Index, IndexPackage, IndexVersion};
use kubepkg_core::resolve::{Origin, Request, Variants, resolve};
use kubepkg_core::select::{Catalog, Source};
use serde_json::{Value, json};

use crate::vectors::{lines, text};

/// Cases with installed packages: planning for a cluster is not there yet.
const NEED_CLUSTER: [&str; 21] = [
    "keep-installed-dependency",
    "upgrade-requested",
    "installed-provider-reused",
    "conflict-other-provider",
    "downgrade-requested",
    "keep-requested",
    "installed-newer-than-catalog",
    "dependency-must-move",
    "dependency-downgrade",
    "dependency-installed-not-published",
    "dependency-installed-package-gone",
    "capability-of-installed-gone",
    "not-ready-provider-counts",
    "unversioned-installed",
    "installed-provider-replaced",
    "conflict-installed",
    "conflict-declared-by-installed",
    "conflict-installed-replaced",
    "conflict-upgrade-own",
    "installed-requirement-not-protected",
    "api-capability-served",
];

/// Cases in which a capability decides: the resolver only reports them so far.
const NEED_CAPABILITIES: [&str; 14] = [
    "provider-pulled-in",
    "missing-capability",
    "own-name-as-capability",
    "first-provider-by-name",
    "requested-provider-first",
    "requested-provider-later",
    "provider-version-without-capability",
    "second-provider-when-first-fails",
    "api-capability-provided",
    "api-capability-missing",
    "served-api-needs-prefix",
    "provider-from-other-repository",
    "longest-message-wins",
    "meta-packages",
];

/// The repositories of a case.
pub fn sources(case: &Value) -> Vec<Source> {
    let repositories = case["repositories"].as_array().expect("a list");
    repositories
        .iter()
        .map(|repository| {
            let packages = repository["packages"].as_object().expect("an object");
            let packages: BTreeMap<_, _> = packages
                .iter()
                .map(|(name, versions)| {
                    let versions = versions
                        .as_array()
                        .expect("a list")
                        .iter()
                        .map(listed)
                        .collect();
                    let package = IndexPackage {
                        versions,
                        ..IndexPackage::default()
                    };
                    (name.clone(), package)
                })
                .collect();
            Source {
                name: text(repository, "name").to_owned(),
                priority: repository["priority"].as_i64().unwrap_or(0) as i32,
                index: Arc::new(Index {
                    generated: None,
                    expires: None,
                    repository: None,
                    packages,
                    left_out: Vec::new(),
                }),
            }
        })
        .collect()
}

/// A version as an index lists it; the case gives the fields of its spec that matter.
fn listed(spec: &Value) -> IndexVersion {
    let spec: kubepkg_core::api::PackageSourceSpec =
        serde_json::from_value(spec.clone()).expect("a spec");
    IndexVersion::of(spec)
}

fn plan(case: &Value) -> Result<Value, String> {
    let catalog = Catalog::new(sources(case));
    let mut requests = Vec::new();
    for request in case["requests"].as_array().expect("a list") {
        let constraint = request["version"].as_str().unwrap_or_default();
        let request: Request = format!("{}@{constraint}", text(request, "name"))
            .parse()
            .map_err(|error| format!("{error}"))?;
        requests.push(request);
    }
    let variant = case["variant"].as_str().unwrap_or("default").to_owned();
    let variants = Variants::Named(vec![variant]);
    let resolution =
        resolve(&catalog, &requests, &variants, false).map_err(|error| error.to_string())?;
    Ok(resolution
        .packages
        .iter()
        .map(|chosen| {
            let why = match chosen.why.contains(&Origin::Requested) {
                true => "requested".to_owned(),
                // the variant behind it is our addition
                false => chosen.why[0].to_string().replace(" (variant ", "\0"),
            };
            let mut step = json!({
                "name": chosen.name,
                "action": "install",
                "to": chosen.listed.version,
                "repository": chosen.source.name,
                "why": why.split('\0').next(),
            });
            if chosen.listed.build > 0 {
                step["build"] = chosen.listed.build.into();
            }
            step
        })
        .collect())
}

#[test]
fn requests_are_resolved_as_the_existing_program_resolves_them() {
    let later: BTreeSet<&str> = NEED_CLUSTER.into_iter().chain(NEED_CAPABILITIES).collect();
    let mut passed_over = BTreeSet::new();
    let mut run = 0;
    for case in lines("resolve.jsonl") {
        let name = text(&case, "name");
        if let Some(name) = later.get(name) {
            passed_over.insert(*name);
            continue;
        }
        match plan(&case) {
            Ok(plan) => assert_eq!(plan, case["plan"], "{name}"),
            Err(error) => assert!(case["error"].is_string(), "{name}: {error}"),
        }
        run += 1;
    }
    assert_eq!(
        passed_over, later,
        "a case listed as not run does not exist"
    );
    assert_eq!(run + later.len(), 89);
}

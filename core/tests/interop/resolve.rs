//! `resolve.jsonl`: the set of packages that meets requests and requirements.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubepkg_core::index::{Index, IndexPackage, IndexVersion};
use kubepkg_core::plan::Plan;
use kubepkg_core::resolve::{Install, Request, install};
use kubepkg_core::select::{Catalog, Source};
use serde_json::{Value, json};

use crate::gate::state;
use crate::vectors::{lines, text};

/// Cases whose recorded outcome is not ours, and why.
pub const DIFFERENCES: [(&str, &str); 6] = [
    (
        "dependency-installed-not-published",
        "what is installed stays unless it is asked for, also where no repository lists it any \
         more: a mirror holds a selection. The requirement is met by it, so nothing moves",
    ),
    (
        "dependency-installed-package-gone",
        "an installed package meets a requirement by name as it meets one by capability; the \
         check in the cluster says the same",
    ),
    (
        "unversioned-installed",
        "a requirement without constraint is met by the installed package without version, and \
         what is installed stays unless it is asked for",
    ),
    (
        "requested-provider-later",
        "a requested package offers the capability, wherever it stands in the call: nothing that \
         is not needed is installed",
    ),
    (
        "provider-version-without-capability",
        "the existing program is wrong here: it takes a version that does not offer what it is \
         taken for",
    ),
    (
        "installed-requirement-not-protected",
        "the existing program is wrong here: the installed package would break. The newest version \
         that does not break it is taken, and the plan says so",
    ),
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
                    packages,
                    ..Index::default()
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
    let state = state(case);
    let mut requests = Vec::new();
    for request in case["requests"].as_array().expect("a list") {
        let constraint = request["version"].as_str().unwrap_or_default();
        let request: Request = format!("{}@{constraint}", text(request, "name"))
            .parse()
            .map_err(|error| format!("{error}"))?;
        requests.push(request);
    }
    let wanted = Install {
        variant: case["variant"].as_str().unwrap_or("default"),
        ..Install::new(&requests, &state)
    };
    let resolution = install(&catalog, &wanted).map_err(|error| error.to_string())?;
    let plan = Plan::of(&resolution, &state);
    let mut steps: Vec<Value> = plan
        .changes
        .iter()
        .map(|change| {
            let mut step = json!({
                "name": change.package,
                "action": change.action.as_str(),
                "repository": change.repository,
                // the variant behind it is our addition
                "why": change.why[0].to_string().replace(" (variant default)", "").replace(" (variant small)", ""),
            });
            if let Some(from) = &change.from {
                step["from"] = from.version.clone().into();
            }
            if let Some(to) = &change.to {
                step["to"] = to.version.clone().into();
                if to.build > 0 {
                    step["build"] = to.build.into();
                }
            }
            step
        })
        .collect();
    steps.sort_by_key(|step| text(step, "name").to_owned());
    Ok(steps.into())
}

#[test]
fn requests_are_resolved_as_the_existing_program_resolves_them() {
    let differences: BTreeMap<&str, &str> = DIFFERENCES.into();
    let cases = lines("resolve.jsonl");
    let mut wrong = Vec::new();
    for case in &cases {
        let name = text(case, "name");
        let outcome = plan(case);
        let same = match &outcome {
            Ok(plan) => *plan == case["plan"],
            Err(_) => case["error"].is_string(),
        };
        if same == differences.contains_key(name) {
            wrong.push(format!(
                "{name}: {outcome:?}, recorded {} {}",
                case["plan"], case["error"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(cases.len(), 89);
    for name in differences.keys() {
        let there = cases.iter().any(|case| text(case, "name") == *name);
        assert!(there, "{name} is no case");
    }
}

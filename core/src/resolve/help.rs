//! What would help where there is no solution.

use super::error::{ANY_VERSION, Fault, Reason};
use super::explain::variants_there;
use super::model::Model;
use super::origin::Origin;
use super::terms::Rule;
use crate::version::{Constraint, Version};

/// How many pieces of advice are given.
const MAX_HELP: usize = 3;

/// How many variants are named.
const MAX_VARIANTS: usize = 5;

/// What would help against `reasons`, without doubles.
pub(super) fn help(reasons: &[Reason], model: &Model<'_, '_>) -> Vec<String> {
    if model.world.lock().is_some() {
        return vec![
            "ask only for packages and variants the lock names, or write a new lock: kubepkg \
             plan … --lock FILE --force"
                .to_owned(),
        ];
    }
    let mut found: Vec<String> = Vec::new();
    for reason in reasons {
        for advice in advice(&reason.fault, model) {
            if found.len() < MAX_HELP && !found.contains(&advice) {
                found.push(advice);
            }
        }
    }
    found
}

fn advice(fault: &Fault, model: &Model<'_, '_>) -> Vec<String> {
    match fault {
        Fault::Missing { package, .. } => {
            vec![format!(
                "add the repository that carries {package} (--repo URL)"
            )]
        }
        Fault::NoProvider { capability, .. } => vec![format!(
            "add a repository with a package that offers {capability} (--repo URL)"
        )],
        Fault::NoVersion {
            package,
            wanted,
            by,
            ..
        } => {
            let mut advice = no_version(package, wanted, model);
            advice.extend(other_variants(package, wanted, by, model));
            advice
        }
        Fault::Disagree { package, wants } => {
            let mut advice = Vec::new();
            for (wanted, by) in wants {
                match by {
                    Origin::Installed { name, .. } => {
                        advice.push(format!("ask for {name}, too, so that it may change"));
                        advice.push(format!("let {name} break with --allow-breaking"));
                    }
                    Origin::Requested => {
                        advice.push(format!("ask for another version of {package}"));
                    }
                    _ => {}
                }
                advice.extend(no_version(package, wanted, model));
            }
            advice
        }
        Fault::Values { package, .. } => vec![format!(
            "ask for versions that pass the same values to {package}"
        )],
        Fault::Clash { package, with } => {
            let installed = [package, with].into_iter().find_map(|shown| {
                let (name, rest) = shown.split_once(' ')?;
                rest.ends_with("(installed)").then_some(name)
            });
            installed
                .map(|name| {
                    format!("remove {name}, or ask for a version of it without the conflict")
                })
                .into_iter()
                .collect()
        }
        Fault::Removed { by, .. } => by
            .iter()
            .filter_map(|by| match by {
                Origin::Installed { name, .. } => Some(format!(
                    "remove {name}, too, or let it break with --allow-breaking"
                )),
                _ => None,
            })
            .collect(),
        Fault::NotLocked { .. } | Fault::Unusable { .. } => Vec::new(),
    }
}

/// Where the call asks for a variant there is not: the calls for those there are.
fn other_variants(
    package: &str,
    wanted: &str,
    by: &Origin,
    model: &Model<'_, '_>,
) -> Option<String> {
    let (constraint, _) = match wanted.strip_prefix("variant ") {
        Some(variant) => ("", variant),
        None => wanted.split_once(" in variant ")?,
    };
    let rule = Rule::Version {
        constraint: constraint.into(),
        variant: "".into(),
        requested: true,
    };
    let variants = variants_there(model, package, &rule);
    if variants.is_empty() || !by.is_requested() {
        return None;
    }
    let at = match constraint {
        "" => String::new(),
        constraint => format!("@{constraint}"),
    };
    let calls = variants.iter().take(MAX_VARIANTS);
    let calls: Vec<_> = calls.map(|v| format!("{package}:{v}{at}")).collect();
    Some(format!("ask for {}", calls.join(" or ")))
}

/// A version that would do exists, but may not be taken.
fn no_version(package: &str, wanted: &str, model: &Model<'_, '_>) -> Vec<String> {
    let catalog = model.world.catalog();
    let constraint = wanted.split(" in variant ").next().unwrap_or_default();
    let constraint = match constraint {
        ANY_VERSION => None,
        constraint => match Constraint::parse(constraint) {
            Ok(constraint) => Some(constraint),
            Err(_) => return Vec::new(),
        },
    };
    let fits = |version: &Version| constraint.as_ref().is_none_or(|c| c.matches(version));
    let mut advice = Vec::new();
    if let Some(release) = catalog.withdrawn(package, fits) {
        advice.push(format!(
            "{package} {version} was withdrawn and is taken only when asked for: \
             {package}@{version}",
            version = release.listed.version
        ));
    }
    if let (Some((other, release)), Some(supplier)) =
        (catalog.shadowed(package, fits), catalog.supplier(package))
    {
        advice.push(format!(
            "{} has {package} {}, but {} comes first and then alone supplies the package; name \
             it before, or leave it out",
            other.name, release.listed.version, supplier.name
        ));
    }
    if let Some(left) = catalog.lacking(package, fits) {
        advice.push(crate::select::advice(left));
    }
    let releases = model.world.releases(package);
    let prerelease = releases.iter().find(|release| {
        let mut plain = release.version.semver().clone();
        plain.pre = semver::Prerelease::EMPTY;
        let plain = Version::parse(&plain.to_string());
        release.version.is_prerelease() && plain.is_ok_and(|version| fits(&version))
    });
    if let Some(release) = prerelease {
        advice.push(format!(
            "{package} {version} is a pre-release and is taken only by a constraint that names \
             one: {package}@>={version}",
            version = release.listed.version
        ));
    }
    advice
}

//! What a person should know of a change before agreeing to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Action;
use crate::api::{PolicyRule, Requirement, Variant};
use crate::index::IndexVersion;
use crate::resolve::state::{InstalledPackage, State};
use crate::resolve::{Chosen, Resolution};
use crate::time::Time;
use crate::version::Version;

/// `install.phase` of a component that runs before an upgrade.
const PRE_UPGRADE: &str = "PreUpgrade";

/// Something a person should know. The JSON form has the member `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Note {
    /// It owns custom resource definitions.
    OwnedDefinitions {
        /// Their names.
        crds: Vec<String>,
    },
    /// The new version owns other custom resource definitions than the installed one.
    ChangedDefinitions {
        /// Those that come.
        added: Vec<String>,
        /// Those that the new version does not own any more.
        dropped: Vec<String>,
    },
    /// What it may do in the cluster.
    Permissions {
        /// Whether in every namespace.
        cluster_wide: bool,
        /// The rules.
        rules: Vec<Rule>,
    },
    /// A component that runs before the upgrade.
    PreUpgradeHook {
        /// The component.
        component: String,
    },
    /// The publisher does not say that going back is safe.
    NotRollbackSafe,
    /// It goes back.
    Downgrade {
        /// The version that is there now.
        from: String,
    },
    /// It changes its variant.
    ChangedVariant {
        /// The one that runs.
        from: String,
        /// The one to come.
        to: String,
    },
    /// Its publisher withdrew the version.
    Withdrawn {
        /// Since when.
        since: Time,
        /// Why, in the publisher's words.
        reason: String,
        /// What to use instead.
        #[serde(skip_serializing_if = "Option::is_none")]
        replacement: Option<String>,
    },
    /// A newer version was asked for as well and is not taken.
    HeldBack {
        /// That version.
        version: String,
        /// Why not.
        reason: String,
    },
    /// A source written by hand decides the version, not the repositories.
    HandWritten,
    /// Another package passes values to it.
    PassedValues {
        /// Who.
        by: String,
        /// The values of each component.
        values: BTreeMap<String, Value>,
    },
}

/// An RBAC rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rule {
    /// What may be done.
    pub verbs: Vec<String>,
    /// API groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names of resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// URLs that are no resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

impl From<&PolicyRule> for Rule {
    fn from(rule: &PolicyRule) -> Rule {
        Rule {
            verbs: rule.verbs.clone().unwrap_or_default(),
            api_groups: rule.api_groups.clone(),
            resources: rule.resources.clone(),
            resource_names: rule.resource_names.clone(),
            non_resource_urls: rule.non_resource_urls.clone(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.verbs.join(","))?;
        if !self.non_resource_urls.is_empty() {
            return f.write_str(&self.non_resource_urls.join(","));
        }
        f.write_str(&self.resources.join(","))?;
        let named: Vec<&str> = self.api_groups.iter().map(String::as_str).collect();
        if named.iter().any(|group| !group.is_empty()) {
            write!(f, " in {}", named.join(","))?;
        }
        match self.resource_names.is_empty() {
            true => Ok(()),
            false => write!(f, " named {}", self.resource_names.join(",")),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::OwnedDefinitions { crds } => write!(f, "owns CRDs: {}", crds.join(", ")),
            Note::ChangedDefinitions { added, dropped } => {
                let mut parts = Vec::new();
                if !added.is_empty() {
                    parts.push(format!("adds CRDs: {}", added.join(", ")));
                }
                if !dropped.is_empty() {
                    parts.push(format!("does not own any more: {}", dropped.join(", ")));
                }
                f.write_str(&parts.join("; "))
            }
            Note::Permissions {
                cluster_wide,
                rules,
            } => {
                f.write_str(match cluster_wide {
                    true => "needs cluster-wide permissions",
                    false => "needs permissions in its namespaces",
                })?;
                let rules: Vec<_> = rules.iter().map(ToString::to_string).collect();
                match rules.is_empty() {
                    true => Ok(()),
                    false => write!(f, ": {}", rules.join("; ")),
                }
            }
            Note::PreUpgradeHook { component } => {
                write!(f, "runs {component} before anything else changes")
            }
            Note::NotRollbackSafe => f.write_str(
                "not rollback-safe: when the upgrade fails, it must be mended, not taken back",
            ),
            Note::Downgrade { from } => write!(f, "DOWNGRADE from {from}"),
            Note::ChangedVariant { from, to } => write!(f, "changes from variant {from} to {to}"),
            Note::Withdrawn {
                since,
                reason,
                replacement,
            } => {
                write!(f, "WITHDRAWN since {since}: {reason}")?;
                match replacement {
                    Some(version) => write!(f, "; use {version}"),
                    None => Ok(()),
                }
            }
            Note::HeldBack { version, reason } => {
                write!(f, "{version} is newer and is not taken: {reason}")
            }
            Note::HandWritten => {
                f.write_str("a PackageSource written by hand decides the version, not a repository")
            }
            Note::PassedValues { by, values } => {
                write!(f, "{by} passes values")?;
                for (component, values) in values {
                    write!(f, "; {component}: {values}")?;
                }
                Ok(())
            }
        }
    }
}

pub(super) fn withdrawn(listed: &IndexVersion) -> Option<Note> {
    let withdrawn = listed.withdrawn.as_ref()?;
    withdrawn.holds().then(|| Note::Withdrawn {
        since: withdrawn.since,
        reason: withdrawn.reason.clone(),
        replacement: withdrawn.replacement.clone(),
    })
}

/// The notes on one chosen package; those on what it does only where something changes.
pub(super) fn notes(
    resolution: &Resolution<'_>,
    state: &State,
    chosen: &Chosen<'_>,
    installed: Option<&InstalledPackage>,
    action: Action,
) -> Vec<Note> {
    let spec = chosen.listed.spec();
    let mut notes: Vec<Note> = withdrawn(chosen.listed).into_iter().collect();
    if !chosen.is_published() {
        notes.push(Note::HandWritten);
    }
    notes.extend(chosen.held_back.as_ref().map(|held_back| Note::HeldBack {
        version: held_back.version.clone(),
        reason: held_back.why.clone(),
    }));
    if action == Action::Keep {
        return notes;
    }
    let variant = variant(chosen);
    if let Some(installed) = installed {
        if action == Action::Downgrade {
            notes.push(Note::Downgrade {
                from: installed.version.clone(),
            });
        }
        if let Some(variant) = variant.filter(|v| v.name != installed.running()) {
            notes.push(Note::ChangedVariant {
                from: installed.running().to_owned(),
                to: variant.name.clone(),
            });
        }
    }
    notes.extend(definitions(&spec.crds, installed));
    if let Some(permissions) = &spec.permissions
        && (permissions.cluster_wide || !permissions.rules.is_empty())
    {
        notes.push(Note::Permissions {
            cluster_wide: permissions.cluster_wide,
            rules: permissions.rules.iter().map(Rule::from).collect(),
        });
    }
    if let Some(installed) = installed {
        let to = Some(&chosen.version);
        if Version::parse(&installed.version).ok().as_ref() != to {
            let components = variant.into_iter().flat_map(|v| &v.components);
            let hooks = components.filter(|component| {
                let install = component.install.as_ref();
                install.is_some_and(|install| install.phase == PRE_UPGRADE)
            });
            notes.extend(hooks.map(|component| Note::PreUpgradeHook {
                component: component.name.clone(),
            }));
        }
        if !spec.rollback.as_ref().is_some_and(|rollback| rollback.safe) {
            notes.push(Note::NotRollbackSafe);
        }
    }
    notes.extend(passed(resolution, state, &chosen.name));
    notes
}

fn definitions(crds: &[String], installed: Option<&InstalledPackage>) -> Vec<Note> {
    let mut notes = Vec::new();
    if !crds.is_empty() {
        notes.push(Note::OwnedDefinitions {
            crds: crds.to_vec(),
        });
    }
    // where it is not known what is owned now, nothing can be said of the change
    let known = installed.filter(|installed| !installed.crds.is_empty());
    if let Some(installed) = known {
        let now: BTreeSet<_> = installed.crds.iter().collect();
        let then: BTreeSet<_> = crds.iter().collect();
        let list = |a: &BTreeSet<&String>, b: &BTreeSet<&String>| {
            a.difference(b).map(|crd| (*crd).clone()).collect()
        };
        let (added, dropped): (Vec<_>, Vec<_>) = (list(&then, &now), list(&now, &then));
        if !added.is_empty() || !dropped.is_empty() {
            notes.push(Note::ChangedDefinitions { added, dropped });
        }
    }
    notes
}

/// The variant of `chosen` that is installed.
pub(super) fn variant<'c>(chosen: &Chosen<'c>) -> Option<&'c Variant> {
    let name = chosen.variants.first()?;
    let variants = &chosen.listed.spec().variants;
    variants.iter().rfind(|variant| variant.name == *name)
}

/// The values that packages of the set, and installed ones that stay, pass to `package`.
fn passed(resolution: &Resolution<'_>, state: &State, package: &str) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut note = |by: String, requires: &[Requirement]| {
        let to_it = requires.iter().filter(|r| r.package == package);
        for requirement in to_it.filter(|r| !r.values.is_empty()) {
            notes.push(Note::PassedValues {
                by: by.clone(),
                values: requirement.values.clone(),
            });
        }
    };
    for chosen in &resolution.packages {
        if let Some(variant) = variant(chosen) {
            let by = format!("{} {}", chosen.name, chosen.listed.version);
            note(by, &variant.requires);
        }
    }
    let changing = |name: &String| {
        resolution
            .packages
            .iter()
            .any(|chosen| chosen.name == *name)
            || resolution.removed.contains(name)
    };
    for installed in state.packages.values().filter(|i| !changing(&i.name)) {
        let by = format!("{} {} (installed)", installed.name, installed.version);
        note(by, &installed.requires);
    }
    notes
}

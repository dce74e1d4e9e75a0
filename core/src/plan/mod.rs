//! What a resolution changes: the rows of a plan, in the order they are carried out, with
//! what a person should know before agreeing.

mod action;
mod document;
pub mod installed;
mod note;
mod order;

pub use action::Action;
pub use document::{PLAN_API_VERSION, PLAN_KIND, PlanDocument};
pub use note::Note;

use std::collections::BTreeMap;

use crate::index::IndexVersion;
use crate::resolve::state::{InstalledPackage, State};
use crate::resolve::{Breaks, Chosen, Origin, Resolution, Stays};
use crate::select::HAND_WRITTEN;

/// What is changed, and what is kept because something needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The rows: removals first, then requirements before those that need them.
    pub changes: Vec<Change>,
    /// Requirements of installed packages that will not hold any more.
    pub breaks: Vec<Breaks>,
}

/// A version of a package in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// The version.
    pub version: String,
    /// The build of it.
    pub build: u32,
    /// The variant that runs; empty where the package has none.
    pub variant: String,
}

/// One row of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What is done.
    pub action: Action,
    /// The package.
    pub package: String,
    /// What is there now.
    pub from: Option<At>,
    /// What will be there.
    pub to: Option<At>,
    /// The repository it comes from; empty for removals, and where it is not known.
    pub repository: String,
    /// Digest of the spec; none for removals, and where no repository lists what is kept.
    pub digest: Option<crate::Digest>,
    /// Everybody who wants it, in the order met. The call alone for removals.
    pub why: Vec<Origin>,
    /// What a person should know.
    pub notes: Vec<Note>,
}

impl Change {
    /// Whether the call asked for it.
    pub fn is_requested(&self) -> bool {
        self.why.iter().any(Origin::is_requested)
    }
}

impl Plan {
    /// What `resolution` means for a cluster that holds `state`.
    pub fn of(resolution: &Resolution<'_>, state: &State) -> Plan {
        let mut changes: BTreeMap<&str, Change> = BTreeMap::new();
        for chosen in &resolution.packages {
            let installed = state.packages.get(&chosen.name);
            changes.insert(&chosen.name, change(resolution, state, chosen, installed));
        }
        for stays in &resolution.stays {
            if let Some(installed) = state.packages.get(&stays.name) {
                changes.insert(&stays.name, kept(stays, installed));
            }
        }
        let removed = resolution.removed.iter();
        let removed = removed.filter_map(|package| state.packages.get(package));
        let mut rows: Vec<Change> = order::removals(removed.collect())
            .into_iter()
            .map(removal)
            .collect();
        for package in order::changes(resolution) {
            rows.extend(changes.remove(package));
        }
        Plan {
            changes: rows,
            breaks: resolution.breaks.clone(),
        }
    }

    /// Whether carrying it out would change nothing.
    pub fn is_nothing(&self) -> bool {
        self.changes
            .iter()
            .all(|change| change.action == Action::Keep)
    }

    /// How many rows do what, in the order of [`Action`].
    pub fn counts(&self) -> BTreeMap<Action, usize> {
        let mut counts = BTreeMap::new();
        for change in &self.changes {
            *counts.entry(change.action).or_default() += 1;
        }
        counts
    }
}

fn at(installed: &InstalledPackage) -> At {
    At {
        version: installed.version.clone(),
        build: installed.build,
        variant: installed.running().to_owned(),
    }
}

fn change(
    resolution: &Resolution<'_>,
    state: &State,
    chosen: &Chosen<'_>,
    installed: Option<&InstalledPackage>,
) -> Change {
    let from = installed.map(at);
    let to = At {
        version: chosen.listed.version.clone(),
        build: chosen.listed.build,
        variant: chosen.variants.first().cloned().unwrap_or_default(),
    };
    let action = Action::between(from.as_ref(), &to);
    Change {
        notes: note::notes(resolution, state, chosen, installed, action),
        action,
        package: chosen.name.clone(),
        from,
        to: Some(to),
        repository: chosen.source.name.clone(),
        digest: Some(chosen.listed.digest),
        why: chosen.why.clone(),
    }
}

fn kept(stays: &Stays<'_>, installed: &InstalledPackage) -> Change {
    let at = at(installed);
    let mut notes = Vec::new();
    if stays.repository == HAND_WRITTEN {
        notes.push(Note::HandWritten);
    }
    notes.extend(stays.listed.and_then(note::withdrawn));
    Change {
        action: Action::Keep,
        package: stays.name.clone(),
        from: Some(at.clone()),
        to: Some(at),
        repository: stays.repository.clone(),
        digest: stays.listed.map(digest),
        why: stays.why.clone(),
        notes,
    }
}

fn digest(listed: &IndexVersion) -> crate::Digest {
    listed.digest
}

fn removal(installed: &InstalledPackage) -> Change {
    let mut notes = Vec::new();
    if !installed.crds.is_empty() {
        notes.push(Note::OwnedDefinitions {
            crds: installed.crds.clone(),
        });
    }
    Change {
        action: Action::Remove,
        package: installed.name.clone(),
        from: Some(at(installed)),
        to: None,
        repository: String::new(),
        digest: None,
        why: vec![Origin::Requested],
        notes,
    }
}

#[cfg(test)]
mod tests;

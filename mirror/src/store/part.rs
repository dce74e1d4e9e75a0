//! Some of the store's names, as its files say, each with the number of the commit it was last
//! changed by. That number makes redo harmless: a record never touches what is newer.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{
    Change, Names, Record, Recorded, Repository, SiteEntry, StoreError, Unit,
};
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use super::sealed::{self, damaged};
use super::work;

/// `names/…/<hash>.json`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepositoryFile<'a> {
    name: Cow<'a, RepositoryName>,
    applied: u64,
    repository: Cow<'a, Repository>,
}

/// `sites/<folder>/current.json`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurrentFile<'a> {
    folder: Cow<'a, str>,
    applied: u64,
    entry: Option<Cow<'a, SiteEntry>>,
}

/// `trust/<entry>.json`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile<'a> {
    entry: Cow<'a, str>,
    applied: u64,
    memory: Option<Cow<'a, serde_json::Value>>,
}

/// Names of some units.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) names: Names,
    applied: BTreeMap<Unit, u64>,
}

impl Part {
    /// These units as their files say.
    pub(super) fn load(
        layout: &Layout,
        units: impl IntoIterator<Item = Unit>,
    ) -> Result<Part, StoreError> {
        let mut part = Part::default();
        for unit in units {
            if part.applied.contains_key(&unit) {
                continue;
            }
            part.applied.insert(unit.clone(), 0);
            part.add(layout, &path(layout, &unit), Some(&unit))?;
        }
        Ok(part)
    }

    /// All units there are files of.
    pub(super) fn load_all(layout: &Layout) -> Result<Part, StoreError> {
        let mut part = Part::default();
        for folder in work::entries(&layout.names())? {
            for file in work::entries(&folder)?.iter().filter(|file| is_ours(file)) {
                part.add(layout, file, None)?;
            }
        }
        for folder in work::entries(&layout.sites())? {
            part.add(layout, &folder.join("current.json"), None)?;
        }
        for file in work::entries(&layout.trust())?
            .iter()
            .filter(|file| is_ours(file))
        {
            part.add(layout, file, None)?;
        }
        Ok(part)
    }

    /// One unit of which nothing is known yet.
    pub(super) fn of(unit: &Unit) -> Part {
        Part {
            applied: BTreeMap::from([(unit.clone(), 0)]),
            ..Part::default()
        }
    }

    /// Makes room for a unit that has no file yet.
    pub(super) fn knows(&mut self, unit: &Unit) {
        if !self.applied.contains_key(unit) {
            self.applied.insert(unit.clone(), 0);
        }
    }

    /// The commit each unit is as of.
    pub(super) fn applied(&self) -> &BTreeMap<Unit, u64> {
        &self.applied
    }

    /// Says that a unit is as of that commit, as it stands.
    pub(super) fn is_as_of(&mut self, unit: &Unit, number: u64) {
        self.applied.insert(unit.clone(), number);
    }

    /// Reads one file, if it is there, and checks that it is the file of what it says.
    pub(super) fn add(
        &mut self,
        layout: &Layout,
        file: &Path,
        wanted: Option<&Unit>,
    ) -> Result<(), StoreError> {
        let unit = if file.starts_with(layout.names()) {
            let Some(found) = sealed::read::<RepositoryFile<'_>>(file)? else {
                return Ok(());
            };
            let name = found.name.into_owned();
            let repository = Arc::new(found.repository.into_owned());
            self.names.repositories.insert(name.clone(), repository);
            (Unit::Repository(name), found.applied)
        } else if file.starts_with(layout.sites()) {
            let Some(found) = sealed::read::<CurrentFile<'_>>(file)? else {
                return Ok(());
            };
            let folder = found.folder.into_owned();
            if let Some(entry) = found.entry {
                self.names.sites.insert(folder.clone(), entry.into_owned());
            }
            (Unit::Site(folder), found.applied)
        } else {
            let Some(found) = sealed::read::<TrustFile<'_>>(file)? else {
                return Ok(());
            };
            let entry = found.entry.into_owned();
            if let Some(memory) = found.memory {
                self.names.trust.insert(entry.clone(), memory.into_owned());
            }
            (Unit::Trust(entry), found.applied)
        };
        let (unit, applied) = unit;
        if path(layout, &unit) != file || wanted.is_some_and(|wanted| *wanted != unit) {
            return Err(damaged(file, format!("it is the file of {}", shown(&unit))));
        }
        self.applied.insert(unit, applied);
        Ok(())
    }

    /// Does what a record says to those of these units that are older than it.
    pub(super) fn redo(&mut self, record: &Record) {
        let changes = record.changes.iter().map(|recorded| &recorded.change);
        self.apply(changes, record.number);
    }

    /// Does changes as commit `number`, and says what stood there before.
    pub(super) fn apply<'a>(
        &mut self,
        changes: impl IntoIterator<Item = &'a Change>,
        number: u64,
    ) -> Vec<Recorded> {
        let mut touched = BTreeSet::new();
        let mut recorded = Vec::new();
        for change in changes {
            let unit = change.unit();
            if self
                .applied
                .get(&unit)
                .is_some_and(|applied| *applied < number)
            {
                recorded.push(self.names.apply(change, number));
                touched.insert(unit);
            }
        }
        self.applied
            .extend(touched.into_iter().map(|unit| (unit, number)));
        recorded
    }

    /// The units whose newest change is commit `number`.
    pub(super) fn changed_by(&self, number: u64) -> impl Iterator<Item = &Unit> {
        self.applied
            .iter()
            .filter(move |(_, applied)| **applied == number)
            .map(|(unit, _)| unit)
    }

    /// Path and content of a unit's file.
    pub(super) fn file(
        &self,
        layout: &Layout,
        unit: &Unit,
    ) -> Result<(PathBuf, Vec<u8>), StoreError> {
        let path = path(layout, unit);
        let applied = self.applied.get(unit).copied().unwrap_or_default();
        let bytes = match unit {
            Unit::Repository(name) => {
                let repository = match self.names.repositories.get(name) {
                    Some(repository) => Cow::Borrowed(&**repository),
                    None => Cow::Owned(Repository::default()),
                };
                let name = Cow::Borrowed(name);
                sealed::encode(
                    &path,
                    &RepositoryFile {
                        name,
                        applied,
                        repository,
                    },
                )
            }
            Unit::Site(folder) => sealed::encode(
                &path,
                &CurrentFile {
                    folder: Cow::Borrowed(folder),
                    applied,
                    entry: self.names.sites.get(folder).map(Cow::Borrowed),
                },
            ),
            Unit::Trust(entry) => sealed::encode(
                &path,
                &TrustFile {
                    entry: Cow::Borrowed(entry),
                    applied,
                    memory: self.names.trust.get(entry).map(Cow::Borrowed),
                },
            ),
        }?;
        Ok((path, bytes))
    }
}

/// The file of a unit.
pub(super) fn path(layout: &Layout, unit: &Unit) -> PathBuf {
    match unit {
        Unit::Repository(name) => layout.repository(name),
        Unit::Site(folder) => layout.site(folder),
        Unit::Trust(entry) => layout.trust_entry(entry),
    }
}

/// Leaves out what editors and file managers drop.
pub(super) fn is_ours(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".json") && !name.starts_with('.')
}

fn shown(unit: &Unit) -> String {
    match unit {
        Unit::Repository(name) => format!("repository {name}"),
        Unit::Site(folder) => format!("repository files {}", kubepkg_core::error::shown(folder)),
        Unit::Trust(entry) => format!("trust entry {}", kubepkg_core::error::shown(entry)),
    }
}

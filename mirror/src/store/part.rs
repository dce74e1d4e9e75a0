//! Some of the store's names, as its files say, each with the number of the commit it was last
//! changed by. That number makes redo harmless: a record never touches what is newer.
//!
//! A repository above [`log::SMALL`] entries is a base file and a log ([`log`]); which of the two
//! a commit writes is decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Change, Names, Record, Recorded, Repository, StoreError, Unit};

use super::layout::Layout;
use super::log::{self, Append, Form};
use super::read_all;
use super::sealed::damaged;
use super::unit::{self, Found, Value};
pub(super) use super::unit::{is_log, is_ours, path};
use super::work;

/// Names of some units.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) names: Names,
    applied: BTreeMap<Unit, u64>,
    /// How the repositories lie on the disk that have more than a small file.
    forms: BTreeMap<RepositoryName, Form>,
    /// What the newest commit changes in these.
    fresh: BTreeMap<RepositoryName, Vec<Change>>,
}

/// What has to be written for a unit.
pub(super) enum Write {
    /// Its file, all of it. What it replaces may have had a log.
    File {
        path: PathBuf,
        bytes: Vec<u8>,
        log: Option<PathBuf>,
    },
    /// A line of its log.
    Line(Append),
}

impl Part {
    /// These units as their files say.
    pub(super) fn load(
        layout: &Layout,
        units: impl IntoIterator<Item = Unit>,
    ) -> Result<Part, StoreError> {
        Part::default().and(layout, units)
    }

    /// This and these units as their files say, where they are not in it already.
    pub(super) fn and(
        self,
        layout: &Layout,
        units: impl IntoIterator<Item = Unit>,
    ) -> Result<Part, StoreError> {
        let mut part = self;
        for unit in units {
            if part.applied.contains_key(&unit) {
                continue;
            }
            part.applied.insert(unit.clone(), 0);
            part.add(layout, &path(layout, &unit), Some(&unit))?;
        }
        Ok(part)
    }

    /// All units there are files of, read by as many threads as there are cores.
    pub(super) fn load_all(layout: &Layout) -> Result<Part, StoreError> {
        let mut files = Vec::new();
        for folder in work::entries(&layout.names())? {
            files.extend(work::entries(&folder)?.into_iter().filter(|f| is_ours(f)));
        }
        for folder in work::entries(&layout.sites())? {
            files.push(folder.join("current.json"));
        }
        let trust = work::entries(&layout.trust())?;
        files.extend(trust.into_iter().filter(|file| is_ours(file)));

        let mut part = Part::default();
        let mut repositories = Vec::new();
        for found in read_all::each(&files, |file| unit::read(layout, file, None))? {
            let Some(found) = found else { continue };
            match (found.unit, found.value) {
                // in order they make a map at once
                (Unit::Repository(name), Value::Repository(repository)) => {
                    let torn = found.form.filter(|form| form.torn.is_some());
                    part.forms.extend(torn.map(|form| (name.clone(), form)));
                    let unit = Unit::Repository(name.clone());
                    part.applied.insert(unit, found.applied);
                    repositories.push((name, repository));
                }
                (unit, value) => part.take(Found {
                    unit,
                    value,
                    ..found
                }),
            }
        }
        repositories.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        part.names.repositories = repositories.into_iter().collect();
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

    /// A unit that is as of a commit after `newest`, and that commit.
    pub(super) fn newer_than(&self, newest: u64) -> Option<(&Unit, u64)> {
        let mut units = self.applied.iter();
        units
            .find(|(_, applied)| **applied > newest)
            .map(|(unit, applied)| (unit, *applied))
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
        if let Some(found) = unit::read(layout, file, wanted)? {
            self.take(found);
        }
        Ok(())
    }

    fn take(&mut self, found: Found) {
        match (&found.unit, found.value) {
            (Unit::Repository(name), Value::Repository(repository)) => {
                self.names.repositories.insert(name.clone(), repository);
                self.forms
                    .extend(found.form.map(|form| (name.clone(), form)));
            }
            (Unit::Site(folder), Value::Site(Some(entry))) => {
                self.names.sites.insert(folder.clone(), entry);
            }
            (Unit::Trust(entry), Value::Trust(Some(memory))) => {
                self.names.trust.insert(entry.clone(), memory);
            }
            _ => {}
        }
        self.applied.insert(found.unit, found.applied);
    }

    /// Takes a repository as it is known to be, without looking at its files.
    pub(super) fn adopt(&mut self, name: &RepositoryName, repository: Arc<Repository>, form: Form) {
        let unit = Unit::Repository(name.clone());
        self.applied.insert(unit, form.applied);
        self.names.repositories.insert(name.clone(), repository);
        self.forms.insert(name.clone(), form);
    }

    /// Refuses a log that ends within a line, unless a record that was done since makes up for
    /// that line. Only then is it what an interrupted commit leaves.
    pub(super) fn check_ends(&self, layout: &Layout) -> Result<(), StoreError> {
        for (name, form) in &self.forms {
            let unit = Unit::Repository(name.clone());
            let applied = self.applied.get(&unit).copied().unwrap_or_default();
            if let Some(line) = form.torn
                && applied <= form.applied
            {
                let why = format!("line {line} is cut short or was changed");
                return Err(damaged(&layout.log(name), why));
            }
        }
        Ok(())
    }

    /// Does what a record says to those of these units that are older than it.
    pub(super) fn redo(&mut self, record: &Record) {
        let changes = record.changes.iter().map(|recorded| &recorded.change);
        self.apply(changes, record.number);
    }

    /// Does what a record says, whatever these units are older than: done from the oldest
    /// record on to the newest, that makes one state of files that were read while they changed.
    pub(super) fn redo_all(&mut self, record: &Record) {
        self.names.apply_record(record);
        for recorded in &record.changes {
            let applied = self.applied.entry(recorded.change.unit()).or_default();
            *applied = record.number.max(*applied);
        }
    }

    /// Does changes as commit `number`, and says what stood there before.
    pub(super) fn apply<'a>(
        &mut self,
        changes: impl IntoIterator<Item = &'a Change>,
        number: u64,
    ) -> Vec<Recorded> {
        self.fresh.clear();
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
                if let Unit::Repository(name) = &unit
                    && self.forms.contains_key(name)
                {
                    let fresh = self.fresh.entry(name.clone()).or_default();
                    fresh.push(change.clone());
                }
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

    /// What has to be written of a unit that commit `number` changed.
    pub(super) fn write(
        &self,
        layout: &Layout,
        unit: &Unit,
        number: u64,
    ) -> Result<Write, StoreError> {
        let mut log = None;
        if let Unit::Repository(name) = unit
            && let Some(form) = self.forms.get(name)
        {
            let path = layout.log(name);
            let repository = self.names.repositories.get(name);
            if repository.is_some_and(|r| r.entries() > log::SMALL) {
                let fresh = self.fresh.get(name).map_or(&[][..], Vec::as_slice);
                if let Some(append) = form.append(path.clone(), number, fresh)? {
                    return Ok(Write::Line(append));
                }
            }
            log = form.length.map(|_| path);
        }
        let (path, bytes) = self.file(layout, unit)?;
        Ok(Write::File { path, bytes, log })
    }

    /// Path and content of a unit's file, all of it. Who writes it removes the log beside it
    /// afterwards.
    pub(super) fn file(
        &self,
        layout: &Layout,
        unit: &Unit,
    ) -> Result<(PathBuf, Vec<u8>), StoreError> {
        let applied = self.applied.get(unit).copied().unwrap_or_default();
        unit::file(layout, unit, &self.names, applied)
    }

    /// How `name` lies on the disk once what [`Part::write`] said is done.
    pub(super) fn form_after(
        &self,
        name: &RepositoryName,
        write: &Write,
        number: u64,
    ) -> Option<Form> {
        match write {
            Write::Line(append) => {
                let form = self.forms.get(name)?;
                Some(form.after(append, number))
            }
            Write::File { bytes, .. } => {
                let repository = self.names.repositories.get(name)?;
                let large = repository.entries() > log::SMALL;
                large.then(|| Form::of_base(bytes.len() as u64, number))
            }
        }
    }
}

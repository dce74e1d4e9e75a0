//! What a push to a large repository has to know without reading it: how the repository lies on
//! the disk. Together with the names in memory that is all of it, as long as both are as of the
//! newest commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Change, StoreError, Unit};

use super::layout::Layout;
use super::log::Form;
use super::open::Writable;
use super::part::Part;
use super::records;

/// Commits of others whose records are looked at to find out what they changed; after more of
/// them the files are read again.
const FOLLOWED: u64 = 64;

/// How large repositories lie on the disk as of one commit. Used under the store's lock.
#[derive(Debug, Default)]
pub(super) struct Forms {
    sequence: u64,
    forms: BTreeMap<RepositoryName, Form>,
}

impl Forms {
    /// Forgets everything: something on the disk is not as it should be.
    pub(super) fn forget(&mut self) {
        self.forms.clear();
    }

    /// Notes what this process has just committed as `number`.
    pub(super) fn note(&mut self, part: &Part, forms: BTreeMap<RepositoryName, Form>, number: u64) {
        if self.sequence + 1 != number {
            self.forget();
        }
        self.sequence = number;
        for unit in part.changed_by(number) {
            if let Unit::Repository(name) = unit {
                self.forms.remove(name);
            }
        }
        self.forms.extend(forms);
    }

    /// Forgets what others changed up to commit `newest`.
    fn follow(&mut self, layout: &Layout, newest: u64) {
        if newest.saturating_sub(self.sequence) > FOLLOWED {
            self.forget();
        }
        for number in self.sequence + 1..=newest {
            if self.forms.is_empty() {
                break;
            }
            match records::require(layout, number) {
                Ok(record) => {
                    for recorded in &record.changes {
                        if let Unit::Repository(name) = recorded.change.unit() {
                            self.forms.remove(&name);
                        }
                    }
                }
                // whoever needs it will say so
                Err(_) => self.forget(),
            }
        }
        self.sequence = newest;
    }
}

impl Writable {
    pub(super) fn forms(&self) -> MutexGuard<'_, Forms> {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `changes` are about, as of commit `newest`: large repositories from memory where
    /// that is known to be current, all else from the files. Call it under the lock.
    pub(super) fn load(&self, changes: &[Change], newest: u64) -> Result<Part, StoreError> {
        let mut part = Part::default();
        let mut known = self.forms();
        known.follow(&self.layout, newest);
        let names: BTreeSet<RepositoryName> = changes
            .iter()
            .filter_map(|change| match change.unit() {
                Unit::Repository(name) => known.forms.contains_key(&name).then_some(name),
                Unit::Site(_) | Unit::Trust(_) => None,
            })
            .collect();
        if !names.is_empty()
            && let Some(all) = self.snapshot.at(&self.layout, &self.generation, newest)
        {
            for name in &names {
                if let (Some(form), Some(repository)) =
                    (known.forms.get(name), all.repositories.get(name))
                {
                    part.adopt(name, Arc::clone(repository), form.clone());
                }
            }
        }
        drop(known);
        let part = part.and(&self.layout, changes.iter().map(Change::unit))?;
        part.check_ends(&self.layout)?;
        Ok(part)
    }
}

//! The steps of a collection on the store's lock and files.

use std::sync::Arc;

use kubepkg_core::Digest;
use kubepkg_core::store::{Batch, Cause, Change, Claim, Committed, Garbage, Record, StoreError};
use kubepkg_core::time::Time;

use super::super::lock::Held;
use super::super::open::Writable;
use super::super::{disk, lease, records};
use super::ledger::{Ledger, Line};
use super::protocol::{Ground, Touched};

/// The store, and when what is done is said to have been.
pub(super) struct OnDisk<'w> {
    pub(super) writable: &'w Writable,
    pub(super) at: Time,
    pub(super) cause: Cause,
}

impl Ground for OnDisk<'_> {
    type Held<'a>
        = Held<'a>
    where
        Self: 'a;
    type Error = StoreError;

    fn hold(&self) -> Result<Held<'_>, StoreError> {
        self.writable.lock.hold()
    }

    fn ledger(&self, _held: &Held<'_>) -> Result<Arc<Ledger>, StoreError> {
        self.writable.ledger()
    }

    fn add(&self, _held: &Held<'_>, lines: &[Line]) -> Result<(), StoreError> {
        self.writable.add_lines(lines)
    }

    fn replace(&self, _held: &Held<'_>, ledger: &Ledger) -> Result<(), StoreError> {
        self.writable.replace_list(ledger)
    }

    fn leased(&self, _held: &Held<'_>) -> Result<Option<(u64, u64)>, StoreError> {
        lease::living(&self.writable.layout)
    }

    fn served(&self) -> Result<(u64, u64), StoreError> {
        self.writable.served.now()
    }

    fn touched(&self, _held: &Held<'_>, sequence: u64) -> Result<Option<Touched>, StoreError> {
        let newest = self.writable.redo()?;
        let mut touched = Touched::default();
        for number in sequence + 1..=newest {
            let record = match records::read(&self.writable.layout, number) {
                Ok(Some(record)) => record,
                // it was trimmed, or nobody can say what it changed
                Ok(None) | Err(StoreError::Damaged { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            touch_record(&mut touched, &record);
        }
        Ok(Some(touched))
    }

    fn take_names(&self, held: &Held<'_>, names: &[Garbage]) -> Result<(), StoreError> {
        let newest = self.writable.redo()?;
        let mut changes = Vec::new();
        for garbage in names {
            let digest = garbage.digest;
            match &garbage.claim {
                Claim::Bytes => {}
                Claim::Blob(repository) => changes.push(Change::Blob {
                    repository: repository.clone(),
                    digest,
                    new: None,
                }),
                Claim::Manifest(repository) => {
                    let tags = self.writable.tags_of(repository, &digest)?;
                    changes.extend(tags.into_iter().map(|tag| Change::Tag {
                        repository: repository.clone(),
                        tag,
                        new: None,
                    }));
                    changes.push(Change::Manifest {
                        repository: repository.clone(),
                        digest,
                        new: None,
                    });
                }
            }
        }
        let batch = Batch {
            at: self.at,
            cause: self.cause.clone(),
            changes,
        };
        match self.writable.commit_held(held, newest, batch)? {
            Committed::Done(_) => Ok(()),
            // only where the lock does not hold everybody back
            Committed::Conflict { newest } => Err(StoreError::Damaged {
                path: self.writable.layout.record(newest),
                why: "it appeared while the store's lock was held".to_owned(),
            }),
        }
    }

    fn unlink(
        &self,
        _held: &Held<'_>,
        digests: &[Digest],
    ) -> Result<Vec<(Digest, u64)>, StoreError> {
        // before, so that it is counted also where this process ends in between
        self.writable.generation.content_changed()?;
        let mut removed = Vec::new();
        for digest in digests {
            let layout = &self.writable.layout;
            let here = self.writable.content.unlink(digest)?;
            let aside = disk::length(&layout.quarantined(digest))?;
            if aside.is_some() {
                self.writable.heal(digest)?;
            }
            if here.is_some() || aside.is_some() {
                let bytes = here.unwrap_or_default() + aside.unwrap_or_default();
                removed.push((*digest, bytes));
            }
        }
        Ok(removed)
    }
}

/// What a commit may make reachable.
pub(crate) fn touch_record(touched: &mut Touched, record: &Record) {
    if record.cause == Cause::Collect {
        return; // that only takes away
    }
    let prune = record.cause == Cause::Prune;
    for recorded in &record.changes {
        if prune && !matches!(recorded.change, Change::Site { .. }) {
            continue; // that does too, but for its lists of what is here
        }
        touch(touched, &recorded.change);
    }
}

/// What a change may make reachable.
fn touch(touched: &mut Touched, change: &Change) {
    match change {
        Change::Manifest {
            repository, digest, ..
        }
        | Change::Blob {
            repository, digest, ..
        } => {
            touched.repositories.insert(repository.clone());
            touched.contents.insert(*digest);
        }
        Change::Tag {
            repository, new, ..
        } => {
            touched.repositories.insert(repository.clone());
            touched.contents.extend(new.as_ref().map(|tag| tag.digest));
        }
        Change::Upstream { repository, .. } => {
            touched.repositories.insert(repository.clone());
        }
        Change::Site { new, .. } => {
            let files = new.iter().flat_map(|entry| entry.files.values());
            touched.contents.extend(files.map(|file| file.digest));
        }
        Change::Trust { .. } => {}
    }
}

//! All names in memory, for who answers many questions: readers take an [`Arc`] and see all of
//! a commit or nothing of it.
//!
//! A commit of this process is taken in by the thread that makes it ([`Snapshot::advance`]), so
//! that no reader ever waits for it; what others commit is noticed by the counter and read from
//! their records.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use kubepkg_core::store::{Names, Record, StoreError};

use super::generation::Generation;
use super::layout::Layout;
use super::part::Part;
use super::records;
use crate::told::told;

/// How often all names are read again when records go away while they are being read: each time
/// more than [`records::KEPT`] commits were made meanwhile.
const TRIES: usize = 5;

/// The newest names that were read.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    current: RwLock<Option<Arc<Names>>>,
    refreshing: Mutex<()>,
}

impl Snapshot {
    /// The names, if nothing was committed after `newest`, which the counter says.
    pub(super) fn fresh(&self, newest: Option<u64>) -> Option<Arc<Names>> {
        // names read while somebody commits may be ahead of the counter
        self.current()
            .filter(|names| newest.is_some_and(|newest| newest <= names.sequence))
    }

    /// The names, brought up to the newest commit.
    pub(super) fn refresh(
        &self,
        layout: &Layout,
        generation: &Generation,
    ) -> Result<Arc<Names>, StoreError> {
        let _one = self.refreshing();
        if let Some(names) = self.fresh(generation.read()?) {
            return Ok(names);
        }
        let names = match (self.current(), generation.read()?) {
            (Some(current), Some(newest)) => match catch_up(layout, &current, newest) {
                Ok(Some(names)) => names,
                Ok(None) => load(layout, generation)?,
                Err(e) => {
                    tracing::warn!(error = %told(&e), "reading all names again");
                    load(layout, generation)?
                }
            },
            _ => load(layout, generation)?,
        };
        Ok(self.set(names))
    }

    /// Takes in the commit this process has just made. Call it under the store's lock, once
    /// the record is durable.
    pub(super) fn advance(&self, record: &Record) {
        let _one = self.refreshing();
        if let Some(current) = self.current()
            && current.sequence + 1 == record.number
        {
            let mut names = Names::clone(&current);
            names.apply_record(record);
            self.set(names);
        }
    }

    /// The names as of commit `number`, the newest, where names were asked for before; who only
    /// fills a store never reads all of them. Call it under the store's lock.
    pub(super) fn at(
        &self,
        layout: &Layout,
        generation: &Generation,
        number: u64,
    ) -> Option<Arc<Names>> {
        self.current()?;
        // whatever is wrong will be said when the files are read
        let names = self.refresh(layout, generation).ok()?;
        (names.sequence == number).then_some(names)
    }

    fn set(&self, names: Names) -> Arc<Names> {
        let names = Arc::new(names);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&names));
        names
    }

    fn current(&self) -> Option<Arc<Names>> {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn refreshing(&self) -> std::sync::MutexGuard<'_, ()> {
        self.refreshing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// `None` when a record on the way is not there any more.
fn catch_up(layout: &Layout, current: &Names, newest: u64) -> Result<Option<Names>, StoreError> {
    let mut names = current.clone();
    for number in current.sequence + 1..=newest {
        match records::read(layout, number)? {
            Some(record) => names.apply_record(&record),
            None => return Ok(None),
        }
    }
    Ok(Some(names))
}

/// Reads all names. Others may commit meanwhile, and then some files are newer than others; the
/// records since the beginning, done again in order, make one state of it, because whoever
/// changes a file has written its record before.
fn load(layout: &Layout, generation: &Generation) -> Result<Names, StoreError> {
    let mut tries = 1;
    loop {
        let applied = generation.read()?;
        let loaded = load_from(layout, generation);
        let now = generation.read()?;
        let overtaken =
            matches!((applied, now), (Some(a), Some(b)) if b - a.min(b) >= records::KEPT);
        match loaded {
            // the records in between may have been removed
            Err(_) if overtaken && tries < TRIES => tries += 1,
            loaded => return loaded,
        }
    }
}

fn load_from(layout: &Layout, generation: &Generation) -> Result<Names, StoreError> {
    let first = *records::pending(layout, generation)?.start();
    let mut part = Part::load_all(layout)?;
    let newest = *records::pending(layout, generation)?.end();
    part.names.sequence = first.saturating_sub(1);
    for number in first..=newest {
        part.redo_all(&records::require(layout, number)?);
    }
    part.check_ends(layout)?;
    Ok(part.names)
}

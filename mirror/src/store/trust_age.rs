//! Whether what the store says of trust is as new as its records. A store put together from
//! parts of different age would let an import accept what newer trust refuses; nothing else
//! rests on trust, so this is looked at where it is asked for and not at every start.

use std::sync::atomic::Ordering;

use kubepkg_core::store::{Cause, Record, StoreError, Unit};

use super::FileStore;
use super::generation::Generation;
use super::layout::Layout;
use super::open::Opened;
use super::part::{self, Part};
use super::records;

impl FileStore {
    /// Refuses a store whose trust is older than its records, as whoever asks it what is trusted
    /// does.
    pub async fn trust_is_current(&self) -> Result<(), StoreError> {
        self.work(Opened::trust_is_current).await
    }
}

impl Opened {
    /// The same; looked at once for as long as the store is open.
    pub(super) fn trust_is_current(&self) -> Result<(), StoreError> {
        if !self.trust_compared.load(Ordering::Relaxed) {
            is_current(&self.layout, &self.generation)?;
            self.trust_compared.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Refuses trust that is older than the newest record which changed any: each import changes
/// what it keeps, so that one record tells whether the folder is of another age. A single entry
/// that is older is found by `mirror check`, which reads all records.
fn is_current(layout: &Layout, generation: &Generation) -> Result<(), StoreError> {
    // who commits meanwhile counts after the files are written
    let Some(counted) = generation.read()? else {
        return Ok(()); // without it all is done again from the records
    };
    for number in records::numbers(layout)?.range(..=counted).rev() {
        // pushes change no trust
        let record = match records::without_changes(layout, *number) {
            Ok(Some(record)) if matches!(record.cause, Cause::Push) => continue,
            Ok(_) => records::read(layout, *number),
            Err(error) => Err(error),
        };
        let record = match record {
            Ok(Some(record)) => record,
            // removed meanwhile, or for `mirror check` to tell
            Ok(None) | Err(StoreError::Damaged { .. }) => continue,
            Err(error) => return Err(error),
        };
        let changed = trust_in(&record);
        if changed.is_empty() {
            continue;
        }
        let files = Part::load(layout, changed)?;
        let mut units = files.applied().iter();
        return match units.find(|(_, applied)| *applied < number) {
            None => Ok(()),
            Some((unit, applied)) => Err(StoreError::Mixed {
                path: part::path(layout, unit),
                why: format!("this is as of commit {applied}, and commit {number} changed it"),
            }),
        };
    }
    Ok(())
}

fn trust_in(record: &Record) -> Vec<Unit> {
    let units = record.changes.iter().map(|recorded| recorded.change.unit());
    units
        .filter(|unit| matches!(unit, Unit::Trust(_)))
        .collect()
}

//! All names in memory, for who answers many questions: readers take an [`Arc`] and see all of
//! a commit or nothing of it.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use kubepkg_core::store::{Names, StoreError};

use super::generation::Generation;
use super::layout::Layout;
use super::part::Part;
use super::records;

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
        let _one = self
            .refreshing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = self.fresh(generation.read()?) {
            return Ok(names);
        }
        let names = match (self.current(), generation.read()?) {
            (Some(current), Some(newest)) => match catch_up(layout, &current, newest) {
                Ok(names) => names,
                Err(e) => {
                    tracing::warn!(error = %e, "reading all names again");
                    load(layout, generation)?
                }
            },
            _ => load(layout, generation)?,
        };
        let names = Arc::new(names);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&names));
        Ok(names)
    }

    fn current(&self) -> Option<Arc<Names>> {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn catch_up(layout: &Layout, current: &Names, newest: u64) -> Result<Names, StoreError> {
    let mut names = current.clone();
    for number in current.sequence + 1..=newest {
        names.apply_record(&records::require(layout, number)?);
    }
    Ok(names)
}

/// Reads all names. Others may commit meanwhile, and then some files are newer than others; the
/// records since the beginning, done again in order, make one state of it, because whoever
/// changes a file has written its record before.
fn load(layout: &Layout, generation: &Generation) -> Result<Names, StoreError> {
    let applied = generation.read()?;
    let mut names = Part::load_all(layout)?.names;
    let pending = match applied {
        Some(applied) => applied + 1..=*records::pending(layout, generation)?.end(),
        None => records::pending(layout, generation)?,
    };
    names.sequence = applied.unwrap_or_default();
    for number in pending {
        names.apply_record(&records::require(layout, number)?);
    }
    Ok(names)
}

//! What a store in a bucket tells of itself: what its log says. How full the bucket is, and
//! whether its content is sound, is known by its server alone.

use std::sync::Arc;

use kubepkg_core::store::StoreError;

use super::BucketStore;
use super::state::State;
use crate::facts::{Facts, Imports};
use crate::told::told;

/// Imports that are read at most, the newest: a record with all its changes is large, and what an
/// index was accepted for was said by one of the last.
const READ: usize = 50;

impl BucketStore {
    /// What the store tells of itself as of commit `sequence`. `before` is what it told last:
    /// records are read once.
    pub async fn facts(&self, before: Arc<Facts>, sequence: u64) -> Facts {
        let state = self.log.known();
        let (store, known) = (self.clone(), before.imports.clone());
        let collected = state.collected;
        // a large record is read where it holds up nobody
        let reading = self.bucket.spawn(async move {
            let mut imports = known;
            if let Err(error) = store.bring_up(&state, &mut imports, sequence).await {
                tracing::warn!(error = %told(&error), "receipts of imports cannot be read");
            }
            imports
        });
        Facts {
            collected,
            // it fails only when the process ends
            imports: reading.await.unwrap_or_else(|_| before.imports.clone()),
            ..Facts::default()
        }
    }

    /// Takes in the imports up to `sequence`; after an error, those that could be read.
    async fn bring_up(
        &self,
        state: &State,
        imports: &mut Imports,
        sequence: u64,
    ) -> Result<(), StoreError> {
        if sequence < imports.upto() {
            // another bucket was put in its place
            *imports = Imports::default();
        }
        let new = state.imports.iter().copied();
        let new: Vec<u64> = new
            .filter(|number| (imports.upto() + 1..=sequence).contains(number))
            .collect();
        let (old, new) = new.split_at(new.len().saturating_sub(READ));
        if let Some(last) = old.last() {
            imports.skip(old.len() as u64);
            imports.seen(*last);
        }
        for number in new {
            match self.log.entry(*number).await {
                Ok(Some(entry)) => imports.take(entry.record),
                Ok(None) | Err(StoreError::Damaged { .. }) => imports.skip(1),
                Err(error) => return Err(error),
            }
            imports.seen(*number);
        }
        imports.seen(sequence);
        Ok(())
    }
}

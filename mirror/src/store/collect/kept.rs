//! What the last imports left: walks back from the newest names, record by record, and keeps
//! every state right after an import. Going back to it needs all of it, and a delta bundle
//! brought only some.

use kubepkg_core::store::{Cause, Names, StoreError};

use super::super::layout::Layout;
use super::super::records;
use super::super::sealed::damaged;
use super::mark::Kept;

/// The states right after each of the last `imports` imports, as far as there are records.
pub(super) fn states(layout: &Layout, names: &Names, imports: usize) -> Result<Kept, StoreError> {
    let mut kept = Kept::default();
    let mut state = names.clone();
    let mut found = 0;
    while found < imports && state.sequence > 0 {
        let Some(record) = records::read(layout, state.sequence)? else {
            break; // below this one they were trimmed
        };
        if matches!(record.cause, Cause::Import(_)) {
            kept.add(&state);
            found += 1;
        }
        if found < imports {
            state
                .undo_record(&record)
                .map_err(|e| damaged(&layout.record(record.number), e.to_string()))?;
        }
    }
    Ok(kept)
}

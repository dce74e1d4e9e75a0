//! What the last imports left: walks back from the newest names, record by record, and keeps
//! every state right after an import. Going back to it needs all of it, and a delta bundle
//! brought only some. What a prune took since is not kept: it is what prune is for.

use std::collections::HashSet;

use kubepkg_core::store::{Cause, Names, StoreError};

use super::super::layout::Layout;
use super::super::records;
use super::mark::Kept;

/// The states right after each of the last `imports` imports, as far as there are records.
pub(super) fn states(layout: &Layout, names: &Names, imports: usize) -> Result<Kept, StoreError> {
    let mut kept = Kept::default();
    let mut state = names.clone();
    let mut pruned = HashSet::new();
    let mut found = 0;
    while found < imports && state.sequence > 0 {
        let number = state.sequence;
        let record = match records::read(layout, number) {
            Ok(Some(record)) => record,
            Ok(None) => break, // below this one they were trimmed
            Err(StoreError::Damaged { .. }) => {
                kept.damaged.insert(number);
                state.sequence -= 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        if matches!(record.cause, Cause::Import(_)) {
            kept.add_without(&state, |name, digest| {
                pruned.contains(&(name.clone(), *digest))
            });
            found += 1;
        }
        if found < imports {
            if record.cause == Cause::Prune {
                pruned.extend(record.taken());
            }
            if state.undo_record(&record).is_err() {
                // and what came before cannot be told from these names any more
                kept.damaged.insert(number);
                break;
            }
        }
    }
    if let Some(newest) = kept.damaged.last().copied() {
        whatever_was_named(layout, newest, &mut kept)?;
    }
    Ok(kept)
}

/// Keeps all that records up to `newest` ever named. Where one of them is damaged nobody knows
/// what it took away, and so what the imports before it left; but not more than that.
fn whatever_was_named(layout: &Layout, newest: u64, kept: &mut Kept) -> Result<(), StoreError> {
    for number in records::numbers(layout)?.range(..=newest) {
        match records::read(layout, *number) {
            Ok(Some(record)) => record
                .changes
                .iter()
                .for_each(|recorded| kept.add_named(&recorded.change, *number)),
            Ok(None) => {}
            Err(StoreError::Damaged { .. }) => {
                kept.damaged.insert(*number);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

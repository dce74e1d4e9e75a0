//! What the last imports left: walks back from the newest names, record by record, and keeps
//! every state right after an import. Going back to it needs all of it, and a delta bundle
//! brought only some. What a prune took since is not kept: it is what prune is for.

use std::collections::HashSet;

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Cause, Change, Names, Record, StoreError};

use super::super::layout::Layout;
use super::super::records;
use super::super::sealed::damaged;
use super::mark::Kept;

/// The states right after each of the last `imports` imports, as far as there are records.
pub(super) fn states(layout: &Layout, names: &Names, imports: usize) -> Result<Kept, StoreError> {
    let mut kept = Kept::default();
    let mut state = names.clone();
    let mut pruned = HashSet::new();
    let mut found = 0;
    while found < imports && state.sequence > 0 {
        let Some(record) = records::read(layout, state.sequence)? else {
            break; // below this one they were trimmed
        };
        if matches!(record.cause, Cause::Import(_)) {
            kept.add_without(&state, |name, digest| {
                pruned.contains(&(name.clone(), *digest))
            });
            found += 1;
        }
        if found < imports {
            taken(&record, &mut pruned);
            state
                .undo_record(&record)
                .map_err(|e| damaged(&layout.record(record.number), e.to_string()))?;
        }
    }
    Ok(kept)
}

/// Notes what a prune took.
fn taken(record: &Record, pruned: &mut HashSet<(RepositoryName, Digest)>) {
    if record.cause != Cause::Prune {
        return;
    }
    for recorded in &record.changes {
        if let Change::Manifest {
            repository,
            digest,
            new: None,
        }
        | Change::Blob {
            repository,
            digest,
            new: None,
        } = &recorded.change
        {
            pruned.insert((repository.clone(), *digest));
        }
    }
}

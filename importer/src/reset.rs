//! Dropping what was accepted under a trust entry.

use kubepkg_core::store::{Batch, Cause, Change, Committed, Store};
use kubepkg_core::time::Time;
use kubepkg_core::trust::Memory;

use crate::ImportError;
use crate::import::MAX_CONFLICTS;

/// Drops what `store` has accepted under the entry `id`: root, index, versions seen withdrawn.
/// Who is trusted stays, content and published files stay. The next import may then bring an
/// older index or another chain of roots. It is recorded in the commits.
///
/// Gives the number of the commit, `None` when nothing was accepted under this id.
///
/// # Errors
/// The store cannot be read or written. A record that is damaged is dropped with what was in
/// it: this is how a site gets out of that, and somebody must ask for it.
pub async fn reset<S: Store>(store: &S, id: &str, at: Time) -> Result<Option<u64>, ImportError> {
    for _ in 0..MAX_CONFLICTS {
        let expected = store.sequence().await?;
        let Some(json) = store.trust(id).await? else {
            return Ok(None);
        };
        let left = match Memory::from_value(&json) {
            Ok(memory) if memory.accepted.is_none() => return Ok(None),
            Ok(memory) => memory.reset(),
            Err(_) => None,
        };
        let batch = Batch {
            at,
            cause: Cause::TrustReset {
                entry: id.to_owned(),
            },
            changes: vec![Change::Trust {
                entry: id.to_owned(),
                new: left.map(|memory| memory.to_value()),
            }],
        };
        if let Committed::Done(number) = store.commit(expected, batch).await? {
            return Ok(Some(number));
        }
    }
    Err(ImportError::Busy(MAX_CONFLICTS))
}

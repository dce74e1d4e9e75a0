//! Dropping what was accepted under a trust entry.

use kubepkg_core::store::{Batch, Cause, Change, Committed, Store};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{KNOWN_ID, Known, Memory};

use crate::ImportError;
use crate::import::MAX_CONFLICTS;

/// Drops what `store` has accepted under the entry `id`: root, index, versions seen withdrawn.
/// Who is trusted stays, content and published files stay. The next import may then bring an
/// older index or another chain of roots. It is recorded in the commits.
///
/// The keys of the repository stay known: its old indexes do not come in as another's.
///
/// Gives the number of the commit, `None` when nothing was accepted under this id.
///
/// # Errors
/// The store cannot be read or written, or the id is that of the record over all entries. A
/// record that is damaged is dropped with all that was in it, who is trusted as well: this is
/// how a site gets out of that, and somebody must ask for it. The next import must then say who
/// is trusted. So it is with a record that is missing.
pub async fn reset<S: Store>(store: &S, id: &str, at: Time) -> Result<Option<u64>, ImportError> {
    if id == KNOWN_ID {
        return Err(ImportError::NotAnEntry(KNOWN_ID));
    }
    for _ in 0..MAX_CONFLICTS {
        let expected = store.sequence().await?;
        let memory = store.trust(id).await?;
        let memory = memory.map(|json| Memory::from_value(&json));
        let known = store.trust(KNOWN_ID).await?;
        let known = known.and_then(|json| Known::from_value(&json).ok());
        let known = known.and_then(|mut known| known.dropped(id).then(|| known.to_value()));
        let left = match memory {
            None if known.is_none() => return Ok(None),
            Some(Ok(memory)) if memory.accepted.is_none() => return Ok(None),
            Some(Ok(memory)) => memory.reset(),
            None | Some(Err(_)) => None,
        };
        let mut changes = vec![Change::Trust {
            entry: id.to_owned(),
            new: left.map(|memory| memory.to_value()),
        }];
        changes.extend(known.map(|known| Change::Trust {
            entry: KNOWN_ID.to_owned(),
            new: Some(known),
        }));
        let batch = Batch {
            at,
            cause: Cause::TrustReset {
                entry: id.to_owned(),
            },
            changes,
        };
        if let Committed::Done(number) = store.commit(expected, batch).await? {
            return Ok(Some(number));
        }
    }
    Err(ImportError::Busy(MAX_CONFLICTS))
}

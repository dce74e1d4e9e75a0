//! What a commit needs: the content its changes name. The same for a store in a folder and in a
//! bucket; where content is looked for is theirs.

use std::collections::BTreeSet;

use kubepkg_core::Digest;
use kubepkg_core::store::{Change, Names, StoreError};

/// The content that `changes` name, with the size each must have. `after` are the names as they
/// will be.
///
/// # Errors
/// A tag of a manifest its repository does not have.
pub(crate) fn needed(
    changes: &[Change],
    after: &Names,
) -> Result<BTreeSet<(Digest, u64)>, StoreError> {
    let mut needed: BTreeSet<(Digest, u64)> = BTreeSet::new();
    for change in changes {
        match change {
            Change::Manifest {
                digest,
                new: Some(entry),
                ..
            } => {
                needed.insert((*digest, entry.size));
            }
            Change::Blob {
                digest,
                new: Some(size),
                ..
            } => {
                needed.insert((*digest, *size));
            }
            Change::Site {
                new: Some(entry), ..
            } => {
                needed.extend(entry.files.values().map(|file| (file.digest, file.size)));
            }
            Change::Tag {
                repository,
                new: Some(entry),
                ..
            } => {
                let repository = after.repositories.get(repository);
                if !repository.is_some_and(|r| r.manifests.contains_key(&entry.digest)) {
                    let digest = entry.digest;
                    return Err(StoreError::Missing { digest });
                }
            }
            Change::Manifest { new: None, .. }
            | Change::Blob { new: None, .. }
            | Change::Tag { new: None, .. }
            | Change::Upstream { .. }
            | Change::Site { new: None, .. }
            | Change::Trust { .. } => {}
        }
    }
    Ok(needed)
}

/// Whether content that is needed is there as it must be; `found` is the size it has.
pub(crate) fn is_there(digest: Digest, size: u64, found: Option<u64>) -> Result<(), StoreError> {
    match found {
        None => Err(StoreError::Missing { digest }),
        Some(found) if found != size => Err(StoreError::Mismatch {
            digest,
            found: format!("{found} bytes in the store instead of {size}"),
        }),
        Some(_) => Ok(()),
    }
}

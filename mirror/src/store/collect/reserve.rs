//! The reserve: room that is given back while the disk is full, for what frees space.

use std::fs;

use kubepkg_core::store::StoreError;

use super::super::disk::failed;
use super::super::open::{RESERVE, Writable, make_reserve};
use super::super::work::ignore_missing;

/// As long as this lives the reserve's room is free; then it is taken again.
pub(in super::super) struct Released<'w>(&'w Writable);

impl<'w> Released<'w> {
    /// Releases it where less than it is free.
    pub(in super::super) fn where_full(
        writable: &'w Writable,
    ) -> Result<Option<Released<'w>>, StoreError> {
        let root = writable.layout.root();
        let found = rustix::fs::statvfs(root)
            .map_err(|e| failed("ask for the free space of", root)(e.into()))?;
        match found.f_bavail.saturating_mul(found.f_frsize) < RESERVE {
            true => Released::now(writable).map(Some),
            false => Ok(None),
        }
    }

    /// Releases it.
    pub(in super::super) fn now(writable: &'w Writable) -> Result<Released<'w>, StoreError> {
        let path = writable.layout.reserve();
        ignore_missing(fs::remove_file(&path)).map_err(failed("remove", &path))?;
        Ok(Released(writable))
    }
}

impl Drop for Released<'_> {
    fn drop(&mut self) {
        if let Err(e) = make_reserve(&self.0.layout, &self.0.disk) {
            tracing::warn!(error = %e, "the disk is still too full for its reserve");
        }
    }
}

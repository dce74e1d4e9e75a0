//! The reserve: room that is given back while the disk is full, for what frees space.

use std::fs;

use std::sync::Arc;

use kubepkg_core::store::StoreError;

use super::super::FileStore;
use super::super::disk::failed;
use super::super::open::{Opened, RESERVE, Writable, make_reserve};
use super::super::work::ignore_missing;
use crate::told::told;

/// As long as this lives the reserve's room is free; then it is taken again.
pub(in super::super) struct Released<'w>(&'w Writable);

impl<'w> Released<'w> {
    /// Releases it where less than it is free.
    pub(in super::super) fn where_full(
        writable: &'w Writable,
    ) -> Result<Option<Released<'w>>, StoreError> {
        match is_full(writable)? {
            true => Released::now(writable).map(Some),
            false => Ok(None),
        }
    }

    /// Releases it.
    pub(in super::super) fn now(writable: &'w Writable) -> Result<Released<'w>, StoreError> {
        release(writable)?;
        Ok(Released(writable))
    }
}

impl Drop for Released<'_> {
    fn drop(&mut self) {
        retake(self.0);
    }
}

/// [`Released`], for work that is done in several steps on a store.
pub(crate) struct Room(Arc<Opened>);

impl Drop for Room {
    fn drop(&mut self) {
        if let Ok(writable) = self.0.writable() {
            retake(writable);
        }
    }
}

impl FileStore {
    /// Releases the reserve where less than it is free, for as long as the answer lives.
    pub(crate) async fn reserve_where_full(&self) -> Result<Option<Room>, StoreError> {
        match self.work(|opened| is_full(opened.writable()?)).await? {
            true => self.reserve().await.map(Some),
            false => Ok(None),
        }
    }

    /// Releases the reserve, for as long as the answer lives.
    pub(crate) async fn reserve(&self) -> Result<Room, StoreError> {
        self.work(|opened| release(opened.writable()?)).await?;
        Ok(Room(Arc::clone(&self.opened)))
    }
}

fn is_full(writable: &Writable) -> Result<bool, StoreError> {
    let root = writable.layout.root();
    let found = rustix::fs::statvfs(root)
        .map_err(|e| failed("ask for the free space of", root)(e.into()))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize) < RESERVE)
}

fn release(writable: &Writable) -> Result<(), StoreError> {
    let path = writable.layout.reserve();
    ignore_missing(fs::remove_file(&path)).map_err(failed("remove", &path))
}

fn retake(writable: &Writable) {
    if let Err(e) = make_reserve(&writable.layout, &writable.disk) {
        tracing::warn!(error = %told(&e), "the disk is still too full for its reserve");
    }
}

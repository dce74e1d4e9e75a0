//! Free space: what is being received must leave some for what frees space again.

use std::sync::atomic::Ordering;

use kubepkg_core::store::StoreError;

use super::Uploads;
use crate::sink::SinkError;
use crate::store::disk::failed;
use crate::store::open::Writable;

/// After how many bytes the free space is looked at again: what is received meanwhile by many
/// uploads at once stays far below 1 % of a disk that holds a mirror.
pub(super) const LOOK_AGAIN: u64 = 32 * 1024 * 1024;

impl Writable {
    /// Makes sure that `more` bytes can be taken. The oldest partial uploads go first.
    pub(super) fn make_room(&self, uploads: &Uploads, more: u64) -> Result<(), SinkError> {
        while !self.has_room(uploads, more)? {
            if !self.drop_oldest_upload(uploads)? {
                tracing::error!(
                    more,
                    "too little free space: pushes are refused until there is more (see --min-free)"
                );
                return Err(SinkError::Full);
            }
        }
        Ok(())
    }

    fn has_room(&self, uploads: &Uploads, more: u64) -> Result<bool, StoreError> {
        let root = self.layout.root();
        let found = rustix::fs::statvfs(root).map_err(|e| failed("look at", root)(e.into()))?;
        let per_mille = uploads.min_free_per_mille.load(Ordering::Relaxed);
        Ok(leaves_room(
            found.f_bavail.saturating_mul(found.f_frsize),
            found.f_blocks.saturating_mul(found.f_frsize),
            more,
            per_mille,
        ))
    }
}

fn leaves_room(free: u64, all: u64, more: u64, per_mille: u32) -> bool {
    let must_stay = u128::from(all) * u128::from(per_mille) / 1000;
    u128::from(free) >= must_stay + u128::from(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_stays_free_is_counted_of_the_whole_disk() {
        assert!(leaves_room(20, 1000, 10, 10));
        assert!(!leaves_room(20, 1000, 11, 10));
        assert!(leaves_room(20, 1000, 20, 0));
        assert!(!leaves_room(u64::MAX, u64::MAX, u64::MAX, 10));
    }
}

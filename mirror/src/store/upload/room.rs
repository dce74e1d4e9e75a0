//! Free space: what is being received must leave some for what frees space again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kubepkg_core::store::StoreError;

use super::Uploads;
use super::lying::Lying;
use crate::sink::SinkError;
use crate::store::FileStore;
use crate::store::disk::failed;
use crate::store::open::Writable;

/// After how many bytes the free space is looked at again: what is received meanwhile by many
/// uploads at once stays far below 1 % of a disk that holds a mirror.
pub(super) const LOOK_AGAIN: u64 = 32 * 1024 * 1024;

impl Writable {
    /// Makes sure that `more` bytes can be taken. The oldest partial uploads go first, where
    /// that helps: a client may announce any size, so nothing goes for one that all of them
    /// together could not make room for.
    pub(super) fn make_room(&self, uploads: &Uploads, more: u64) -> Result<(), SinkError> {
        let lacking = self.lacking(uploads, more)?;
        if lacking == 0 {
            return Ok(());
        }
        let lying = self.uploads_lying(uploads)?;
        let mut may_go = Vec::new();
        for lying in lying.into_iter().filter(Lying::may_go) {
            if !self.upload_is_held_elsewhere(&lying.id)? {
                may_go.push(lying);
            }
        }
        for lying in enough(&may_go, lacking) {
            self.drop_for_others(uploads, lying)?;
        }
        if self.lacking(uploads, more)? == 0 {
            return Ok(());
        }
        tracing::error!(
            more,
            "too little free space: pushes are refused until there is more (see --min-free)"
        );
        Err(SinkError::Full)
    }

    /// How many bytes of free space are lacking.
    fn lacking(&self, uploads: &Uploads, more: u64) -> Result<u64, StoreError> {
        let root = self.layout.root();
        let found = rustix::fs::statvfs(root).map_err(|e| failed("look at", root)(e.into()))?;
        let per_mille = uploads.min_free_per_mille.load(Ordering::Relaxed);
        Ok(lacks(
            found.f_bavail.saturating_mul(found.f_frsize),
            found.f_blocks.saturating_mul(found.f_frsize),
            more,
            per_mille,
        ))
    }
}

impl FileStore {
    /// Whether what is pushed now could be kept: there is room, and a file can be written. A
    /// store that was opened for reading only has nothing to keep.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let uploads = Arc::clone(&self.uploads);
        self.work(move |opened| {
            let Some(writable) = &opened.writable else {
                return Ok(());
            };
            if writable.lacking(&uploads, 0)? > 0 {
                let full = io::ErrorKind::StorageFull.into();
                return Err(failed("write", opened.layout.root())(full));
            }
            // it goes when it is dropped
            let mut file = writable.work.file()?;
            file.write(b"written to see whether that is possible")?;
            file.with(|file| file.sync_all())
        })
        .await
    }
}

fn lacks(free: u64, all: u64, more: u64, per_mille: u32) -> u64 {
    let must_stay = u128::from(all) * u128::from(per_mille) / 1000;
    let wanted = must_stay + u128::from(more);
    u64::try_from(wanted.saturating_sub(u128::from(free))).unwrap_or(u64::MAX)
}

/// The first of `lying` that together free `lacking` bytes; none where all do not.
fn enough(lying: &[Lying], lacking: u64) -> &[Lying] {
    let mut freed: u64 = 0;
    for (at, one) in lying.iter().enumerate() {
        freed = freed.saturating_add(one.taken);
        if freed >= lacking {
            return &lying[..=at];
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_share_that_stays_free_is_counted_of_the_whole_disk() {
        assert_eq!(lacks(20, 1000, 10, 10), 0);
        assert_eq!(lacks(20, 1000, 11, 10), 1);
        assert_eq!(lacks(20, 1000, 20, 0), 0);
        assert!(lacks(u64::MAX, u64::MAX, u64::MAX, 10) > 0);
        assert_eq!(lacks(0, u64::MAX, u64::MAX, 1000), u64::MAX);
    }

    #[test]
    fn no_more_uploads_go_than_make_room_and_none_when_all_would_not() {
        let lying: Vec<Lying> = [5, 0, 7]
            .map(|taken| Lying {
                id: String::new(),
                idle: Duration::MAX,
                size: 1000,
                taken,
                busy: false,
            })
            .into();
        for (lacking, go) in [(1, 1), (5, 1), (6, 3), (12, 3), (13, 0), (u64::MAX, 0)] {
            assert_eq!(enough(&lying, lacking).len(), go, "{lacking}");
        }
    }
}

//! What a store tells of itself: see [`crate::facts`].

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kubepkg_core::store::StoreError;

use super::collect::Collected;
use super::layout::Layout;
use super::{FileStore, records, work};
use crate::facts::{Collections, DiskSpace, Facts, Imports};
use crate::told::told;

/// Collections of this process.
#[derive(Debug, Default)]
pub(super) struct CollectionsCount {
    done: AtomicU64,
    failed: AtomicU64,
    contents: AtomicU64,
    bytes: AtomicU64,
}

impl CollectionsCount {
    /// Counts one, unless it only said what it would do.
    pub(super) fn add(&self, dry_run: bool, collected: &Result<Collected, StoreError>) {
        match collected {
            _ if dry_run => {}
            Ok(collected) => {
                let removed = collected.removed;
                self.done.fetch_add(1, Ordering::Relaxed);
                self.contents.fetch_add(removed.contents, Ordering::Relaxed);
                self.bytes.fetch_add(removed.bytes, Ordering::Relaxed);
            }
            Err(_) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn so_far(&self) -> Collections {
        Collections {
            done: self.done.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            contents: self.contents.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

impl FileStore {
    /// What the store tells of itself as of commit `sequence`. `before` is what it told last:
    /// commit records are read once.
    pub async fn facts(&self, before: Arc<Facts>, sequence: u64) -> Facts {
        let disk = match rustix::fs::statvfs(self.root()) {
            Ok(found) => Some(DiskSpace {
                free: found.f_bavail.saturating_mul(found.f_frsize),
                size: found.f_blocks.saturating_mul(found.f_frsize),
            }),
            Err(_) => None,
        };
        let known = Arc::clone(&before);
        let read = self.work(move |opened| {
            let mut imports = known.imports.clone();
            bring_up(&opened.layout, &mut imports, sequence)?;
            let uploads = work::entries(&opened.layout.uploads())?;
            let about = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "json");
            let uploads = uploads.iter().filter(about).count() as u64;
            Ok((imports, uploads))
        });
        let (imports, uploads) = read.await.unwrap_or_else(|error| {
            tracing::debug!(error = %told(&error), "commit records cannot be read");
            (before.imports.clone(), before.uploads)
        });
        Facts {
            disk,
            quarantined: self.opened.standings.quarantined() as u64,
            scrub: self.scrubbed(),
            collected: self.last_collected(),
            collections: self.collections.so_far(),
            uploads,
            imports,
            wanted: self.wanted().await.unwrap_or_default(),
        }
    }
}

/// Takes in the records up to `sequence`.
fn bring_up(layout: &Layout, imports: &mut Imports, sequence: u64) -> Result<(), StoreError> {
    if sequence < imports.upto() {
        // an older state of the store was put in its place
        *imports = Imports::default();
    }
    if sequence == imports.upto() {
        return Ok(());
    }
    let new = (Bound::Excluded(imports.upto()), Bound::Included(sequence));
    for number in records::numbers(layout)?.range(new) {
        match records::without_changes(layout, *number) {
            Ok(Some(record)) => imports.take(record),
            // removed meanwhile, or for `mirror check` to tell
            Ok(None) | Err(StoreError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    imports.seen(sequence);
    Ok(())
}

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
    /// commit records are read once. Nothing here looks at a file on the thread that asks.
    pub async fn facts(&self, before: Arc<Facts>, sequence: u64) -> Facts {
        let (store, known) = (self.clone(), Arc::clone(&before));
        let read =
            self.work(move |opened| Ok(store.told_by_files(&opened.layout, &known, sequence)));
        let facts = read.await.unwrap_or_else(|_| Facts {
            disk: None,
            ..(*before).clone()
        });
        Facts {
            quarantined: Some(self.opened.standings.quarantined() as u64),
            scrub_failures: self.scrub_failures.load(Ordering::Relaxed),
            collections: Some(self.collections.so_far()),
            wanted: self.wanted().await.unwrap_or_default(),
            ..facts
        }
    }

    /// What files tell. What cannot be read is as it was before.
    fn told_by_files(&self, layout: &Layout, before: &Facts, sequence: u64) -> Facts {
        let disk = rustix::fs::statvfs(layout.root()).ok();
        let mut imports = before.imports.clone();
        let read = bring_up(layout, &mut imports, sequence).and_then(|()| uploads(layout));
        let (imports, uploads) = match read {
            Ok(uploads) => (imports, Some(uploads)),
            Err(error) => {
                tracing::debug!(error = %told(&error), "commit records cannot be read");
                (before.imports.clone(), before.uploads)
            }
        };
        Facts {
            disk: disk.map(|found| DiskSpace {
                free: found.f_bavail.saturating_mul(found.f_frsize),
                size: found.f_blocks.saturating_mul(found.f_frsize),
            }),
            scrub: Some(self.scrubbed()),
            collected: self.last_collected(),
            uploads,
            imports,
            ..Facts::default()
        }
    }
}

/// Uploads that were begun and not finished.
fn uploads(layout: &Layout) -> Result<u64, StoreError> {
    let entries = work::entries(&layout.uploads())?;
    let of_upload = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "json");
    Ok(entries.iter().filter(of_upload).count() as u64)
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

//! Payload into the file: what is here first, then every blob in parallel, straight to its
//! place. Each byte is hashed and written once.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kubepkg_core::bundle::write::put;
use kubepkg_core::bundle::{FormatError, Layout};
use kubepkg_core::progress::Progress;
use kubepkg_remote::Registry;

use crate::CreateError;
use crate::collect::{Collected, Source};
use crate::place::{Place, Target};
use crate::repositories::Loaded;

/// Writes everything that is here: repository files, manifests, charts.
pub fn put_small(
    file: &File,
    layout: &Layout,
    repositories: &[&Loaded],
    collected: &Collected,
) -> Result<(), FormatError> {
    for loaded in repositories {
        for (path, bytes) in &loaded.files {
            let extent = layout.repository_file(&loaded.url, path);
            put(file, extent.ok_or_else(|| unplanned(path))?, bytes)?;
        }
    }
    for (digest, (_, bytes)) in &collected.here {
        let extent = layout.blob(digest);
        put(
            file,
            extent.ok_or_else(|| unplanned(&digest.to_string()))?,
            bytes,
        )?;
    }
    Ok(())
}

/// Fetches all blobs that are not here, `jobs` at a time, large ones first.
pub async fn fetch(
    registry: &Registry,
    target: &Target,
    layout: &Layout,
    collected: &Collected,
    jobs: usize,
    progress: &dyn Progress,
) -> Result<(), CreateError> {
    let mut sources: Vec<&Source> = collected.sources.values().collect();
    sources.sort_by_key(|source| (std::cmp::Reverse(source.blob.size), source.blob.digest));
    progress.begin(
        "fetching",
        sources.iter().map(|source| source.blob.size).sum(),
    );
    let count = Forward {
        progress,
        debt: AtomicU64::new(0),
    };
    let result = stream::iter(sources)
        .map(|source| fetch_one(registry, target, layout, source, &count))
        .buffer_unordered(jobs)
        .try_collect::<()>()
        .await;
    progress.end();
    result
}

async fn fetch_one(
    registry: &Registry,
    target: &Target,
    layout: &Layout,
    source: &Source,
    count: &Forward<'_>,
) -> Result<(), CreateError> {
    let extent = layout.blob(&source.blob.digest);
    let extent = extent.ok_or_else(|| unplanned(&source.blob.digest.to_string()))?;
    let sink = Place::new(target, extent);
    let place = registry
        .download(&source.from, &source.blob, sink, count)
        .await?;
    let written = match tokio::task::spawn_blocking(|| place.finish()).await {
        Ok(written) => written,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    };
    written.map_err(|error| {
        let error = FormatError::Io {
            action: "write the bundle",
            at: Some(extent.offset),
            source: error,
        };
        error.in_file(target.path()).into()
    })
}

fn unplanned(what: &str) -> FormatError {
    FormatError::Absent(what.to_owned())
}

/// Progress that never goes backwards: bytes fetched a second time are counted once.
struct Forward<'p> {
    progress: &'p dyn Progress,
    debt: AtomicU64,
}

impl kubepkg_remote::Progress for Forward<'_> {
    fn received(&self, bytes: u64) {
        let paid = self
            .debt
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |debt| {
                Some(debt.saturating_sub(bytes))
            })
            .unwrap_or(0)
            .min(bytes);
        self.progress.advance(bytes - paid);
    }

    fn again(&self, bytes: u64) {
        self.debt.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_remote::Progress as _;

    #[derive(Default)]
    struct Sum(AtomicU64);

    impl Progress for Sum {
        fn begin(&self, _what: &str, _total: u64) {}
        fn advance(&self, bytes: u64) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
        fn end(&self) {}
    }

    #[test]
    fn bytes_fetched_twice_count_once() {
        let sum = Sum::default();
        let forward = Forward {
            progress: &sum,
            debt: AtomicU64::new(0),
        };
        forward.received(100);
        forward.again(60);
        forward.received(50);
        forward.received(50);
        assert_eq!(sum.0.load(Ordering::Relaxed), 140);
    }
}

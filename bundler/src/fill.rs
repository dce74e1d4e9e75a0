//! Payload into the file: what is here first, then every blob in parallel, straight to its
//! place. Each byte is hashed and written once.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kubepkg_core::bundle::write::put;
use kubepkg_core::bundle::{Extent, FormatError, Layout};
use kubepkg_core::descriptor::{Descriptor, media_type};
use kubepkg_core::digest::Hasher;
use kubepkg_core::progress::Progress;
use kubepkg_core::reference::Reference;
use kubepkg_remote::Registry;
use kubepkg_remote::registry::BlobSink as _;

use crate::CreateError;
use crate::collect::{Collected, From, Source, file};
use crate::place::{Place, Target};
use crate::repositories::Loaded;

/// Most places outside its registry that a layer is looked for at.
const MAX_URLS: usize = 4;

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

/// Blobs above this count as large: their bytes take longer than being asked for them.
const LARGE: u64 = 512 << 10;

/// Most large blobs at a time. More do not fill a line better, and each holds nearly three
/// mebibytes of memory.
const MOST_LARGE: usize = 12;

/// Fetches all blobs that are not here, `jobs` at a time. Large ones, of which the largest comes
/// first, fill the line; the waiting for small ones passes beside them.
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
    let small = sources.partition_point(|source| source.blob.size > LARGE);
    let small = sources.split_off(small);
    let several = async |sources: Vec<&Source>, at_once: usize| {
        stream::iter(sources)
            .map(|source| fetch_one(registry, target, layout, source, &count))
            .buffer_unordered(at_once)
            .try_collect::<()>()
            .await
    };
    let result = tokio::try_join!(several(sources, jobs.min(MOST_LARGE)), several(small, jobs),);
    progress.end();
    result.map(|((), ())| ())
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
    let place = match &source.from {
        From::Registry(reference) => {
            download(registry, reference, &source.blob, (target, extent), count).await?
        }
        From::File(path) => copy(path, &source.blob, target, extent, count).await?,
    };
    if place.is_written() {
        return Ok(());
    }
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

/// From the registry; a layer that may not be distributed may lie elsewhere only, as its
/// manifest says.
async fn download(
    registry: &Registry,
    reference: &Reference,
    blob: &Descriptor,
    place: (&Target, Extent),
    count: &Forward<'_>,
) -> Result<Place, CreateError> {
    let sink = Place::new(place.0, place.1);
    let error = match registry.download(reference, blob, sink, count).await {
        Err(error) if media_type::is_foreign_layer(&blob.media_type) => error,
        done => return Ok(done?),
    };
    let mut last = error;
    for url in blob.urls.iter().take(MAX_URLS) {
        let sink = Place::new(place.0, place.1);
        match registry.download_from_url(url, blob, sink, count).await {
            Ok(place) => return Ok(place),
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// From a file of this host. It was hashed before; what is written must be that.
async fn copy(
    path: &Path,
    blob: &Descriptor,
    target: &Target,
    extent: Extent,
    count: &Forward<'_>,
) -> Result<Place, CreateError> {
    let (path, output, blob) = (path.to_owned(), target.path().to_owned(), blob.clone());
    let mut sink = Place::new(target, extent);
    let (told, mut written) = tokio::sync::mpsc::unbounded_channel::<u64>();
    let work = move || {
        let mut hasher = Hasher::new(blob.digest.algorithm());
        let mut at = 0;
        let open = file::open(&path)?;
        file::pieces(&path, open, |piece| {
            hasher.update(piece);
            let length = piece.len() as u64;
            if at + length > blob.size {
                return Err(CreateError::FileChanged(path.clone()));
            }
            let done = sink.write_at(at, piece);
            at += length;
            // nobody counts any more when the run was given up
            let _ = told.send(length);
            done.map_err(|source| CreateError::Io {
                action: "write the bundle",
                path: output.clone(),
                source,
            })
        })?;
        match hasher.finish() == blob.digest {
            true => Ok(sink),
            false => Err(CreateError::FileChanged(path)),
        }
    };
    let working = tokio::task::spawn_blocking(work);
    while let Some(bytes) = written.recv().await {
        kubepkg_remote::Progress::received(count, bytes);
    }
    match working.await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
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

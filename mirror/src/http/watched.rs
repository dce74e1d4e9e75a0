//! A source whose missing content is remembered.
//!
//! HEAD is answered from names. Content that they promise and that was not found must not be
//! promised on: a client that is told it is here does not send it again, and so it would be
//! missing for ever. What was once not found is looked for whenever it is asked for, until it
//! is back, whoever brought it. Looking may take a while, as the content may be on another
//! machine; what was found is answered from memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubepkg_core::Digest;
use kubepkg_core::store::{FileRange, SiteEntry, StoreError};

use crate::facts::Facts;
use crate::source::{
    Age, DoneFuture, FactsFuture, NamesFuture, Remote, SizesFuture, Source, Standing,
};

/// Missing content remembered at most. Where there is more, some is found missing again.
const REMEMBERED: usize = 10_000;

/// The source, and what it did not have.
pub(super) struct Watched<S> {
    source: S,
    /// Whether there is anything at all.
    any: AtomicBool,
    /// With the size it should have, where that is known.
    absent: Mutex<HashMap<Digest, Option<u64>>>,
}

impl<S: Source> Watched<S> {
    pub(super) fn new(source: S) -> Watched<S> {
        Watched {
            source,
            any: AtomicBool::new(false),
            absent: Mutex::default(),
        }
    }

    fn absent(&self) -> MutexGuard<'_, HashMap<Digest, Option<u64>>> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, digest: &Digest, size: Option<u64>) {
        let mut absent = self.absent();
        if absent.len() >= REMEMBERED {
            absent.clear();
        }
        let known = absent.entry(*digest).or_default();
        *known = size.or(*known);
        self.any.store(true, Ordering::Release);
    }

    /// It has this size, which may be the one it should have.
    fn found(&self, digest: &Digest, size: u64) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut absent = self.absent();
        if let Some(wanted) = absent.get(digest)
            && wanted.is_none_or(|wanted| wanted == size)
        {
            absent.remove(digest);
            self.any.store(!absent.is_empty(), Ordering::Release);
        }
    }

    /// Whether it was not found when it was looked for last.
    fn is_absent(&self, digest: &Digest) -> bool {
        self.any.load(Ordering::Acquire) && self.absent().contains_key(digest)
    }
}

impl<S: Source> Source for Watched<S> {
    fn names(&self, age: Age) -> NamesFuture<'_> {
        self.source.names(age)
    }

    fn standing(&self, digest: &Digest) -> Standing {
        match self.is_absent(digest) {
            true => Standing::Quarantined,
            false => self.source.standing(digest),
        }
    }

    fn look_again(&self, mut digests: Vec<Digest>) -> DoneFuture<'_> {
        digests.retain(|digest| self.is_absent(digest));
        if digests.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(async move { self.sizes(digests).await.map(drop) })
    }

    fn rescue(&self, digests: Vec<Digest>) -> DoneFuture<'_> {
        self.source.rescue(digests)
    }

    fn probe(&self) -> DoneFuture<'_> {
        self.source.probe()
    }

    fn blob(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError> {
        let found = self.source.blob(digest)?;
        if found.is_none() {
            self.note(digest, None);
        }
        Ok(found)
    }

    fn blob_at_once(&self, digest: &Digest) -> Option<FileRange> {
        self.source.blob_at_once(digest)
    }

    fn sizes(&self, digests: Vec<Digest>) -> SizesFuture<'_> {
        Box::pin(async move {
            let sizes = self.source.sizes(digests.clone()).await?;
            for (digest, size) in digests.iter().zip(&sizes) {
                match size {
                    Some(size) => self.found(digest, *size),
                    None => self.note(digest, None),
                }
            }
            Ok(sizes)
        })
    }

    fn doubt(&self, digest: &Digest, size: u64) {
        self.source.doubt(digest, size);
        self.note(digest, Some(size));
    }

    fn site_file(
        &self,
        folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError> {
        self.source.site_file(folder, site, path)
    }

    fn facts(&self, before: Arc<Facts>, sequence: u64) -> FactsFuture<'_> {
        self.source.facts(before, sequence)
    }

    fn remote(&self) -> Option<Arc<dyn Remote>> {
        self.source.remote()
    }
}

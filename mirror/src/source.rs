//! What the server needs of a store to answer reads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kubepkg_core::Digest;
use kubepkg_core::store::{FileRange, Names, SiteEntry, StoreError};

use crate::store::FileStore;

/// Names on their way from a store.
pub type NamesFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Arc<Names>, StoreError>> + Send + 'a>>;

/// The read side of a store.
pub trait Source: Send + Sync + 'static {
    /// All names as of the newest commit. Asked once per request, so it must be cheap while
    /// nothing was committed; as long as that is so it returns the same `Arc`, by which a
    /// caller can tell that what it derived from the names still holds.
    fn names(&self) -> NamesFuture<'_>;

    /// The content with this digest, `None` when it is not here. May block.
    fn blob(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError>;

    /// A file of one site's set, by its path in [`SiteEntry::files`]. May block.
    fn site_file(
        &self,
        folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError>;
}

impl<T: Source + ?Sized> Source for Arc<T> {
    fn names(&self) -> NamesFuture<'_> {
        (**self).names()
    }

    fn blob(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError> {
        (**self).blob(digest)
    }

    fn site_file(
        &self,
        folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError> {
        (**self).site_file(folder, site, path)
    }
}

impl Source for FileStore {
    fn names(&self) -> NamesFuture<'_> {
        Box::pin(FileStore::names(self))
    }

    fn blob(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError> {
        self.blob_range(digest)
    }

    fn site_file(
        &self,
        folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError> {
        FileStore::site_file(self, folder, site, path)
    }
}

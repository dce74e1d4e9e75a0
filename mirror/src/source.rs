//! What the server needs of a store to answer reads.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use kubepkg_core::Digest;
use kubepkg_core::store::{ByteStream, FileRange, Names, SiteEntry, StoreError};

use crate::facts::Facts;
use crate::store::FileStore;

/// Names on their way from a store.
pub type NamesFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Arc<Names>, StoreError>> + Send + 'a>>;

/// A step in a store that either is done or fails.
pub type DoneFuture<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

/// What a store tells of itself, on its way.
pub type FactsFuture<'a> = Pin<Box<dyn Future<Output = Facts> + Send + 'a>>;

/// Sizes of content in the order asked, `None` for what is not here, on their way from a store.
pub type SizesFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Option<u64>>, StoreError>> + Send + 'a>>;

/// The size of some content and pieces of it, on their way from a store.
pub type PiecesFuture =
    Pin<Box<dyn Future<Output = Result<Option<(u64, ByteStream)>, StoreError>> + Send>>;

/// Content that does not lie in files of this machine.
pub trait Remote: Send + Sync {
    /// Size of the content with this digest, and the bytes of it in `span`, or all; `None` when
    /// it is not here.
    fn pieces(&self, digest: Digest, span: Option<Range<u64>>) -> PiecesFuture;
}

/// What is known of content besides that a name promises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is amiss.
    Sound,
    /// Collection may remove it. Who tells a client that it is here says [`Source::rescue`]
    /// first.
    Condemned,
    /// Its bytes were found to be damaged: it is not here until it is brought again.
    Quarantined,
}

/// How old names may be, where others change them too. [`crate::http`] says in one place which
/// answers are made from which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// A moment; as old as they are where newer ones cannot be had. For content by its digest:
    /// that is what it is, and they say where it belongs.
    Known,
    /// A moment. For what moves, and was where it is said to be.
    Moment,
    /// Not older than the question. For what says that something is not here.
    Now,
}

/// The read side of a store.
pub trait Source: Send + Sync + 'static {
    /// All names as of a commit that was the newest one no longer ago than `age` says. Asked
    /// for every request, so it must be cheap while nothing was committed; as long as that is so
    /// it returns the same `Arc`, by which a caller can tell that what it derived from the names
    /// still holds. A store that has its names at hand answers with the newest ones always.
    fn names(&self, age: Age) -> NamesFuture<'_>;

    /// What is known of some content, as of the last [`Source::names`]. Touches memory only, as
    /// it is asked on threads that must not wait.
    fn standing(&self, _digest: &Digest) -> Standing {
        Standing::Sound
    }

    /// Looks whether what counts as [`Standing::Quarantined`] only because it was not found is
    /// there again; [`Source::standing`] then says so.
    fn look_again(&self, _digests: Vec<Digest>) -> DoneFuture<'_> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Says that content is wanted, before a client is told that it is here: collection leaves
    /// it alone for a while. [`StoreError::Missing`] where it has just gone. A store that is
    /// only read has nothing to do: who writes it does not know its readers.
    fn rescue(&self, _digests: Vec<Digest>) -> DoneFuture<'_> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether what clients push now could be kept. A store that is only read has nothing to
    /// keep.
    fn probe(&self) -> DoneFuture<'_> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The content with this digest, `None` when it is not here. May block. Where there is a
    /// [`Source::remote`] only for content that is small.
    fn blob(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError>;

    /// The content with this digest, if it can be had without waiting for a disk. `None` says
    /// nothing: then ask [`Source::blob`].
    fn blob_at_once(&self, _digest: &Digest) -> Option<FileRange> {
        None
    }

    /// Sizes of the content with these digests, `None` for what is not here.
    fn sizes(&self, digests: Vec<Digest>) -> SizesFuture<'_>;

    /// Says that content was found not to be here with the `size` that names give it.
    fn doubt(&self, _digest: &Digest, _size: u64) {}

    /// A file of one site's set, by its path in [`SiteEntry::files`]. May block.
    fn site_file(
        &self,
        folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError>;

    /// What the store tells of itself as of commit `sequence`, for people and monitoring;
    /// `before` is what it told last. Not asked for each request.
    fn facts(&self, _before: Arc<Facts>, _sequence: u64) -> FactsFuture<'_> {
        Box::pin(std::future::ready(Facts::default()))
    }

    /// Where content is had from that does not lie in files of this machine; `None` when it
    /// does. Files of sites are content there.
    fn remote(&self) -> Option<Arc<dyn Remote>> {
        None
    }
}

impl<T: Source + ?Sized> Source for Arc<T> {
    fn names(&self, age: Age) -> NamesFuture<'_> {
        (**self).names(age)
    }

    fn standing(&self, digest: &Digest) -> Standing {
        (**self).standing(digest)
    }

    fn look_again(&self, digests: Vec<Digest>) -> DoneFuture<'_> {
        (**self).look_again(digests)
    }

    fn rescue(&self, digests: Vec<Digest>) -> DoneFuture<'_> {
        (**self).rescue(digests)
    }

    fn probe(&self) -> DoneFuture<'_> {
        (**self).probe()
    }

    fn blob(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError> {
        (**self).blob(digest)
    }

    fn blob_at_once(&self, digest: &Digest) -> Option<FileRange> {
        (**self).blob_at_once(digest)
    }

    fn sizes(&self, digests: Vec<Digest>) -> SizesFuture<'_> {
        (**self).sizes(digests)
    }

    fn doubt(&self, digest: &Digest, size: u64) {
        (**self).doubt(digest, size);
    }

    fn site_file(
        &self,
        folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError> {
        (**self).site_file(folder, site, path)
    }

    fn facts(&self, before: Arc<Facts>, sequence: u64) -> FactsFuture<'_> {
        (**self).facts(before, sequence)
    }

    fn remote(&self) -> Option<Arc<dyn Remote>> {
        (**self).remote()
    }
}

impl Source for FileStore {
    fn names(&self, _age: Age) -> NamesFuture<'_> {
        Box::pin(FileStore::names(self))
    }

    fn standing(&self, digest: &Digest) -> Standing {
        FileStore::standing(self, digest)
    }

    fn rescue(&self, digests: Vec<Digest>) -> DoneFuture<'_> {
        Box::pin(async move {
            match self.can_write() {
                true => FileStore::rescue(self, digests).await,
                false => Ok(()),
            }
        })
    }

    fn probe(&self) -> DoneFuture<'_> {
        Box::pin(FileStore::probe(self))
    }

    fn blob(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError> {
        self.blob_range(digest)
    }

    fn blob_at_once(&self, digest: &Digest) -> Option<FileRange> {
        self.blob_range_at_once(digest)
    }

    fn sizes(&self, digests: Vec<Digest>) -> SizesFuture<'_> {
        Box::pin(self.blob_sizes(digests))
    }

    fn site_file(
        &self,
        folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError> {
        FileStore::site_file(self, folder, site, path)
    }

    fn facts(&self, before: Arc<Facts>, sequence: u64) -> FactsFuture<'_> {
        Box::pin(FileStore::facts(self, before, sequence))
    }
}

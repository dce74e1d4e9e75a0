//! Content that belongs to no package: who vouches for it.
//!
//! Nothing a repository signs says which bytes it is. So it comes in only with a signature of
//! the bundle by a key given for just that, or, where the bundle holds nothing else, when somebody
//! says that its own word is enough. Keys of repositories do not count here: who may sign an index, or a bundle of its
//! packages, was not asked about other content.

use kubepkg_core::bundle::Bundle;
use kubepkg_core::bundle::head::Head;
use kubepkg_core::keys::KeyId;
use kubepkg_core::units::count;

use crate::{ImportError, Trusted};

/// Whose word content without a package comes in on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vouched {
    /// There is none.
    Needless,
    /// A key signed the bundle that was given for that.
    By(KeyId),
    /// The bundle's own, which somebody said is enough.
    OwnWord,
}

/// Finds out who vouches for content that belongs to no package.
///
/// # Errors
/// Nobody does; none of the keys given for it signed the bundle; or keys for repositories were
/// given and there is none, so that they would check nothing.
pub fn vouched(bundle: &Bundle, trusted: &Trusted) -> Result<Vouched, ImportError> {
    let head = bundle.head();
    let signed: Vec<KeyId> = bundle.signatures().keys().map(|key| key.id()).collect();
    let mut given = trusted.bundle_keys.iter().map(|key| key.id());
    let by = given.find(|id| signed.contains(id));
    match by {
        Some(by) => Ok(Vouched::By(by)),
        // who gives keys means them to be checked: another file may have been put in place
        None if head.repositories.is_empty() && trusted.given.names_somebody() => {
            Err(ImportError::NoRepositories)
        }
        None if !trusted.bundle_keys.is_empty() => Err(ImportError::NotSigned {
            given: trusted.bundle_keys.iter().map(|key| key.id()).collect(),
            signed,
        }),
        None if !head.has_unpackaged() => Ok(Vouched::Needless),
        // beside packages the flag is about their images, and lets nothing else in
        None if trusted.allow_unpinned_images && head.repositories.is_empty() => {
            Ok(Vouched::OwnWord)
        }
        None => Err(ImportError::Unvouched {
            what: counted(head),
            beside: !head.repositories.is_empty(),
        }),
    }
}

/// How much content belongs to no package: `2 images, 1 chart`.
pub fn counted(head: &Head) -> String {
    let images = head.images.iter().filter(|image| image.is_unpackaged());
    let (files, images): (Vec<_>, Vec<_>) = images.partition(|image| image.file.is_some());
    let charts = head.charts.iter().filter(|chart| chart.is_unpackaged());
    let parts = [
        (images.len(), "image", "images"),
        (charts.count(), "chart", "charts"),
        (files.len(), "file", "files"),
    ];
    let parts = parts.iter().filter(|(n, ..)| *n > 0);
    let parts: Vec<String> = parts
        .map(|(n, one, several)| count(*n, one, several))
        .collect();
    parts.join(", ")
}

//! Why a bundle does not come in.

use std::path::PathBuf;

use kubepkg_core::bundle::verify::{ClosureError, PlacementError};
use kubepkg_core::bundle::{Bundle, FormatError};
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::keys::KeyId;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::pins::PinError;
use kubepkg_core::store::StoreError;
use kubepkg_core::trust::{GivenError, TrustError};

use crate::claims::ClaimError;
use crate::wants::WantError;

/// Why an import or a verification ended. Nothing changed in the store, unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// One of the others, found in this file. Its name is the place of the error and not
    /// repeated in the text.
    #[error("{source}")]
    InFile {
        /// The bundle.
        path: PathBuf,
        /// What is wrong.
        source: Box<ImportError>,
    },
    /// The keys given do not fit the bundle's repositories.
    #[error(transparent)]
    Given(#[from] GivenError),
    /// The file is damaged or no bundle.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// An index is not accepted.
    #[error("{source}")]
    Trust {
        /// The repository.
        url: CanonicalUrl,
        /// Why.
        source: Box<TrustError>,
    },
    /// The bundle's index is older, and the one accepted before is not accepted any more.
    #[error(
        "the bundle's index is older than the one accepted before, and packages are judged by \
         that one, which is in the store. Of that one: {source}"
    )]
    Accepted {
        /// The repository.
        url: CanonicalUrl,
        /// Why.
        source: Box<TrustError>,
    },
    /// Keys for repositories, and a bundle without one.
    #[error("the bundle has no repository, so the keys given for repositories check nothing")]
    NoRepositories,
    /// None of the keys given for the bundle itself signed it.
    #[error("the bundle is signed by none of the keys given with --bundle-key ({}); {}", ids(.given), signed_by(.signed))]
    NotSigned {
        /// The keys given.
        given: Vec<KeyId>,
        /// The keys that signed.
        signed: Vec<KeyId>,
    },
    /// Nobody vouches for what belongs to no package.
    #[error("{what} in the bundle belong to no package, so nobody vouches for them")]
    Unvouched {
        /// How much of what.
        what: String,
        /// There are packages too.
        beside: bool,
    },
    /// A change of trust that would not last.
    #[error("--change-trust and --as-of do not go together")]
    ChangeAsOf,
    /// An id that is no entry's.
    #[error("{0} is no trust entry: it holds the keys of all of them")]
    NotAnEntry(&'static str),
    /// What a signed package pins cannot be read.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The head claims what no signed package says, or lacks what one does.
    #[error(transparent)]
    Claims(#[from] ClaimError),
    /// The bundle lacks what a trust entry asks.
    #[error(transparent)]
    Wants(#[from] WantError),
    /// Manifests, blobs and head do not agree.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// Content has no place in the mirror.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The store cannot take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the store remembers of a repository cannot be read.
    #[error("the store's memory of this repository is damaged: {why}")]
    Memory {
        /// The repository.
        url: CanonicalUrl,
        /// What is wrong with it.
        why: String,
    },
    /// Others keep changing the store.
    #[error("the store was changed by others {0} times while this import was ready to finish")]
    Busy(u32),
    /// There is less room than the bundle needs.
    #[error(
        "the store has {free} bytes free, and the bundle brings {needed} bytes that are not there yet"
    )]
    NoRoom {
        /// Bytes that are new to the store.
        needed: u64,
        /// Bytes the store may still use.
        free: u64,
    },
}

fn ids(ids: &[KeyId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}

fn signed_by(signed: &[KeyId]) -> String {
    match signed {
        [] => "nobody has signed it".to_owned(),
        signed => format!("it is signed by {}", ids(signed)),
    }
}

impl ImportError {
    /// This error, said of the file `bundle`, where it does not say of what it is.
    pub(crate) fn of(self, bundle: &Bundle) -> ImportError {
        match (self, bundle.path()) {
            (ImportError::Format(error), Some(path)) => error.in_file(path).into(),
            (
                error @ (ImportError::Pin(_)
                | ImportError::Claims(_)
                | ImportError::Wants(_)
                | ImportError::NoRepositories
                | ImportError::NotSigned { .. }
                | ImportError::Unvouched { .. }
                | ImportError::Closure(_)
                | ImportError::Placement(_)),
                Some(path),
            ) => ImportError::InFile {
                path: path.to_owned(),
                source: Box::new(error),
            },
            (error, _) => error,
        }
    }
}

impl Classify for ImportError {
    fn kind(&self) -> Kind {
        match self {
            ImportError::InFile { source, .. } => source.kind(),
            ImportError::Given(error) => error.kind(),
            ImportError::Format(error) => error.kind(),
            ImportError::Trust { source, .. } | ImportError::Accepted { source, .. } => {
                source.kind()
            }
            ImportError::ChangeAsOf | ImportError::NoRepositories | ImportError::NotAnEntry(_) => {
                Kind::Usage
            }
            ImportError::Store(error) => error.kind(),
            ImportError::Pin(_)
            | ImportError::Claims(_)
            | ImportError::Wants(_)
            | ImportError::NotSigned { .. }
            | ImportError::Unvouched { .. }
            | ImportError::Closure(_)
            | ImportError::Placement(_) => Kind::Refused,
            ImportError::Memory { .. } | ImportError::Busy(_) | ImportError::NoRoom { .. } => {
                Kind::Failed
            }
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            ImportError::Format(error) => error.place(),
            ImportError::InFile { path, .. } => Some(path.display().to_string()),
            ImportError::Trust { url, .. }
            | ImportError::Accepted { url, .. }
            | ImportError::Memory { url, .. } => Some(url.to_string()),
            ImportError::Store(error) => error.place(),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            ImportError::InFile { source, .. } => return source.hint(),
            ImportError::Given(error) => return error.hint(),
            ImportError::Format(error) => return error.hint(),
            ImportError::Trust { source, .. } | ImportError::Accepted { source, .. } => {
                return source.hint();
            }
            ImportError::NoRepositories => {
                "give the key that signed the bundle itself with --bundle-key, or leave these keys \
                 away (KUBEPKG_PUBLIC_KEY and the like too) and take its own word with \
                 --allow-unpinned-images"
            }
            ImportError::NotSigned { .. } => {
                "have it signed where it was made (`kubepkg bundle sign FILE --sign-key KEY`), or \
                 give the public key of who did"
            }
            ImportError::Unvouched { beside: true, .. } => {
                "give the key that signed the bundle with --bundle-key (`kubepkg bundle sign` \
                 signs it), or carry them in a bundle of their own"
            }
            ImportError::Unvouched { .. } => {
                "give the key that signed the bundle with --bundle-key (`kubepkg bundle sign` \
                 signs it), or take its own word with --allow-unpinned-images"
            }
            ImportError::ChangeAsOf => {
                "what is judged as of another time is not remembered, and so no change of trust \
                 either; change it with an import as of now"
            }
            ImportError::NotAnEntry(_) => {
                "it keeps the index of one repository from coming in as that of another; `kubepkg \
                 trust show --store DIR` lists the entries"
            }
            ImportError::Pin(error) => return error.hint(),
            ImportError::Claims(error) => return error.hint(),
            ImportError::Wants(error) => return error.hint(),
            ImportError::Closure(error) => return error.hint(),
            ImportError::Placement(error) => return error.hint(),
            ImportError::Store(error) => return error.hint(),
            ImportError::Memory { .. } => {
                "restore the trust/ folder of the store from a backup; without it an old bundle \
                 could not be told from a new one. `kubepkg trust reset ENTRY` drops the record"
            }
            ImportError::Busy(_) => "run the same command again; what is stored already stays",
            ImportError::NoRoom { .. } => {
                "free some space on the store's disk and run the same command again"
            }
        };
        Some(text.to_owned())
    }

    fn retry(&self) -> bool {
        match self {
            ImportError::InFile { source, .. } => source.retry(),
            other => matches!(other, ImportError::Busy(_)),
        }
    }
}

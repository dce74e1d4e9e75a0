//! What an operator asks of a store and changes in it by hand: which repositories there are and
//! what they weigh, what a reference is made of, removing, tagging and copying within the store.
//!
//! Everything is read from one snapshot of the names; changes go through one commit, tried
//! again on the names of then where somebody else was faster. So all of it works beside a
//! server and running pushes.

mod change;
mod closure;
mod managed;
mod prune;
mod removal;
mod stat;
mod usage;

pub use change::{Moved, copy, remove, tag};
pub use closure::Closure;
pub use managed::{Managed, Records};
pub use prune::{
    Fate, KeptImport, NameFate, PackageFate, Pruning, Release, Stays, Totals, Weight, prune,
    prune_in_bucket, prune_plan,
};
pub use removal::{Removal, removal};
pub use stat::{Brought, ReferenceStat, StoreStat, stat, stat_store};
pub use usage::{Usage, usages};

use kubepkg_core::Digest;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Names, Repository, StoreError};

use crate::route::Target;

/// Why something cannot be done with names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManageError {
    /// There is no such repository, tag or manifest.
    #[error("{reference} is not in this store")]
    NotFound {
        /// What was asked for.
        reference: String,
        /// What there is instead.
        hint: Option<String>,
    },
    /// Something else still needs it.
    #[error("{reference} is still needed: {by}")]
    Needed {
        /// What was to be removed.
        reference: String,
        /// By whom.
        by: String,
    },
    /// A tag means something else already.
    #[error("{reference} exists already and is {digest}")]
    Taken {
        /// The tag with its repository.
        reference: String,
        /// What it points at.
        digest: Digest,
    },
    /// The content of something that names promise is not in the store.
    #[error("{digest} is not in the store")]
    Lost {
        /// The content's digest.
        digest: Digest,
    },
    /// Others changed the store faster than this could.
    #[error("the store is changed by others all the time")]
    Busy,
    /// The store cannot do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Classify for ManageError {
    fn kind(&self) -> Kind {
        match self {
            ManageError::NotFound { .. } => Kind::NotFound,
            ManageError::Store(error) => error.kind(),
            ManageError::Needed { .. }
            | ManageError::Taken { .. }
            | ManageError::Lost { .. }
            | ManageError::Busy => Kind::Failed,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            ManageError::Store(error) => error.place(),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ManageError::NotFound { hint, .. } => hint.clone(),
            ManageError::Needed { .. } => Some("remove that first, or add --force".to_owned()),
            ManageError::Taken { .. } => Some("add --force to move it".to_owned()),
            ManageError::Lost { .. } => {
                Some("look at the whole store with `kubepkg mirror check`".to_owned())
            }
            ManageError::Busy => Some("run the same command again".to_owned()),
            ManageError::Store(error) => error.hint(),
        }
    }

    fn retry(&self) -> bool {
        matches!(self, ManageError::Busy)
    }
}

/// A repository, by its name.
fn repository<'n>(names: &'n Names, name: &RepositoryName) -> Result<&'n Repository, ManageError> {
    match names.repositories.get(name) {
        Some(repository) => Ok(repository),
        None => Err(ManageError::NotFound {
            reference: name.to_string(),
            hint: Some("`kubepkg mirror list` shows what there is".to_owned()),
        }),
    }
}

/// The manifest a target means in a repository.
fn resolve(names: &Names, name: &RepositoryName, target: &Target) -> Result<Digest, ManageError> {
    let repository = repository(names, name)?;
    let found = match target {
        Target::Tag(tag) => repository.tags.get(tag).map(|entry| entry.digest),
        Target::Digest(digest) => repository.manifests.contains_key(digest).then_some(*digest),
    };
    found.ok_or_else(|| ManageError::NotFound {
        reference: reference(name, target),
        hint: Some(format!("`kubepkg mirror list {name}` shows its tags")),
    })
}

/// A reference as it is written.
fn reference(name: &RepositoryName, target: &Target) -> String {
    match target {
        Target::Tag(tag) => format!("{name}:{tag}"),
        Target::Digest(digest) => format!("{name}@{digest}"),
    }
}

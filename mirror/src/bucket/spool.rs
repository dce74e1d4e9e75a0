//! Uploads under way: a folder of this replica, where bytes lie until they are whole and have
//! their digest. It is a store of its own, so that uploads are resumed, checked and dropped as
//! everywhere; an upload leaves it when its content is in the bucket.

use std::path::Path;
use std::time::Duration;

use kubepkg_core::store::StoreError;

use crate::store::{FileStore, Looked, OpenMode};

/// The folder of uploads under way. Clones are the same.
#[derive(Clone, Debug)]
pub struct Spool {
    files: FileStore,
}

impl Spool {
    /// Opens it, or makes it in an empty or missing folder. `min_free` per mille of its disk
    /// stay free. Does file work: call it before serving begins.
    ///
    /// # Errors
    /// A store that holds something: this one is for uploads alone.
    pub async fn open(folder: &Path, min_free: u32) -> Result<Spool, StoreError> {
        let files = FileStore::open(folder, OpenMode::OpenOrCreate)?;
        must_hold_nothing(&files).await?;
        Ok(Spool {
            files: files.min_free(min_free),
        })
    }

    /// What [`Spool::open`] would do. Touches nothing.
    ///
    /// # Errors
    /// Why it would fail, as far as one can tell.
    pub async fn look(folder: &Path) -> Result<Looked, StoreError> {
        let looked = FileStore::look(folder, OpenMode::OpenOrCreate)?;
        if looked == Looked::Use {
            must_hold_nothing(&FileStore::open(folder, OpenMode::ReadOnly)?).await?;
        }
        Ok(looked)
    }

    /// Where uploads are begun and gone on with.
    pub(super) fn files(&self) -> &FileStore {
        &self.files
    }

    /// Drops uploads to which nothing was added for so long; answers how many, and how many
    /// bytes they held.
    pub(super) async fn expire(&self, idle: Duration) -> Result<(usize, u64), StoreError> {
        self.files.expire_uploads(idle).await
    }
}

async fn must_hold_nothing(files: &FileStore) -> Result<(), StoreError> {
    let names = files.names().await?;
    match names.repositories.is_empty() && names.sites.is_empty() {
        true => Ok(()),
        false => Err(StoreError::Unusable {
            path: files.root().to_owned(),
            why: "it is a store of its own, and uploads on their way into a bucket are no part \
                  of it; give an empty folder with --local"
                .to_owned(),
        }),
    }
}

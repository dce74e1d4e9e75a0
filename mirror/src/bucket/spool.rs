//! Uploads under way: a folder of this replica, where bytes lie until they are whole and have
//! their digest. It is a store of its own, so that uploads are resumed, checked and dropped as
//! everywhere; content leaves it as soon as it is complete.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kubepkg_core::Digest;
use kubepkg_core::store::{FileRange, StoreError};

use crate::sink::{SinkError, Upload};
use crate::store::{FileStore, OpenMode};

/// The folder of uploads under way. Clones are the same.
#[derive(Clone, Debug)]
pub struct Spool {
    files: FileStore,
    /// Two uploads may bring the same content: who completes one takes its bytes out before the
    /// next one completes.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Spool {
    /// Opens it, or makes it in an empty or missing folder. `min_free` per mille of its disk
    /// stay free. Does file work: call it before serving begins.
    ///
    /// # Errors
    /// A store that holds something: content is taken out of this one as it is completed, and
    /// would be out of that.
    pub async fn open(folder: &Path, min_free: u32) -> Result<Spool, StoreError> {
        let files = FileStore::open(folder, OpenMode::OpenOrCreate)?;
        let names = files.names().await?;
        if !names.repositories.is_empty() || !names.sites.is_empty() {
            return Err(StoreError::Unusable {
                path: folder.to_owned(),
                why: "it is a store of its own, and uploads on their way into a bucket would take \
                      content out of it; give an empty folder with --local"
                    .to_owned(),
            });
        }
        Ok(Spool {
            files: files.min_free(min_free),
            turn: Arc::default(),
        })
    }

    /// Where uploads are begun and gone on with.
    pub(super) fn files(&self) -> &FileStore {
        &self.files
    }

    /// Ends an upload and takes its content out: the file is open and has no name any more.
    pub(super) async fn finish(
        &self,
        upload: Box<dyn Upload>,
        digest: Digest,
    ) -> Result<(u64, FileRange), SinkError> {
        let _turn = self.turn.lock().await;
        let size = upload.finish(digest).await?;
        match self.files.take_out(digest).await? {
            Some(range) => Ok((size, range)),
            None => Err(StoreError::Missing { digest }.into()),
        }
    }

    /// Drops uploads to which nothing was added for so long; answers how many, and how many
    /// bytes they held.
    pub(super) async fn expire(&self, idle: Duration) -> Result<(usize, u64), StoreError> {
        self.files.expire_uploads(idle).await
    }
}

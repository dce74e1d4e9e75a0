//! The store a verb works on by hand: in a folder on this host, or in a bucket.

use std::path::Path;
use std::sync::Arc;

use kubepkg_core::store::{Names, StoreError};
use kubepkg_mirror::bucket::{Bucket, BucketMode, BucketStore};
use kubepkg_mirror::store::{FileStore, OpenMode};

use super::{bucket_place, store_folder};
use crate::error::CommandError;

/// An open store.
pub enum SomeStore {
    /// In a folder.
    Folder(FileStore),
    /// In a bucket.
    Bucket(BucketStore),
}

impl SomeStore {
    /// Opens the store at a place; one that is not there is what was not found.
    pub async fn open(place: &Path, mode: OpenMode) -> anyhow::Result<SomeStore> {
        match bucket_place::open(place)? {
            Some(bucket) => Ok(SomeStore::Bucket(in_bucket(bucket).await?)),
            None => {
                store_folder::must_be_found(place)?;
                Ok(SomeStore::Folder(FileStore::open(place, mode)?))
            }
        }
    }

    /// All names.
    pub async fn names(&self) -> Result<Arc<Names>, StoreError> {
        match self {
            SomeStore::Folder(store) => store.names().await,
            SomeStore::Bucket(store) => store.names().await,
        }
    }
}

/// Opens the store in a bucket.
pub async fn in_bucket(bucket: Bucket) -> anyhow::Result<BucketStore> {
    if !BucketStore::is_in(&bucket).await? {
        return Err(CommandError::not_found("there is no store in this bucket")
            .at(bucket.place())
            .hint("is the prefix right? A new store is made by the first import")
            .into());
    }
    Ok(BucketStore::open(bucket, BucketMode::Open).await?)
}

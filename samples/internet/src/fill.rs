//! Content into a store, through the trait any filler uses.

use anyhow::Result;
use bytes::Bytes;
use kubepkg_core::digest::Digest;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::manifest::Manifest;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{
    Batch, Body, Cause, Change, Committed, ManifestEntry, SiteEntry, SiteFile, Store, TagEntry,
};
use kubepkg_core::time::Time;

/// Gathers content, then makes all of it visible in one commit.
pub struct Filler<'s, S: Store> {
    store: &'s S,
    staged: Vec<S::Staged>,
    changes: Vec<Change>,
}

impl<'s, S: Store> Filler<'s, S> {
    /// A filler of `store`.
    pub fn new(store: &'s S) -> Filler<'s, S> {
        Filler {
            store,
            staged: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Adds a manifest with the blobs it names, under a tag. Gives its digest.
    pub async fn manifest(
        &mut self,
        repository: &RepositoryName,
        tag: Tag,
        bytes: Vec<u8>,
        blobs: Vec<Vec<u8>>,
    ) -> Result<Digest> {
        let manifest = Manifest::parse(&bytes, None)?;
        for blob in blobs {
            let (digest, size) = self.stage(blob).await?;
            self.changes.push(Change::Blob {
                repository: repository.clone(),
                digest,
                new: Some(size),
            });
        }
        let (digest, size) = self.stage(bytes).await?;
        let entry = ManifestEntry::of(&manifest, size);
        self.changes.push(Change::Manifest {
            repository: repository.clone(),
            digest,
            new: Some(entry),
        });
        let new = Some(TagEntry {
            digest,
            origin: None,
        });
        self.changes.push(Change::Tag {
            repository: repository.clone(),
            tag,
            new,
        });
        Ok(digest)
    }

    /// Adds the files of an index.
    pub async fn site(&mut self, url: &CanonicalUrl, files: Vec<(String, Vec<u8>)>) -> Result<()> {
        let mut entry = SiteEntry {
            url: url.clone(),
            set: 0,
            files: Default::default(),
        };
        for (path, bytes) in files {
            let (digest, size) = self.stage(bytes).await?;
            entry.files.insert(path, SiteFile { digest, size });
        }
        self.changes.push(Change::Site {
            folder: url.folder(),
            new: Some(entry),
        });
        Ok(())
    }

    /// Makes everything visible.
    pub async fn commit(self, at: Time) -> Result<()> {
        self.store.publish(self.staged).await?;
        let expected = self.store.sequence().await?;
        let batch = Batch {
            at,
            cause: Cause::Push,
            changes: self.changes,
        };
        match self.store.commit(expected, batch).await? {
            Committed::Done(_) => Ok(()),
            Committed::Conflict { .. } => anyhow::bail!("somebody else fills this store"),
        }
    }

    async fn stage(&mut self, bytes: Vec<u8>) -> Result<(Digest, u64)> {
        let (digest, size) = (Digest::sha256(&bytes), bytes.len() as u64);
        self.staged.push(
            self.store
                .stage(digest, size, Body::Bytes(Bytes::from(bytes)))
                .await?,
        );
        Ok((digest, size))
    }
}

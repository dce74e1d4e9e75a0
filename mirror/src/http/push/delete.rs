//! Deleting names. Bytes go later, when a collection finds that nothing names them.

use axum::response::Response;
use kubepkg_core::Digest;
use kubepkg_core::store::{Change, Names, Repository};

use super::Pushing;
use crate::http::error::{ApiError, Code};
use crate::route::{Ask, Target};

impl Pushing<'_> {
    /// `DELETE …/manifests/<tag or digest>`: the tag, or the manifest and all tags on it, which
    /// go in the same moment.
    pub(super) async fn delete_manifest(&self, target: Target) -> Result<Response, ApiError> {
        let repository = || self.name.clone();
        let what = target.to_string();
        let decide = |names: &Names| {
            let found = self.repository(names)?;
            let absent = || {
                let ask = Ask::Manifest(target.clone());
                ApiError::not_in(self.place, Code::ManifestUnknown, &ask)
            };
            let mut changes = Vec::new();
            match &target {
                Target::Tag(tag) => {
                    found.tags.get(tag).ok_or_else(absent)?;
                    changes.push(Change::Tag {
                        repository: repository(),
                        tag: tag.clone(),
                        new: None,
                    });
                }
                Target::Digest(digest) => {
                    found.manifests.get(digest).ok_or_else(absent)?;
                    let tags = found
                        .tags
                        .iter()
                        .filter(|(_, entry)| entry.digest == *digest);
                    changes.extend(tags.map(|(tag, _)| Change::Tag {
                        repository: repository(),
                        tag: tag.clone(),
                        new: None,
                    }));
                    changes.push(Change::Manifest {
                        repository: repository(),
                        digest: *digest,
                        new: None,
                    });
                }
            }
            Ok((changes, ()))
        };
        self.change_for(&what, decide).await?;
        Ok(self.accepted())
    }

    /// `DELETE …/blobs/<digest>`: it is no blob of this repository any more.
    pub(super) async fn delete_blob(&self, digest: Digest) -> Result<Response, ApiError> {
        let decide = |names: &Names| {
            let found = self.repository(names)?;
            if !found.blobs.contains_key(&digest) {
                let ask = Ask::Blob(digest);
                return Err(ApiError::not_in(self.place, Code::BlobUnknown, &ask));
            }
            let change = Change::Blob {
                repository: self.name.clone(),
                digest,
                new: None,
            };
            Ok((vec![change], ()))
        };
        self.change_for(&digest.to_string(), decide).await?;
        Ok(self.accepted())
    }

    fn repository<'n>(&self, names: &'n Names) -> Result<&'n Repository, ApiError> {
        let found = names.repositories.get(&self.name);
        found
            .map(AsRef::as_ref)
            .ok_or_else(|| ApiError::no_repository(self.place))
    }
}

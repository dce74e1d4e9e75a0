//! Mounting: a blob that another repository has already becomes one of this repository
//! without being sent again.

use axum::response::Response;
use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Change, Names, StoreError};

use super::Pushing;
use super::names::Unchanged;
use crate::http::auth;
use crate::http::content::standing;
use crate::http::error::ApiError;
use crate::sink::SinkError;
use crate::source::Standing;

impl Pushing<'_> {
    /// `POST ?mount=`: 201 when it is done, else an upload is begun as without it.
    pub(super) async fn mount(
        &self,
        digest: Digest,
        from: Option<RepositoryName>,
        named: bool,
    ) -> Result<Response, ApiError> {
        let what = digest.to_string();
        // what is found may be given up by its repository before it is named here
        let kept = self.push.sink.keep().await;
        let _kept = kept.map_err(|error| self.refused(error, &what))?;
        // what is damaged is no source; asked again as somebody may have healed it
        standing(&self.shared.source, &digest).await?;
        let mounted = self.change(|names| {
            let size = self.source_of(names, &digest, from.as_ref(), named);
            let changes = size.map(|size| Change::Blob {
                repository: self.name.clone(),
                digest,
                new: Some(size),
            });
            Ok((changes.into_iter().collect(), size.is_some()))
        });
        match mounted.await {
            Ok(true) => Ok(self.created(&format!("blobs/{digest}"), &digest)),
            // a name promises it and it is not there: it has to be sent again
            Ok(false)
            | Err(Unchanged::Sink(SinkError::Store(
                StoreError::Missing { .. } | StoreError::Mismatch { .. },
            ))) => self.begin(digest.algorithm()).await,
            Err(Unchanged::Decided(error)) => Err(error),
            Err(Unchanged::Sink(error)) => Err(self.refused(error, &what)),
        }
    }

    /// Size of the blob in the repository it may be mounted from: one the client may read. Any
    /// of those will do where none is named.
    fn source_of(
        &self,
        names: &Names,
        digest: &Digest,
        from: Option<&RepositoryName>,
        named: bool,
    ) -> Option<u64> {
        // its bytes are damaged: sending it again heals it
        if self.shared.source.standing(digest) == Standing::Quarantined {
            return None;
        }
        let may_read = |name: &RepositoryName| auth::may_read(self.shared, self.asking, name);
        let in_one = |name: &RepositoryName| {
            let repository = names.repositories.get(name)?;
            let size = repository.blobs.get(digest).copied()?;
            may_read(name).then_some(size)
        };
        if named {
            return from.and_then(|name| {
                in_one(name).or_else(|| crate::namespace::in_library(name).and_then(|n| in_one(&n)))
            });
        }
        if !self.push.settings.mount_from_anywhere {
            return None;
        }
        let mut all = names.repositories.iter();
        all.find_map(|(name, repository)| {
            let size = repository.blobs.get(digest).copied()?;
            may_read(name).then_some(size)
        })
    }
}

//! What a manifest says of the content it names, held against what is here.

use http::StatusCode;
use kubepkg_core::manifest::Manifest;
use kubepkg_core::store::{ManifestEntry, Names};
use kubepkg_core::{Descriptor, Digest};

use super::Pushing;
use super::manifest::is_foreign;
use crate::http::error::{ApiError, Code};
use crate::source::Standing;

/// Bytes of annotations and types of one manifest that stay in memory, to answer referrers
/// from. Signatures and attestations have a few KiB.
const MAX_KEPT: usize = 64 * 1024;

impl Pushing<'_> {
    /// Refuses a manifest of which too much would have to be kept in memory.
    pub(super) fn check_kept(&self, entry: &ManifestEntry, what: &str) -> Result<(), ApiError> {
        let kept = kept(entry);
        if kept <= MAX_KEPT {
            return Ok(());
        }
        let message = format!(
            "manifest {what} of {}: its annotations and artifactType have {kept} bytes, at most \
             {MAX_KEPT} are taken; put what is large into a layer",
            self.place.asked
        );
        let status = StatusCode::BAD_REQUEST;
        Err(self.error(status, Code::ManifestInvalid, message, what))
    }

    /// Whether what a manifest names and this repository has is really there, with the size
    /// that the manifest says. What is not counts as missing here, and for everybody who asks
    /// for it, so that the client sends it again.
    pub(super) async fn check_content(
        &self,
        names: &Names,
        manifest: &Manifest,
        what: &str,
    ) -> Result<(), ApiError> {
        let Some(repository) = names.repositories.get(&self.name) else {
            return Ok(());
        };
        let mut named = Vec::new();
        let blobs = manifest.blobs().into_iter();
        for one in blobs.chain(manifest.children()) {
            let digest = &one.digest;
            let as_blob = repository.blobs.get(digest).copied();
            let size = as_blob.or_else(|| repository.manifests.get(digest).map(|m| m.size));
            // what is not of this repository is a matter of names
            let Some(size) = size.filter(|_| !is_foreign(one)) else {
                continue;
            };
            if one.size != size {
                return Err(self.wrong_size(one, size, what));
            }
            named.push((*digest, size));
        }
        named.sort_unstable();
        named.dedup();
        let source = &self.shared.source;
        let damaged = |digest: &Digest| source.standing(digest) == Standing::Quarantined;
        let looked_for = named.iter().map(|(digest, _)| *digest).collect();
        let found = source.sizes(looked_for).await;
        let found = found.map_err(|error| ApiError::store(&error))?;
        let mut missing = Vec::new();
        for ((digest, size), found) in named.iter().zip(found) {
            if found != Some(*size) {
                source.doubt(digest, *size);
                missing.push(*digest);
            }
        }
        missing.extend(named.iter().map(|(digest, _)| *digest).filter(damaged));
        missing.sort_unstable();
        missing.dedup();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(self.missing(what, missing)),
        }
    }

    fn wrong_size(&self, named: &Descriptor, size: u64, what: &str) -> ApiError {
        let message = format!(
            "manifest {what} of {} says that {} has {} bytes, it has {size}",
            self.place.asked, named.digest, named.size
        );
        let status = StatusCode::BAD_REQUEST;
        self.error(status, Code::ManifestInvalid, message, what)
    }
}

fn kept(entry: &ManifestEntry) -> usize {
    let annotations = entry.annotations.iter();
    let bytes: usize = annotations
        .map(|(key, value)| key.len() + value.len())
        .sum();
    bytes
        + entry
            .artifact_type
            .as_ref()
            .map_or(0, |text| text.as_str().len())
}

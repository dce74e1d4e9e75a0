//! Manifests: stored byte for byte, once everything they are made of is here.

use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName};
use kubepkg_core::descriptor::media_type;
use kubepkg_core::manifest::{MAX_MANIFEST, Manifest, ManifestError};
use kubepkg_core::name::Tag;
use kubepkg_core::store::{Change, ManifestEntry, Names, StoreError, TagEntry};
use kubepkg_core::{Descriptor, Digest};
use serde_json::json;

use super::incoming::{Incoming, NotAll};
use super::names::Unchanged;
use super::shares::Share;
use super::{Pushing, insert};
use crate::http::error::{ApiError, Code};
use crate::http::fresh;
use crate::route::Target;
use crate::sink::SinkError;
use crate::source::Age;

const OCI_SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
const OCI_TAG: HeaderName = HeaderName::from_static("oci-tag");
const WARNING: HeaderName = HeaderName::from_static("warning");

/// A manifest takes room in memory that others wait for, so it has to come within this time:
/// 4 MiB over the slowest lines there are.
const BODY_WITHIN: Duration = Duration::from_secs(120);

/// Missing objects named in one answer.
const MAX_MISSING: usize = 100;

impl Pushing<'_> {
    /// `PUT …/manifests/<tag or digest>`
    pub(super) async fn put_manifest(
        &self,
        target: Target,
        mut tags: Vec<Tag>,
        incoming: &mut Incoming,
    ) -> Result<Response, ApiError> {
        let what = target.to_string();
        let _room = self.room(&what, incoming.length()).await?;
        let bytes = self.body(&what, incoming).await?;
        let digest = match &target {
            Target::Digest(digest) if digest.matches(&bytes) => *digest,
            Target::Digest(digest) => return Err(self.other_digest(digest, &bytes)),
            Target::Tag(tag) => {
                tags.push(tag.clone());
                Digest::sha256(&bytes)
            }
        };
        let manifest = Manifest::parse(&bytes, self.declared(&what)?.as_deref())
            .map_err(|error| self.invalid(&what, &error))?;
        let entry = ManifestEntry::of(&manifest, bytes.len() as u64);
        self.check_kept(&entry, &what)?;

        let names = fresh::names(self.shared, Age::Moment).await?;
        self.check_present(&names, &manifest, &what)?;
        self.check_content(&names, &manifest, &what).await?;
        drop(names);
        let kept = self.push.sink.put(digest, bytes).await;
        let _kept = kept.map_err(|error| self.refused(error, &what))?;
        let changed = self.change(|names| {
            // what was there may have been deleted meanwhile
            self.check_present(names, &manifest, &what)?;
            Ok((self.changes(digest, &entry, &tags), ()))
        });
        changed.await.map_err(|error| match error {
            Unchanged::Decided(error) => error,
            Unchanged::Sink(SinkError::Store(StoreError::Missing { digest })) => {
                self.missing(&what, vec![digest])
            }
            Unchanged::Sink(error) => self.refused(error, &what),
        })?;

        let mut response = self.created(&format!("manifests/{digest}"), &digest);
        let headers = response.headers_mut();
        if let Some(subject) = &manifest.subject {
            insert(headers, OCI_SUBJECT, &subject.digest.to_string());
        }
        if matches!(target, Target::Digest(_)) && !tags.is_empty() {
            let list: Vec<&str> = tags.iter().map(Tag::as_str).collect();
            insert(headers, OCI_TAG, &list.join(", "));
        }
        let foreign = manifest.blobs().into_iter().filter(|blob| is_foreign(blob));
        match foreign.count() {
            0 => {}
            n => insert(
                headers,
                WARNING,
                &format!(
                    "299 - \"{n} layers are to be had elsewhere and need not be in this mirror\""
                ),
            ),
        }
        Ok(response)
    }

    /// Room in memory for the manifest, as long as it may be.
    async fn room(&self, what: &str, length: Option<u64>) -> Result<Share, ApiError> {
        let bytes = match length {
            // refused before it is read
            Some(length) if length > MAX_MANIFEST => 0,
            Some(length) => length,
            None => MAX_MANIFEST,
        };
        let room = self
            .push
            .bounds
            .manifest(&self.asking.client(), bytes)
            .await;
        room.ok_or_else(|| {
            let asked = &self.place.asked;
            let message = format!("manifest {what} of {asked}: too many are sent at once");
            ApiError::later(message, json!({"name": asked, "reference": what}))
        })
    }

    async fn body(&self, what: &str, incoming: &mut Incoming) -> Result<Bytes, ApiError> {
        let read = tokio::time::timeout(BODY_WITHIN, incoming.all(MAX_MANIFEST)).await;
        read.unwrap_or(Err(NotAll::Slow))
            .map_err(|error| match error {
                NotAll::TooLong => self.error(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    Code::SizeInvalid,
                    format!(
                        "manifest {what} of {} is larger than {MAX_MANIFEST} bytes",
                        self.place.asked
                    ),
                    what,
                ),
                NotAll::Slow => self.error(
                    StatusCode::REQUEST_TIMEOUT,
                    Code::SizeInvalid,
                    format!(
                        "manifest {what} of {} was not here after {} s",
                        self.place.asked,
                        BODY_WITHIN.as_secs()
                    ),
                    what,
                ),
                NotAll::Broken(error) => self.error(
                    StatusCode::BAD_REQUEST,
                    Code::SizeInvalid,
                    format!("manifest {what} of {}: {error}", self.place.asked),
                    what,
                ),
            })
    }

    /// The media type the client gives, without parameters. A type that says no more than
    /// "JSON" or "bytes" is none.
    fn declared(&self, what: &str) -> Result<Option<String>, ApiError> {
        let Some(value) = self.asking.headers.get(CONTENT_TYPE) else {
            return Ok(None);
        };
        let text = value.to_str().map_err(|_| {
            let message = format!(
                "manifest {what} of {}: its Content-Type is no text",
                self.place.asked
            );
            self.error(
                StatusCode::BAD_REQUEST,
                Code::ManifestInvalid,
                message,
                what,
            )
        })?;
        let plain = text.split(';').next().unwrap_or_default().trim();
        let plain = plain.to_ascii_lowercase();
        let says_nothing = matches!(
            plain.as_str(),
            "" | "application/json" | "application/octet-stream"
        );
        Ok((!says_nothing).then_some(plain))
    }

    fn other_digest(&self, digest: &Digest, bytes: &Bytes) -> ApiError {
        let found = Digest::of(digest.algorithm(), bytes);
        let message = format!(
            "what was sent to {} as manifest {digest} is {found}; nothing was stored",
            self.place.asked
        );
        let status = StatusCode::BAD_REQUEST;
        self.error(status, Code::DigestInvalid, message, &digest.to_string())
    }

    fn invalid(&self, what: &str, error: &ManifestError) -> ApiError {
        let message = format!("manifest {what} of {}: {error}", self.place.asked);
        let status = StatusCode::BAD_REQUEST;
        self.error(status, Code::ManifestInvalid, message, what)
    }

    /// Whether all a manifest is made of is in this repository. Its subject may come later, and
    /// layers that name another place may stay there.
    fn check_present(
        &self,
        names: &Names,
        manifest: &Manifest,
        what: &str,
    ) -> Result<(), ApiError> {
        let repository = names.repositories.get(&self.name);
        let is_blob = |d: &Digest| repository.is_some_and(|r| r.blobs.contains_key(d));
        let is_manifest = |d: &Digest| repository.is_some_and(|r| r.manifests.contains_key(d));
        let mut missing: Vec<Digest> = manifest
            .blobs()
            .into_iter()
            .filter(|blob| !is_blob(&blob.digest) && !is_foreign(blob))
            .map(|blob| blob.digest)
            .collect();
        if !self.push.settings.sparse_indexes {
            // build caches list layers in an index
            let children = manifest.children().iter().map(|child| child.digest);
            missing.extend(children.filter(|child| !is_manifest(child) && !is_blob(child)));
        }
        missing.sort_unstable();
        missing.dedup();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(self.missing(what, missing)),
        }
    }

    pub(super) fn missing(&self, what: &str, mut missing: Vec<Digest>) -> ApiError {
        missing.truncate(MAX_MISSING);
        let asked = &self.place.asked;
        let mut errors = missing.into_iter().map(|digest| {
            (
                format!("manifest {what} of {asked} names {digest}, which is not in {asked}"),
                json!({"name": asked, "reference": what, "digest": digest}),
            )
        });
        let (message, detail) = errors.next().unwrap_or_default();
        let status = StatusCode::BAD_REQUEST;
        let mut error = ApiError::new(status, Code::ManifestBlobUnknown, message, detail);
        error.more = errors.collect();
        error
    }

    fn changes(&self, digest: Digest, entry: &ManifestEntry, tags: &[Tag]) -> Vec<Change> {
        let repository = || self.name.clone();
        let mut changes = vec![Change::Manifest {
            repository: repository(),
            digest,
            new: Some(entry.clone()),
        }];
        changes.extend(tags.iter().map(|tag| Change::Tag {
            repository: repository(),
            tag: tag.clone(),
            new: Some(TagEntry {
                digest,
                origin: None,
            }),
        }));
        changes
    }
}

/// Whether a layer need not be here: it says itself where it is to be had.
pub(super) fn is_foreign(blob: &Descriptor) -> bool {
    !blob.urls.is_empty() || media_type::is_foreign_layer(&blob.media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_windows_images_may_be_elsewhere() {
        let layer = |kind: &str, urls: &[&str]| {
            let mut layer = Descriptor::new(kind, Digest::sha256(b""), 0);
            layer.urls = urls.iter().map(|url| (*url).to_owned()).collect();
            layer
        };
        let plain = "application/vnd.oci.image.layer.v1.tar+gzip";
        assert!(!is_foreign(&layer(plain, &[])));
        assert!(is_foreign(&layer(plain, &["https://x.example/l"])));
        let foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
        assert!(is_foreign(&layer(foreign, &[])));
        assert!(!media_type::is_index(foreign));
    }
}

//! Writing to a registry: what is published under a tag, and a manifest under one.
//!
//! Everything goes to the registry itself, never to a mirror that stands for it, and so do the
//! questions about what is there.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use kubepkg_core::{Descriptor, Digest, Reference};

use super::upload::{Failed, Plan, Upload};
use super::{BlobSink, CONTENT_DIGEST, RawManifest, Registry, header_text};
use crate::body::{Body, Content, Part};
use crate::error::{Fault, RemoteError};
use crate::http::{Answer, fault_of_status};
use crate::options::Progress;

impl Registry {
    /// What the registry of `reference` itself has under it, asked with leave to push, so that
    /// whoever has none learns it before anything is sent.
    ///
    /// # Errors
    /// As [`Registry::manifest`], but for "not there".
    pub async fn published(
        &self,
        reference: &Reference,
    ) -> Result<Option<RawManifest>, RemoteError> {
        let servers = self.server_to_push(reference)?;
        match self.manifest_from(servers, reference).await {
            Ok(manifest) => Ok(Some(manifest)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// [`Registry::download`] from the registry itself.
    ///
    /// # Errors
    /// As there.
    pub async fn download_published<S: BlobSink>(
        &self,
        reference: &Reference,
        blob: &Descriptor,
        sink: S,
    ) -> Result<S, RemoteError> {
        let servers = self.server_to_push(reference)?;
        self.download_from(servers, reference, blob, sink, &())
            .await
    }

    /// Whether the registry itself has `blob`, which a manifest there names. One that does not
    /// answer the question has checked it when it took the manifest.
    ///
    /// # Errors
    /// No access; or what went wrong on the way.
    pub async fn has_published(
        &self,
        reference: &Reference,
        blob: &Descriptor,
    ) -> Result<bool, RemoteError> {
        let servers = self.server_to_push(reference)?;
        let at = servers.at();
        let place = at.place(&format!("{}@{}", reference.repository(), blob.digest));
        let mut ask = self.ask(at, &place, &format!("blobs/{}", blob.digest))?;
        ask.method = Method::HEAD;
        ask.headers.remove(header::ACCEPT);
        let mut tries = self.tries(at);
        let answer = self.send(at, &place, &ask, &mut tries).await?;
        answer.went_well();
        let missing = [StatusCode::NOT_FOUND, StatusCode::GONE];
        Ok(!missing.contains(&answer.response.status()))
    }

    /// Puts `blob` into the repository of `reference`, unless it is there; that is told by the
    /// answer. Whatever goes wrong on the way, an upload begins anew from the first byte, as
    /// often as one thing is tried. What is too large for the registry in one piece goes in
    /// smaller ones.
    ///
    /// # Errors
    /// No access; the registry does not take it, or says that it has stored something else; or
    /// what went wrong on the way.
    pub async fn push_blob(
        &self,
        reference: &Reference,
        blob: &Descriptor,
        content: &Content,
        progress: &Arc<dyn Progress>,
    ) -> Result<bool, RemoteError> {
        let servers = self.server_to_push(reference)?;
        let at = servers.at();
        let place = at.place(&format!("{}@{}", reference.repository(), blob.digest));
        if content.size() != blob.size {
            let fault = Fault::Length {
                expected: blob.size,
                got: content.size(),
            };
            return Err(RemoteError::new(place, fault));
        }
        let upload = Upload {
            registry: self,
            at,
            place: &place,
            blob,
            content,
            progress,
        };
        let mut tries = self.inner.http.tries();
        let mut plan = Plan::Whole;
        let mut sent = false;
        loop {
            let Failed { error, lost } = match upload.is_there().await {
                // after a broken connection it may be there, and nobody else has put it there
                Ok(true) => return Ok(!sent),
                Ok(false) => {
                    sent = true;
                    match upload.send(plan).await {
                        Ok(()) => return Ok(false),
                        Err(failed) => failed,
                    }
                }
                Err(error) => error.into(),
            };
            if let Some(smaller) = plan.smaller(&error, blob.size) {
                tracing::info!(%error, ?smaller, "sending it in smaller pieces");
                plan = smaller;
            } else if lost && tries.again() {
                tracing::info!(%error, "the registry has lost the upload, beginning it anew");
            } else if lost || !self.inner.http.anew(&error, &mut tries) {
                return Err(error);
            }
        }
    }

    /// Puts a manifest under the tag of `reference`. Everything it names is there by then.
    ///
    /// A registry whose tags cannot be moved refuses one that is there, also when it is this
    /// very manifest; that counts as done.
    ///
    /// # Errors
    /// No access; the registry does not take it, or says that it has stored something else; or
    /// what went wrong on the way.
    pub async fn push_manifest(
        &self,
        reference: &Reference,
        media_type: &str,
        bytes: Bytes,
    ) -> Result<(), RemoteError> {
        let digest = Digest::sha256(&bytes);
        let Err(error) = self
            .put_manifest(reference, media_type, bytes, &digest)
            .await
        else {
            return Ok(());
        };
        match self.published(reference).await {
            Ok(Some(there)) if there.digest == digest => Ok(()),
            _ => Err(error),
        }
    }

    async fn put_manifest(
        &self,
        reference: &Reference,
        media_type: &str,
        bytes: Bytes,
        digest: &Digest,
    ) -> Result<(), RemoteError> {
        let servers = self.server_to_push(reference)?;
        let at = servers.at();
        let place = at.place(&reference.to_string());
        let target = match reference.tag() {
            Some(tag) => tag.to_string(),
            None => digest.to_string(),
        };
        let mut ask = self.ask(at, &place, &format!("manifests/{target}"))?;
        ask.method = Method::PUT;
        let kind = HeaderValue::try_from(media_type)
            .map_err(|e| RemoteError::new(&*place, Fault::Url(e.to_string())))?;
        ask.headers.insert(header::CONTENT_TYPE, kind);
        ask.body = Some(Body::Part(Part {
            from: 0,
            length: bytes.len() as u64,
            content: Content::Bytes(bytes),
            progress: Arc::new(()),
        }));
        let mut tries = self.tries(at);
        let answer = self.send(at, &place, &ask, &mut tries).await?;
        stored(answer, &place, digest).await
    }
}

/// Whether `answer` says that content with this digest was stored.
pub(super) async fn stored(
    answer: Answer,
    place: &str,
    digest: &Digest,
) -> Result<(), RemoteError> {
    match answer.response.status() {
        StatusCode::CREATED | StatusCode::OK | StatusCode::NO_CONTENT => {}
        _ => return Err(refused(answer, place).await),
    }
    answer.went_well();
    let said = header_text(answer.response.headers(), CONTENT_DIGEST);
    let said: Option<Digest> = said.and_then(|text| text.parse().ok());
    match said {
        // by another algorithm nothing can be compared
        Some(said) if said.algorithm() == digest.algorithm() && said != *digest => {
            let why = format!("{digest} was sent, and it says that it has stored {said}");
            Err(RemoteError::new(place, Fault::Shape(why)))
        }
        _ => Ok(()),
    }
}

/// The error of an answer to a write; "not found" is a word of the registry's there, not the
/// answer to a question.
pub(super) async fn refused(answer: Answer, place: &str) -> RemoteError {
    let status = answer.response.status().as_u16();
    let url = answer.response.url().clone();
    let message = answer.words().await;
    let fault = match status {
        404 | 410 => Fault::Status { status, message },
        _ => fault_of_status(status, &url, message),
    };
    RemoteError::new(place, fault)
}

//! Uploads of blobs, in one request or many.

use axum::body::Body;
use axum::response::Response;
use http::header::{CONTENT_LENGTH, LOCATION, RANGE};
use http::{HeaderMap, StatusCode};
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::Change;
use kubepkg_core::{Algorithm, Digest};

use super::chunk::{self, Chunk, Unreadable};
use super::incoming::{Broken, Incoming};
use super::{DOCKER_UPLOAD_UUID, Pushing, insert};
use crate::http::content::{respond, standing};
use crate::http::error::{ApiError, Code};
use crate::sink::{SinkError, Upload};
use crate::source::Standing;
use crate::told::told;

/// Why not all of a body was received.
enum Halt {
    Broken(Broken),
    /// Another request goes on with this upload.
    Superseded,
    Sink(SinkError),
}

/// What every answer about an open upload says.
pub(super) fn headers(name: &RepositoryName, id: &str, received: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let location = format!("/v2/{name}/blobs/uploads/{id}");
    insert(&mut headers, LOCATION, &location);
    insert(&mut headers, RANGE, &chunk::received(received));
    insert(&mut headers, DOCKER_UPLOAD_UUID, id);
    headers
}

/// Hands the body to the upload as it comes; answers how many bytes it had.
async fn receive(upload: &mut dyn Upload, incoming: &mut Incoming) -> Result<u64, Halt> {
    let superseded = upload.superseded();
    tokio::pin!(superseded);
    let mut bytes = 0;
    loop {
        let piece = tokio::select! {
            piece = incoming.next() => piece.map_err(Halt::Broken)?,
            () = &mut superseded => return Err(Halt::Superseded),
        };
        let Some(piece) = piece else {
            return Ok(bytes);
        };
        bytes += piece.len() as u64;
        upload.write(piece).await.map_err(Halt::Sink)?;
    }
}

impl Pushing<'_> {
    /// `POST`: an upload whose bytes come later.
    pub(super) async fn begin(&self, algorithm: Algorithm) -> Result<Response, ApiError> {
        let begun = self.open_upload(algorithm, 0).await;
        let id = begun.map_err(|error| self.refused(error, "a new upload"))?;
        Ok(self.open(&id, 0))
    }

    async fn open_upload(&self, algorithm: Algorithm, expected: u64) -> Result<String, SinkError> {
        let client = self.asking.client();
        let begun = self
            .push
            .sink
            .begin(&self.name, algorithm, expected, client);
        begun.await
    }

    /// 202: the upload is open.
    fn open(&self, id: &str, received: u64) -> Response {
        let mut headers = headers(&self.name, id, received);
        headers.insert(CONTENT_LENGTH, 0.into());
        respond(StatusCode::ACCEPTED, headers, Body::empty())
    }

    /// `POST ?digest=`: the whole blob at once.
    pub(super) async fn take_whole(
        &self,
        digest: Digest,
        incoming: &mut Incoming,
    ) -> Result<Response, ApiError> {
        let expected = incoming.length().unwrap_or_default();
        let algorithm = digest.algorithm();
        let begun = self.open_upload(algorithm, expected).await;
        let id = begun.map_err(|error| self.refused(error, &digest.to_string()))?;
        let mut upload = self.resume(&id, expected).await?;
        match receive(&mut *upload, incoming).await {
            Ok(_) => {
                let published = self.publish(upload, digest).await;
                if published.is_err() {
                    self.forget(&id).await;
                }
                published
            }
            Err(halt) => {
                // nobody was told its id
                if let Err(error) = upload.cancel().await {
                    tracing::warn!(id, error = %told(&error), "a broken upload stays until it is too old");
                }
                Err(self.halted(halt, &digest.to_string()))
            }
        }
    }

    /// Drops what is left of an upload whose id nobody was told.
    async fn forget(&self, id: &str) {
        let left = self.push.sink.resume(&self.name, id, 0).await;
        let forgotten = match left {
            Ok(Some(upload)) => upload.cancel().await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = forgotten {
            tracing::warn!(id, error = %told(&error), "a broken upload stays until it is too old");
        }
    }

    /// `PATCH`: more bytes, a stream or a chunk.
    pub(super) async fn append(
        &self,
        id: &str,
        incoming: &mut Incoming,
    ) -> Result<Response, ApiError> {
        let chunk = self.chunk(id, incoming)?;
        let upload = self.resume(id, expected(chunk, incoming)).await?;
        let upload = self.add(id, upload, chunk, incoming).await?;
        let received = upload.pause().await;
        let received = received.map_err(|error| self.refused(error, id))?;
        Ok(self.open(id, received))
    }

    /// `PUT ?digest=`: perhaps more bytes, and then it is whole.
    pub(super) async fn finish(
        &self,
        id: &str,
        digest: Digest,
        incoming: &mut Incoming,
    ) -> Result<Response, ApiError> {
        let chunk = match incoming.length() {
            Some(0) => None,
            _ => self.chunk(id, incoming)?,
        };
        let resumed = self
            .push
            .sink
            .resume(&self.name, id, expected(chunk, incoming))
            .await;
        let Some(mut upload) = resumed.map_err(|error| self.refused(error, id))? else {
            // finished before, by a request whose answer was lost
            return self.finished(id, digest).await;
        };
        upload.expect(digest.algorithm());
        let upload = self.add(id, upload, chunk, incoming).await?;
        self.publish(upload, digest).await
    }

    /// An upload that is not here any more: it ended well when it is remembered so, or when its
    /// blob is one of this repository.
    async fn finished(&self, id: &str, digest: Digest) -> Result<Response, ApiError> {
        if let Some((became, size)) = self.push.sink.finished(&self.name, id)
            && became == digest
        {
            // who finished it may not have come to giving it its name, or never will
            let refused = |error| self.refused(error, id);
            let _kept = self.push.sink.keep().await.map_err(refused)?;
            self.add_blob(digest, size).await?;
            return Ok(self.created(&format!("blobs/{digest}"), &digest));
        }
        let sound = standing(&self.shared.source, &digest).await? != Standing::Quarantined;
        let there = self.change_for(id, |names| {
            let repository = names.repositories.get(&self.name);
            let size = repository.and_then(|repository| repository.blobs.get(&digest));
            let size = size.filter(|_| sound).ok_or_else(|| self.unknown(id))?;
            let change = Change::Blob {
                repository: self.name.clone(),
                digest,
                new: Some(*size),
            };
            Ok((vec![change], ()))
        });
        there.await?;
        Ok(self.created(&format!("blobs/{digest}"), &digest))
    }

    /// `DELETE`: forget it.
    pub(super) async fn cancel(&self, id: &str) -> Result<Response, ApiError> {
        let upload = self.resume(id, 0).await?;
        let cancelled = upload.cancel().await;
        cancelled.map_err(|error| self.refused(error, id))?;
        let headers = HeaderMap::new();
        Ok(respond(StatusCode::NO_CONTENT, headers, Body::empty()))
    }

    /// Adds the body. When it is not what the request says it is, the upload is given back: as
    /// it was before a chunk, with all that arrived of a stream.
    async fn add(
        &self,
        id: &str,
        mut upload: Box<dyn Upload>,
        chunk: Option<Chunk>,
        incoming: &mut Incoming,
    ) -> Result<Box<dyn Upload>, ApiError> {
        let before = upload.received();
        if let Some(chunk) = chunk
            && chunk.first != before
        {
            let paused = upload.pause().await;
            let received = paused.map_err(|error| self.refused(error, id))?;
            return Err(self.out_of_order(id, chunk, received));
        }
        let error = match (receive(&mut *upload, incoming).await, chunk) {
            (Ok(bytes), Some(chunk)) if bytes != chunk.len() => self.wrong_length(id, chunk, bytes),
            (Ok(_), _) => return Ok(upload),
            (Err(halt), _) => self.halted(halt, id),
        };
        let given_back = match chunk {
            Some(_) => upload.undo().await,
            None => upload.pause().await,
        };
        if let Err(error) = given_back {
            tracing::warn!(id, error = %told(&error), "part of an upload is lost");
        }
        Err(error)
    }

    /// The blob is whole: it is published and becomes one of this repository.
    async fn publish(&self, upload: Box<dyn Upload>, digest: Digest) -> Result<Response, ApiError> {
        let what = digest.to_string();
        let refused = |error| self.refused(error, &what);
        let _kept = match self.push.sink.keep().await {
            Ok(kept) => kept,
            Err(error) => {
                // the request may be made again as it was
                if let Err(error) = upload.undo().await {
                    tracing::warn!(error = %told(&error), "part of an upload is lost");
                }
                return Err(refused(error));
            }
        };
        let size = upload.finish(digest).await.map_err(refused)?;
        self.add_blob(digest, size).await?;
        Ok(self.created(&format!("blobs/{digest}"), &digest))
    }

    /// Makes published content a blob of this repository.
    async fn add_blob(&self, digest: Digest, size: u64) -> Result<(), ApiError> {
        let change = Change::Blob {
            repository: self.name.clone(),
            digest,
            new: Some(size),
        };
        let what = digest.to_string();
        self.change_for(&what, |_| Ok((vec![change.clone()], ())))
            .await
    }

    async fn resume(&self, id: &str, expected: u64) -> Result<Box<dyn Upload>, ApiError> {
        let resumed = self.push.sink.resume(&self.name, id, expected).await;
        resumed
            .map_err(|error| self.refused(error, id))?
            .ok_or_else(|| self.unknown(id))
    }

    /// The chunk the request says it carries, whose length is that of the body.
    fn chunk(&self, id: &str, incoming: &Incoming) -> Result<Option<Chunk>, ApiError> {
        let chunk = Chunk::of(&self.asking.headers).map_err(|Unreadable| {
            let message = format!(
                "upload {id} of {}: Content-Range reads <first>-<last>",
                self.place.asked
            );
            let status = StatusCode::BAD_REQUEST;
            self.error(status, Code::BlobUploadInvalid, message, id)
        })?;
        match (chunk, incoming.length()) {
            (Some(chunk), Some(length)) if chunk.len() != length => {
                Err(self.wrong_length(id, chunk, length))
            }
            _ => Ok(chunk),
        }
    }

    fn unknown(&self, id: &str) -> ApiError {
        super::unknown(self.shared, self.place, id)
    }

    fn wrong_length(&self, id: &str, chunk: Chunk, bytes: u64) -> ApiError {
        let message = format!(
            "upload {id} of {}: Content-Range announces {} bytes, the body has {bytes}; nothing \
             was added",
            self.place.asked,
            chunk.len()
        );
        self.error(StatusCode::BAD_REQUEST, Code::SizeInvalid, message, id)
    }

    fn out_of_order(&self, id: &str, chunk: Chunk, received: u64) -> ApiError {
        let message = format!(
            "upload {id} of {} goes on at byte {received}, not at {}; nothing was added",
            self.place.asked, chunk.first
        );
        let status = StatusCode::RANGE_NOT_SATISFIABLE;
        let mut error = self.error(status, Code::BlobUploadInvalid, message, id);
        error.headers = Box::new(headers(&self.name, id, received));
        error
    }

    fn halted(&self, halt: Halt, what: &str) -> ApiError {
        let asked = &self.place.asked;
        match halt {
            Halt::Sink(error) => self.refused(error, what),
            Halt::Broken(error) => {
                tracing::info!(repository = %self.name, what, %error, "a push broke off");
                let message = format!("{what} of {asked}: {error}");
                self.error(StatusCode::BAD_REQUEST, Code::SizeInvalid, message, what)
            }
            Halt::Superseded => {
                let message = format!("another request goes on with upload {what} of {asked}");
                self.error(StatusCode::CONFLICT, Code::BlobUploadInvalid, message, what)
            }
        }
    }
}

/// How many bytes a request brings, as far as it says.
fn expected(chunk: Option<Chunk>, incoming: &Incoming) -> u64 {
    chunk.map(Chunk::len).or(incoming.length()).unwrap_or(0)
}

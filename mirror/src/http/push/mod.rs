//! Pushing: uploads, mounts, manifests, tags, deletes (OCI distribution specification, "Push"
//! and "Content Management").
//!
//! Every change runs as a task of its own, so that a client that leaves does not stop it
//! between two steps: what it sent is kept or taken back in order, and a push that was
//! complete is completed. Names change through [`names::change`] alone.

mod bounds;
mod chunk;
mod delete;
mod descriptors;
mod incoming;
mod manifest;
mod mount;
mod names;
mod shares;
mod upload;

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, LOCATION};
use http::{HeaderMap, StatusCode};
use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use serde_json::json;

use self::bounds::Bounds;
use self::incoming::Incoming;
use super::auth;
use super::content::respond;
use super::error::{ApiError, Code};
use super::fresh;
use super::{Asking, DOCKER_CONTENT_DIGEST, Shared};
use crate::access::Action;
use crate::namespace::Own;
use crate::route::{Ask, Begin, Place, RouteError, Write};
use crate::sink::{Sink, SinkError};
use crate::source::Age;

const DOCKER_UPLOAD_UUID: HeaderName = HeaderName::from_static("docker-upload-uuid");

/// What is left to choose about pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Mount a blob for which the client names no repository from any that has it.
    pub mount_from_anywhere: bool,
    /// Take an index of which some manifests are not here.
    pub sparse_indexes: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mount_from_anywhere: true,
            sparse_indexes: false,
        }
    }
}

/// Where clients push to.
pub(super) struct Push {
    sink: Arc<dyn Sink>,
    settings: Settings,
    /// Changes of this process come one after the other: they would only make each other
    /// try again.
    turn: tokio::sync::Mutex<()>,
    bounds: Bounds,
}

impl Push {
    pub(super) fn new(sink: Arc<dyn Sink>, settings: Settings) -> Push {
        Push {
            sink,
            settings,
            turn: tokio::sync::Mutex::default(),
            bounds: Bounds::default(),
        }
    }
}

/// A request that changes one repository.
struct Pushing<'a> {
    shared: &'a Shared,
    push: &'a Push,
    asking: &'a Asking,
    place: &'a Place,
    /// The repository it is about.
    name: RepositoryName,
}

/// Does what a write asks for.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    asking: &Asking,
    place: Place,
    write: Write,
    body: Body,
) -> Result<Response, ApiError> {
    let mut incoming = Incoming::new(body, &asking.headers);
    let Some(push) = &shared.push else {
        return Err(ApiError::read_only(asking));
    };
    if let Some(name) = place.written(own(shared, asking)) {
        let action = match &write {
            Write::DeleteManifest(_) | Write::DeleteBlob(_) => Action::Delete,
            _ => Action::Push,
        };
        if let Err(error) = auth::demand(shared, asking, action, name.as_str()) {
            return Err(after(error, &mut incoming).await);
        }
    }
    // before it goes on without its client
    let Some(share) = push.bounds.write(&asking.client()).await else {
        let asked = &place.asked;
        let message = format!("too much is being written to this mirror, not only to {asked}");
        let error = ApiError::later(message, json!({"name": asked}));
        return Err(after(error, &mut incoming).await);
    };
    let (shared, asking) = (Arc::clone(shared), asking.clone());
    let work = async move {
        let _share = share;
        match work(&shared, &asking, &place, write, &mut incoming).await {
            Ok(response) => {
                incoming.discard().await;
                Ok(response)
            }
            Err(error) => Err(after(error, &mut incoming).await),
        }
    };
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => Err(ApiError::unwritten(&error)),
    }
}

/// By what names this server goes.
fn own<'a>(shared: &'a Shared, asking: &'a Asking) -> Own<'a> {
    Own {
        host: asking.host(),
        names: &shared.own_names,
    }
}

/// The error for a request whose body is not looked at.
pub(super) async fn turned_away(error: ApiError, asking: &Asking, body: Body) -> ApiError {
    after(error, &mut Incoming::new(body, &asking.headers)).await
}

/// An error that ends the connection, unless all of the body was read: the rest would be taken
/// for the next request.
async fn after(error: ApiError, incoming: &mut Incoming) -> ApiError {
    match incoming.discard().await {
        true => error,
        false => error.with(
            http::header::CONNECTION,
            Some(HeaderValue::from_static("close")),
        ),
    }
}

async fn work(
    shared: &Shared,
    asking: &Asking,
    place: &Place,
    write: Write,
    incoming: &mut Incoming,
) -> Result<Response, ApiError> {
    let Some(push) = &shared.push else {
        return Err(ApiError::read_only(asking));
    };
    let Some(name) = place.written(own(shared, asking)) else {
        return Err(ApiError::from_route(&RouteError::WriteShape, asking.path()));
    };
    let pushing = Pushing {
        shared,
        push,
        asking,
        place,
        name,
    };
    if !matches!(
        write,
        Write::Begin(Begin::Session(_)) | Write::Append(_) | Write::Cancel(_)
    ) {
        // what it builds on may have come through another server of this store just now; and what
        // could not be entered is not received
        fresh::names(shared, Age::Now).await?;
    }
    match write {
        Write::Begin(Begin::Session(algorithm)) => pushing.begin(algorithm).await,
        Write::Begin(Begin::Whole(digest)) => pushing.take_whole(digest, incoming).await,
        Write::Begin(Begin::Mount {
            digest,
            from,
            named,
        }) => pushing.mount(digest, from, named).await,
        Write::Append(id) => pushing.append(&id, incoming).await,
        Write::Finish(id, digest) => pushing.finish(&id, digest, incoming).await,
        Write::Cancel(id) => pushing.cancel(&id).await,
        Write::PutManifest(target, tags) => pushing.put_manifest(target, tags, incoming).await,
        Write::DeleteManifest(target) => pushing.delete_manifest(target).await,
        Write::DeleteBlob(digest) => pushing.delete_blob(digest).await,
    }
}

/// `GET|HEAD` of an upload: how much of it is here.
pub(super) async fn state(
    shared: &Shared,
    asking: &Asking,
    own: Own<'_>,
    place: &Place,
    id: &str,
) -> Result<Response, ApiError> {
    let unknown = || unknown(shared, place, id);
    let (Some(push), Some(name)) = (&shared.push, place.written(own)) else {
        return Err(unknown());
    };
    auth::demand(shared, asking, Action::Push, name.as_str())?;
    let received = push.sink.received(&name, id).await;
    let received = received
        .map_err(|error| refused(error, place, id))?
        .ok_or_else(unknown)?;
    let headers = upload::headers(&name, id, received);
    Ok(respond(StatusCode::NO_CONTENT, headers, Body::empty()))
}

/// An upload is not here.
fn unknown(shared: &Shared, place: &Place, id: &str) -> ApiError {
    let ask = Ask::Upload(id.to_owned());
    let mut error = ApiError::not_in(place, Code::BlobUploadUnknown, &ask);
    if let Some(why) = shared.push.as_ref().and_then(|push| push.sink.elsewhere()) {
        error.message = format!("{}; {why}", error.message);
    }
    error
}

/// What a client is told when the store did not take something: `what` names it.
fn refused(error: SinkError, place: &Place, what: &str) -> ApiError {
    let detail = json!({"name": place.asked, "reference": what});
    let asked = &place.asked;
    match error {
        SinkError::Mismatch { announced, found } => ApiError::new(
            StatusCode::BAD_REQUEST,
            Code::DigestInvalid,
            format!("what was sent to {asked} as {announced} is {found}; nothing was stored"),
            detail,
        ),
        SinkError::Full => ApiError::new(
            StatusCode::INSUFFICIENT_STORAGE,
            Code::Denied,
            format!("no room for {what} in {asked}: the disk of this mirror is full"),
            detail,
        ),
        SinkError::Busy => ApiError::new(
            StatusCode::CONFLICT,
            Code::BlobUploadInvalid,
            format!("upload {what} of {asked} is in use by another request; try again"),
            detail,
        ),
        SinkError::TooMany => ApiError::later(
            format!("{what} of {asked}: too many uploads are open; try again later"),
            detail,
        ),
        SinkError::TooManyOfOne => ApiError::later(
            format!("{what} of {asked}: this client has too many uploads open; end some first"),
            detail,
        ),
        SinkError::Store(error) => ApiError::not_taken(&error),
    }
}

impl Pushing<'_> {
    fn refused(&self, error: SinkError, what: &str) -> ApiError {
        refused(error, self.place, what)
    }

    /// An error about `what` in this repository.
    fn error(&self, status: StatusCode, code: Code, message: String, what: &str) -> ApiError {
        let detail = json!({"name": self.place.asked, "reference": what});
        ApiError::new(status, code, message, detail)
    }

    /// 201 for content that can be read at `below` this repository from now on.
    fn created(&self, below: &str, digest: &Digest) -> Response {
        let mut headers = HeaderMap::new();
        let location = format!("/v2/{}/{below}", self.name);
        insert(&mut headers, LOCATION, &location);
        insert(&mut headers, DOCKER_CONTENT_DIGEST, &digest.to_string());
        headers.insert(CONTENT_LENGTH, 0.into());
        respond(StatusCode::CREATED, headers, Body::empty())
    }

    /// 202 without anything else.
    fn accepted(&self) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, 0.into());
        respond(StatusCode::ACCEPTED, headers, Body::empty())
    }
}

/// Sets a header whose value is made of names, digests and numbers, which always are one.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

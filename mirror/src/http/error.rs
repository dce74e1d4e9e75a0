//! Error answers: a status, a code of the specification, and a text naming what was asked.

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use kubepkg_core::Digest;
use kubepkg_core::store::StoreError;
use serde_json::{Value, json};

use super::Asking;
use crate::route::{Ask, Place, RouteError};
use crate::told::told;

/// Seconds after which a client that was sent away may come again.
const LATER: &str = "5";

/// The codes of the OCI distribution specification that requests can end with, and, as Docker's
/// registry says them, `UNAVAILABLE` and `UNKNOWN` for failures of the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No such blob in this repository.
    BlobUnknown,
    /// No such upload.
    BlobUploadUnknown,
    /// Not a digest.
    DigestInvalid,
    /// No such manifest in this repository.
    ManifestUnknown,
    /// A manifest names content that is not in its repository.
    ManifestBlobUnknown,
    /// Not a manifest that can be stored.
    ManifestInvalid,
    /// An upload was used in a way it cannot be.
    BlobUploadInvalid,
    /// A length is not the one announced, or above the limit.
    SizeInvalid,
    /// A login is needed.
    Unauthorized,
    /// The server will not take it.
    Denied,
    /// Not now: there is too much else to do.
    TooManyRequests,
    /// Not a repository name.
    NameInvalid,
    /// No such repository.
    NameUnknown,
    /// Not possible here.
    Unsupported,
    /// What the server needs cannot be reached now.
    Unavailable,
    /// The server failed.
    Unknown,
}

impl Code {
    /// The text in the body.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::BlobUnknown => "BLOB_UNKNOWN",
            Code::BlobUploadUnknown => "BLOB_UPLOAD_UNKNOWN",
            Code::DigestInvalid => "DIGEST_INVALID",
            Code::ManifestUnknown => "MANIFEST_UNKNOWN",
            Code::ManifestBlobUnknown => "MANIFEST_BLOB_UNKNOWN",
            Code::ManifestInvalid => "MANIFEST_INVALID",
            Code::BlobUploadInvalid => "BLOB_UPLOAD_INVALID",
            Code::SizeInvalid => "SIZE_INVALID",
            Code::Unauthorized => "UNAUTHORIZED",
            Code::Denied => "DENIED",
            Code::TooManyRequests => "TOOMANYREQUESTS",
            Code::NameInvalid => "NAME_INVALID",
            Code::NameUnknown => "NAME_UNKNOWN",
            Code::Unsupported => "UNSUPPORTED",
            Code::Unavailable => "UNAVAILABLE",
            Code::Unknown => "UNKNOWN",
        }
    }
}

/// An error answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The status.
    pub status: StatusCode,
    /// The code.
    pub code: Code,
    /// For people.
    pub message: String,
    /// What was asked, for programs.
    pub detail: Value,
    /// Headers of the answer, besides those every error has.
    pub headers: Box<HeaderMap>,
    /// Further errors of the same kind, one for each thing that is wrong.
    pub more: Vec<(String, Value)>,
}

impl ApiError {
    /// Nothing of the kind is here.
    pub fn not_found(code: Code, message: String, detail: Value) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, code, message, detail)
    }

    /// An error answer.
    pub fn new(status: StatusCode, code: Code, message: String, detail: Value) -> ApiError {
        ApiError {
            status,
            code,
            message,
            detail,
            headers: Box::default(),
            more: Vec::new(),
        }
    }

    /// With another header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: Option<HeaderValue>) -> ApiError {
        if let Some(value) = value {
            self.headers.insert(name, value);
        }
        self
    }

    /// Not now; the client may try again in some seconds.
    pub fn later(message: String, detail: Value) -> ApiError {
        let status = StatusCode::TOO_MANY_REQUESTS;
        ApiError::new(status, Code::TooManyRequests, message, detail)
            .with(RETRY_AFTER, Some(HeaderValue::from_static(LATER)))
    }

    /// The repository is not here.
    pub fn no_repository(place: &Place) -> ApiError {
        let message = match &place.ns {
            Some(ns) => format!(
                "no repository {} of {} in this mirror",
                place.asked,
                crate::route::shown(ns)
            ),
            None => format!("no repository {} in this mirror", place.asked),
        };
        let detail = json!({"name": place.asked, "ns": place.ns});
        ApiError::not_found(Code::NameUnknown, message, detail)
    }

    /// The repository is here, what was asked of it is not.
    pub fn not_in(place: &Place, code: Code, ask: &Ask) -> ApiError {
        let (what, name) = match ask {
            Ask::Blob(digest) => ("blob", digest.to_string()),
            Ask::Manifest(target) => ("manifest", target.to_string()),
            Ask::Upload(id) => ("upload", id.clone()),
            Ask::Tags(_) | Ask::Referrers { .. } => ("list", String::new()),
        };
        let detail = json!({"name": place.asked, what: name});
        let message = format!("no {what} {name} in repository {}", place.asked);
        ApiError::not_found(code, message, detail)
    }

    /// The store failed. The client is told no more than that; the log has the rest.
    pub fn store(error: &StoreError) -> ApiError {
        tracing::error!(error = %told(error), "cannot read the store");
        match is_away(error) {
            true => ApiError::away(
                "the bucket in which this mirror keeps its content does not answer now, so nobody \
                 can say what is here; try again (the mirror's log says why)",
            ),
            false => ApiError::internal(),
        }
    }

    /// What keeps the content cannot be reached; the client may try again in some seconds.
    fn away(message: &str) -> ApiError {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        ApiError::new(status, Code::Unavailable, message.to_owned(), Value::Null)
            .with(RETRY_AFTER, Some(HeaderValue::from_static(LATER)))
    }

    /// Names say that content is here, and it is not, or not as it was written.
    pub fn damaged(digest: &Digest, why: &str) -> ApiError {
        tracing::error!(%digest, why, "content of the store is not as its names say");
        ApiError::internal()
    }

    /// The store did not take something. A disk that can only be read is no failure of this
    /// request: none will be taken.
    pub fn not_taken(error: &StoreError) -> ApiError {
        if is_away(error) {
            tracing::error!(error = %told(error), "cannot write to the store");
            return ApiError::away(
                "the bucket in which this mirror keeps its content does not answer now; send this \
                 again (the mirror's log says why)",
            );
        }
        if !error.is_read_only() {
            return ApiError::unwritten(&told(error));
        }
        tracing::error!(error = %told(error), "the store can only be read");
        let message = "the disk of this mirror can only be read now: nothing is taken, pulls go \
                       on; its log says where";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        ApiError::new(status, Code::Denied, message.to_owned(), Value::Null)
    }

    /// The store failed while something was written to it; `error` is what the log says of it.
    pub fn unwritten(error: &dyn std::fmt::Display) -> ApiError {
        tracing::error!(%error, "cannot write to the store");
        let message = "the mirror cannot write to its store; its log says why";
        ApiError::failed(message)
    }

    pub(super) fn internal() -> ApiError {
        ApiError::failed("the mirror cannot read its store; its log says why")
    }

    fn failed(message: &str) -> ApiError {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        ApiError::new(status, Code::Unknown, message.to_owned(), Value::Null)
    }

    /// Outside `/v2/`: there is nothing at this path.
    pub fn no_page(path: &str) -> ApiError {
        let path = crate::route::shown(path);
        ApiError::not_found(
            Code::NameUnknown,
            format!("nothing at {path} in this mirror"),
            json!({"path": path}),
        )
    }

    /// Anything but a read, where nobody may write.
    pub fn read_only(asking: &Asking) -> ApiError {
        let error = RouteError::ReadOnly {
            method: crate::route::shown(asking.method.as_str()),
        };
        ApiError::from_route(&error, asking.path())
    }

    /// What the path of a request was refused for.
    pub fn from_route(error: &RouteError, path: &str) -> ApiError {
        let code = match error {
            RouteError::ReadOnly { .. }
            | RouteError::Method { .. }
            | RouteError::Page { .. }
            | RouteError::Query
            | RouteError::WriteShape => Code::Unsupported,
            RouteError::Tag { .. } | RouteError::TooManyTags => Code::ManifestInvalid,
            RouteError::Digest { .. } => Code::DigestInvalid,
            RouteError::Target { .. } => Code::ManifestUnknown,
            RouteError::Name(_) | RouteError::Encoding => Code::NameInvalid,
            RouteError::Elsewhere | RouteError::Unknown { .. } => Code::NameUnknown,
        };
        let path = crate::route::shown(path);
        let message = match error {
            RouteError::Unknown { .. } => error.to_string(),
            _ => format!("{error} (asked for: {path})"),
        };
        let allow = match error {
            RouteError::ReadOnly { .. } => Some("GET, HEAD"),
            RouteError::Method { allow, .. } => Some(*allow),
            _ => None,
        };
        ApiError::new(error.status(), code, message, json!({"path": path}))
            .with(ALLOW, allow.map(HeaderValue::from_static))
    }
}

/// Whether a store failed because what keeps it cannot be reached.
fn is_away(error: &StoreError) -> bool {
    match error {
        StoreError::Bucket { .. } => true,
        StoreError::Unsettled { source, .. } => is_away(source),
        _ => false,
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let one = |message: String, detail: Value| {
            let mut error = json!({"code": self.code.as_str(), "message": message});
            if !detail.is_null() {
                error["detail"] = detail;
            }
            error
        };
        let mut errors = vec![one(self.message, self.detail)];
        errors.extend(
            self.more
                .into_iter()
                .map(|(message, detail)| one(message, detail)),
        );
        let body = json!({"errors": errors}).to_string();
        let json = HeaderValue::from_static("application/json");
        let mut response = (self.status, [(CONTENT_TYPE, json)], body).into_response();
        response.headers_mut().extend(*self.headers);
        response
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_disk_that_can_only_be_read_is_told_apart_from_one_that_fails() {
        let failed = |errno: rustix::io::Errno| StoreError::Io {
            action: "write",
            path: "/srv/mirror/uploads/x".into(),
            source: io::Error::from(errno),
        };
        let read_only = failed(rustix::io::Errno::ROFS);
        let unsettled = StoreError::Unsettled {
            number: 7,
            source: Box::new(failed(rustix::io::Errno::ROFS)),
        };
        for error in [read_only, unsettled] {
            let told = ApiError::not_taken(&error);
            assert_eq!((told.status.as_u16(), told.code), (503, Code::Denied));
            assert!(told.message.contains("only be read"), "{}", told.message);
            assert!(!told.message.contains('/'), "{}", told.message);
        }
        let told = ApiError::not_taken(&failed(rustix::io::Errno::IO));
        assert_eq!((told.status.as_u16(), told.code), (500, Code::Unknown));
    }
}

//! Error answers: a status, a code of the specification, and a text naming what was asked.

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use kubepkg_core::Digest;
use kubepkg_core::store::StoreError;
use serde_json::{Value, json};

use crate::route::{Ask, Place, RouteError};

/// The codes of the OCI distribution specification that reads can end with, and `UNKNOWN` for
/// failures of the server itself.
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
    /// Not a repository name.
    NameInvalid,
    /// No such repository.
    NameUnknown,
    /// Not possible here.
    Unsupported,
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
            Code::NameInvalid => "NAME_INVALID",
            Code::NameUnknown => "NAME_UNKNOWN",
            Code::Unsupported => "UNSUPPORTED",
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
}

impl ApiError {
    /// Nothing of the kind is here.
    pub fn not_found(code: Code, message: String, detail: Value) -> ApiError {
        ApiError {
            status: StatusCode::NOT_FOUND,
            code,
            message,
            detail,
        }
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
        tracing::error!(
            error = error as &dyn std::error::Error,
            "cannot read the store"
        );
        ApiError::internal()
    }

    /// Names say that content is here, and it is not, or not as it was written.
    pub fn damaged(digest: &Digest, why: &str) -> ApiError {
        tracing::error!(%digest, why, "content of the store is not as its names say");
        ApiError::internal()
    }

    fn internal() -> ApiError {
        ApiError {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: Code::Unknown,
            message: "the mirror cannot read its store; its log says why".to_owned(),
            detail: Value::Null,
        }
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

    /// Outside `/v2/`: anything but a read.
    pub fn read_only(method: &Method) -> ApiError {
        let error = RouteError::ReadOnly {
            method: crate::route::shown(method.as_str()),
        };
        ApiError::from_route(&error, "")
    }

    /// What the path of a request was refused for.
    pub fn from_route(error: &RouteError, path: &str) -> ApiError {
        let code = match error {
            RouteError::ReadOnly { .. } | RouteError::Page { .. } => Code::Unsupported,
            RouteError::Digest { .. } => Code::DigestInvalid,
            RouteError::Target { .. } => Code::ManifestUnknown,
            RouteError::Name(_) | RouteError::Encoding => Code::NameInvalid,
            RouteError::Elsewhere | RouteError::Unknown { .. } => Code::NameUnknown,
        };
        ApiError {
            status: error.status(),
            code,
            message: error.to_string(),
            detail: json!({"path": crate::route::shown(path)}),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut error = json!({"code": self.code.as_str(), "message": self.message});
        if !self.detail.is_null() {
            error["detail"] = self.detail;
        }
        let body = json!({"errors": [error]}).to_string();
        let json = HeaderValue::from_static("application/json");
        let mut response = (self.status, [(CONTENT_TYPE, json)], body).into_response();
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            let allow = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allow);
        }
        response
    }
}

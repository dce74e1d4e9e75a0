//! `/node-config/<kind>`: settings that make nodes pull from here. The mirror serves them and
//! knows nothing of nodes; who composes the server says how they are made.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderMap, HeaderValue};
use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::Names;
use serde_json::json;

use super::content::{Described, Freshness, respond_bytes};
use super::error::{ApiError, Code};
use super::reader::Reader;
use super::{Asking, Shared, auth};
use crate::route::shown;

/// What is asked of the maker of settings.
#[derive(Clone, Copy)]
pub struct SettingsAsked<'a> {
    /// The names as of now.
    pub names: &'a Names,
    /// Whether who asks may know of a repository.
    pub shown: &'a dyn Fn(&RepositoryName) -> bool,
    /// The path below `/node-config/`, as on the wire.
    pub path: &'a str,
    /// The query, as on the wire.
    pub query: &'a str,
    /// Address of the mirror as the client reaches it; `None` where the request does not say.
    pub url: Option<&'a str>,
    /// Whether the mirror speaks TLS itself.
    pub tls: bool,
    /// The CA that vouches for it, in PEM, where clients do not know it.
    pub ca: Option<&'a str>,
}

/// Settings as one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// Its `Content-Type`.
    pub media_type: &'static str,
    /// The name a browser saves it under.
    pub file_name: &'static str,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Why there are no settings, in words for the person who asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSettings {
    /// There is nothing of that kind.
    Unknown(String),
    /// There is nothing to write settings for that who asks may know of.
    Nothing(String),
    /// They cannot be made as asked.
    Refused(String),
}

/// Makes settings. It must be quick: it runs where the request is answered.
pub type SettingsMaker =
    Arc<dyn Fn(&SettingsAsked<'_>) -> Result<SettingsFile, NoSettings> + Send + Sync>;

/// `GET|HEAD /node-config/<path>`.
pub fn answer(
    maker: &SettingsMaker,
    shared: &Shared,
    asking: &Asking,
    names: &Names,
    path: &str,
) -> Result<Response, ApiError> {
    let outside = &shared.outside;
    let (url, ca) = (outside.url(asking), outside.ca());
    let reader = Reader::of(shared, asking);
    let may_know = |name: &RepositoryName| reader.reads(name);
    let asked = SettingsAsked {
        names,
        shown: &may_know,
        path,
        query: asking.query(),
        url: url.as_deref(),
        tls: outside.tls.is_some(),
        ca: ca.as_deref().map(|ca| &*ca.pem),
    };
    let detail = json!({"path": shown(asking.path())});
    let file = match maker(&asked) {
        Ok(file) => file,
        Err(NoSettings::Refused(message)) => {
            let status = StatusCode::BAD_REQUEST;
            return Err(ApiError::new(status, Code::Unsupported, message, detail));
        }
        Err(NoSettings::Unknown(message)) => {
            return Err(ApiError::not_found(Code::NameUnknown, message, detail));
        }
        Err(NoSettings::Nothing(message)) => {
            // who logs in may be told of more
            auth::demand_somebody(shared, asking)?;
            return Err(ApiError::not_found(Code::NameUnknown, message, detail));
        }
    };
    let described = Described {
        digest: Digest::sha256(&file.bytes),
        size: file.bytes.len() as u64,
        media_type: HeaderValue::from_static(file.media_type),
        freshness: Freshness::Revalidate,
    };
    if let Some(response) = described.not_modified(asking) {
        return Ok(response);
    }
    let mut headers: HeaderMap = described.headers();
    headers.insert(CONTENT_TYPE, described.media_type);
    let name = format!("attachment; filename=\"{}\"", file.file_name);
    if let Ok(name) = HeaderValue::try_from(name) {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    Ok(respond_bytes(asking, headers, file.bytes))
}

//! `/node-config/<kind>`: settings that make nodes pull from here. The mirror serves them and
//! knows nothing of nodes; who composes the server says how they are made.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderMap, HeaderValue};
use kubepkg_core::Digest;
use kubepkg_core::store::Names;
use serde_json::json;

use super::Asking;
use super::content::{Described, Freshness, respond_bytes};
use super::error::{ApiError, Code};
use crate::route::shown;

/// What is asked of the maker of settings.
#[derive(Clone, Copy, Debug)]
pub struct SettingsAsked<'a> {
    /// The names as of now.
    pub names: &'a Names,
    /// The path below `/node-config/`, as on the wire.
    pub path: &'a str,
    /// The query, as on the wire.
    pub query: &'a str,
    /// `host[:port]` by which the client reaches the mirror.
    pub host: Option<&'a str>,
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
    /// They cannot be made as asked.
    Refused(String),
}

/// Makes settings. It must be quick: it runs where the request is answered.
pub type SettingsMaker =
    Arc<dyn Fn(&SettingsAsked<'_>) -> Result<SettingsFile, NoSettings> + Send + Sync>;

/// `GET|HEAD /node-config/<path>`.
pub fn answer(
    maker: &SettingsMaker,
    asking: &Asking,
    names: &Names,
    path: &str,
) -> Result<Response, ApiError> {
    let asked = SettingsAsked {
        names,
        path,
        query: asking.query(),
        host: asking.host(),
    };
    let detail = json!({"path": shown(asking.path())});
    let file = maker(&asked).map_err(|why| match why {
        NoSettings::Unknown(message) => ApiError::not_found(Code::NameUnknown, message, detail),
        NoSettings::Refused(message) => {
            ApiError::new(StatusCode::BAD_REQUEST, Code::Unsupported, message, detail)
        }
    })?;
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

//! `/`: one page for people. It says what is here, how fresh it is, what was asked for in vain,
//! and how to pull; `?q=` searches.
//!
//! It is made on the server and stands alone: no script, no other file, a policy that would let
//! none in. All text goes through the template engine, which escapes it. What it costs is
//! bounded: it is made from the names in memory, away from the threads that answer requests, and
//! shows so many rows at most.

mod asked;
mod command;
mod listing;
mod packages;
mod view;
mod words;

use std::sync::{Arc, LazyLock};

use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, REFERRER_POLICY,
};
use kubepkg_core::Digest;
use kubepkg_core::time::Time;
use tokio::sync::Semaphore;

use self::asked::Asked;
use self::command::Address;
use self::view::{Shown, page};
use super::content::respond_bytes;
use super::error::ApiError;
use super::reader::Reader;
use super::{Asking, Condition, Shared, auth};

/// The only style there is.
const STYLE: &str = include_str!("page.css");

/// Nothing may be loaded, and nothing run. The page's own style is let in by its digest, the
/// search form may ask this server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let digest = BASE64_STANDARD.encode(Digest::sha256(STYLE).as_bytes());
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    // base64 and the text above are legal in a header
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// Pages that are made at once: each takes a processor for some milliseconds and memory for the
/// rows it chooses from.
const AT_ONCE: usize = 2;

/// Who makes pages.
#[derive(Debug)]
pub(super) struct Maker {
    turns: Arc<Semaphore>,
}

impl Default for Maker {
    fn default() -> Maker {
        Maker {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

/// `GET|HEAD /`.
pub(super) async fn answer(shared: &Shared, asking: &Asking) -> Result<Response, ApiError> {
    let asked = Asked::read(asking.query());
    auth::demand_somebody(shared, asking)?;
    // never closed
    let turn = Arc::clone(&shared.page.turns).acquire_owned().await.ok();
    let seen = shared.overview.fresh(&shared.source).await;
    let seen = seen.map_err(|error| ApiError::store(&error))?;
    let mut wanted = seen.facts.wanted.clone();
    wanted.merge(shared.wanted.pending());
    // it stands in commands that people copy, so it has to be a host
    let (tls, host) = shared.outside.reached(asking);
    let reader = Reader::of(shared, asking);
    let settings = shared.settings.is_some();
    let condition = Condition::of(shared).await;
    let ca = shared.outside.ca().map(|ca| ca.facts.fingerprint.clone());
    let made = tokio::task::spawn_blocking(move || {
        // it is made to its end when nobody waits for it any more, and counts until then
        let _turn = turn;
        let shown = Shown {
            seen: &seen,
            wanted: &wanted,
            address: Address::new(host, tls, ca),
            everything: reader.reads_everything(&seen.names),
            reader: &reader,
            condition: &condition,
            settings,
            now: Time::now(),
        };
        page(&shown, &asked).into_string()
    });
    let html = made.await.map_err(|error| {
        tracing::error!(%error, "the page cannot be made");
        ApiError::internal()
    })?;
    let mut headers = HeaderMap::new();
    let html_type = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(CONTENT_TYPE, html_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(respond_bytes(asking, headers, html))
}

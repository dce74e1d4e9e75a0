//! `/livez`, `/healthz` and `/readyz`: whether the process runs, whether its store can be read,
//! and whether what clients push now could be kept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::response::Response;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use kubepkg_core::store::StoreError;
use serde_json::json;

use super::fresh::names;
use super::{Asking, Shared, json_answer};
use crate::source::Age;
use crate::told::told;

/// How long what was found counts: finding it writes to the disk, and anybody may ask.
const COUNTS: Duration = Duration::from_secs(5);

/// Why a server is not ready whose store could not be opened for writing. It reads on, and who
/// set it up expects more of it.
pub(super) const UNWRITABLE: &str = "the store could not be opened for writing when the mirror was started: \
     its log says why; start it again when that is mended, or with the setting readOnly";

/// Whether the store could be written lately.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    last: Mutex<Option<(Instant, Option<String>)>>,
    /// One looks, others wait for it.
    looking: tokio::sync::Mutex<()>,
}

/// `/livez`: there is somebody who answers.
pub(super) fn alive(asking: &Asking) -> Response {
    state(asking, None)
}

/// `/healthz`: says what this is, and whether its store can be read.
pub(super) async fn health(shared: &Shared, asking: &Asking) -> Response {
    let failed = names(shared, Age::Moment).await.err();
    state(
        asking,
        failed.map(|_| "the store cannot be read".to_owned()),
    )
}

/// `/readyz`: whether reading and, where clients may push, writing work.
pub(super) async fn ready(shared: &Shared, asking: &Asking) -> Response {
    if names(shared, Age::Moment).await.is_err() {
        return state(asking, Some("the store cannot be read".to_owned()));
    }
    if shared.unwritable {
        return state(asking, Some(UNWRITABLE.to_owned()));
    }
    let readiness = Arc::clone(&shared.readiness);
    state(asking, readiness.why_not(shared).await)
}

impl Readiness {
    /// Why what is pushed now could not be kept; `None` when it could.
    pub(super) async fn why_not(&self, shared: &Shared) -> Option<String> {
        if let Some(known) = self.known(Instant::now()) {
            return known;
        }
        let _alone = self.looking.lock().await;
        if let Some(known) = self.known(Instant::now()) {
            return known;
        }
        let found = shared.source.probe().await;
        if let Err(error) = &found {
            tracing::error!(error = %told(error), "the store cannot be written");
        }
        let why = found.err().map(|error| why(&error));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((Instant::now(), why.clone()));
        why
    }

    fn known(&self, now: Instant) -> Option<Option<String>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, why) = last.as_ref()?;
        (now.saturating_duration_since(*at) < COUNTS).then(|| why.clone())
    }
}

/// In words that name no path of this machine.
fn why(error: &StoreError) -> String {
    match error {
        error if error.is_no_room() => {
            "the disk is full, or has less free than min-free asks for: pushes are refused"
                .to_owned()
        }
        StoreError::Io { source, .. } => format!("the store cannot be written: {source}"),
        _ => "the store cannot be written; the log says why".to_owned(),
    }
}

fn state(asking: &Asking, failing: Option<String>) -> Response {
    let mut said = json!({
        "service": "kubepkg-mirror",
        "version": env!("CARGO_PKG_VERSION"),
        "status": if failing.is_some() { "failing" } else { "ok" },
    });
    let status = match failing {
        None => StatusCode::OK,
        Some(reason) => {
            said["reason"] = reason.into();
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let mut response = json_answer(asking, &said);
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    *response.status_mut() = status;
    response
}

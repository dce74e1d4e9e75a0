//! `/metrics`: what the server counts and what its store tells, for Prometheus.

use std::sync::Arc;

use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::content::respond_bytes;
use super::error::ApiError;
use super::reader::Reader;
use super::{Asking, Condition, Shared, auth};
use crate::metrics::{Told, expose};

/// `GET|HEAD /metrics`. It answers also when the store cannot be read: that is the moment at
/// which somebody looks.
pub async fn answer(shared: &Shared, asking: &Asking) -> Result<Response, ApiError> {
    auth::demand_somebody(shared, asking)?;
    let seen = match shared.overview.fresh(&shared.source).await {
        Ok(seen) => Some(seen),
        Err(error) => {
            tracing::debug!(error = %crate::told::told(&error), "the store cannot be looked at");
            None
        }
    };
    let condition = Condition::of(shared).await;
    let reader = Reader::of(shared, asking);
    let indexes = match &seen {
        Some(seen) if reader.gate.is_some() => {
            let seen = Arc::clone(seen);
            let all = tokio::task::spawn_blocking(move || reader.reads_everything(&seen.names));
            // it fails only when the process ends
            all.await.unwrap_or(false)
        }
        _ => true,
    };
    let wanted = seen.as_ref().map_or(0, |seen| {
        let mut wanted = seen.facts.wanted.clone();
        // what is not in the store yet, or is never brought there
        wanted.merge(shared.wanted.pending());
        wanted.references().count()
    });
    let text = expose(&Told {
        counted: &shared.metrics.sum(),
        misses: &shared.wanted.totals(),
        condition: &condition,
        seen: seen.as_deref(),
        wanted,
        indexes,
    });
    let mut headers = HeaderMap::new();
    let media_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(respond_bytes(asking, headers, text))
}

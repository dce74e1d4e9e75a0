//! `/metrics`: what the server counts and what its store tells, for Prometheus.

use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::content::respond_bytes;
use super::error::ApiError;
use super::{Asking, Shared, auth};
use crate::metrics::expose;

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
    let misses = shared.wanted.totals();
    let text = expose(&shared.metrics.sum(), &misses, seen.as_deref());
    let mut headers = HeaderMap::new();
    let media_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(respond_bytes(asking, headers, text))
}

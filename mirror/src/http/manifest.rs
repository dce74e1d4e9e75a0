//! Manifests by tag and digest: the bytes that were stored, under the type they were stored
//! with, whatever the client says it accepts.

use axum::response::Response;
use bytes::Bytes;
use http::Method;
use http::header::HeaderValue;
use kubepkg_core::Digest;
use kubepkg_core::manifest::MAX_MANIFEST;
use kubepkg_core::store::ManifestEntry;

use super::content::{Described, Freshness, respond_bytes, stands, whole};
use super::error::{ApiError, Code};
use super::{Asking, Shared, content};
use crate::namespace::Found;
use crate::route::{Ask, Place, Target};

/// `GET|HEAD /v2/<name>/manifests/<tag or digest>`.
pub async fn answer(
    shared: &Shared,
    asking: &Asking,
    place: &Place,
    found: Found<'_>,
    target: &Target,
) -> Result<Response, ApiError> {
    let absent = || ApiError::not_in(place, Code::ManifestUnknown, &Ask::Manifest(target.clone()));
    let (digest, freshness) = match target {
        Target::Digest(digest) => (*digest, Freshness::Immutable),
        Target::Tag(tag) => {
            let entry = found.repository.tags.get(tag).ok_or_else(absent)?;
            (entry.digest, Freshness::Revalidate)
        }
    };
    let entry = found.repository.manifests.get(&digest).ok_or_else(absent)?;
    if !stands(&shared.source, &digest).await? {
        return Err(absent());
    }
    let media_type = HeaderValue::try_from(entry.media_type.as_str())
        .map_err(|_| ApiError::damaged(&digest, "its media type is no header value"))?;
    let described = Described {
        digest,
        size: entry.size,
        media_type,
        freshness,
    };
    if let Some(response) = described.not_modified(asking) {
        return Ok(response);
    }
    let headers = described.headers();
    if asking.method == Method::HEAD {
        let body = axum::body::Body::empty();
        return Ok(content::respond(http::StatusCode::OK, headers, body));
    }
    let body = body(shared, &digest, entry).await?.ok_or_else(absent)?;
    Ok(respond_bytes(asking, headers, body))
}

/// The bytes of a manifest, from memory or, checked against the digest, from the store.
/// `None` when a name promises it and it is not there.
pub async fn body(
    shared: &Shared,
    digest: &Digest,
    entry: &ManifestEntry,
) -> Result<Option<Bytes>, ApiError> {
    if let Some(body) = shared.manifests.get(digest) {
        return Ok(Some(body));
    }
    match whole(&shared.source, *digest, entry.size, MAX_MANIFEST).await? {
        Some(Ok(body)) => {
            shared.manifests.insert(*digest, body.clone());
            Ok(Some(body))
        }
        Some(Err(why)) => Err(ApiError::damaged(digest, why)),
        None => {
            tracing::error!(%digest, "a manifest that a name promises is not in the store");
            Ok(None)
        }
    }
}

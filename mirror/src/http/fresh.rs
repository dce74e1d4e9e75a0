//! From which names an answer is made, where others change them too: the one place that says so.
//!
//! What is asked for by its digest is served from the names that are known, as it cannot have
//! become something else. What a tag names is what it named a moment ago. An answer that says
//! that something is not here, a 404 or a list by what it leaves out, is made from names that
//! are not older than the question; where those cannot be had, that is the answer.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use kubepkg_core::store::Names;

use super::Shared;
use super::error::ApiError;
use crate::route::{Ask, Target};
use crate::source::Age;

/// How old the names may be that a question about a repository is answered from first.
pub fn age(ask: &Ask) -> Age {
    match ask {
        Ask::Blob(_) | Ask::Manifest(Target::Digest(_)) => Age::Known,
        Ask::Manifest(Target::Tag(_)) => Age::Moment,
        Ask::Tags(_) | Ask::Referrers { .. } | Ask::Upload(_) => Age::Now,
    }
}

/// The names.
pub async fn names(shared: &Shared, age: Age) -> Result<Arc<Names>, ApiError> {
    let names = shared.source.names(age).await;
    names.map_err(|error| ApiError::store(&error))
}

/// What `answer` makes of names of this age; where it says that something is not here, what it
/// makes of newer ones.
pub async fn answered<F>(
    shared: &Shared,
    age: Age,
    answer: impl Fn(Arc<Names>) -> F,
) -> Result<Response, ApiError>
where
    F: Future<Output = Result<Response, ApiError>>,
{
    let first = names(shared, age).await?;
    let sequence = first.sequence;
    let answered = answer(first).await;
    let missing = matches!(&answered, Err(error) if error.status == StatusCode::NOT_FOUND);
    if !missing || age == Age::Now {
        return answered;
    }
    let newer = names(shared, Age::Now).await?;
    match newer.sequence == sequence {
        true => answered,
        false => answer(newer).await,
    }
}

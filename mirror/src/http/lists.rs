//! Tags of a repository, and the repositories: sorted lists in pages.

use std::ops::Bound::{Excluded, Unbounded};

use axum::response::Response;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue, LINK};
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::Names;
use serde_json::json;

use super::Asking;
use super::content::respond_bytes;
use crate::namespace::Found;
use crate::route::{MAX_PAGE, Page, Place};

/// Repositories in a page when the client does not say how many.
const CATALOG_PAGE: usize = 1000;

/// `GET /v2/<name>/tags/list`. Tags are never renamed or left out: Helm turns `_` back into
/// `+` itself.
pub fn tags(asking: &Asking, place: &Place, found: Found<'_>, page: &Page) -> Response {
    let after = found
        .repository
        .tags
        .range::<str, _>((bound(page), Unbounded))
        .map(|(tag, _)| tag.as_str());
    let (tags, more) = cut(after, page.n.unwrap_or(MAX_PAGE));
    let body = json!({"name": place.asked, "tags": tags});
    respond_list(asking, &body, more, tags.len(), tags.last().copied())
}

/// `GET /v2/_catalog`: those that may be `shown`. Repositories from which everything was taken
/// away are not.
pub fn catalog(
    asking: &Asking,
    names: &Names,
    page: &Page,
    shown: impl Fn(&RepositoryName) -> bool,
) -> Response {
    let after = names
        .repositories
        .range::<str, _>((bound(page), Unbounded))
        .filter(|(_, repository)| !repository.is_empty())
        .filter(|(name, _)| shown(name))
        .map(|(name, _)| name.as_str());
    let (repositories, more) = cut(after, page.n.unwrap_or(CATALOG_PAGE));
    let body = json!({"repositories": repositories});
    let last = repositories.last().copied();
    respond_list(asking, &body, more, repositories.len(), last)
}

fn bound(page: &Page) -> std::ops::Bound<&str> {
    page.last.as_deref().map_or(Unbounded, Excluded)
}

/// At most `n` entries, and whether there are more.
fn cut<'a>(mut entries: impl Iterator<Item = &'a str>, n: usize) -> (Vec<&'a str>, bool) {
    let list: Vec<&str> = entries.by_ref().take(n.min(MAX_PAGE)).collect();
    (list, entries.next().is_some())
}

fn respond_list(
    asking: &Asking,
    body: &serde_json::Value,
    more: bool,
    n: usize,
    last: Option<&str>,
) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // an empty page (n=0) has no next one
    if let (true, Some(last)) = (more, last)
        && let Some(link) = next_link(asking, &[("n", &n.to_string()), ("last", last)])
    {
        headers.insert(LINK, link);
    }
    respond_bytes(asking, headers, body.to_string())
}

/// A relative link to the next page: the same path and parameters (`ns` among them) with
/// `place` replaced.
pub fn next_link(asking: &Asking, place: &[(&str, &str)]) -> Option<HeaderValue> {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (key, value) in url::form_urlencoded::parse(asking.query().as_bytes()) {
        if !matches!(&*key, "n" | "last") {
            query.append_pair(&key, &value);
        }
    }
    for (key, value) in place {
        query.append_pair(key, value);
    }
    let link = format!("<{}?{}>; rel=\"next\"", asking.path(), query.finish());
    HeaderValue::try_from(link).ok()
}

//! `/files/…`: the files that are neither charts nor images, by the names they were given.
//!
//! A file is an artifact in a repository whose name is made from its own (`core::file`), and
//! its name leads there without a list. Whoever has the OCI tools only finds it there too, and
//! who may not read that repository gets it neither there nor here.

use std::sync::Arc;

use axum::response::Response;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_DISPOSITION, HeaderValue};
use kubepkg_core::Digest;
use kubepkg_core::file::{self, Carried, FileName};
use kubepkg_core::location::mirror_repository;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{Names, Repository};
use serde_json::json;

use super::auth;
use super::content::{Described, Freshness, opened_blob, standing, stands, whole};
use super::error::ApiError;
use super::{Asking, Shared, json_answer};
use crate::access::Action;
use crate::route::decode;
use crate::source::{Source, Standing};

/// Most files that are listed: each is a manifest that is read.
const MAX_LISTED: usize = 10_000;

/// Manifests that are read at once for a list.
const AT_ONCE: usize = 16;

/// Largest manifest of a file: its name three times, escaped, and some digests.
const MAX_FILE_MANIFEST: u64 = 32 * 1024;

/// `GET|HEAD /files/<rest>`: a file, or without a name the list of them.
pub async fn answer(
    shared: &Shared,
    asking: &Asking,
    names: &Names,
    rest: &str,
) -> Result<Response, ApiError> {
    if rest.is_empty() {
        return list(shared, asking, names).await;
    }
    let absent = || ApiError::no_page(asking.path());
    let decoded = decode(rest).ok_or_else(absent)?;
    let name: FileName = decoded.parse().map_err(|_| absent())?;
    let repository = place(&name).ok_or_else(absent)?;
    auth::demand(shared, asking, Action::Pull, repository.as_str())?;
    let repository = names.repositories.get(&repository).ok_or_else(absent)?;
    let (manifest, size) = latest(repository).ok_or_else(absent)?;
    if !stands(&shared.source, &manifest).await? {
        return Err(absent());
    }
    let found = read(&shared.source, manifest, size).await?;
    // a push may have put something else there
    let carried = found
        .filter(|carried| carried.name == name)
        .ok_or_else(absent)?;
    let digest = carried.content;
    if !stands(&shared.source, &digest).await? {
        return Err(absent());
    }
    let described = Described {
        digest,
        size: carried.size,
        media_type: HeaderValue::from_static(file::LAYER),
        freshness: Freshness::Revalidate,
    };
    let open = opened_blob(&shared.source, digest);
    let mut response = described
        .answer(asking, &shared.source, &shared.buffers, absent, open)
        .await?;
    // what a file is called says nothing of what a browser may do with it
    let attachment = HeaderValue::from_static("attachment");
    response
        .headers_mut()
        .insert(CONTENT_DISPOSITION, attachment);
    Ok(response)
}

async fn list(shared: &Shared, asking: &Asking, names: &Names) -> Result<Response, ApiError> {
    let prefix = format!("{}/", file::HOST);
    let repositories = names.repositories.iter();
    let mut manifests: Vec<(RepositoryName, Digest, u64)> = repositories
        .skip_while(|(name, _)| name.as_str() < prefix.as_str())
        .take_while(|(name, _)| name.as_str().starts_with(&prefix))
        .filter(|(name, _)| auth::may_read(shared, asking, name))
        .filter_map(|(name, repository)| {
            let (digest, size) = latest(repository)?;
            Some((name.clone(), digest, size))
        })
        .take(MAX_LISTED + 1)
        .collect();
    let more = manifests.len() > MAX_LISTED;
    manifests.truncate(MAX_LISTED);
    let source = &shared.source;
    let reading = manifests
        .into_iter()
        .map(|(name, digest, size)| async move {
            if standing(source, &digest).await? == Standing::Quarantined {
                return Ok(None);
            }
            let carried = read(source, digest, size).await?;
            // what a push put into another file's place is not that file
            Ok(carried.filter(|carried| place(&carried.name).as_ref() == Some(&name)))
        });
    let read = futures_util::stream::iter(reading).buffer_unordered(AT_ONCE);
    let read: Vec<Option<Carried>> = read.try_collect::<Vec<_>>().await?;
    let mut files: Vec<Carried> = read.into_iter().flatten().collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let files: Vec<serde_json::Value> = files
        .iter()
        .map(|carried| {
            json!({
                "name": carried.name,
                "path": format!("/files/{}", carried.name.escaped()),
                "digest": carried.content,
                "size": carried.size,
            })
        })
        .collect();
    Ok(json_answer(asking, &json!({"files": files, "more": more})))
}

/// Where the file of this name lies.
fn place(name: &FileName) -> Option<RepositoryName> {
    mirror_repository(file::HOST, &name.repository()).ok()
}

/// The manifest under the tag of a file, and its size.
fn latest(repository: &Repository) -> Option<(Digest, u64)> {
    let latest: Tag = "latest".parse().ok()?;
    let digest = repository.tags.get(&latest)?.digest;
    let entry = repository.manifests.get(&digest)?;
    Some((digest, entry.size))
}

/// The file a manifest is; `None` when it is not here or none.
async fn read(
    source: &Arc<dyn Source>,
    manifest: Digest,
    size: u64,
) -> Result<Option<Carried>, ApiError> {
    if size > MAX_FILE_MANIFEST {
        return Ok(None);
    }
    let read = whole(source, manifest, size, MAX_FILE_MANIFEST).await?;
    Ok(read
        .and_then(Result::ok)
        .and_then(|bytes| file::carried(&bytes)))
}

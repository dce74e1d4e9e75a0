//! `/files/…`: the files that are neither charts nor images, by the names they were given.
//!
//! A file is an artifact in a repository whose name is made from its own (`core::file`), and
//! its name leads there without a list. Whoever has the OCI tools only finds it there too, and
//! who may not read that repository gets it neither there nor here.

use axum::response::Response;
use http::header::{CONTENT_DISPOSITION, HeaderValue};
use kubepkg_core::Digest;
use kubepkg_core::file::{self, Carried, FileName};
use kubepkg_core::location::mirror_repository;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{Names, Repository};
use serde_json::json;

use super::auth;
use super::content::{Described, Freshness, blocking, opened_blob, read_all, stands};
use super::error::ApiError;
use super::{Asking, Shared, json_answer};
use crate::access::Action;
use crate::route::decode;
use crate::source::{Source, Standing};

/// Most files that are listed: each is a manifest that is read.
const MAX_LISTED: usize = 10_000;

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
    let manifest = latest(repository).ok_or_else(absent)?;
    if !stands(&shared.source, &manifest).await? {
        return Err(absent());
    }
    let found = blocking(&shared.source, move |source| read(source, &manifest)).await?;
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
    let mut manifests: Vec<(RepositoryName, Digest)> = repositories
        .skip_while(|(name, _)| name.as_str() < prefix.as_str())
        .take_while(|(name, _)| name.as_str().starts_with(&prefix))
        .filter(|(name, _)| auth::may_read(shared, asking, name))
        .filter_map(|(name, repository)| Some((name.clone(), latest(repository)?)))
        .filter(|(_, digest)| shared.source.standing(digest) != Standing::Quarantined)
        .take(MAX_LISTED + 1)
        .collect();
    let more = manifests.len() > MAX_LISTED;
    manifests.truncate(MAX_LISTED);
    let mut files = blocking(&shared.source, move |source| {
        let read = manifests.iter().filter_map(|(name, digest)| {
            // what a push put into another file's place is not that file
            read(source, digest).filter(|carried| place(&carried.name).as_ref() == Some(name))
        });
        read.collect::<Vec<Carried>>()
    })
    .await?;
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

fn latest(repository: &Repository) -> Option<Digest> {
    let latest: Tag = "latest".parse().ok()?;
    repository.tags.get(&latest).map(|entry| entry.digest)
}

/// The file a manifest is; `None` when it is not here or none.
fn read(source: &dyn Source, manifest: &Digest) -> Option<Carried> {
    let range = source.blob(manifest).ok()??;
    if range.len > MAX_FILE_MANIFEST {
        return None;
    }
    file::carried(&read_all(&range).ok()?)
}

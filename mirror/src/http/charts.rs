//! `/charts/<host>/<path>/…`: the Helm charts in the registry repositories right below
//! `<host>/<path>`, as a classic chart repository. Archives are the charts' blobs, byte for
//! byte; the index is made of their configs, which are their `Chart.yaml` as JSON.

mod view;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::response::Response;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use kubepkg_core::location::{mirror_repository, upstream_host};
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::Names;
use tokio::sync::Semaphore;

use self::view::{View, below};
use super::auth;
use super::content::{Described, Freshness, blocking, opened_blob, respond_bytes, stands};
use super::error::ApiError;
use super::{Asking, Shared};
use crate::access::Action;
use crate::route::decode;
use crate::source::Source;

/// Most folders whose views are kept. A site has a handful of chart repositories; of more the
/// one that was not asked for longest is built again.
const KEPT: usize = 32;

/// Views that are built at once. Building reads a manifest and a config for each chart.
const BUILDS: usize = 2;

/// The view of one folder, with what it was built from. Who builds it has it for themselves:
/// others that ask for this folder wait, those that ask for another do not.
type Cell = Arc<tokio::sync::Mutex<Option<Arc<View>>>>;

/// The views that were asked for.
#[derive(Clone, Debug)]
pub struct ChartCache(Arc<Views>);

#[derive(Debug)]
struct Views {
    folders: Mutex<Folders>,
    builds: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Folders {
    /// With the turn in which each was last asked for.
    cells: HashMap<RepositoryName, (Cell, u64)>,
    turn: u64,
}

impl Default for ChartCache {
    fn default() -> ChartCache {
        ChartCache(Arc::new(Views {
            folders: Mutex::default(),
            builds: Arc::new(Semaphore::new(BUILDS)),
        }))
    }
}

impl ChartCache {
    /// The view of `folder`, `None` when no chart lies right below it. A push elsewhere costs
    /// nothing, one into the folder the charts of one repository. It is built to its end when
    /// nobody waits for it any more.
    async fn view(
        &self,
        source: &Arc<dyn Source>,
        names: &Arc<Names>,
        folder: &RepositoryName,
    ) -> Result<Option<Arc<View>>, ApiError> {
        if below(names, folder).next().is_none() {
            self.folders().cells.remove(folder);
            return Ok(None);
        }
        let mut last = self.cell(folder).lock_owned().await;
        if let Some(view) = last.as_ref().filter(|view| view.is_of(names, folder)) {
            // what was only not found may be back
            let looked = source.look_again(view.left_out.iter().copied().collect());
            looked.await.map_err(|error| ApiError::store(&error))?;
            let damaged = view.damaged(&**source);
            if damaged == view.left_out {
                return Ok(Some(Arc::clone(view)));
            }
        }
        // never closed
        let turn = Arc::clone(&self.0.builds).acquire_owned().await.ok();
        let (cache, names, folder) = (self.clone(), Arc::clone(names), folder.clone());
        let built = blocking(source, move |source| {
            let _turn = turn;
            let built = View::build(source, &names, &folder, last.as_deref());
            let built = built.map(|view| view.map(Arc::new));
            if let Ok(view) = &built {
                last.clone_from(view);
            }
            cache.settle(&folder, last.is_some());
            built
        });
        built.await?.map_err(|error| ApiError::store(&error))
    }

    fn folders(&self) -> MutexGuard<'_, Folders> {
        let folders = self.0.folders.lock();
        folders.unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a folder's view, which may still be empty.
    fn cell(&self, folder: &RepositoryName) -> Cell {
        let folders = &mut *self.folders();
        folders.turn += 1;
        let kept = folders.cells.entry(folder.clone());
        let (cell, turn) = kept.or_default();
        *turn = folders.turn;
        Arc::clone(cell)
    }

    /// After building: a folder without charts is not kept, so requests for such cannot make it
    /// grow, and for one that is, the one goes that was not asked for longest.
    fn settle(&self, folder: &RepositoryName, kept: bool) {
        let cells = &mut self.folders().cells;
        if !kept {
            cells.remove(folder);
        } else if cells.len() > KEPT {
            let others = cells.iter().filter(|(other, _)| *other != folder);
            let oldest = others.min_by_key(|(_, (_, turn))| *turn);
            if let Some(oldest) = oldest.map(|(other, _)| other.clone()) {
                cells.remove(&oldest);
            }
        }
    }
}

/// `GET|HEAD /charts/<rest>`.
pub async fn answer(
    shared: &Shared,
    asking: &Asking,
    names: &Arc<Names>,
    rest: &str,
) -> Result<Response, ApiError> {
    let absent = || ApiError::no_page(asking.path());
    let decoded = decode(rest).ok_or_else(absent)?;
    let (folder, file) = decoded.rsplit_once('/').ok_or_else(absent)?;
    let folder = mapped(folder).ok_or_else(absent)?;
    admit(shared, asking, names, &folder)?;
    let view = shared.charts.view(&shared.source, names, &folder);
    let view = view.await?.ok_or_else(absent)?;

    if file == "index.yaml" {
        let described = Described {
            digest: view.digest,
            size: view.index.len() as u64,
            media_type: HeaderValue::from_static("application/yaml"),
            freshness: Freshness::Revalidate,
        };
        if let Some(response) = described.not_modified(asking) {
            return Ok(response);
        }
        let mut headers: HeaderMap = described.headers();
        headers.insert(CONTENT_TYPE, described.media_type);
        return Ok(respond_bytes(asking, headers, view.index.clone()));
    }
    let blob = view.files.get(file).ok_or_else(absent)?;
    let digest = blob.digest;
    if !stands(&shared.source, &digest).await? {
        return Err(absent());
    }
    let described = Described {
        digest,
        size: blob.size,
        media_type: HeaderValue::from_static(blob.media_type),
        freshness: Freshness::Revalidate,
    };
    let open = opened_blob(&shared.source, digest);
    described
        .answer(asking, &shared.source, &shared.buffers, absent, open)
        .await
}

/// Refuses the charts of a folder to who may not read all that lies right below it. It is refused
/// in the folder's name: what is hidden there has no name for them.
fn admit(
    shared: &Shared,
    asking: &Asking,
    names: &Names,
    folder: &RepositoryName,
) -> Result<(), ApiError> {
    let may_read = |name| auth::may_read(shared, asking, name);
    let all = auth::reads_are_open(shared)
        || may_read(folder) && below(names, folder).all(|(name, _)| may_read(name));
    match all {
        true => Ok(()),
        false => {
            let name = folder.as_str();
            Err(auth::refused(shared, asking, Action::Pull, name))
        }
    }
}

/// The registry path of a chart repository: as it is, or, when spelled as upstream (a port
/// after a colon, upper case), in its mirror form.
fn mapped(folder: &str) -> Option<RepositoryName> {
    if let Ok(name) = folder.parse() {
        return Some(name);
    }
    let (host, path) = folder.split_once('/').unwrap_or((folder, ""));
    let upstream = host.parse().ok().and_then(|name| upstream_host(&name));
    mirror_repository(upstream.as_deref().unwrap_or(host), path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_may_be_spelled_as_upstream() {
        for (given, want) in [
            ("charts.jetstack.io", "charts.jetstack.io"),
            ("h.example_8443/stable", "h.example_8443/stable"),
            ("h.example:8443/Stable", "h.example_8443/stable"),
            ("h.example_8443/Stable", "h.example_8443/stable"),
            ("h.example/a b", "h.example/a-b"),
        ] {
            assert_eq!(mapped(given).map(|n| n.to_string()).as_deref(), Some(want));
        }
        assert_eq!(mapped("h.example/..//"), None);
    }
}

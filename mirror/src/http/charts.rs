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
use kubepkg_core::store::{Names, StoreError};

use self::view::{View, below};
use super::auth;
use super::content::{Described, Freshness, blocking, opened_blob, respond_bytes};
use super::error::ApiError;
use super::{Asking, Shared};
use crate::access::Action;
use crate::route::decode;
use crate::source::Source;

/// Most folders whose views are kept. A site has a handful of chart repositories; more are
/// built again when they are asked for.
const KEPT: usize = 32;

/// The views that were asked for, each with what it was built from.
#[derive(Clone, Debug, Default)]
pub struct ChartCache {
    views: Arc<Mutex<HashMap<RepositoryName, Arc<View>>>>,
    /// Who builds one. That may wait for another machine, so it takes one thread and no more.
    building: Arc<tokio::sync::Mutex<()>>,
}

impl ChartCache {
    fn views(&self) -> MutexGuard<'_, HashMap<RepositoryName, Arc<View>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The view of `folder`, if it is built.
    fn known(&self, names: &Names, folder: &RepositoryName) -> Option<Arc<View>> {
        let last = self.views().get(folder).map(Arc::clone);
        last.filter(|view| view.is_of(names, folder))
    }

    /// The view of `folder`, `None` when no chart lies right below it. May block. A push
    /// elsewhere costs nothing, one into the folder the charts of one repository.
    fn view(
        &self,
        source: &dyn Source,
        names: &Names,
        folder: &RepositoryName,
    ) -> Result<Option<Arc<View>>, StoreError> {
        let last = self.views().get(folder).map(Arc::clone);
        if let Some(view) = last.as_ref().filter(|view| view.is_of(names, folder)) {
            return Ok(Some(Arc::clone(view)));
        }
        let view = View::build(source, names, folder, last.as_deref())?.map(Arc::new);
        let mut views = self.views();
        match &view {
            // only folders that hold charts, so requests for others cannot make it grow
            Some(view) => {
                if views.len() >= KEPT && !views.contains_key(folder) {
                    views.clear();
                }
                views.insert(folder.clone(), Arc::clone(view));
            }
            None => {
                views.remove(folder);
            }
        }
        Ok(view)
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
    let view = built(shared, names, folder).await?.ok_or_else(absent)?;

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

/// The view of `folder`, `None` when there are no charts; of several that ask at once one builds
/// it.
async fn built(
    shared: &Shared,
    names: &Arc<Names>,
    folder: RepositoryName,
) -> Result<Option<Arc<View>>, ApiError> {
    let (cache, snapshot) = (shared.charts.clone(), Arc::clone(names));
    let wanted = folder.clone();
    let known = blocking(&shared.source, move |_| cache.known(&snapshot, &wanted));
    if let Some(view) = known.await? {
        return Ok(Some(view));
    }
    // as long as it takes, also where nobody waits for it any more
    let building = Arc::clone(&shared.charts.building).lock_owned().await;
    let (cache, snapshot) = (shared.charts.clone(), Arc::clone(names));
    let built = blocking(&shared.source, move |source| {
        let _building = building;
        cache.view(source, &snapshot, &folder)
    });
    built.await?.map_err(|error| ApiError::store(&error))
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

//! From a request to its answer, without a detour for what is asked most.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::buffers::Pool;
use super::{Shared, answer};
use crate::metrics::{Kind, Metrics};

/// What is noted of a request that was answered.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    /// As what it counts.
    pub(crate) kind: Kind,
    /// Who asked, where that is known.
    pub(crate) user: Option<Arc<str>>,
    /// Whose request it is, as far as that is known.
    pub(crate) client: Option<IpAddr>,
}

/// [`answer`], behind other routes: what is noted goes with the response.
async fn noting(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (mut response, noted) = answer(&shared, request).await;
    response.extensions_mut().insert(noted);
    response
}

/// Answers requests.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    shared: Arc<Shared>,
    /// The routes beside the registry, with the registry behind them; `None` without any.
    beside: Option<TowerToHyperService<Router>>,
}

impl Answers {
    /// Answers from `shared`, and from `extra` outside `/v2/`.
    pub(super) fn new(shared: Arc<Shared>, extra: Router) -> Answers {
        let beside = extra.has_routes().then(|| {
            let own = Router::new()
                .fallback(noting)
                .with_state(Arc::clone(&shared));
            TowerToHyperService::new(extra.fallback_service(own))
        });
        Answers { shared, beside }
    }

    /// The buffers answers pass through.
    pub(crate) fn buffers(&self) -> &Arc<Pool> {
        &self.shared.buffers
    }

    /// What is counted of the server.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    /// The answer to a request, and what is noted of it.
    pub(crate) async fn answer(&self, request: Request) -> (Response, Noted) {
        match &self.beside {
            Some(router) if !request.uri().path().starts_with("/v2/") => {
                let Ok(mut response) = router.call(request).await;
                let noted = response.extensions_mut().remove();
                // a route of somebody else
                let noted = noted.unwrap_or(Noted {
                    kind: Kind::Other,
                    user: None,
                    client: None,
                });
                (response, noted)
            }
            _ => answer(&self.shared, request).await,
        }
    }
}

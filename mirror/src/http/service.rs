//! From a request to its answer, without a detour for what is asked most.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::buffers::Pool;
use super::{Shared, answer};
use crate::metrics::Metrics;

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
                .fallback(answer)
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

    /// The answer to a request.
    pub(crate) async fn answer(&self, request: Request) -> Response {
        match &self.beside {
            Some(router) if !request.uri().path().starts_with("/v2/") => {
                let Ok(response) = router.call(request).await;
                response
            }
            _ => answer(State(Arc::clone(&self.shared)), request).await,
        }
    }
}

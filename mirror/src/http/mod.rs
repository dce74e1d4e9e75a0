//! The server's answers: the registry API, and beside it, for reading, repository files, charts
//! and other files.
//!
//! Every answer is given from one snapshot of the names, so within a request everything fits
//! together; HEAD is answered from the snapshot alone and touches no file. Bytes go out as
//! they are stored: nothing is converted, compressed or redirected.

mod admission;
mod auth;
mod beside;
mod body;
mod buffers;
mod cache;
mod charts;
mod condition;
mod conditional;
mod content;
mod error;
mod files;
mod forwarded;
mod fresh;
mod handoff;
mod health;
mod lists;
mod manifest;
mod metrics_page;
mod outside;
mod overview;
mod page;
mod page_cache;
mod push;
mod range;
mod reader;
mod referrers;
mod remote;
mod requests;
mod service;
mod settings;
mod sites;
mod watched;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode, Uri};
use kubepkg_core::name::RepositoryName;
use kubepkg_core::reference::canonical_host;
use kubepkg_core::store::Names;
use serde_json::json;

use self::beside::Beside;
use self::cache::ManifestCache;
use self::charts::ChartCache;
use self::content::{Described, Freshness, opened_blob, respond_bytes, stands};
use self::error::{ApiError, Code};
use self::forwarded::Way;
use self::fresh::names;
use self::outside::Outside;
use self::overview::Overview;
use self::referrers::Question;
use self::watched::Watched;
use crate::access::{Client, Gate, Who};
use crate::metrics::{Kind, Metrics};
use crate::namespace::Own;
use crate::route::{self, Ask, Endpoint, Place, RouteError};
use crate::serve::Peer;
use crate::sink::Sink;
use crate::source::{Age, Source};
use crate::tls::Tls;
use crate::wanted::{Miss, Wanted};

pub(crate) use self::buffers::{Buffer, LARGE, Pool, SMALL};
pub(crate) use self::condition::Condition;
pub use self::forwarded::Network;
pub(crate) use self::handoff::{Handoff, Part, is_placeholder};
pub(crate) use self::overview::Seen;
pub use self::push::Settings as PushSettings;
pub(crate) use self::requests::Line;
pub(crate) use self::service::{Answers, Noted};
pub use self::settings::{NoSettings, SettingsAsked, SettingsFile, SettingsMaker};

const API_VERSION: HeaderName = HeaderName::from_static("docker-distribution-api-version");
const DOCKER_CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
const OCI_NAMESPACE: HeaderName = HeaderName::from_static("oci-namespace");

/// What a server is made of.
#[derive(Debug)]
pub struct Server {
    shared: Shared,
    extra: Router,
}

/// What all requests share.
struct Shared {
    source: Arc<dyn Source>,
    own_names: Vec<String>,
    manifests: ManifestCache,
    charts: ChartCache,
    buffers: Arc<Pool>,
    settings: Option<SettingsMaker>,
    /// What was asked for in vain.
    wanted: Arc<Wanted>,
    /// What is counted of the server.
    metrics: Arc<Metrics>,
    /// What the store tells of itself.
    overview: Overview,
    /// Who makes the page for people.
    page: page::Maker,
    /// Where clients may push to; `None` when they may not.
    push: Option<push::Push>,
    /// Who may do what; `None`: everybody everything.
    gate: Option<Arc<Gate>>,
    outside: Outside,
    readiness: Arc<health::Readiness>,
    /// The store was to be opened for writing, and could not.
    unwritable: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("own_names", &self.own_names)
            .finish_non_exhaustive()
    }
}

/// What is kept of a request.
#[derive(Clone, Debug)]
struct Asking {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// Where files are handed to the socket; `None` when there is something between.
    handoff: Option<Handoff>,
    /// How it came here.
    way: Way,
    /// Who the client is.
    who: Who,
}

impl Asking {
    /// The path as on the wire.
    fn path(&self) -> &str {
        self.uri.path()
    }

    /// The query as on the wire.
    fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }

    /// For whom it is counted.
    fn client(&self) -> Client {
        Client::of(&self.who, self.way.client)
    }

    /// `host[:port]` the client believes to talk to.
    fn host(&self) -> Option<&str> {
        match self.headers.get(HOST) {
            Some(host) => host.to_str().ok(),
            None => self.uri.authority().map(http::uri::Authority::as_str),
        }
    }
}

impl Server {
    /// A server of what is in `source`.
    pub fn new(source: impl Source) -> Server {
        Server {
            shared: Shared {
                source: Arc::new(Watched::new(source)),
                own_names: Vec::new(),
                manifests: ManifestCache::default(),
                charts: ChartCache::default(),
                buffers: Arc::default(),
                settings: None,
                wanted: Arc::default(),
                metrics: Arc::default(),
                overview: Overview::default(),
                page: page::Maker::default(),
                push: None,
                gate: None,
                outside: Outside::default(),
                readiness: Arc::default(),
                unwritable: false,
            },
            extra: Router::new(),
        }
    }

    /// Adds names (`host[:port]`) by which clients know this server, besides the `Host` of
    /// each request: as `ns` they mean the server itself. What is no host is left out.
    #[must_use]
    pub fn own_names(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Server {
        let names = names.into_iter();
        self.shared
            .own_names
            .extend(names.filter_map(|name| canonical_host(name.as_ref())));
        self
    }

    /// Serves settings for nodes at `/node-config/<kind>`.
    #[must_use]
    pub fn settings(
        mut self,
        maker: impl Fn(&SettingsAsked<'_>) -> Result<SettingsFile, NoSettings> + Send + Sync + 'static,
    ) -> Server {
        self.shared.settings = Some(Arc::new(maker));
        self
    }

    /// Counts what is asked for in vain in `wanted`.
    #[must_use]
    pub fn count_misses(mut self, wanted: Arc<Wanted>) -> Server {
        self.shared.wanted = wanted;
        self
    }

    /// Lets `gate` decide who may do what; without one everybody who reaches this server may do
    /// all there is to do.
    #[must_use]
    pub fn gate(mut self, gate: Arc<Gate>) -> Server {
        self.shared.gate = Some(gate);
        self
    }

    /// Says how clients reach this server: with what TLS, and under which address where that is not
    /// the one they ask for. With neither it is not known where they get tokens, and they are
    /// asked for passwords alone.
    #[must_use]
    pub fn reached(mut self, tls: Option<Arc<Tls>>, url: Option<String>) -> Server {
        self.shared.outside.tls = tls;
        self.shared.outside.url = url;
        self
    }

    /// Says that clients reach this server with plain HTTP, under the address they ask for:
    /// then they get tokens there.
    #[must_use]
    pub fn plain_http(mut self, plain: bool) -> Server {
        self.shared.outside.plain = plain;
        self
    }

    /// Lets these proxies say whose request it is that they pass on, and whether it came over
    /// TLS.
    #[must_use]
    pub fn trusted_proxies(mut self, proxies: Vec<Network>) -> Server {
        self.shared.outside.proxies = proxies;
        self
    }

    /// Says that the store ought to be written and cannot be: the server is not ready, though it
    /// answers.
    #[must_use]
    pub fn unwritable(mut self) -> Server {
        self.shared.unwritable = true;
        self
    }

    /// Lets clients push into `sink`, which must be the store that is served.
    #[must_use]
    pub fn accept_pushes(mut self, sink: impl Sink, settings: PushSettings) -> Server {
        self.shared.push = Some(push::Push::new(Arc::new(sink), settings));
        self
    }

    /// Adds routes beside those served here. They come first where both would answer.
    #[must_use]
    pub fn routes(mut self, extra: Router) -> Server {
        self.extra = self.extra.merge(extra);
        self
    }

    /// Where the answers come from.
    pub fn source(&self) -> Arc<dyn Source> {
        Arc::clone(&self.shared.source)
    }

    /// The whole server, to be put on a socket by [`crate::serve::serve`].
    pub(crate) fn into_answers(self) -> Answers {
        Answers::new(Arc::new(self.shared), self.extra)
    }
}

async fn answer(shared: &Arc<Shared>, request: Request) -> (Response, Noted) {
    let (mut parts, body) = request.into_parts();
    let peer = parts.extensions.get().map(|Peer(peer)| peer.ip());
    let mut asking = Asking {
        way: forwarded::way(peer, &parts.headers, &shared.outside.proxies),
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        handoff: parts.extensions.remove(),
        who: Who::Nobody,
    };
    let (parsed, kind) = kind_of(&asking.method, asking.path(), asking.query());
    let mut response = identified(shared, &mut asking, parsed, body).await;
    let headers = response.headers_mut();
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, nosniff);
    let client = asking.way.client;
    let user = asking.who.into_user();
    (response, Noted { kind, user, client })
}

/// What a request asks for, and as what it counts.
fn kind_of(method: &Method, path: &str, query: &str) -> (Result<Endpoint, RouteError>, Kind) {
    let parsed = route::parse(method, path, query);
    let kind = match &parsed {
        Err(RouteError::Elsewhere) => Beside::of(path).kind(),
        parsed => Kind::of_registry(parsed, method != Method::GET && method != Method::HEAD),
    };
    (parsed, kind)
}

/// Finds out who asks, and answers.
async fn identified(
    shared: &Arc<Shared>,
    asking: &mut Asking,
    parsed: Result<Endpoint, RouteError>,
    body: Body,
) -> Response {
    if asking.path() == auth::TOKEN_PATH {
        return auth::token(shared, asking, body).await;
    }
    match auth::identify(shared, asking).await {
        Ok(who) => asking.who = who,
        Err(error) => {
            let error = push::turned_away(error, asking, body).await;
            return error.into_response();
        }
    }
    match parsed {
        Err(RouteError::Elsewhere) => beside(shared, asking, body).await,
        parsed => registry(shared, asking, parsed, body).await,
    }
}

/// Everything below `/v2/`.
async fn registry(
    shared: &Arc<Shared>,
    asking: &Asking,
    parsed: Result<Endpoint, RouteError>,
    body: Body,
) -> Response {
    let own = Own {
        host: asking.host(),
        names: &shared.own_names,
    };
    let mut namespace = None;
    let writes = asking.method != Method::GET && asking.method != Method::HEAD;
    let answered = match parsed {
        // whatever it names
        _ if writes && !takes_writes(shared) => {
            let error = ApiError::read_only(asking);
            Err(push::turned_away(error, asking, body).await)
        }
        Err(error) => {
            if let RouteError::Name(_) | RouteError::Target { .. } = error {
                shared.wanted.miss(Miss::Illegal, asking.way.client);
            }
            let error = ApiError::from_route(&error, asking.path());
            Err(push::turned_away(error, asking, body).await)
        }
        Ok(Endpoint::Base) => {
            auth::at_the_door(shared, asking).map(|()| json_answer(asking, &json!({})))
        }
        Ok(Endpoint::Catalog(page)) => names(shared, Age::Now).await.map(|names| {
            let shown = |name: &RepositoryName| auth::may_read(shared, asking, name);
            lists::catalog(asking, &names, &page, shown)
        }),
        Ok(Endpoint::Repository(place, ask)) => {
            namespace = place.namespace(own);
            let answered = match &ask {
                Ask::Upload(id) => push::state(shared, asking, own, &place, id).await,
                ask => {
                    let (shared, place) = (&**shared, &place);
                    let from = |names| repository(shared, asking, own, place, ask, names);
                    fresh::answered(shared, fresh::age(ask), from).await
                }
            };
            if let Err(error) = &answered
                && error.status == StatusCode::NOT_FOUND
                && let Some(miss) = Miss::of(&place, own, &ask)
            {
                shared.wanted.miss(miss, asking.way.client);
            }
            answered
        }
        Ok(Endpoint::Write(place, write)) => push::answer(shared, asking, place, write, body).await,
    };
    let mut response = answered.unwrap_or_else(|error| {
        if error.status == StatusCode::NOT_FOUND {
            tracing::info!(uri = %asking.uri, code = error.code.as_str(), "not here");
        }
        error.into_response()
    });
    let headers = response.headers_mut();
    headers.insert(API_VERSION, HeaderValue::from_static("registry/2.0"));
    if let Some(Ok(namespace)) = namespace.map(HeaderValue::try_from) {
        headers.insert(OCI_NAMESPACE, namespace);
    }
    response
}

async fn repository(
    shared: &Shared,
    asking: &Asking,
    own: Own<'_>,
    place: &Place,
    ask: &Ask,
    names: Arc<Names>,
) -> Result<Response, ApiError> {
    let found = admission::admit(shared, asking, own, place, &names)?;
    let saved = admission::settled(shared, place, ask, found).await?;
    let found = match &saved {
        None => found,
        Some(names) => admission::admit(shared, asking, own, place, names)?,
    };
    if let Ask::Referrers {
        subject,
        artifact_type,
        last,
    } = ask
    {
        let question = Question {
            subject,
            artifact_type: artifact_type.as_deref(),
            last: last.as_ref(),
        };
        let repository = found.map(|found| found.repository);
        return referrers::answer(shared, asking, repository, question).await;
    }
    let found = found.ok_or_else(|| ApiError::no_repository(place))?;
    match ask {
        Ask::Manifest(target) => manifest::answer(shared, asking, place, found, target).await,
        Ask::Tags(page) => Ok(lists::tags(asking, place, found, page)),
        Ask::Blob(digest) => {
            let absent = || ApiError::not_in(place, Code::BlobUnknown, ask);
            // a manifest is not a blob, and a blob of another repository is not one of this
            let size = found.repository.blobs.get(digest).ok_or_else(absent)?;
            if !stands(&shared.source, digest).await? {
                return Err(absent());
            }
            let digest = *digest;
            let described = Described {
                digest,
                size: *size,
                media_type: HeaderValue::from_static("application/octet-stream"),
                freshness: Freshness::Immutable,
            };
            let open = opened_blob(&shared.source, digest);
            described
                .answer(asking, &shared.source, &shared.buffers, absent, open)
                .await
        }
        Ask::Upload(_) | Ask::Referrers { .. } => {
            Err(ApiError::not_in(place, Code::BlobUploadUnknown, ask))
        }
    }
}

/// Whether anybody may change anything here.
fn takes_writes(shared: &Shared) -> bool {
    let gate = shared.gate.as_ref();
    shared.push.is_some() && gate.is_none_or(|gate| gate.lets_write())
}

/// Everything else: repository files, charts, and whether the server is well.
async fn beside(shared: &Shared, asking: &Asking, body: Body) -> Response {
    if asking.method != Method::GET && asking.method != Method::HEAD {
        let error = ApiError::read_only(asking);
        return push::turned_away(error, asking, body).await.into_response();
    }
    let path = asking.path();
    let answered = match (Beside::of(path), &shared.settings) {
        (Beside::Repositories(rest), _) => match names(shared, Age::Now).await {
            Ok(names) => sites::answer(shared, asking, &names, rest).await,
            Err(error) => Err(error),
        },
        (Beside::Charts(rest), _) => match names(shared, Age::Now).await {
            Ok(names) => charts::answer(shared, asking, &names, rest).await,
            Err(error) => Err(error),
        },
        (Beside::Files(rest), _) => match names(shared, Age::Now).await {
            Ok(names) => files::answer(shared, asking, &names, rest).await,
            Err(error) => Err(error),
        },
        (Beside::NodeConfig(rest), Some(maker)) => match names(shared, Age::Now).await {
            Ok(names) => settings::answer(maker, shared, asking, &names, rest),
            Err(error) => Err(error),
        },
        (Beside::Page, _) => page::answer(shared, asking).await,
        (Beside::Metrics, _) => metrics_page::answer(shared, asking).await,
        (Beside::Health, _) => return health::health(shared, asking).await,
        (Beside::Ready, _) => return health::ready(shared, asking).await,
        (Beside::Alive, _) => return health::alive(asking),
        (Beside::NodeConfig(_) | Beside::Token | Beside::Nothing, _) => {
            Err(ApiError::no_page(path))
        }
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

fn json_answer(asking: &Asking, body: &serde_json::Value) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    respond_bytes(asking, headers, body.to_string())
}

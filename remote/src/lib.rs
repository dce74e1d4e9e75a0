//! Talking to other machines: index files, Helm repositories and OCI registries, with
//! credentials, TLS, retries and limits in one place.
//!
//! What this crate never does: print, read the home directory or the environment, write a
//! file, or decide whether content is trusted. It checks that bytes are the bytes that were
//! asked for (digest and length) and nothing more. Everything it needs is in [`Options`].
//!
//! Nothing outside this crate names `reqwest`.
//!
//! One exception to the environment rule, inherited from `reqwest`: proxies
//! (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`) and the location of the system's
//! certificates (`SSL_CERT_FILE`, `SSL_CERT_DIR`) are honoured as every HTTP client does.
//! Loopback addresses are never reached through a proxy.
//!
//! * [`Client::fetch`]: one file by URL, bounded.
//! * [`Client::chart`]: one chart of a Helm repository or a registry.
//! * [`Registry`]: manifests, blobs and referrers of a registry; pushing them.
//!
//! Where nothing else is said, a request is tried again under one policy ([`Retry`]) and
//! never leaves the limits of [`Options::per_host`].

mod address;
mod body;
mod charts;
mod client;
mod credentials;
mod error;
mod fetch;
mod helm;
mod host_settings;
mod hosts;
mod http;
mod limit;
mod login;
mod mirror;
mod options;
mod provenance;
mod proxy;
mod redirect;
pub mod registry;
mod retry;
mod tls;

pub use body::Content;
pub use charts::{ChartFetched, MAX_CHART, OciChart};
pub use client::Client;
pub use error::{Fault, Given, RemoteError};
pub use fetch::Fetched;
pub use helm::MAX_HELM_INDEX;
pub use limit::Limit;
pub use options::{JOBS, Options, PER_HOST, PerHost, Progress, Wait};
pub use provenance::Provenance;
pub use registry::{RawManifest, Referrer, Registry};
pub use retry::Retry;

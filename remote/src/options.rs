//! What a caller decides: how to reach others, and how hard to work.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kubepkg_core::location::CanonicalUrl;

use crate::retry::Retry;

/// Requests to one host at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerHost {
    /// So many at first.
    pub first: usize,
    /// So many while it keeps up; the same for no more than that.
    pub most: usize,
}

/// Unless told otherwise: few at first, so that no registry takes it for an attack; then twice as
/// many with each round trip, until the host refuses for having too much to do. What an image
/// takes is a dozen small questions: on a long line the waiting counts, and several images' worth
/// of questions under way keep it short.
pub const PER_HOST: PerHost = PerHost { first: 6, most: 48 };

/// Requests at the same time to all hosts together, unless told otherwise: as many as one host
/// may get.
pub const JOBS: u16 = 48;

/// How to reach other machines. `Options::default()` speaks TLS, without credentials and
/// without a mirror.
#[derive(Clone)]
pub struct Options {
    /// Hosts (`name` for every port, or `name:port`) that are reached over plain HTTP.
    /// Loopback addresses need no entry.
    pub plain_http: Vec<String>,
    /// A registry that holds upstream content under `<mirror>/<host>/<path>`; everything
    /// from registries is fetched there, and index files and charts too when it is a kubepkg
    /// mirror. `https://…`, `http://…` or `oci://…`.
    pub mirror: Option<CanonicalUrl>,
    /// Files with credentials in the form of Docker's `config.json`; earlier ones win. They
    /// must exist.
    pub registry_configs: Vec<PathBuf>,
    /// Files with users of Helm repositories in the form of Helm's `repositories.yaml`. They
    /// must exist.
    pub helm_configs: Vec<PathBuf>,
    /// A PEM file of certificate authorities that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// A PEM file with a certificate to show to servers that ask for one, and one with its
    /// key; the same file where that is `None`.
    pub client_certificate: Option<(PathBuf, Option<PathBuf>)>,
    /// A folder of settings for each host in containerd's form (`certs.d`).
    pub hosts_dir: Option<PathBuf>,
    /// Requests at the same time to all hosts together.
    pub jobs: usize,
    /// Requests at the same time to one host.
    pub per_host: PerHost,
    /// When and how often a request is tried again.
    pub retry: Retry,
    /// How to let time pass before the next try. Tests hand in one that only takes notes.
    pub wait: Arc<dyn Wait>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            plain_http: Vec::new(),
            mirror: None,
            registry_configs: Vec::new(),
            helm_configs: Vec::new(),
            ca_file: None,
            client_certificate: None,
            hosts_dir: None,
            jobs: usize::from(JOBS),
            per_host: PER_HOST,
            retry: Retry::default(),
            wait: Arc::new(Clock),
        }
    }
}

/// Lets time pass.
pub trait Wait: Send + Sync {
    /// Returns after `time`.
    fn wait(&self, time: Duration) -> BoxFuture<'_, ()>;
}

/// The real clock.
struct Clock;

impl Wait for Clock {
    fn wait(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// Hears how many bytes of blobs have come in. Called often and from many tasks: it must be
/// quick.
pub trait Progress: Send + Sync {
    /// `bytes` more were received.
    fn received(&self, bytes: u64);

    /// `bytes` that were reported before have to be received once more.
    fn again(&self, bytes: u64) {
        let _ = bytes;
    }
}

/// Nobody listens.
impl Progress for () {
    fn received(&self, _bytes: u64) {}
}

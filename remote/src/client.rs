//! The handle everything starts from.

use std::sync::Arc;

use crate::address::PlainHosts;
use crate::charts::HelmIndexes;
use crate::error::{Fault, RemoteError, shown};
use crate::http::Http;
use crate::mirror::Mirror;
use crate::options::Options;
use crate::registry::{Access, Registry};
use crate::tls::Authorities;

/// Talks to other machines under one set of [`Options`]. Cheap to clone; clones share
/// connections, limits, tokens and what was learned about the mirror.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) http: Http,
    pub(crate) mirror: Option<Mirror>,
    pub(crate) access: Access,
    pub(crate) helm: HelmIndexes,
}

impl Client {
    /// Reads the files named in `options`; nothing is sent.
    ///
    /// # Errors
    /// When a file cannot be read or makes no sense, or a host or the mirror is no legal
    /// address.
    pub fn new(options: Options) -> Result<Client, RemoteError> {
        let plain = PlainHosts::new(&options.plain_http).map_err(|host| {
            let why = "a host reads name or name:port".to_owned();
            RemoteError::new(format!("--plain-http {}", shown(&host)), Fault::Url(why))
        })?;
        let plain = Arc::new(plain);
        let authorities = Arc::new(Authorities::load(options.ca_file.as_deref())?);
        let http = Http::new(&options, Arc::clone(&authorities), Arc::clone(&plain));
        let mirror = match options.mirror {
            Some(url) => Some(Mirror::new(url, &plain)?),
            None => None,
        };
        let access = Access::new(options.docker_config.as_deref(), authorities)?;
        Ok(Client {
            inner: Arc::new(Inner {
                http,
                mirror,
                access,
                helm: HelmIndexes::default(),
            }),
        })
    }

    /// Registries, reached through the mirror where there is one.
    pub fn registry(&self) -> Registry {
        Registry::new(Arc::clone(&self.inner))
    }
}

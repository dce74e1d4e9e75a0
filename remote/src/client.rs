//! The handle everything starts from.

use std::sync::Arc;

use crate::address::PlainHosts;
use crate::charts::HelmIndexes;
use crate::credentials::Credentials;
use crate::error::{Fault, RemoteError, shown};
use crate::host_settings::HostSettings;
use crate::http::Http;
use crate::login::LoggedIn;
use crate::mirror::Mirror;
use crate::options::Options;
use crate::registry::{Access, Registry};
use crate::tls::Certificates;

/// Talks to other machines under one set of [`Options`]. Cheap to clone; clones share
/// connections, limits, tokens and what was learned about the mirror.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) http: Http,
    pub(crate) mirror: Option<Mirror>,
    pub(crate) settings: HostSettings,
    pub(crate) access: Access,
    pub(crate) logged_in: LoggedIn,
    pub(crate) helm: HelmIndexes,
}

impl Client {
    /// Reads the files named in `options`; nothing is sent.
    ///
    /// # Errors
    /// When a file cannot be read or makes no sense, or a host or the mirror is no legal
    /// address.
    pub fn new(options: Options) -> Result<Client, RemoteError> {
        let mut certificates = Certificates::default();
        if let Some(file) = &options.ca_file {
            certificates.trust(file)?;
        }
        if let Some((certificate, key)) = &options.client_certificate {
            certificates.show(certificate, key.as_deref())?;
        }
        let settings = match &options.hosts_dir {
            Some(folder) => HostSettings::load(folder, &certificates)?,
            None => HostSettings::default(),
        };
        let plain = PlainHosts::new(&options.plain_http).map_err(|host| {
            let why = "a host reads name or name:port".to_owned();
            RemoteError::new(format!("--plain-http {}", shown(&host)), Fault::Url(why))
        })?;
        let plain = Arc::new(plain.with_servers(settings.plain()));
        let credentials = Credentials::load(&options.registry_configs, &options.helm_configs)?;
        let http = Http::new(&options, certificates, Arc::clone(&plain));
        let mirror = match options.mirror {
            Some(url) => Some(Mirror::new(url, &plain)?.with_line(&settings)),
            None => None,
        };
        Ok(Client {
            inner: Arc::new(Inner {
                http,
                mirror,
                settings,
                access: Access::new(credentials),
                logged_in: LoggedIn::default(),
                helm: HelmIndexes::default(),
            }),
        })
    }

    /// Registries, reached through the mirror where there is one.
    pub fn registry(&self) -> Registry {
        Registry::new(Arc::clone(&self.inner))
    }
}

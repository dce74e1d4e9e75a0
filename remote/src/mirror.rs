//! Reaching upstream content through a registry that holds it under its upstream location.
//!
//! Any registry can be such a mirror for what lies in registries. A kubepkg mirror also
//! serves repository files and charts; it is recognised once, by what it calls itself at
//! `/healthz`.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderValue;
use kubepkg_core::location::{CanonicalUrl, mirror_repository};
use serde::Deserialize;
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use crate::address::PlainHosts;
use crate::error::{Fault, RemoteError};
use crate::fetch::Fetched;
use crate::host_settings::HostSettings;
use crate::http::{Ask, Http, Way};
use crate::tls::Line;

/// What a kubepkg mirror calls itself at `/healthz`.
const SERVICE: &str = "kubepkg-mirror";

/// Largest answer to `/healthz` that is looked at.
const MAX_HEALTH: u64 = 64 << 10;

/// The header by which a kubepkg mirror names the set of files an answer belongs to. An import
/// replaces the set as a whole.
const SET: &str = "kubepkg-set";

/// The part of the answer to `/healthz` that says who answers.
#[derive(Deserialize)]
struct Health {
    service: String,
}

/// The registry named by `--mirror`.
pub(crate) struct Mirror {
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// `host[:port]`.
    pub(crate) host: String,
    /// Repositories begin with this: empty, or elements that each end with `/`.
    pub(crate) prefix: String,
    /// Certificates and headers of its own.
    line: Option<Arc<Line>>,
    kubepkg: OnceCell<bool>,
    /// Where the repository files of a folder come from. The first file asked for in a folder
    /// decides for all, so that an index and its signature are never taken from two places.
    folders: Mutex<BTreeMap<String, Origin>>,
}

/// Where the files of one folder come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// From their own place.
    Upstream,
    /// From the mirror, out of this set where it names one.
    Mirror(Option<HeaderValue>),
}

impl Mirror {
    pub(crate) fn new(url: CanonicalUrl, plain: &PlainHosts) -> Result<Mirror, RemoteError> {
        let host = url.host().to_owned();
        let wrong = |fault| RemoteError::new(format!("--mirror {url}"), fault);
        let scheme = match url.scheme() {
            "https" => "https",
            "http" if plain.allows(&host) => "http",
            "http" => return Err(wrong(Fault::PlainHttp { host })),
            "oci" => plain.scheme(&host),
            _ => {
                let why = "a mirror is a registry: https://, http:// or oci://".to_owned();
                return Err(wrong(Fault::Url(why)));
            }
        };
        let prefix = match url.path().trim_matches('/') {
            "" => String::new(),
            path => format!("{path}/"),
        };
        Ok(Mirror {
            scheme,
            host,
            prefix,
            line: None,
            kubepkg: OnceCell::new(),
            folders: Mutex::default(),
        })
    }

    /// The same, reached as `settings` say of its host.
    pub(crate) fn with_line(mut self, settings: &HostSettings) -> Mirror {
        self.line = settings.line(&self.host);
        self
    }

    /// A request for one of its files.
    pub(crate) fn ask(&self, url: Url) -> Ask {
        let mut ask = Ask::get(url);
        ask.line = self.line.clone().map_or(Way::Own, Way::Host);
        ask
    }

    /// For messages.
    pub(crate) fn shown(&self) -> String {
        format!("{}://{}/{}", self.scheme, self.host, self.prefix)
    }

    fn url(&self, path: &str) -> Result<Url, RemoteError> {
        let text = format!("{}://{}/{path}", self.scheme, self.host);
        text.parse()
            .map_err(|e: url::ParseError| RemoteError::new(self.shown(), Fault::Url(e.to_string())))
    }

    /// Whether this is a kubepkg mirror. A registry below a path is not: its host serves
    /// others as well.
    async fn is_kubepkg(&self, http: &Http) -> Result<bool, RemoteError> {
        if !self.prefix.is_empty() {
            return Ok(false);
        }
        let ask = || async {
            let url = self.url("healthz")?;
            let ask = self.ask(url);
            match http.get_asked(&self.shown(), &ask, MAX_HEALTH).await {
                Ok(whole) => Ok(serde_json::from_slice(&whole.bytes)
                    .is_ok_and(|health: Health| health.service == SERVICE)),
                // Anything that answers at all is a registry, just not one of ours.
                Err(error) => match error.fault() {
                    Fault::NotFound | Fault::Denied { .. } | Fault::TooLarge { .. } => Ok(false),
                    fault @ Fault::Status { .. } if !fault.is_passing() => Ok(false),
                    _ => Err(error),
                },
            }
        };
        self.kubepkg.get_or_try_init(ask).await.copied()
    }

    /// The address of `file` of what lies at `url` upstream, in `area` of a kubepkg mirror.
    /// `None` when this is another registry, or the location has no place in a mirror.
    pub(crate) async fn beside(
        &self,
        http: &Http,
        area: &str,
        url: &CanonicalUrl,
        file: &str,
    ) -> Result<Option<Url>, RemoteError> {
        if !self.is_kubepkg(http).await? {
            return Ok(None);
        }
        match mirror_repository(url.host(), url.path()) {
            Ok(location) => self.url(&format!("{area}/{location}/{file}")).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The repository file `url` from this mirror; `None` when it has to be fetched at its
    /// own place.
    pub(crate) async fn repository_file(
        &self,
        http: &Http,
        url: &CanonicalUrl,
        limit: u64,
    ) -> Result<Option<Fetched>, RemoteError> {
        let folder = url.sibling("");
        let Ok(upstream) = folder.parse::<CanonicalUrl>() else {
            return Ok(None);
        };
        let mut folders = self.folders.lock().await;
        // `root/1.yaml` lies below the folder of the index and comes from where that came.
        let known = folders
            .iter()
            .find(|(known, _)| folder.starts_with(known.as_str()))
            .map(|(known, origin)| (known.clone(), origin.clone()));
        if let Some((_, Origin::Upstream)) = known {
            return Ok(None);
        }
        let name = url.file_name();
        let Some(target) = self.beside(http, "repositories", &upstream, name).await? else {
            return Ok(None);
        };
        let place = format!("{url} (through {})", self.shown());
        if let Some((known, Origin::Mirror(set))) = known {
            drop(folders);
            let whole = http.get_asked(&place, &self.ask(target), limit).await?;
            if whole.headers.get(SET) != set.as_ref() {
                // what came before is of another set: whoever reads this folder begins anew
                self.folders.lock().await.remove(&known);
                return Err(RemoteError::new(place, Fault::Changed));
            }
            return Ok(Some(whole.into()));
        }
        let found = match http.get_asked(&place, &self.ask(target), limit).await {
            Ok(whole) => Some(whole),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let origin = match &found {
            Some(whole) => Origin::Mirror(whole.headers.get(SET).cloned()),
            None => Origin::Upstream,
        };
        folders.insert(folder, origin);
        Ok(found.map(Fetched::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_mirror() {
        let none = PlainHosts::default();
        let mirror = |text: &str| Mirror::new(text.parse().unwrap(), &none);
        let plain = mirror("http://127.0.0.1:5000").unwrap();
        assert_eq!(
            (plain.scheme, plain.host.as_str()),
            ("http", "127.0.0.1:5000")
        );
        assert_eq!(plain.prefix, "");
        let below = mirror("https://registry.example.com/proxy/").unwrap();
        assert_eq!((below.scheme, below.prefix.as_str()), ("https", "proxy/"));
        assert_eq!(mirror("oci://localhost:5000").unwrap().scheme, "http");
        assert!(mirror("http://registry.example.com").is_err());
        assert!(mirror("file:///srv").is_err());
    }
}

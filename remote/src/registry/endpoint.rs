//! Where a repository is asked for.

use kubepkg_core::Reference;
use kubepkg_core::location::mirror_image;
use kubepkg_core::reference::DOCKER_HUB;
use url::Url;

use crate::address::{PlainHosts, host_of};
use crate::error::{Fault, Given, RemoteError};
use crate::mirror::Mirror;

/// The host that serves the content named `docker.io`.
const DOCKER_HUB_API: &str = "registry-1.docker.io";

/// A repository at the registry that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// `host[:port]` that is connected to.
    pub(crate) host: String,
    /// The repository there.
    pub(crate) repository: String,
    /// `host/repository` as credentials are filed under.
    pub(crate) account: String,
    /// The mirror it goes through, for messages.
    through: Option<String>,
}

impl Endpoint {
    pub(crate) fn of(
        reference: &Reference,
        mirror: Option<&Mirror>,
        plain: &PlainHosts,
    ) -> Result<Endpoint, RemoteError> {
        if let Some(mirror) = mirror {
            let repository = mirror_image(reference)
                .map_err(|e| RemoteError::new(reference.repository(), Fault::Location(e)))?;
            let repository = format!("{}{repository}", mirror.prefix);
            return Ok(Endpoint {
                scheme: mirror.scheme,
                host: mirror.host.clone(),
                account: format!("{}/{repository}", mirror.host),
                repository,
                through: Some(mirror.shown()),
            });
        }
        let host = match reference.host() {
            DOCKER_HUB => DOCKER_HUB_API,
            host => host,
        };
        Ok(Endpoint {
            scheme: plain.scheme(host),
            host: host.to_owned(),
            repository: reference.path().to_owned(),
            account: reference.repository(),
            through: None,
        })
    }

    /// `what` as messages name it.
    pub(crate) fn place(&self, what: &str) -> String {
        match &self.through {
            Some(mirror) => format!("{what} (through {mirror})"),
            None => what.to_owned(),
        }
    }

    /// What tokens are filed under: one token is good for one repository.
    pub(crate) fn key(&self) -> String {
        format!("{}://{}/{}", self.scheme, self.host, self.repository)
    }

    pub(crate) fn url(&self, place: &str, path: &str) -> Result<Url, RemoteError> {
        let text = format!(
            "{}://{}/v2/{}/{path}",
            self.scheme, self.host, self.repository
        );
        text.parse()
            .map_err(|e: url::ParseError| RemoteError::new(place, Fault::Url(e.to_string())))
    }

    /// Whether `url` is at this registry and not where it redirected to.
    pub(crate) fn is_at(&self, url: &Url) -> bool {
        let default = if self.scheme == "https" {
            ":443"
        } else {
            ":80"
        };
        let host = self.host.strip_suffix(default).unwrap_or(&self.host);
        url.scheme() == self.scheme && host_of(url) == host
    }

    pub(crate) fn denied(
        &self,
        place: &str,
        status: u16,
        given: Given,
        message: String,
    ) -> RemoteError {
        let host = match self.account.split_once('/') {
            Some((host, _)) => host.to_owned(),
            None => self.host.clone(),
        };
        RemoteError::new(
            place,
            Fault::Denied {
                status,
                host,
                given,
                message,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reference: &str, mirror: Option<&str>) -> Endpoint {
        let plain = PlainHosts::new(&["plain.example".to_owned()]).unwrap();
        let mirror = mirror.map(|url| Mirror::new(url.parse().unwrap(), &plain).unwrap());
        Endpoint::of(&reference.parse().unwrap(), mirror.as_ref(), &plain).unwrap()
    }

    #[test]
    fn direct() {
        let hub = of("nginx", None);
        assert_eq!(hub.key(), "https://registry-1.docker.io/library/nginx");
        assert_eq!(hub.account, "docker.io/library/nginx");
        assert_eq!(
            of("plain.example:1/a:1", None).key(),
            "http://plain.example:1/a"
        );
        assert_eq!(of("[::1]:5000/a:1", None).key(), "http://[::1]:5000/a");
        let port = of("example.com:443/a:1", None);
        assert!(port.is_at(&"https://example.com/v2/".parse().unwrap()));
        assert!(!port.is_at(&"https://cdn.example.com/v2/".parse().unwrap()));
    }

    #[test]
    fn through_a_mirror() {
        let at = of("Host.example:8443/a/b:1", Some("https://m.example/proxy"));
        assert_eq!(at.key(), "https://m.example/proxy/host.example_8443/a/b");
        assert_eq!(at.account, at.key()["https://".len()..]);
        assert_eq!(at.place("x"), "x (through https://m.example/proxy/)");
    }
}

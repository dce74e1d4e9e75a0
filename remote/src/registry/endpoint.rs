//! Where a repository is asked for.

use std::sync::Arc;

use kubepkg_core::Reference;
use kubepkg_core::location::mirror_image;
use url::Url;

use crate::address::{PlainHosts, host_of};
use crate::error::{Fault, Given, RemoteError};
use crate::host_settings::{HostSettings, Server, origin};
use crate::mirror::Mirror;
use crate::tls::Line;

/// The path of the API at most hosts.
const API: &str = "/v2";

/// A repository at a server that is asked.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// `host[:port]` that is connected to.
    pub(crate) host: String,
    /// Path of the API there.
    base: String,
    /// The repository there.
    pub(crate) repository: String,
    /// `host/repository` as credentials are filed under.
    pub(crate) account: String,
    /// The registry a mirror is asked about, for servers that stand for several.
    ns: Option<String>,
    /// Certificates and headers of its own.
    pub(crate) line: Option<Arc<Line>>,
    /// Nobody else can be asked.
    pub(crate) last: bool,
    /// It is also written to.
    push: bool,
    /// The mirror it goes through, for messages.
    through: Option<String>,
}

/// What a server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// What a tag points at.
    Resolve,
    /// Content by digest.
    Pull,
}

impl Purpose {
    pub(crate) fn of(reference: &Reference) -> Purpose {
        match reference.digest() {
            Some(_) => Purpose::Pull,
            None => Purpose::Resolve,
        }
    }
}

/// Everything that decides where a repository is asked for.
pub(crate) struct Routes<'a> {
    pub(crate) mirror: Option<&'a Mirror>,
    pub(crate) settings: &'a HostSettings,
    pub(crate) plain: &'a PlainHosts,
}

impl Routes<'_> {
    /// The servers to ask, in this order; never none.
    pub(crate) fn of(
        &self,
        reference: &Reference,
        purpose: Purpose,
    ) -> Result<Vec<Endpoint>, RemoteError> {
        if let Some(mirror) = self.mirror {
            return Ok(vec![self.through(mirror, reference)?]);
        }
        let mut all: Vec<Endpoint> = Vec::new();
        let mut servers = self.settings.servers(reference.host());
        let last = servers.pop();
        for server in servers {
            let wanted = match purpose {
                Purpose::Resolve => server.resolve,
                Purpose::Pull => server.pull,
            };
            if wanted {
                all.extend(self.at(&server, reference));
            }
        }
        all.push(self.own(last, reference));
        Ok(all)
    }

    /// Where to write: to the registry itself, never to what only stands for it, also where its
    /// settings call that the registry.
    pub(crate) fn to_push(&self, reference: &Reference) -> Result<Endpoint, RemoteError> {
        let host = reference.host();
        if let Some((server, file)) = self.settings.origin(host)
            && let Some(url) = &server.url
            && ![host, origin(host)].iter().any(|host| is_host(url, host))
        {
            let why = format!(
                "its `server` is {}, and what is pushed to {host} goes to that itself; name a \
                 mirror as [host.\"https://…\"] there, or push to where it is to be",
                host_of(url)
            );
            return Err(RemoteError::new(
                file.display().to_string(),
                Fault::HostSettings(why),
            ));
        }
        let server = self.settings.servers(host).pop();
        Ok(Endpoint {
            push: true,
            ..self.own(server, reference)
        })
    }

    /// The registry itself, by its settings.
    fn own(&self, server: Option<Server>, reference: &Reference) -> Endpoint {
        let own = server.map(|server| {
            self.at(&server, reference).unwrap_or_else(|| Endpoint {
                line: Some(server.line),
                ..self.direct(reference)
            })
        });
        Endpoint {
            last: true,
            ..own.unwrap_or_else(|| self.direct(reference))
        }
    }

    fn through(&self, mirror: &Mirror, reference: &Reference) -> Result<Endpoint, RemoteError> {
        let repository = mirror_image(reference)
            .map_err(|e| RemoteError::new(reference.repository(), Fault::Location(e)))?;
        let repository = format!("{}{repository}", mirror.prefix);
        Ok(Endpoint {
            scheme: mirror.scheme,
            host: mirror.host.clone(),
            base: API.to_owned(),
            account: format!("{}/{repository}", mirror.host),
            repository,
            ns: None,
            line: self.settings.line(&mirror.host),
            last: true,
            push: false,
            through: Some(mirror.shown()),
        })
    }

    fn direct(&self, reference: &Reference) -> Endpoint {
        let host = origin(reference.host());
        Endpoint {
            scheme: self.plain.scheme(host),
            host: host.to_owned(),
            base: API.to_owned(),
            repository: reference.path().to_owned(),
            account: reference.repository(),
            ns: None,
            line: None,
            last: true,
            push: false,
            through: None,
        }
    }

    /// At a server with an address in the settings.
    fn at(&self, server: &Server, reference: &Reference) -> Option<Endpoint> {
        let url = server.url.as_ref()?;
        let host = host_of(url);
        let repository = reference.path().to_owned();
        let own = host == origin(reference.host());
        let account = match own {
            true => reference.repository(),
            false => format!("{host}/{repository}"),
        };
        Some(Endpoint {
            scheme: if url.scheme() == "http" {
                "http"
            } else {
                "https"
            },
            account,
            repository,
            // a server that stands for several registries is told which is meant
            ns: (!own).then(|| reference.host().to_owned()),
            base: server.base.clone(),
            last: false,
            push: false,
            line: Some(Arc::clone(&server.line)),
            through: (!own).then(|| format!("{}://{host}{}", url.scheme(), server.base)),
            host,
        })
    }
}

/// Whether `url` is at `host`, which may say the port that goes without saying.
fn is_host(url: &Url, host: &str) -> bool {
    let port = match url.scheme() {
        "http" => ":80",
        _ => ":443",
    };
    host_of(url) == host.strip_suffix(port).unwrap_or(host)
}

impl Endpoint {
    /// `what` as messages name it.
    pub(crate) fn place(&self, what: &str) -> String {
        match &self.through {
            Some(mirror) => format!("{what} (through {mirror})"),
            None => what.to_owned(),
        }
    }

    /// What tokens are filed under: one token is good for one repository and what is done there.
    pub(crate) fn key(&self) -> String {
        let push = if self.push { "#push" } else { "" };
        match &self.ns {
            Some(ns) => format!("{}?ns={ns}{push}", self.root()),
            None => format!("{}{push}", self.root()),
        }
    }

    /// The server with all its repositories, of the registry meant where it stands for several.
    pub(crate) fn server(&self) -> String {
        let ns = self.ns.as_deref().unwrap_or_default();
        format!("{}://{}{}?ns={ns}", self.scheme, self.host, self.base)
    }

    /// What a token has to allow.
    pub(crate) fn actions(&self) -> &'static str {
        match self.push {
            true => "pull,push",
            false => "pull",
        }
    }

    fn root(&self) -> String {
        format!(
            "{}://{}{}/{}",
            self.scheme, self.host, self.base, self.repository
        )
    }

    /// The front door of the API, which is there for everybody.
    pub(crate) fn front(&self) -> Result<Url, url::ParseError> {
        format!("{}://{}{}/", self.scheme, self.host, self.base).parse()
    }

    pub(crate) fn url(&self, place: &str, path: &str) -> Result<Url, RemoteError> {
        let text = format!("{}/{path}", self.root());
        let mut url: Url = text
            .parse()
            .map_err(|e: url::ParseError| RemoteError::new(place, Fault::Url(e.to_string())))?;
        if let Some(ns) = &self.ns {
            url.query_pairs_mut().append_pair("ns", ns);
        }
        Ok(url)
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
    use crate::tls::Certificates;

    fn all(reference: &str, mirror: Option<&str>, settings: &HostSettings) -> Vec<Endpoint> {
        let plain = PlainHosts::new(&["plain.example".to_owned()]).unwrap();
        let mirror = mirror.map(|url| Mirror::new(url.parse().unwrap(), &plain).unwrap());
        let routes = Routes {
            mirror: mirror.as_ref(),
            settings,
            plain: &plain,
        };
        let reference: Reference = reference.parse().unwrap();
        routes.of(&reference, Purpose::of(&reference)).unwrap()
    }

    fn of(reference: &str, mirror: Option<&str>) -> Endpoint {
        let found = all(reference, mirror, &HostSettings::default());
        assert_eq!(found.len(), 1);
        found[0].clone()
    }

    #[test]
    fn direct() {
        let hub = of("nginx", None);
        assert_eq!(hub.key(), "https://registry-1.docker.io/v2/library/nginx");
        assert_eq!(hub.account, "docker.io/library/nginx");
        assert_eq!(
            of("plain.example:1/a:1", None).key(),
            "http://plain.example:1/v2/a"
        );
        assert_eq!(of("[::1]:5000/a:1", None).key(), "http://[::1]:5000/v2/a");
        let port = of("example.com:443/a:1", None);
        assert!(port.is_at(&"https://example.com/v2/".parse().unwrap()));
        assert!(!port.is_at(&"https://cdn.example.com/v2/".parse().unwrap()));
    }

    #[test]
    fn through_a_mirror() {
        let at = of("Host.example:8443/a/b:1", Some("https://m.example/proxy"));
        assert_eq!(at.key(), "https://m.example/v2/proxy/host.example_8443/a/b");
        assert_eq!(at.account, "m.example/proxy/host.example_8443/a/b");
        assert_eq!(at.place("x"), "x (through https://m.example/proxy/)");
    }

    #[test]
    fn by_the_settings_of_the_host() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("docker.io");
        std::fs::create_dir(&host).unwrap();
        let text = "[host.\"https://m.example/v2/hub\"]\noverride_path = true\n\
                    capabilities = [\"pull\"]\n[host.\"https://n.example\"]\n";
        std::fs::write(host.join("hosts.toml"), text).unwrap();
        let settings = HostSettings::load(folder.path(), &Certificates::default()).unwrap();
        let urls = |reference: &str| -> Vec<String> {
            let all = all(reference, None, &settings);
            let url = |at: &Endpoint| at.url("x", "manifests/1").unwrap().to_string();
            all.iter().map(url).collect()
        };
        let direct = "https://registry-1.docker.io/v2/library/nginx/manifests/1";
        let second = "https://n.example/v2/library/nginx/manifests/1?ns=docker.io";
        assert_eq!(urls("nginx:1"), [second, direct]);
        let digest = kubepkg_core::Digest::sha256(b"x");
        let first = "https://m.example/v2/hub/library/nginx/manifests/1?ns=docker.io";
        assert_eq!(urls(&format!("nginx@{digest}")), [first, second, direct]);
        assert_eq!(urls("quay.io/a:1").len(), 1);
        // nothing is pushed to a mirror
        let plain = PlainHosts::default();
        let mirror = Mirror::new("https://m.example".parse().unwrap(), &plain).unwrap();
        let routes = Routes {
            mirror: Some(&mirror),
            settings: &settings,
            plain: &plain,
        };
        let at = routes.to_push(&"nginx:1".parse().unwrap()).unwrap();
        let url = at.url("x", "manifests/1").unwrap().to_string();
        assert_eq!((url.as_str(), at.actions()), (direct, "pull,push"));
    }

    #[test]
    fn a_server_of_another_host_gets_no_push() {
        let folder = tempfile::tempdir().unwrap();
        for (host, server) in [
            ("docker.io", "https://registry-1.docker.io"),
            ("a.example_443_", "https://a.example"),
            ("b.example", "http://b.example"),
            ("c.example", "https://m.example/v2/c"),
            ("d.example", "https://d.example:5000"),
        ] {
            let of_host = folder.path().join(host);
            std::fs::create_dir(&of_host).unwrap();
            let text = format!("server = \"{server}\"\n");
            std::fs::write(of_host.join("hosts.toml"), text).unwrap();
        }
        let settings = HostSettings::load(folder.path(), &Certificates::default()).unwrap();
        let plain = PlainHosts::default();
        let routes = Routes {
            mirror: None,
            settings: &settings,
            plain: &plain,
        };
        let push = |reference: &str| routes.to_push(&reference.parse().unwrap());
        for reference in [
            "nginx:1",
            "a.example:443/x:1",
            "b.example/x:1",
            "e.example/x:1",
        ] {
            assert!(push(reference).is_ok(), "{reference}");
        }
        for (host, server) in [("c.example", "m.example"), ("d.example", "d.example:5000")] {
            let Err(error) = push(&format!("{host}/x:1")) else {
                panic!("{host} accepted");
            };
            let text = error.to_string();
            let file = folder.path().join(host).join("hosts.toml");
            assert!(text.starts_with(&file.display().to_string()), "{text}");
            assert!(text.contains(&format!("is {server},")), "{text}");
        }
    }
}

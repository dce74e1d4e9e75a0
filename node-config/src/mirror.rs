//! The mirror as nodes reach it.

use kubepkg_core::error::shown;
use kubepkg_core::location::{host_element, redacted};
use url::{Host, Url};

use crate::Error;

/// A mirror's address, checked so that every reader of node settings understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    base: String,
    ca: Option<String>,
}

impl Mirror {
    /// Reads `http(s)://host[:port][/path]`. A path is that of a proxy in front of the mirror;
    /// `/v2` at its end may be left out or not.
    pub fn new(url: &str) -> Result<Mirror, Error> {
        let refuse = |why| Error::Mirror {
            url: redacted(url),
            why,
        };
        let parsed = Url::parse(url).map_err(|_| refuse("it is no URL"))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(refuse("it begins with neither https:// nor http://"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(refuse(
                "it holds a user or password, which would stand readable on every node; let nodes pull without login",
            ));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(refuse("it has a query or fragment, which would be cut off"));
        }
        match parsed.host() {
            // containerd before 2.0 does not read such a file at all, and then goes on to the
            // internet
            Some(Host::Ipv6(_)) => {
                return Err(refuse(
                    "containerd 1.x cannot read an IPv6 address here and would ignore the file; use a host name",
                ));
            }
            Some(_) => {}
            None => return Err(refuse("it has no host")),
        }
        let base = parsed.as_str().trim_end_matches('/');
        let base = base.strip_suffix("/v2").unwrap_or(base);
        Ok(Mirror {
            base: base.trim_end_matches('/').to_owned(),
            ca: None,
        })
    }

    /// Adds the file, by its path on the nodes, with the certificate that signed the mirror's.
    pub fn with_ca(mut self, path: &str) -> Result<Mirror, Error> {
        let refuse = |why| Error::Ca {
            path: shown(path),
            why,
        };
        if !path.starts_with('/') {
            return Err(refuse(
                "it is not absolute, and containerd reads relative ones wrongly",
            ));
        }
        if path.chars().any(char::is_control) {
            return Err(refuse("it holds control characters"));
        }
        if self.base.starts_with("http://") {
            return Err(refuse(
                "the mirror's URL begins with http://, where no certificate is checked",
            ));
        }
        self.ca = Some(path.to_owned());
        Ok(self)
    }

    /// The address without a path for one registry; it needs clients that send `ns`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The CA file on the nodes.
    pub fn ca(&self) -> Option<&str> {
        self.ca.as_deref()
    }

    /// Where the registry `host` (`host[:port]`) is in the mirror: the URL put in front of
    /// `/<repository>/manifests/…`.
    pub fn endpoint(&self, host: &str) -> Result<String, Error> {
        match host_element(host) {
            Some(element) => Ok(format!("{}/v2/{element}", self.base)),
            None => Err(Error::Host {
                host: shown(host),
                why: "it is no host name",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for (mirror, host, want) in [
            (
                "http://10.0.0.5:5000",
                "docker.io",
                "http://10.0.0.5:5000/v2/docker.io",
            ),
            (
                "https://Mirror.lan/",
                "quay.io",
                "https://mirror.lan/v2/quay.io",
            ),
            (
                "https://mirror.lan:443/v2/",
                "r.example:5000",
                "https://mirror.lan/v2/r.example_5000",
            ),
            (
                "https://proxy.lan/kubepkg",
                "localhost:5000",
                "https://proxy.lan/kubepkg/v2/localhost_5000",
            ),
        ] {
            assert_eq!(Mirror::new(mirror).unwrap().endpoint(host).unwrap(), want);
        }
        let mirror = Mirror::new("http://m").unwrap();
        assert!(mirror.endpoint("no host").is_err());
    }

    #[test]
    fn refused_urls_are_shown_without_secrets() {
        for (bad, why) in [
            ("https://user:secret@mirror.lan", "password"),
            ("https://user@mirror.lan", "user"),
            ("https://mirror.lan?token=secret", "query"),
            ("https://mirror.lan/#secret", "fragment"),
            ("https://[fd00::1]:5000", "IPv6"),
            ("ftp://mirror.lan", "https://"),
            ("mirror.lan:5000", "https://"),
            ("https://", "no URL"),
        ] {
            let error = Mirror::new(bad).unwrap_err().to_string();
            assert!(
                error.contains(why) && !error.contains("secret"),
                "{bad}: {error}"
            );
        }
    }

    #[test]
    fn a_ca_file_is_absolute_and_for_https() {
        let https = || Mirror::new("https://m").unwrap();
        let with = https().with_ca("/etc/containerd/kubepkg/ca.crt").unwrap();
        assert_eq!(with.ca(), Some("/etc/containerd/kubepkg/ca.crt"));
        assert!(https().with_ca("ca.crt").is_err());
        assert!(https().with_ca("/a\nb").is_err());
        assert!(Mirror::new("http://m").unwrap().with_ca("/ca.crt").is_err());
    }
}

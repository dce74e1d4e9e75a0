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
    /// Goes with the settings.
    carried: Option<String>,
    /// Certificate and key nodes show, by their paths there.
    client: Option<(String, String)>,
}

/// Name of the file a carried CA goes into, among containerd's folders.
pub(crate) const CA_FILE: &str = "kubepkg-mirror-ca.crt";

/// Where that file lies on nodes: containerd's usual folder. containerd reads relative paths
/// wrongly.
const CA_PATH: &str = "/etc/containerd/certs.d/kubepkg-mirror-ca.crt";

/// Longest CA that is carried, in bytes.
const MAX_CA: usize = 64 * 1024;

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
            carried: None,
            client: None,
        })
    }

    /// Adds the file, by its path on the nodes, with the certificate that signed the mirror's.
    pub fn with_ca(mut self, path: &str) -> Result<Mirror, Error> {
        self.check_path("CA file", path)?;
        self.ca = Some(path.to_owned());
        Ok(self)
    }

    /// Lets nodes show a client certificate: it and its key, by their paths on the nodes.
    pub fn with_client(mut self, certificate: &str, key: &str) -> Result<Mirror, Error> {
        self.check_path("client certificate", certificate)?;
        self.check_path("client key", key)?;
        self.client = Some((certificate.to_owned(), key.to_owned()));
        Ok(self)
    }

    /// Refuses a path on nodes that containerd would not read as it is meant.
    fn check_path(&self, what: &'static str, path: &str) -> Result<(), Error> {
        let refuse = |why| Error::NodeFile {
            what,
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
        match self.has_tls() {
            true => Ok(()),
            false => Err(refuse(
                "the mirror's URL begins with http://, where no certificate is checked",
            )),
        }
    }

    /// Certificate and key nodes show.
    pub fn client(&self) -> Option<(&str, &str)> {
        let (certificate, key) = self.client.as_ref()?;
        Some((certificate, key))
    }

    /// Whether nodes reach it with TLS.
    pub fn has_tls(&self) -> bool {
        self.base.starts_with("https://")
    }

    /// Lets the settings carry the certificate (PEM) that signed the mirror's. Where nodes have
    /// it already ([`Mirror::with_ca`]) containerd reads it there.
    pub fn carry_ca(mut self, pem: &str) -> Result<Mirror, Error> {
        let refuse = |why| Error::Ca { why };
        if !self.has_tls() {
            return Err(refuse(
                "the mirror's URL begins with http://, where no certificate is checked",
            ));
        }
        if pem.len() > MAX_CA || !pem.contains("-----BEGIN CERTIFICATE-----") {
            return Err(refuse("it is no certificate in PEM"));
        }
        if pem.contains("PRIVATE KEY") {
            return Err(refuse(
                "it holds a private key, which must not come onto nodes",
            ));
        }
        self.carried = Some(pem.to_owned());
        Ok(self)
    }

    /// The certificate that goes with the settings.
    pub fn carried_ca(&self) -> Option<&str> {
        self.carried.as_deref()
    }

    /// `host[:port]` of the address.
    pub fn host(&self) -> &str {
        let rest = self.base.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }

    /// The address without a path for one registry; it needs clients that send `ns`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The CA file on the nodes.
    pub fn ca(&self) -> Option<&str> {
        let carried = self.carried.as_ref().map(|_| CA_PATH);
        self.ca.as_deref().or(carried)
    }

    /// Whether the CA file on the nodes is the one that is carried.
    pub(crate) fn brings_ca(&self) -> bool {
        self.ca.is_none()
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
    fn a_client_certificate_is_absolute_and_for_https() {
        let https = || Mirror::new("https://m").unwrap();
        let with = https().with_client("/a.crt", "/a.key").unwrap();
        assert_eq!(with.client(), Some(("/a.crt", "/a.key")));
        for (certificate, key, what) in [
            ("a.crt", "/a.key", "client certificate"),
            ("/a.crt", "a.key", "client key"),
            ("/a.crt", "/a\nb", "client key"),
        ] {
            let error = https().with_client(certificate, key).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        let http = Mirror::new("http://m").unwrap();
        assert!(http.with_client("/a.crt", "/a.key").is_err());
    }

    #[test]
    fn a_ca_file_is_absolute_and_for_https() {
        let https = || Mirror::new("https://m").unwrap();
        let with = https().with_ca("/etc/containerd/kubepkg/ca.crt").unwrap();
        assert_eq!(with.ca(), Some("/etc/containerd/kubepkg/ca.crt"));
        assert!(https().with_ca("ca.crt").is_err());
        assert!(https().with_ca("/a\nb").is_err());
        assert!(Mirror::new("http://m").unwrap().with_ca("/ca.crt").is_err());
        let pem = "-----BEGIN CERTIFICATE-----";
        let carried = https().carry_ca(pem).unwrap();
        assert_eq!(
            (carried.carried_ca(), carried.ca()),
            (Some(pem), Some(CA_PATH))
        );
        assert!(CA_PATH.ends_with(CA_FILE));
        assert_eq!(carried.with_ca("/x.crt").unwrap().ca(), Some("/x.crt"));
        assert!(https().carry_ca("nothing").is_err());
        assert!(https().carry_ca(&format!("{pem} PRIVATE KEY")).is_err());
        assert!(Mirror::new("http://m").unwrap().carry_ca(pem).is_err());
        assert_eq!(Mirror::new("https://m:5/x").unwrap().host(), "m:5");
    }
}

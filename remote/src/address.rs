//! Who may be spoken to without encryption.

use std::net::IpAddr;

use kubepkg_core::reference::canonical_host;
use url::{Host, Url};

/// Whether `host` (without port, IPv6 with or without brackets) is this machine itself.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        // RFC 6761: names below localhost never leave the machine.
        Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
    }
}

/// `host[:port]` without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    }
}

/// The hosts that are reached over plain HTTP.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlainHosts {
    /// Allowed by the user, with or without a port.
    hosts: Vec<String>,
    /// Addresses that settings name with `http://`, as `host:port`. That says how this server
    /// is reached, and nothing of a registry that has the same name.
    servers: Vec<String>,
}

impl PlainHosts {
    /// Reads the list; the error is the entry that is no host.
    pub(crate) fn new(hosts: &[String]) -> Result<PlainHosts, String> {
        let read = |host: &String| canonical_host(host).ok_or_else(|| host.clone());
        hosts
            .iter()
            .map(read)
            .collect::<Result<_, _>>()
            .map(|hosts| PlainHosts {
                hosts,
                servers: Vec::new(),
            })
    }

    /// Also allows exactly these `http://` addresses.
    pub(crate) fn with_servers<'u>(mut self, urls: impl Iterator<Item = &'u Url>) -> PlainHosts {
        self.servers.extend(urls.map(host_and_port));
        self
    }

    /// Whether `host[:port]` may be spoken to without encryption. An entry without a port
    /// stands for every port of that host.
    pub(crate) fn allows(&self, host: &str) -> bool {
        let name = without_port(host);
        is_loopback(name)
            || self
                .hosts
                .iter()
                .any(|entry| entry == host || entry == name)
    }

    /// Whether `url` is encrypted or may do without.
    pub(crate) fn allows_url(&self, url: &Url) -> bool {
        url.scheme() != "http"
            || self.allows(&host_of(url))
            || self.servers.contains(&host_and_port(url))
    }

    /// The scheme a registry is reached with.
    pub(crate) fn scheme(&self, host: &str) -> &'static str {
        if self.allows(host) { "http" } else { "https" }
    }
}

/// `host[:port]` of a URL, the port only where it is not the scheme's own.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// `host:port` of a URL, the port also where it is the scheme's own.
fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("{host}:{}", url.port_or_known_default().unwrap_or_default())
}

/// Whether a URL points at this machine.
pub(crate) fn is_loopback_url(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => is_loopback(name),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_needs_no_permission() {
        let none = PlainHosts::default();
        for host in [
            "127.0.0.1",
            "127.9.9.9:5000",
            "[::1]:5000",
            "localhost",
            "x.localhost:1",
        ] {
            assert!(none.allows(host), "{host}");
        }
        for host in [
            "10.0.0.1",
            "localhost.example.com",
            "128.0.0.1:80",
            "[::2]",
            "notlocalhost",
        ] {
            assert!(!none.allows(host), "{host}");
        }
    }

    #[test]
    fn others_need_an_entry() {
        let some = PlainHosts::new(&["Registry.Local".to_owned(), "a.b:5000".to_owned()]).unwrap();
        for host in ["registry.local", "registry.local:5000", "a.b:5000"] {
            assert!(some.allows(host), "{host}");
            assert_eq!(some.scheme(host), "http");
        }
        for host in ["a.b", "a.b:5001", "x.registry.local"] {
            assert!(!some.allows(host), "{host}");
            assert_eq!(some.scheme(host), "https");
        }
        assert!(PlainHosts::new(&["no host".to_owned()]).is_err());
    }

    #[test]
    fn a_server_of_the_settings_is_no_registry_of_that_name() {
        let url = |text: &str| Url::parse(text).unwrap();
        let server = url("http://harbor.example/v2/hub");
        let plain = PlainHosts::default().with_servers([&server].into_iter());
        assert!(plain.allows_url(&server));
        assert_eq!(plain.scheme("harbor.example"), "https");
        assert!(!plain.allows_url(&url("http://harbor.example:8080/token")));
    }

    #[test]
    fn urls() {
        let none = PlainHosts::default();
        let url = |text: &str| Url::parse(text).unwrap();
        assert!(none.allows_url(&url("https://example.com/")));
        assert!(none.allows_url(&url("http://[::1]:80/")));
        assert!(!none.allows_url(&url("http://example.com/")));
        assert_eq!(host_of(&url("http://example.com:80/x")), "example.com");
        assert!(is_loopback_url(&url("http://[::1]:1/")));
    }
}

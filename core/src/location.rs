//! Where things are: canonical URLs, and the place of upstream content in a mirror.
//!
//! Source: design page "command", "Words with one meaning".

use std::fmt;
use std::str::FromStr;

use crate::Digest;
use crate::name::{NameError, RepositoryName, is_repository_element};
use crate::reference::{DOCKER_HUB, Reference, canonical_host};

/// A URL in canonical form: scheme and host in lower case, default port dropped, no user,
/// query or fragment, one spelling of every character in the path. Two spellings of one place
/// are equal. The path of a `file` URL is kept as it is, since there `%` stands for itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalUrl(String);

/// Why a text is no URL that kubepkg can use. The URL is shown without user and query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL of a known scheme.
    #[error("\"{0}\" is no URL: it begins with https://, http://, oci:// or file:///")]
    Scheme(String),
    /// The host or port is not legal.
    #[error("\"{0}\" has no legal host")]
    Host(String),
    /// The path climbs or holds characters that do not belong there.
    #[error("\"{0}\" has a path with '..' or control characters")]
    Path(String),
    /// Over [`MAX_URL`].
    #[error("\"{0}\" is longer than {MAX_URL} bytes")]
    Long(String),
}

/// Longest URL in bytes: servers and proxies refuse longer ones, and it is shown in messages.
pub const MAX_URL: usize = 2048;

/// A URL with user, password, query and fragment taken out, for messages and logs.
pub fn redacted(url: &str) -> String {
    let cut = url.split(['?', '#']).next().unwrap_or_default();
    let shown = match cut.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest
                .split_once('/')
                .map_or((rest, None), |(a, p)| (a, Some(p)));
            let host = authority.rsplit('@').next().unwrap_or_default();
            match path {
                Some(path) => format!("{scheme}://{host}/{path}"),
                None => format!("{scheme}://{host}"),
            }
        }
        None => cut.to_owned(),
    };
    crate::error::shown(&shown)
}

impl CanonicalUrl {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `https`, `http`, `oci` or `file`.
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// `host[:port]`; `localhost` for files.
    pub fn host(&self) -> &str {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        match rest.split_once('/').map_or(rest, |(host, _)| host) {
            "" => "localhost",
            host => host,
        }
    }

    /// The path, beginning with `/`, or empty.
    pub fn path(&self) -> &str {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        rest.find('/').map_or("", |at| &rest[at..])
    }

    /// `<host>-<12 hex of sha256(url)>`: the folder of this repository's files in a bundle
    /// and in a store. A port is written `_port`.
    pub fn folder(&self) -> String {
        let host = host_element(self.host()).unwrap_or_else(|| "host".to_owned());
        format!("{host}-{}", Digest::sha256(self.as_str()).short())
    }

    /// Where the repository's files are served in a mirror: host and path as a server reads
    /// them. URLs that differ in more than their spelling can meet there.
    pub fn place(&self) -> String {
        let host = host_element(self.host()).unwrap_or_else(|| self.host().to_owned());
        let mut path = Vec::with_capacity(self.path().len());
        let mut rest = self.path().as_bytes();
        while let Some((byte, after)) = next_byte(rest) {
            path.push(byte);
            rest = after;
        }
        format!("{host}{}", String::from_utf8_lossy(&path))
    }

    /// The URL of `name` in the folder this URL's last element lies in.
    pub fn sibling(&self, name: &str) -> String {
        let cut = self.0.rfind('/').map_or(self.0.len(), |at| at + 1);
        format!("{}{name}", &self.0[..cut])
    }

    /// The last element of the path, e.g. `index.yaml`.
    pub fn file_name(&self) -> &str {
        self.path().rsplit('/').next().unwrap_or_default()
    }
}

/// The first byte `path` means, and what follows: `%` and two hex digits are one byte.
fn next_byte(path: &[u8]) -> Option<(u8, &[u8])> {
    let hex = |byte: u8| char::from(byte).to_digit(16);
    match path {
        [b'%', a, b, rest @ ..] => match (hex(*a), hex(*b)) {
            (Some(a), Some(b)) => Some(((a * 16 + b) as u8, rest)),
            _ => Some((b'%', &path[1..])),
        },
        [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

/// `path` with one spelling of each character (RFC 3986, 6.2.2): those that never need `%`
/// stand for themselves, those that always do are written with it, hex digits are upper case.
/// The others (`%2F` is not `/`) stay as they are written.
fn one_spelling(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((byte, after)) = next_byte(rest) {
        let escaped = rest.len() - after.len() == 3;
        let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let never_plain = !byte.is_ascii() || b" \"%<>^`{|}".contains(&byte);
        if never_plain || (escaped && !unreserved) {
            out.push_str(&format!("%{byte:02X}"));
        } else {
            out.push(char::from(byte));
        }
        rest = after;
    }
    out
}

impl FromStr for CanonicalUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let shown = || redacted(text);
        if text.len() > MAX_URL {
            return Err(UrlError::Long(shown()));
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| UrlError::Scheme(shown()))?;
        let scheme = scheme.to_ascii_lowercase();
        let default_port = match scheme.as_str() {
            "https" => ":443",
            "http" => ":80",
            "oci" | "file" => "",
            _ => return Err(UrlError::Scheme(shown())),
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let host = if scheme == "file" {
            match authority {
                "" | "localhost" => String::new(),
                _ => return Err(UrlError::Host(shown())),
            }
        } else {
            let host = canonical_host(authority).ok_or_else(|| UrlError::Host(shown()))?;
            match host.strip_suffix(default_port) {
                Some(bare) if !default_port.is_empty() => bare.to_owned(),
                _ => host,
            }
        };
        let path = match scheme.as_str() {
            "file" => path.to_owned(),
            _ => one_spelling(path),
        };
        let bad = |element: &str| matches!(element, "." | "..");
        if path.split('/').any(bad) || path.chars().any(|c| c.is_control() || c == '\\') {
            return Err(UrlError::Path(shown()));
        }
        Ok(CanonicalUrl(format!("{scheme}://{host}{path}")))
    }
}

impl fmt::Display for CanonicalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::serde_by_text!(CanonicalUrl);

/// An upstream location has no place in a mirror.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// An element is empty after mapping, or the host has no mapped form.
    #[error("{0} has no place in a mirror: an element of its path is left empty")]
    Empty(String),
    /// The mapped name is not legal or too long.
    #[error("{url} has no place in a mirror: {source}")]
    Name {
        /// The upstream location.
        url: String,
        /// What is wrong with the mapped name.
        source: NameError,
    },
}

/// `host[:port]` as the first element of a mirror path: a port as `_port`, an IPv6 address
/// as `ip6-` and its text with `-` for `:`. `None` when nothing legal is left.
pub fn host_element(host: &str) -> Option<String> {
    let host = canonical_host(host)?;
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host.as_str(), None),
    };
    let name = match name.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
        Some(address) => format!(
            "ip6-{}",
            address
                .replace("::", "-0-")
                .replace(':', "-")
                .trim_matches('-')
        ),
        None => name.to_owned(),
    };
    let element = match port {
        Some(port) => format!("{name}_{port}"),
        None => name,
    };
    is_repository_element(&element).then_some(element)
}

/// One path element, mapped: lower case; runs of characters outside `[a-z0-9._-]` become
/// `-`; leading and trailing `._-` dropped; any run of `._-` that is no legal separator
/// becomes `-`.
fn path_element(element: &str) -> String {
    let mut out = String::with_capacity(element.len());
    let mut foreign = false;
    for c in element.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-') {
            out.push(c);
            foreign = false;
        } else if !foreign {
            out.push('-');
            foreign = true;
        }
    }
    let trimmed = out.trim_matches(['.', '_', '-']);
    let mut mapped = String::with_capacity(trimmed.len());
    let mut rest = trimmed;
    while let Some(at) = rest.find(['.', '_', '-']) {
        mapped.push_str(&rest[..at]);
        let end = rest[at..]
            .find(|c| !matches!(c, '.' | '_' | '-'))
            .map_or(rest.len(), |n| at + n);
        let run = &rest[at..end];
        let legal = matches!(run, "." | "_" | "__") || run.bytes().all(|b| b == b'-');
        mapped.push_str(if legal { run } else { "-" });
        rest = &rest[end..];
    }
    mapped.push_str(rest);
    mapped
}

/// The repository in a mirror that holds what lies at `host` and `path` upstream.
pub fn mirror_repository(host: &str, path: &str) -> Result<RepositoryName, LocationError> {
    let shown = || redacted(&format!("{host}/{}", path.trim_start_matches('/')));
    let mut mapped = host_element(host).ok_or_else(|| LocationError::Empty(shown()))?;
    for element in path.split('/').filter(|element| !element.is_empty()) {
        let element = path_element(element);
        if element.is_empty() {
            return Err(LocationError::Empty(shown()));
        }
        mapped.push('/');
        mapped.push_str(&element);
    }
    mapped.parse().map_err(|source| LocationError::Name {
        url: shown(),
        source,
    })
}

/// The repository in a mirror that holds the image `reference`.
pub fn mirror_image(reference: &Reference) -> Result<RepositoryName, LocationError> {
    mirror_repository(reference.host(), reference.path())
}

/// The repository in a mirror that holds the chart `name` of the chart repository `url`
/// (`https://…`, `http://…` or `oci://…`).
pub fn mirror_chart(url: &CanonicalUrl, name: &str) -> Result<RepositoryName, LocationError> {
    mirror_repository(
        url.host(),
        &format!("{}/{name}", url.path().trim_end_matches('/')),
    )
}

/// The registry host a repository in a mirror stands for: the reverse of [`host_element`],
/// `None` when the first element is no host.
pub fn upstream_host(repository: &RepositoryName) -> Option<String> {
    let first = repository.as_str().split('/').next()?;
    match first.rsplit_once('_') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => {
            canonical_host(&format!("{name}:{port}"))
        }
        _ if first == DOCKER_HUB || first.contains('.') || first == "localhost" => {
            canonical_host(first)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_urls() {
        for (given, want) in [
            (
                "HTTPS://User:pw@Example.ORG:443/Helm/Stable/index.yaml?x=1#f",
                "https://example.org/Helm/Stable/index.yaml",
            ),
            ("http://example.org:80/a", "http://example.org/a"),
            ("https://example.org:8443/a/", "https://example.org:8443/a/"),
            ("oci://ghcr.io/org/charts", "oci://ghcr.io/org/charts"),
            ("file:///srv/index.yaml", "file:///srv/index.yaml"),
        ] {
            assert_eq!(given.parse::<CanonicalUrl>().unwrap().as_str(), want);
        }
        for bad in [
            "",
            "example.org/a",
            "ftp://a/b",
            "https:///a",
            "https://a/../b",
            "file://host/a",
            "https://a b/c",
        ] {
            assert!(bad.parse::<CanonicalUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn another_spelling_is_no_other_url() {
        let url = |text: &str| text.parse::<CanonicalUrl>().unwrap();
        for (given, want) in [
            ("/%73table/%7e%2d%5F.yaml", "/stable/~-_.yaml"),
            ("/a%2fb%3a", "/a%2Fb%3A"),
            ("/a b/é|", "/a%20b/%C3%A9%7C"),
            ("/a%20b/%c3%a9%7c", "/a%20b/%C3%A9%7C"),
            ("/%zz%4/%%37%33", "/%25zz%254/%2573"),
            ("/%25%37%33", "/%2573"),
        ] {
            let once = url(&format!("https://example.org{given}"));
            assert_eq!(once.path(), want);
            assert_eq!(url(once.as_str()), once);
        }
        // it is decoded before it is looked at
        for climbing in ["https://a/%2e%2e/b", "https://a/%2E/b"] {
            assert!(climbing.parse::<CanonicalUrl>().is_err(), "{climbing}");
        }
        assert_eq!(url("file:///srv/%73.yaml").path(), "/srv/%73.yaml");
    }

    #[test]
    fn urls_that_a_mirror_serves_at_one_place_are_known() {
        let place = |text: &str| text.parse::<CanonicalUrl>().unwrap().place();
        let here = place("https://example.org/a+b/index.yaml");
        assert_eq!(place("http://example.org/a%2bb/index.yaml"), here);
        assert_ne!(place("https://example.org:8443/a+b/index.yaml"), here);
        assert_ne!(place("https://example.org/a+b/other.yaml"), here);
    }

    #[test]
    fn parts_of_a_url() {
        let url: CanonicalUrl = "https://example.org:8443/repo/index.yaml".parse().unwrap();
        assert_eq!(
            (url.host(), url.path(), url.file_name()),
            ("example.org:8443", "/repo/index.yaml", "index.yaml")
        );
        assert_eq!(
            url.sibling("root/1.yaml"),
            "https://example.org:8443/repo/root/1.yaml"
        );
        assert!(url.folder().starts_with("example.org_8443-"));
        let file: CanonicalUrl = "file:///srv/index.yaml".parse().unwrap();
        assert_eq!(file.host(), "localhost");
    }

    #[test]
    fn mapping_into_a_mirror() {
        for (host, path, want) in [
            (
                "example.org:8443",
                "/Helm/stable/",
                "example.org_8443/helm/stable",
            ),
            ("docker.io", "library/nginx", "docker.io/library/nginx"),
            ("ghcr.io", "a b&c/._x_.", "ghcr.io/a-b-c/x"),
            ("ghcr.io", "a.-b/c___d", "ghcr.io/a-b/c-d"),
            ("localhost:5000", "x", "localhost_5000/x"),
            ("charts.jetstack.io", "", "charts.jetstack.io"),
        ] {
            assert_eq!(mirror_repository(host, path).unwrap().as_str(), want);
        }
        assert!(mirror_repository("ghcr.io", "a/__/b").is_err());
        assert!(mirror_repository("ghcr.io", &"a/".repeat(200)).is_err());
    }

    #[test]
    fn hosts_come_back() {
        for host in ["docker.io", "example.org:8443", "localhost:5000"] {
            let repository = mirror_repository(host, "a/b").unwrap();
            assert_eq!(upstream_host(&repository).unwrap(), host);
        }
    }

    #[test]
    fn secrets_never_reach_a_message() {
        assert_eq!(redacted("https://u:p@h/x?token=1"), "https://h/x");
    }
}

//! References to content in a registry, in one canonical form.
//!
//! Read with Docker's rules (`nginx` is `docker.io/library/nginx:latest`), as the existing
//! program does: host in lower case, Docker Hub's aliases are `docker.io`, `library/` is
//! filled in, `:latest` is added only where there is neither tag nor digest.

use std::fmt;
use std::str::FromStr;

use crate::digest::ParseDigestError;
use crate::name::{NameError, is_repository_element};
use crate::{Digest, name::Tag};

/// Docker Hub's name in references.
pub const DOCKER_HUB: &str = "docker.io";

/// Longest reference that is looked at.
pub const MAX_REFERENCE: usize = 1024;

/// Longest host: a name of the DNS (253 characters) with a port.
const MAX_HOST: usize = 259;

/// Longest path, as registries and their clients have it (OCI distribution specification,
/// "Pulling manifests").
const MAX_PATH: usize = 255;

/// A reference: `host/path[:tag][@digest]`, at least one of tag and digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    host: String,
    path: String,
    tag: Option<Tag>,
    digest: Option<Digest>,
}

/// Why a text is no reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no image reference: {why}")]
pub struct ParseReferenceError {
    /// The text as given, cut to a bounded length.
    pub text: String,
    /// What is wrong with it.
    pub why: Why,
}

/// The rule a reference breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// Empty, or longer than [`MAX_REFERENCE`].
    #[error("it is empty or longer than {MAX_REFERENCE} characters")]
    Length,
    /// The host is not `name[:port]`, or cannot be told from the first element of a path.
    #[error("the host must read name.domain, name:port or localhost")]
    Host,
    /// The host is written in letters that no DNS name has.
    #[error(
        "the host has letters outside ASCII; write it in its ASCII form (xn--…), as it stands in \
         its certificate"
    )]
    International,
    /// The path is not made of legal elements.
    #[error("the path must be lower-case elements joined by '/', at most {MAX_PATH} characters")]
    Path,
    /// The tag is not legal.
    #[error(transparent)]
    Tag(#[from] NameError),
    /// The digest is not legal.
    #[error(transparent)]
    Digest(#[from] ParseDigestError),
}

impl Reference {
    /// The reference of `digest` in the same repository, without a tag.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Reference {
        Reference {
            tag: None,
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// The reference of `tag` in the same repository, without a digest.
    #[must_use]
    pub fn tagged(&self, tag: Tag) -> Reference {
        Reference {
            tag: Some(tag),
            digest: None,
            ..self.clone()
        }
    }

    /// This reference with `digest`, its tag kept.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Reference {
        Reference {
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// A reference from parts that are already canonical: `host[:port]` and path.
    pub fn from_parts(
        host: &str,
        path: &str,
        tag: Option<Tag>,
        digest: Option<Digest>,
    ) -> Result<Reference, ParseReferenceError> {
        let mut text = format!("{host}/{path}");
        if let Some(tag) = &tag {
            text = format!("{text}:{tag}");
        }
        if let Some(digest) = &digest {
            text = format!("{text}@{digest}");
        }
        text.parse()
    }

    /// Registry host, lower case, with `:port` where there is one.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Path of the repository within the registry.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `host/path`.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.host, self.path)
    }

    /// The tag.
    pub fn tag(&self) -> Option<&Tag> {
        self.tag.as_ref()
    }

    /// The digest.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// What stands behind `/manifests/` when this is asked of a registry: the digest where
    /// there is one, else the tag.
    pub fn target(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.to_string(),
            (None, None) => "latest".to_owned(),
        }
    }
}

/// Whether the first element of a reference is a host, by Docker's rule.
pub fn is_host(element: &str) -> bool {
    element.contains('.')
        || element.contains(':')
        || element == "localhost"
        || element.bytes().any(|b| b.is_ascii_uppercase())
}

/// `host[:port]` in canonical form; Docker Hub's aliases become `docker.io`.
pub fn canonical_host(text: &str) -> Option<String> {
    let host = text.to_ascii_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.ends_with(']') && name.contains('[') => {
            return bracketed(&host, Some(port));
        }
        Some((name, port)) if name.ends_with(']') => (name, Some(port)),
        Some((name, port)) => (name, Some(port)),
        None => (host.as_str(), None),
    };
    if name.starts_with('[') {
        return bracketed(name, port);
    }
    if let Some(port) = port {
        port_number(port)?;
    }
    let label = |l: &str| {
        !l.is_empty()
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    if !name.split('.').all(label) {
        return None;
    }
    match host.as_str() {
        "index.docker.io" | "registry-1.docker.io" | "registry.hub.docker.com" => {
            Some(DOCKER_HUB.to_owned())
        }
        _ => Some(host),
    }
}

fn port_number(text: &str) -> Option<u16> {
    text.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
    text.parse().ok().filter(|port| *port != 0)
}

fn bracketed(name: &str, port: Option<&str>) -> Option<String> {
    let inner = name.strip_prefix('[')?.strip_suffix(']')?;
    inner.parse::<std::net::Ipv6Addr>().ok()?;
    match port {
        Some(port) => port_number(port).map(|port| format!("{name}:{port}")),
        None => Some(name.to_owned()),
    }
}

fn parse(text: &str) -> Result<Reference, Why> {
    if text.is_empty() || text.len() > MAX_REFERENCE {
        return Err(Why::Length);
    }
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest.parse()?)),
        None => (text, None),
    };
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') && !tag.ends_with(']') => {
            (name, Some(tag.parse()?))
        }
        _ => (rest, None),
    };
    let (host, path) = match name.split_once('/') {
        Some((first, _)) if is_host(first) && !first.is_ascii() => {
            return Err(Why::International);
        }
        Some((first, path)) if is_host(first) => {
            // `QUAY/a`: Docker takes it for a host by its capitals, and in its canonical form
            // for a path at Docker Hub
            let host = canonical_host(first).filter(|host| is_host(host) && host.len() <= MAX_HOST);
            (host.ok_or(Why::Host)?, path.to_owned())
        }
        _ => (DOCKER_HUB.to_owned(), name.to_owned()),
    };
    let path = if host == DOCKER_HUB && !path.contains('/') {
        format!("library/{path}")
    } else {
        path
    };
    if path.len() > MAX_PATH || !path.split('/').all(is_repository_element) {
        return Err(Why::Path);
    }
    let tag = match (tag, &digest) {
        (None, None) => Some("latest".parse()?),
        (tag, _) => tag,
    };
    Ok(Reference {
        host,
        path,
        tag,
        digest,
    })
}

impl FromStr for Reference {
    type Err = ParseReferenceError;

    fn from_str(text: &str) -> Result<Self, ParseReferenceError> {
        let plain = text.strip_prefix("oci://").unwrap_or(text);
        parse(plain).map_err(|why| ParseReferenceError {
            text: text.chars().take(160).collect(),
            why,
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.path)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

crate::serde_by_text!(Reference);

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    #[test]
    fn canonical_forms() {
        let pinned = format!("quay.io/jetstack/x:v1@{D}");
        let digest_only = format!("nginx@{D}");
        let digest_canonical = format!("docker.io/library/nginx@{D}");
        for (given, want) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1", "docker.io/library/nginx:1"),
            ("org/app", "docker.io/org/app:latest"),
            ("index.docker.io/nginx", "docker.io/library/nginx:latest"),
            ("registry-1.docker.io/org/app:1", "docker.io/org/app:1"),
            ("LOCALHOST:5000/a", "localhost:5000/a:latest"),
            ("localhost/a", "localhost/a:latest"),
            ("ghcr.io/A/b".to_lowercase().as_str(), "ghcr.io/a/b:latest"),
            ("oci://ghcr.io/org/app:1", "ghcr.io/org/app:1"),
            ("[::1]:5000/a:1", "[::1]:5000/a:1"),
            (&pinned, &pinned),
            (&digest_only, &digest_canonical),
        ] {
            assert_eq!(
                given.parse::<Reference>().unwrap().to_string(),
                want,
                "{given}"
            );
        }
    }

    #[test]
    fn international_hosts_are_told_how_to_be_written() {
        let error = "bücher.example/a:1".parse::<Reference>().unwrap_err();
        assert_eq!(error.why, Why::International);
        assert!("xn--bcher-kva.example/a:1".parse::<Reference>().is_ok());
    }

    #[test]
    fn refused() {
        let bad_digest = "ghcr.io/a/b@sha256:12";
        for bad in [
            "",
            "ghcr.io/",
            "ghcr.io/A/b",
            "a:b:c/d",
            "host:70000/a",
            "host:0/a",
            "-x.io/a",
            "x..io/a",
            "QUAY/a",
            "a/b:",
            bad_digest,
            "a b",
        ] {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
    }
}

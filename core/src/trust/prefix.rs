//! Places that the packages of a repository may name: a host and the start of a path.

use std::fmt;
use std::str::FromStr;

use crate::location::CanonicalUrl;
use crate::reference::{Reference, canonical_host};

/// A host and leading elements of a path. `registry.example.org/team` covers
/// `registry.example.org/team/app` and not `registry.example.org/team-b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    host: String,
    path: Vec<String>,
}

/// A text is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no location: write a host and the start of a path, like registry.example.org/team"
)]
pub struct PrefixError(String);

impl Prefix {
    /// Whether this covers what lies at `host` and `path`.
    pub fn covers(&self, host: &str, path: &str) -> bool {
        let mut elements = path.split('/').filter(|element| !element.is_empty());
        self.host == host
            && self
                .path
                .iter()
                .all(|own| elements.next() == Some(own.as_str()))
    }

    /// Whether this covers the repository of an image or a package tree.
    pub fn covers_reference(&self, reference: &Reference) -> bool {
        self.covers(reference.host(), reference.path())
    }

    /// Whether this covers a chart repository.
    pub fn covers_url(&self, url: &CanonicalUrl) -> bool {
        self.covers(url.host(), url.path())
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// A scheme in front is passed over: content is known by its digest, however it came.
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let bad = || PrefixError(text.chars().take(120).collect());
        let place = text.split_once("://").map_or(text, |(_, place)| place);
        let (host, path) = place.split_once('/').unwrap_or((place, ""));
        let host = canonical_host(host).ok_or_else(bad)?;
        let legal = |element: &&str| {
            !matches!(*element, "." | "..")
                && !element.contains(['?', '#', '@', '\\'])
                && !element.chars().any(|c| c.is_control() || c.is_whitespace())
        };
        let elements: Vec<&str> = path
            .split('/')
            .filter(|element| !element.is_empty())
            .collect();
        if !elements.iter().all(legal) {
            return Err(bad());
        }
        Ok(Prefix {
            host,
            path: elements.into_iter().map(str::to_owned).collect(),
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.path
            .iter()
            .try_for_each(|element| write!(f, "/{element}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_between_path_elements() {
        let prefix: Prefix = "oci://Registry.example.org/team/".parse().unwrap();
        assert_eq!(prefix.to_string(), "registry.example.org/team");
        for (host, path, want) in [
            ("registry.example.org", "team", true),
            ("registry.example.org", "team/app", true),
            ("registry.example.org", "/team/app/", true),
            ("registry.example.org", "team-b/app", false),
            ("registry.example.org", "other/team", false),
            ("registry.example.org:5000", "team/app", false),
            ("registry.example.org.evil.example", "team", false),
        ] {
            assert_eq!(prefix.covers(host, path), want, "{host}/{path}");
        }
        let host: Prefix = "registry.example.org".parse().unwrap();
        assert!(host.covers("registry.example.org", "any/thing"));
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in [
            "",
            "/",
            "https://",
            "a.example/../b",
            "a.example/b c",
            "u:p@a.example/b",
        ] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }
}

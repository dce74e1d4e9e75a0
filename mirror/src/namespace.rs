//! Where a repository that was asked for may be found: the look-up order of the five shapes
//! of a URL.
//!
//! Clients name the upstream host in the path (`/v2/docker.io/library/x`), in `ns`
//! (`/v2/library/x?ns=docker.io`), in both, or before `/v2/`. `ns` is a key to look up and
//! nothing else: it is never dialled, and what is not found under it is not found. Source:
//! design page "mirror", "Locations".

use kubepkg_core::location::host_element;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::reference::{DOCKER_HUB, canonical_host};
use kubepkg_core::store::{Names, Repository};

use crate::route::{Place, is_host_element};

/// The names this server itself goes by: an `ns` that is one of them says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own<'a> {
    /// The `Host` of the request.
    pub host: Option<&'a str>,
    /// The names configured for the server, in canonical form.
    pub names: &'a [String],
}

impl Own<'_> {
    fn is(&self, host: &str) -> bool {
        self.names.iter().any(|name| name == host)
            || self.host.and_then(canonical_host).as_deref() == Some(host)
    }
}

/// A repository that was asked for, found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Its name in the store.
    pub name: &'a RepositoryName,
    /// What is in it.
    pub repository: &'a Repository,
}

impl Place {
    /// The namespace that decides where to look, in canonical form; `None` when there is none
    /// or it is this server.
    pub fn namespace(&self, own: Own<'_>) -> Option<String> {
        let host = canonical_host(self.ns.as_deref()?)?;
        (!own.is(&host)).then_some(host)
    }

    /// The name a write goes to: the one this would be imported under. `None` when the request
    /// has a namespace of its own, which only reads may have.
    pub fn written(&self, own: Own<'_>) -> Option<RepositoryName> {
        match &self.ns {
            Some(ns) if !canonical_host(ns).is_some_and(|host| own.is(&host)) => None,
            _ => Some(in_library(&self.name).unwrap_or_else(|| self.name.clone())),
        }
    }

    /// The names under which the repository may be in the store, best first.
    pub fn candidates(&self, own: Own<'_>) -> Vec<RepositoryName> {
        let Some(ns) = &self.ns else {
            return plain(&self.name);
        };
        let Some(host) = canonical_host(ns) else {
            // no host has this name, so nothing can be under it
            return Vec::new();
        };
        if own.is(&host) {
            return plain(&self.name);
        }
        let Some(element) = host_element(&host) else {
            return Vec::new();
        };
        let mut names = Vec::new();
        if let Some(under) = join(&element, self.name.as_str()) {
            let library = in_library(&under);
            names.push(under);
            names.extend(library);
        }
        let prefixed = self
            .name
            .as_str()
            .strip_prefix(&element)
            .is_some_and(|rest| rest.starts_with('/'));
        if prefixed {
            names.extend(plain(&self.name));
        }
        names
    }

    /// The first of the candidates that is in the store.
    pub fn find<'a>(&self, names: &'a Names, own: Own<'_>) -> Option<Found<'a>> {
        let find = |name| {
            let (name, repository) = names.repositories.get_key_value(name)?;
            Some(Found { name, repository })
        };
        // nearly always it is the first candidate: do not think of others before
        if self.ns.is_none()
            && let Some(found) = find(&self.name)
        {
            return Some(found);
        }
        self.candidates(own).iter().find_map(find)
    }
}

/// A path without namespace: as it is, with Docker Hub's `library/` filled in, without a
/// doubled `/v2/`.
fn plain(name: &RepositoryName) -> Vec<RepositoryName> {
    let mut names = vec![name.clone()];
    names.extend(in_library(name));
    if let Some(single) = without_second_v2(name) {
        let library = in_library(&single);
        names.push(single);
        names.extend(library);
    }
    names
}

/// `docker.io/x` means `docker.io/library/x`.
pub fn in_library(name: &RepositoryName) -> Option<RepositoryName> {
    let (host, path) = name.as_str().split_once('/')?;
    if host != DOCKER_HUB || path.contains('/') {
        return None;
    }
    format!("{host}/library/{path}").parse().ok()
}

/// `<host>/v2/<path>`, what a client makes of `…/v2/<host>` when it appends `/v2` itself.
fn without_second_v2(name: &RepositoryName) -> Option<RepositoryName> {
    let (host, rest) = name.as_str().split_once('/')?;
    let path = rest.strip_prefix("v2/")?;
    is_host_element(host).then_some(())?;
    join(host, path)
}

/// `None` when the joined name is too long to exist.
fn join(host: &str, path: &str) -> Option<RepositoryName> {
    format!("{host}/{path}").parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Method;
    use proptest::prelude::*;

    use super::*;
    use crate::route::{Endpoint, parse};

    /// Which of the repositories in `stored` answers for the URL.
    fn find_with(stored: &[&str], own: Own<'_>, path: &str, query: &str) -> Option<String> {
        let mut names = Names::default();
        for name in stored {
            let name = name.parse().unwrap();
            names.repositories.insert(name, Arc::default());
        }
        let target = format!("{path}/manifests/v1");
        match parse(&Method::GET, &target, query).unwrap() {
            Endpoint::Repository(place, _) => {
                place.find(&names, own).map(|found| found.name.to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    fn find(stored: &[&str], path: &str, query: &str) -> Option<String> {
        find_with(stored, Own::default(), path, query)
    }

    const X: &str = "docker.io/library/x";

    #[test]
    fn five_shapes_find_the_same_repository() {
        for (path, query) in [
            ("/v2/docker.io/library/x", ""),
            ("/v2/library/x", "ns=docker.io"),
            ("/v2/docker.io/library/x", "ns=docker.io"),
            ("/docker.io/v2/library/x", ""),
            ("/docker.io/v2/library/x", "ns=docker.io"),
            ("/v2/docker.io/v2/library/x", ""),
            ("/v2/docker.io/v2/library/x", "ns=docker.io"),
        ] {
            assert_eq!(
                find(&[X], path, query).as_deref(),
                Some(X),
                "{path}?{query}"
            );
        }
    }

    #[test]
    fn docker_hub_has_aliases_and_a_library() {
        for (path, query) in [
            ("/v2/library/x", "ns=index.docker.io"),
            ("/v2/library/x", "ns=registry-1.docker.io"),
            ("/v2/library/x", "ns=Docker.IO"),
            ("/v2/x", "ns=docker.io"),
            ("/v2/docker.io/x", ""),
            ("/docker.io/v2/x", ""),
            ("/v2/docker.io/v2/x", ""),
            ("/v2/index.docker.io/library/x", ""),
        ] {
            assert_eq!(
                find(&[X], path, query).as_deref(),
                Some(X),
                "{path}?{query}"
            );
        }
        assert_eq!(find(&["ghcr.io/library/x"], "/v2/x", "ns=ghcr.io"), None);
    }

    #[test]
    fn ports_are_found_in_every_spelling() {
        let stored = ["reg.example_5000/a"];
        for (path, query) in [
            ("/v2/reg.example_5000/a", ""),
            ("/v2/reg.example:5000/a", ""),
            ("/v2/reg.example%3A5000/a", ""),
            ("/v2/a", "ns=reg.example%3A5000"),
            ("/v2/a", "ns=reg.example:5000"),
            ("/v2/reg.example_5000/a", "ns=reg.example%3A5000"),
            ("/v2/reg.example:5000/a", "ns=reg.example:5000"),
            ("/reg.example:5000/v2/a", ""),
        ] {
            assert!(find(&stored, path, query).is_some(), "{path}?{query}");
        }
    }

    #[test]
    fn an_unknown_namespace_finds_nothing() {
        for ns in ["quay.io", "docker.io.evil.example", "..", "a b", "%2F", "_"] {
            let query = format!("ns={ns}");
            for path in ["/v2/docker.io/library/x", "/v2/library/x"] {
                assert_eq!(find(&[X, "library/x"], path, &query), None, "{path}?{ns}");
            }
        }
    }

    #[test]
    fn a_namespace_is_looked_in_before_a_path_that_begins_with_it() {
        let stored = ["quay.io/quay.io/a", "quay.io/a"];
        let found = find(&stored, "/v2/quay.io/a", "ns=quay.io");
        assert_eq!(found.as_deref(), Some("quay.io/quay.io/a"));
    }

    #[test]
    fn the_servers_own_name_is_no_namespace() {
        let configured = ["mirror.lan:5000".to_owned()];
        let own = Own {
            host: Some("10.0.0.5:5000"),
            names: &configured,
        };
        for ns in ["mirror.lan:5000", "MIRROR.lan%3A5000", "10.0.0.5:5000"] {
            let query = format!("ns={ns}");
            let found = find_with(&["team/app"], own, "/v2/team/app", &query);
            assert_eq!(found.as_deref(), Some("team/app"), "{ns}");
        }
        let found = find_with(&["team/app"], own, "/v2/team/app", "ns=mirror.lan");
        assert_eq!(found, None);
    }

    #[test]
    fn a_doubled_v2_counts_only_where_the_literal_repository_is_absent() {
        let both = ["ghcr.io/v2/a", "ghcr.io/a"];
        let found = find(&both, "/v2/ghcr.io/v2/a", "");
        assert_eq!(found.as_deref(), Some("ghcr.io/v2/a"));
        assert_eq!(find(&["team/a"], "/v2/team/v2/a", ""), None);
    }

    proptest! {
        #[test]
        fn nothing_is_found_outside_the_namespace(
            path in "([a-z]{1,3}|docker\\.io|quay\\.io|v2|library)(/([a-z]{1,3}|docker\\.io|v2|library)){0,4}",
            ns in "(docker\\.io|quay\\.io|reg\\.example:5000|[a-z]{1,3})",
        ) {
            let target = format!("/v2/{path}/tags/list");
            let Ok(Endpoint::Repository(place, _)) = parse(&Method::GET, &target, &format!("ns={ns}")) else {
                panic!("{target}");
            };
            let element = host_element(&ns).unwrap();
            for candidate in place.candidates(Own::default()) {
                prop_assert_eq!(candidate.as_str().split('/').next(), Some(element.as_str()));
            }
        }
    }
}

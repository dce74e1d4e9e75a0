//! What a request is about, as far as its method and path tell at a glance. It is for counting
//! alone: who answers reads the path for itself ([`crate::route`]).

use http::Method;

/// A kind of request. There are few, and clients cannot make more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A manifest is read.
    Manifest,
    /// A blob is read.
    Blob,
    /// What refers to a manifest.
    Referrers,
    /// Tags, or repositories.
    List,
    /// Anything that writes to a repository, deleting included.
    Push,
    /// `/v2/` itself.
    Base,
    /// A file of the charts.
    Chart,
    /// A file of a repository: index, signature, root.
    RepositoryFile,
    /// Another file.
    File,
    /// Settings for nodes.
    NodeConfig,
    /// The page for people.
    Page,
    /// Whether the server is well.
    Health,
    /// The metrics.
    Metrics,
    /// Anything else.
    Other,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Kind; 14] = [
        Kind::Manifest,
        Kind::Blob,
        Kind::Referrers,
        Kind::List,
        Kind::Push,
        Kind::Base,
        Kind::Chart,
        Kind::RepositoryFile,
        Kind::File,
        Kind::NodeConfig,
        Kind::Page,
        Kind::Health,
        Kind::Metrics,
        Kind::Other,
    ];

    /// The value of the label `kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Manifest => "manifest",
            Kind::Blob => "blob",
            Kind::Referrers => "referrers",
            Kind::List => "list",
            Kind::Push => "push",
            Kind::Base => "base",
            Kind::Chart => "chart",
            Kind::RepositoryFile => "repository_file",
            Kind::File => "file",
            Kind::NodeConfig => "node_config",
            Kind::Page => "page",
            Kind::Health => "health",
            Kind::Metrics => "metrics",
            Kind::Other => "other",
        }
    }

    /// The kind of a request.
    pub fn of(method: &Method, path: &str) -> Kind {
        let path = path.strip_prefix('/').unwrap_or(path);
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let below_v2 = match first {
            "v2" => Some(rest),
            // `/<host>/v2/…`
            _ => rest.strip_prefix("v2/"),
        };
        if let Some(rest) = below_v2 {
            return Kind::of_registry(method, rest);
        }
        match first {
            "charts" => Kind::Chart,
            "repositories" => Kind::RepositoryFile,
            "files" => Kind::File,
            "node-config" => Kind::NodeConfig,
            "" if path.is_empty() => Kind::Page,
            "healthz" | "readyz" if rest.is_empty() => Kind::Health,
            "metrics" if rest.is_empty() => Kind::Metrics,
            _ => Kind::Other,
        }
    }

    /// Looks at the last elements only: names are long, and may be made of any words.
    fn of_registry(method: &Method, rest: &str) -> Kind {
        if method != Method::GET && method != Method::HEAD {
            return Kind::Push;
        }
        let mut from_the_end = rest.rsplit('/');
        let (last, marker) = (from_the_end.next(), from_the_end.next());
        match marker {
            Some("manifests") => Kind::Manifest,
            Some("blobs") if last == Some("uploads") => Kind::Push,
            Some("blobs") => Kind::Blob,
            Some("referrers") => Kind::Referrers,
            Some("tags") if last == Some("list") => Kind::List,
            Some("uploads") => Kind::Push,
            None if rest.is_empty() => Kind::Base,
            None if rest == "_catalog" => Kind::List,
            _ => Kind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_list() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }

    #[test]
    fn a_path_tells_its_kind() {
        for (path, kind) in [
            ("/v2/", "base"),
            ("/v2", "base"),
            ("/v2/_catalog", "list"),
            ("/v2/docker.io/library/x/manifests/1", "manifest"),
            ("/v2/docker.io/library/x/manifests/sha256:00", "manifest"),
            ("/v2/x/blobs/sha256:00", "blob"),
            ("/v2/x/manifests/blobs/sha256:00", "blob"),
            ("/v2/x/tags/list", "list"),
            ("/v2/x/referrers/sha256:00", "referrers"),
            ("/v2/x/blobs/uploads/", "push"),
            ("/v2/x/blobs/uploads/1-2", "push"),
            ("/docker.io/v2/library/x/manifests/1", "manifest"),
            ("/v2/x", "other"),
            ("/charts/docker.io/x/index.yaml", "chart"),
            ("/repositories/example.org/index.yaml", "repository_file"),
            ("/files/example.org/x.iso", "file"),
            ("/node-config/talos", "node_config"),
            ("/", "page"),
            ("", "page"),
            ("//", "other"),
            ("/healthz", "health"),
            ("/readyz", "health"),
            ("/metrics", "metrics"),
            ("/metrics/x", "other"),
            ("/favicon.ico", "other"),
        ] {
            assert_eq!(Kind::of(&Method::GET, path).as_str(), kind, "{path}");
            assert_eq!(Kind::of(&Method::HEAD, path).as_str(), kind, "{path}");
        }
        for (method, path, kind) in [
            (Method::PUT, "/v2/x/manifests/1", "push"),
            (Method::DELETE, "/v2/x/blobs/sha256:00", "push"),
            (Method::PATCH, "/v2/x/blobs/uploads/1", "push"),
            (Method::POST, "/charts/x", "chart"),
        ] {
            assert_eq!(Kind::of(&method, path).as_str(), kind, "{method} {path}");
        }
    }
}

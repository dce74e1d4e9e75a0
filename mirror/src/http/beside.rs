//! What there is beside the registry API: the one place that knows these paths.

use super::auth::TOKEN_PATH;
use crate::metrics::Kind;

/// What a path outside the registry API leads to. Of a folder of paths: what stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside<'p> {
    /// The page for people.
    Page,
    /// A file of a repository.
    Repositories(&'p str),
    /// A file of a chart repository.
    Charts(&'p str),
    /// Another file.
    Files(&'p str),
    /// Settings for nodes.
    NodeConfig(&'p str),
    /// A token for a login.
    Token,
    /// Whether the process answers.
    Alive,
    /// Whether the store can be read.
    Health,
    /// Whether the store can be written.
    Ready,
    /// The metrics.
    Metrics,
    /// Nothing.
    Nothing,
}

impl<'p> Beside<'p> {
    pub(super) fn of(path: &'p str) -> Beside<'p> {
        match path {
            "/" => return Beside::Page,
            "/livez" => return Beside::Alive,
            "/healthz" => return Beside::Health,
            "/readyz" => return Beside::Ready,
            "/metrics" => return Beside::Metrics,
            TOKEN_PATH => return Beside::Token,
            _ => {}
        }
        let below = |folder: &str| path.strip_prefix(folder);
        let found = below("/repositories/").map(Beside::Repositories);
        let found = found.or_else(|| below("/charts/").map(Beside::Charts));
        let found = found.or_else(|| below("/files/").map(Beside::Files));
        let found = found.or_else(|| below("/node-config/").map(Beside::NodeConfig));
        found.unwrap_or(Beside::Nothing)
    }

    /// As what it counts.
    pub(super) fn kind(self) -> Kind {
        match self {
            Beside::Page => Kind::Page,
            Beside::Repositories(_) => Kind::RepositoryFile,
            Beside::Charts(_) => Kind::Chart,
            Beside::Files(_) => Kind::File,
            Beside::NodeConfig(_) => Kind::NodeConfig,
            Beside::Token => Kind::Token,
            Beside::Alive | Beside::Health | Beside::Ready => Kind::Health,
            Beside::Metrics => Kind::Metrics,
            Beside::Nothing => Kind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::kind_of;

    #[test]
    fn a_request_counts_as_what_answers_it() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (path, kind) in [
            ("/v2/", "base"),
            ("/v2", "base"),
            ("/v2/_catalog", "list"),
            ("/v2/docker.io/library/x/manifests/1", "manifest"),
            (&format!("/v2/x/manifests/{digest}"), "manifest"),
            (&format!("/v2/x/blobs/{digest}"), "blob"),
            (&format!("/v2/x/manifests/blobs/{digest}"), "blob"),
            ("/v2/x/tags/list", "list"),
            (&format!("/v2/x/referrers/{digest}"), "referrers"),
            ("/v2/x/blobs/uploads/", "push"),
            ("/v2/x/blobs/uploads/1-2", "push"),
            ("/docker.io/v2/library/x/manifests/1", "manifest"),
            // no host: nothing is there
            ("/team/v2/x/manifests/1", "other"),
            ("/v2/x", "other"),
            ("/charts/docker.io/x/index.yaml", "chart"),
            ("/repositories/example.org/index.yaml", "repository_file"),
            ("/files/example.org/x.iso", "file"),
            ("/node-config/talos", "node_config"),
            ("/token", "token"),
            ("/", "page"),
            ("//", "other"),
            ("/livez", "health"),
            ("/healthz", "health"),
            ("/readyz", "health"),
            ("/metrics", "metrics"),
            ("/metrics/x", "other"),
            ("/favicon.ico", "other"),
        ] {
            let of = |method| kind_of(&method, path, "").1.as_str();
            assert_eq!((of(Method::GET), of(Method::HEAD)), (kind, kind), "{path}");
        }
        let blob = format!("/v2/x/blobs/{digest}");
        for (method, path, kind) in [
            (Method::PUT, "/v2/x/manifests/1", "push"),
            (Method::DELETE, &*blob, "push"),
            (Method::PATCH, "/v2/x/blobs/uploads/1", "push"),
            (Method::POST, "/charts/x", "chart"),
            (Method::POST, "/token", "token"),
        ] {
            let found = kind_of(&method, path, "").1;
            assert_eq!(found.as_str(), kind, "{method} {path}");
        }
    }
}

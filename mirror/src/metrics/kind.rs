//! What a request is about, for counting. Who answers says so.

use crate::route::{Ask, Endpoint, RouteError};

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
    /// A token for a login.
    Token,
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
    pub const ALL: [Kind; 15] = [
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
        Kind::Token,
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
            Kind::Token => "token",
            Kind::Page => "page",
            Kind::Health => "health",
            Kind::Metrics => "metrics",
            Kind::Other => "other",
        }
    }

    /// What a request to the registry API is about, by what its path was read as. Whatever
    /// writes counts as such, also where it is refused.
    pub(crate) fn of_registry(parsed: &Result<Endpoint, RouteError>, writes: bool) -> Kind {
        match parsed {
            _ if writes => Kind::Push,
            Ok(Endpoint::Base) => Kind::Base,
            Ok(Endpoint::Catalog(_)) => Kind::List,
            Ok(Endpoint::Write(..)) => Kind::Push,
            Ok(Endpoint::Repository(_, ask)) => match ask {
                Ask::Manifest(_) => Kind::Manifest,
                Ask::Blob(_) => Kind::Blob,
                Ask::Tags(_) => Kind::List,
                Ask::Referrers { .. } => Kind::Referrers,
                Ask::Upload(_) => Kind::Push,
            },
            Err(_) => Kind::Other,
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
}

//! Why an index is refused.

use super::version_and_build;
use crate::Digest;
use crate::api::INDEX_KIND;
use crate::error::{Classify, Kind};
use crate::yaml::YamlError;

/// An index is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// Not YAML, too large, a key given twice, a member of the wrong type.
    #[error("the index does not read: {0}")]
    Yaml(#[from] YamlError),
    /// Another kind of document.
    #[error("this is no repository index: its kind is \"{kind}\", not \"{INDEX_KIND}\"")]
    Kind {
        /// The kind given.
        kind: String,
    },
    /// The URL the index says it belongs to is none.
    #[error("the index names as its repository what is no URL: {0}")]
    Repository(#[from] crate::location::UrlError),
    /// A name that no object can have.
    #[error("line {line}: {source}")]
    Name {
        /// Line in the index.
        line: usize,
        /// What is wrong with the name.
        source: crate::name::NameError,
    },
    /// A version is refused.
    #[error("line {line}: package {package} {}: {why}", version_and_build(version, *build))]
    Version {
        /// Line in the index.
        line: usize,
        /// Name of the package.
        package: String,
        /// Version as written.
        version: String,
        /// Build as written.
        build: i32,
        /// What is wrong.
        why: Box<Why>,
    },
}

/// What is wrong with a version of an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// Not an exact semantic version.
    #[error("the version is not exact (like 1.2.3)")]
    NotExact,
    /// A negative build.
    #[error("a build is 0 or more")]
    Build,
    /// Entry and spec name different versions or builds.
    #[error("entry and spec disagree on version or build")]
    Disagree,
    /// The digest is not that of the spec.
    #[error("the spec does not match its digest: listed {listed}, computed {computed}")]
    Digest {
        /// As listed.
        listed: String,
        /// Of the spec.
        computed: Digest,
    },
    /// The same version and build with two contents.
    #[error("it is listed twice with different content")]
    Twice,
}

impl Classify for IndexError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn place(&self) -> Option<String> {
        match self {
            IndexError::Yaml(error) => error.place(),
            IndexError::Name { line, .. } | IndexError::Version { line, .. } => {
                Some(format!("line {line}"))
            }
            IndexError::Kind { .. } | IndexError::Repository(_) => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            IndexError::Kind { .. } => Some("check the URL of the index".to_owned()),
            IndexError::Version { .. } | IndexError::Name { .. } => Some(
                "tell the publisher: make the index anew with \"kubepkg repo index\"".to_owned(),
            ),
            _ => None,
        }
    }
}

//! Why logins or rules cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::yaml::YamlError;

/// Why the settings of who may do what cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("cannot read {what}")]
    Read {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {what}")]
    Write {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds no key of tokens.
    #[error("{why}")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A line of the file of passwords is of no use.
    #[error("{why}")]
    Login {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The rules do not read.
    #[error("the rules do not read: {}", .source.problem)]
    Rules {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: YamlError,
    },
    /// The rules read, and mean nothing.
    #[error("{why}")]
    Meaning {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// A name no user can have, or a password that would not work.
    #[error("{0}")]
    User(String),
    /// The system has no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
}

impl AccessError {
    pub(super) fn read(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AccessError {
        let path = path.to_owned();
        move |source| AccessError::Read { what, path, source }
    }

    pub(super) fn write(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AccessError {
        let path = path.to_owned();
        move |source| AccessError::Write { what, path, source }
    }
}

impl Classify for AccessError {
    fn kind(&self) -> Kind {
        match self {
            AccessError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Kind::NotFound
            }
            AccessError::Read { .. } | AccessError::Write { .. } | AccessError::Random(_) => {
                Kind::Failed
            }
            AccessError::Key { .. }
            | AccessError::Login { .. }
            | AccessError::Rules { .. }
            | AccessError::Meaning { .. }
            | AccessError::User(_) => Kind::Usage,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            AccessError::Read { path, .. }
            | AccessError::Write { path, .. }
            | AccessError::Key { path, .. } => Some(path.display().to_string()),
            AccessError::Login { path, line, .. } => {
                Some(format!("{}: line {line}", path.display()))
            }
            AccessError::Rules { path, source } => Some(match (source.line, &*source.path) {
                (Some(line), "") => format!("{}: line {line}", path.display()),
                (Some(line), member) => format!("{}: line {line}: {member}", path.display()),
                (None, _) => path.display().to_string(),
            }),
            AccessError::Meaning { path, place, .. } => {
                Some(format!("{}: {place}", path.display()))
            }
            AccessError::User(_) | AccessError::Random(_) => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            AccessError::Key { .. } => {
                Some("make one with `openssl rand -hex 32`, the same for all mirrors".to_owned())
            }
            AccessError::Login { .. } => {
                Some("make lines with `mirror user add`, or with `htpasswd -B`".to_owned())
            }
            AccessError::Rules { source, .. } => source.hint(),
            _ => None,
        }
    }
}

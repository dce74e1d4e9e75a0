//! Why a certificate or key cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use kubepkg_core::error::{Classify, Kind};

/// Why TLS cannot be spoken as asked.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
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
    /// What is in a file is of no use.
    #[error("{why}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
        /// What to do.
        hint: &'static str,
    },
    /// No certificate can be made for this name.
    #[error("no certificate can be made for \"{host}\": {why}")]
    Host {
        /// The name.
        host: String,
        /// Why.
        why: &'static str,
    },
    /// The library that makes certificates or speaks TLS refuses.
    #[error("{what} cannot be made: {why}")]
    Make {
        /// What.
        what: &'static str,
        /// Why.
        why: String,
    },
}

impl TlsError {
    pub(super) fn read(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TlsError {
        let path = path.to_owned();
        move |source| TlsError::Read { what, path, source }
    }

    pub(super) fn write(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TlsError {
        let path = path.to_owned();
        move |source| TlsError::Write { what, path, source }
    }

    pub(super) fn content(path: &Path, why: impl Into<String>, hint: &'static str) -> TlsError {
        TlsError::Content {
            path: path.to_owned(),
            why: why.into(),
            hint,
        }
    }
}

impl Classify for TlsError {
    fn kind(&self) -> Kind {
        match self {
            TlsError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Kind::NotFound
            }
            TlsError::Read { .. } | TlsError::Write { .. } | TlsError::Make { .. } => Kind::Failed,
            TlsError::Content { .. } | TlsError::Host { .. } => Kind::Usage,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            TlsError::Read { path, .. }
            | TlsError::Write { path, .. }
            | TlsError::Content { path, .. } => Some(path.display().to_string()),
            TlsError::Host { .. } | TlsError::Make { .. } => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            TlsError::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("let the user the mirror runs as read it".to_owned())
            }
            TlsError::Content { hint, .. } => Some((*hint).to_owned()),
            TlsError::Host { .. } => Some(
                "name it as nodes do, without scheme and port: mirror.example.com or 10.0.0.5"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

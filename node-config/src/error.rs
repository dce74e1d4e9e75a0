//! What can be wrong.

use std::io;
use std::path::PathBuf;

use kubepkg_core::error::{Classify, Kind};

/// Why no settings were written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The mirror's URL cannot be used. It is shown without user and query.
    #[error("\"{url}\" cannot be the mirror's URL: {why}")]
    Mirror {
        /// The URL.
        url: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The CA cannot go with node settings.
    #[error("the CA cannot go with the settings: {why}")]
    Ca {
        /// What is wrong.
        why: &'static str,
    },
    /// A file cannot be named in node settings.
    #[error("\"{path}\" cannot be the {what} on the nodes: {why}")]
    NodeFile {
        /// What it is for.
        what: &'static str,
        /// The path.
        path: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A registry host cannot be written into settings.
    #[error("no settings can be written for the registry {host}: {why}")]
    Host {
        /// The host.
        host: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Nothing to write: no registry host is known.
    #[error("there is no registry to write settings for")]
    NoHosts,
    /// Files that exist have other content. Nothing was written.
    #[error("{} with other content: {}", counted(.paths.len()), shown(.paths))]
    Conflict {
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// A file or folder cannot be used.
    #[error("cannot {action} {path}", path = .path.display())]
    Io {
        /// What was tried, e.g. "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Files named in a message; the rest is counted.
const SHOWN: usize = 10;

fn counted(n: usize) -> String {
    match n {
        1 => "a file exists".to_owned(),
        n => format!("{n} files exist"),
    }
}

fn shown(paths: &[PathBuf]) -> String {
    let mut text = paths
        .iter()
        .take(SHOWN)
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ");
    if paths.len() > SHOWN {
        text.push_str(&format!(" and {} more", paths.len() - SHOWN));
    }
    text
}

impl Classify for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::Mirror { .. }
            | Error::Ca { .. }
            | Error::NodeFile { .. }
            | Error::Host { .. } => Kind::Usage,
            Error::NoHosts => Kind::NotFound,
            Error::Conflict { .. } | Error::Io { .. } => Kind::Failed,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            Error::Mirror { url, .. } => Some(url.clone()),
            Error::NodeFile { path, .. } => Some(path.clone()),
            Error::Host { host, .. } => Some(host.clone()),
            Error::Conflict { paths } => paths.first().map(|path| path.display().to_string()),
            Error::Io { path, .. } => Some(path.display().to_string()),
            Error::Ca { .. } | Error::NoHosts => None,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Mirror { .. } => "write it like https://mirror.example.com:5000",
            Error::Ca { .. } => "give the certificate of the CA in PEM",
            Error::NodeFile { .. } => "give the absolute path the file has on the nodes",
            Error::Host { .. } => "reach this registry by a host name",
            Error::NoHosts => {
                "import a bundle into the store first, or name a bundle that holds images"
            }
            Error::Conflict { .. } => {
                "look at the files, then run the same command with --force to replace them"
            }
            Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run this as a user who may write there, or choose another folder with -o"
            }
            Error::Io { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

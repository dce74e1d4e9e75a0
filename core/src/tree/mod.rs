//! Package trees: a folder of files as an artifact in a registry, in the form Flux reads.
//!
//! The same files give the same bytes on every machine: files in the order of their paths, no
//! times, no owners, two modes, and a compressor that is part of this program. A tree is known by
//! the digest of its archive before compression, as another program compresses it differently.

mod artifact;
mod files;
mod gzip;
mod pack;
mod tar;
mod unpacked;

use std::io;
use std::path::PathBuf;

use crate::error::{Classify, Kind, shown};

pub use artifact::{Artifact, CONTENT_DIGEST, artifact, content_digest, layer};
pub use pack::{Packed, pack};
pub use unpacked::Unpacked;

/// Largest tree, as its archive before compression. Whoever unpacks one accepts as much.
pub const MAX_TREE: u64 = 512 * 1024 * 1024;

/// Most files in a tree: the same as in a chart. Real ones have some hundred.
pub const MAX_FILES: usize = 50_000;

/// Longest path of a file in a tree. Systems end at 4096 bytes for all of a path, and a tree is
/// unpacked somewhere.
pub const MAX_PATH: usize = 1024;

/// Most folders below each other.
pub const MAX_DEPTH: usize = 64;

/// Why a folder is no tree that can be pushed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// It cannot be read.
    #[error("{}: cannot be read", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// It is no folder.
    #[error("{}: this is no folder", .0.display())]
    NoFolder(PathBuf),
    /// There is no file in it.
    #[error("{}: there are no files in this folder", .0.display())]
    Empty(PathBuf),
    /// A link, a device, or anything but a file or folder.
    #[error("{}: this is a {kind}; only files and folders can be in a package tree", .path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A name that not every reader would take for the same.
    #[error("{}: {why}", .path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// What is wrong with its name.
        why: &'static str,
    },
    /// More than a limit.
    #[error("{}: {why}", .path.display())]
    TooLarge {
        /// The folder or file.
        path: PathBuf,
        /// The limit.
        why: String,
    },
    /// A file is another one than it was when the folder was read.
    #[error("{}: this file changed while it was read", .0.display())]
    Changed(PathBuf),
    /// The archive cannot be written.
    #[error("the archive cannot be written")]
    Write(#[source] io::Error),
}

impl Classify for TreeError {
    fn kind(&self) -> Kind {
        match self {
            TreeError::Read(_, error) if error.kind() == io::ErrorKind::NotFound => Kind::NotFound,
            TreeError::Read(..) | TreeError::Changed(_) | TreeError::Write(_) => Kind::Failed,
            TreeError::NoFolder(_) => Kind::Usage,
            TreeError::Empty(_)
            | TreeError::Kind { .. }
            | TreeError::Name { .. }
            | TreeError::TooLarge { .. } => Kind::Refused,
        }
    }

    fn place(&self) -> Option<String> {
        let path = match self {
            TreeError::Read(path, _)
            | TreeError::NoFolder(path)
            | TreeError::Empty(path)
            | TreeError::Changed(path)
            | TreeError::Kind { path, .. }
            | TreeError::Name { path, .. }
            | TreeError::TooLarge { path, .. } => path,
            TreeError::Write(_) => return None,
        };
        Some(shown(&path.display().to_string()))
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            TreeError::Kind { kind, .. } if *kind == "symbolic link" => {
                "put the file itself there, or take the link away"
            }
            TreeError::Kind { .. } => "take it out of the folder",
            TreeError::Name { .. } => "give it another name",
            TreeError::Changed(_) => "try again when nobody writes there",
            TreeError::NoFolder(_) => "give the folder whose files are the package tree",
            _ => return None,
        };
        Some(text.to_owned())
    }

    fn retry(&self) -> bool {
        matches!(self, TreeError::Changed(_))
    }
}

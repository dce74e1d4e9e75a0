//! Why a file is not a bundle, or cannot be used as one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::error::{Classify, Kind};

/// Most damaged members that are named one by one.
const SHOWN: usize = 20;

/// One member whose bytes are not what the head says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Path of the member.
    pub member: String,
    /// Where its data begins in the file.
    pub offset: u64,
    /// What the head says.
    pub wanted: Digest,
    /// What the bytes hash to.
    pub found: Digest,
}

/// Why a bundle is refused, or cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Any of the others, in this file. Its name is the place of the error ([`Classify::place`])
    /// and not repeated in the text.
    #[error("{source}")]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<FormatError>,
    },
    /// The system did not do what was asked.
    #[error("cannot {action}{}", at_byte(*at))]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where in the file.
        at: Option<u64>,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The first member is not a head.
    #[error("this is no bundle of kubepkg: {0}")]
    NotABundle(String),
    /// A format of another version.
    #[error("the bundle has the format \"{0}\"; this kubepkg reads {format}", format = super::head::FORMAT)]
    Version(String),
    /// Required features that are not known here.
    #[error(
        "the bundle needs features this kubepkg ({version}) does not know: {}", .0.join(", "),
        version = env!("CARGO_PKG_VERSION")
    )]
    Features(Vec<String>),
    /// Something is over its limit.
    #[error("{what} has {size} {unit}; at most {limit} are allowed")]
    TooLarge {
        /// What.
        what: String,
        /// How large it is or claims to be.
        size: u64,
        /// The limit.
        limit: u64,
        /// `bytes` or `entries`.
        unit: &'static str,
    },
    /// The head breaks a rule.
    #[error("the head ({path}) is not valid: {0}", path = super::format::HEAD_PATH)]
    Head(String),
    /// The file ends before its head does, so how long it should be is not known.
    #[error("the file ends at byte {len}, inside its head; the copy was not finished")]
    CutHead {
        /// Length of the file.
        len: u64,
    },
    /// The file is shorter than its head says.
    #[error(
        "the file ends at byte {len}, {missing} {} missing; the copy was not finished",
        if *missing == 1 { "byte is" } else { "bytes are" }
    )]
    Cut {
        /// Length of the file.
        len: u64,
        /// How many bytes are missing.
        missing: u64,
    },
    /// The file is longer than its head says.
    #[error("the bundle ends at byte {end}, but {extra} more bytes follow, which no digest covers")]
    Trailing {
        /// Where the bundle ends.
        end: u64,
        /// How many bytes follow.
        extra: u64,
    },
    /// A byte that follows from the head is another one.
    #[error("{what} differs at byte {offset} from what the head says")]
    Frame {
        /// Which part: header, padding or generated content of which member.
        what: String,
        /// The first byte that differs.
        offset: u64,
    },
    /// The signature slot breaks a rule.
    #[error("the signature slot ({path}) is not valid: {0}", path = super::format::SIGNATURES_PATH)]
    Slot(String),
    /// Payload is not what its digest says.
    #[error("{}", damaged(.0))]
    Damaged(Vec<Damage>),
    /// A member that the caller asks for is not there.
    #[error("the bundle holds no {0}")]
    Absent(String),
    /// Manifests and head do not agree.
    #[error(transparent)]
    Closure(#[from] super::verify::ClosureError),
}

fn at_byte(at: Option<u64>) -> String {
    at.map_or_else(String::new, |at| format!(" at byte {at}"))
}

fn damaged(list: &[Damage]) -> String {
    let mut text = String::new();
    for damage in list.iter().take(SHOWN) {
        if !text.is_empty() {
            text.push_str("; ");
        }
        // writing to a String does not fail
        let _ = write!(
            text,
            "{} at byte {} is damaged: its bytes hash to {}, the head says {}",
            damage.member, damage.offset, damage.found, damage.wanted
        );
    }
    if list.len() > SHOWN {
        let _ = write!(text, "; and {} more", list.len() - SHOWN);
    }
    text
}

impl FormatError {
    /// This error, said of `path`.
    #[must_use]
    pub fn in_file(self, path: &Path) -> FormatError {
        match self {
            FormatError::InFile { .. } => self,
            source => FormatError::InFile {
                path: path.to_owned(),
                source: Box::new(source),
            },
        }
    }

    /// The error without the name of the file.
    pub fn inner(&self) -> &FormatError {
        match self {
            FormatError::InFile { source, .. } => source.inner(),
            other => other,
        }
    }

    pub(super) fn io(action: &'static str, at: u64) -> impl FnOnce(std::io::Error) -> FormatError {
        move |source| FormatError::Io {
            action,
            at: Some(at),
            source,
        }
    }

    pub(super) fn head(why: impl Into<String>) -> FormatError {
        FormatError::Head(why.into())
    }

    pub(super) fn too_many(what: impl Into<String>, size: usize, limit: usize) -> FormatError {
        FormatError::TooLarge {
            what: what.into(),
            size: size as u64,
            limit: limit as u64,
            unit: "entries",
        }
    }

    pub(super) fn too_long(what: impl Into<String>, size: u64, limit: u64) -> FormatError {
        FormatError::TooLarge {
            what: what.into(),
            size,
            limit,
            unit: "bytes",
        }
    }
}

impl Classify for FormatError {
    fn kind(&self) -> Kind {
        match self {
            FormatError::InFile { source, .. } => source.kind(),
            FormatError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Kind::NotFound
            }
            FormatError::Io { .. } => Kind::Failed,
            FormatError::Absent(_) => Kind::NotFound,
            _ => Kind::Refused,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            FormatError::InFile { path, source } => {
                let inside = source.place();
                Some(match inside {
                    Some(inside) => format!("{}: {inside}", path.display()),
                    None => path.display().to_string(),
                })
            }
            FormatError::Frame { offset, .. } => Some(format!("byte {offset}")),
            FormatError::Io { at: Some(at), .. } => Some(format!("byte {at}")),
            FormatError::Damaged(list) => list
                .first()
                .map(|damage| format!("{} at byte {}", damage.member, damage.offset)),
            FormatError::CutHead { len } | FormatError::Cut { len, .. } => {
                Some(format!("byte {len}"))
            }
            FormatError::Trailing { end, .. } => Some(format!("byte {end}")),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            FormatError::InFile { source, .. } => return source.hint(),
            FormatError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                "free some space, or write the bundle to another disk"
            }
            FormatError::Io { .. } | FormatError::Absent(_) => return None,
            FormatError::NotABundle(_) => "give a file that `kubepkg bundle create` has written",
            FormatError::Version(_) | FormatError::Features(_) => {
                "use a newer kubepkg on this side, or create the bundle with this version"
            }
            FormatError::CutHead { .. } | FormatError::Cut { .. } | FormatError::Damaged(_) => {
                "copy the file again"
            }
            FormatError::Trailing { .. } => {
                "copy the file again; if the original has these bytes too, do not trust it"
            }
            FormatError::Frame { .. } => {
                "copy the file again; a bundle must not be packed anew with tar"
            }
            FormatError::Closure(error) => return error.hint(),
            FormatError::TooLarge { .. } | FormatError::Head(_) | FormatError::Slot(_) => {
                "copy the file again; if that does not help, create it anew and do not trust this one"
            }
        };
        Some(text.to_owned())
    }
}

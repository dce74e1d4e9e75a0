//! What kind of failure an error is, the same words in every crate.
//!
//! Each crate has its own typed errors; all of them answer two questions: which [`Kind`]
//! it is (the command turns that into its exit code) and whether trying again can help.

/// The kind of a failure. The command's exit codes follow from it (design page "command").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It could not be done here: disk full, output exists, file not readable.
    Failed,
    /// The call itself is wrong: no key given, a malformed reference.
    Usage,
    /// Verification or trust says no: signature, digest, grammar, truncation.
    Refused,
    /// A package, version, reference or file does not exist.
    NotFound,
    /// The network or the other side failed; trying again may help.
    Remote,
}

impl Kind {
    /// The word used in JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Failed => "failed",
            Kind::Usage => "usage",
            Kind::Refused => "refused",
            Kind::NotFound => "not-found",
            Kind::Remote => "remote",
        }
    }
}

/// What the command needs to know of an error besides its text.
pub trait Classify: std::error::Error + Send + Sync + 'static {
    /// The kind of failure.
    fn kind(&self) -> Kind;

    /// One line saying where: file and offset, reference, or URL without secrets.
    fn place(&self) -> Option<String> {
        None
    }

    /// What the user can do, ideally something that can be typed.
    fn hint(&self) -> Option<String> {
        None
    }

    /// Whether the same call may succeed later without any change.
    fn retry(&self) -> bool {
        self.kind() == Kind::Remote
    }
}

/// Text from a file as shown in a message: bounded, control characters escaped.
pub(crate) fn shown(text: &str) -> String {
    text.chars()
        .take(120)
        .flat_map(char::escape_debug)
        .collect()
}

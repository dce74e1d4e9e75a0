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

/// About how many bytes of foreign text a message repeats: a URL fits, a flood does not.
const MAX_SHOWN: usize = 300;

/// Foreign text as shown in a message: bounded, and with characters that a terminal obeys or
/// that nobody sees escaped. Quotes and backslashes stay: escaped ones are hard to read, and
/// cannot be copied into a command.
pub fn shown(text: &str) -> String {
    let mut line = String::new();
    for character in text.chars() {
        if line.len() >= MAX_SHOWN {
            break;
        }
        match character {
            '"' | '\'' | '\\' => line.push(character),
            _ => line.extend(character.escape_debug()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_shown_bounded_and_harmless() {
        assert_eq!(shown("it's \"C:\\x\" für €"), "it's \"C:\\x\" für €");
        assert_eq!(shown("\u{1b}[2J\n\u{202e}x"), "\\u{1b}[2J\\n\\u{202e}x");
        assert_eq!(shown(&"x".repeat(1000)).len(), MAX_SHOWN);
    }
}

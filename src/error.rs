//! Errors that arise in the command itself, not in a library.

use std::error::Error;
use std::fmt;

use kubepkg_core::error::{Classify, Kind};

/// A failure with all that a report shows of it.
#[derive(Debug)]
pub struct CommandError {
    kind: Kind,
    message: String,
    place: Option<String>,
    hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl CommandError {
    fn new(kind: Kind, message: impl Into<String>) -> CommandError {
        CommandError {
            kind,
            message: message.into(),
            place: None,
            hint: None,
            source: None,
        }
    }

    /// The call is wrong.
    pub fn usage(message: impl Into<String>) -> CommandError {
        CommandError::new(Kind::Usage, message)
    }

    /// It cannot be done here.
    pub fn failed(message: impl Into<String>) -> CommandError {
        CommandError::new(Kind::Failed, message)
    }

    /// Verification says no.
    pub fn refused(message: impl Into<String>) -> CommandError {
        CommandError::new(Kind::Refused, message)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> CommandError {
        CommandError::new(Kind::NotFound, message)
    }

    /// Nothing could be written. Here a folder that is not there is no answer to a question,
    /// but a failure.
    pub fn write(message: impl Into<String>, source: std::io::Error) -> CommandError {
        CommandError::new(Kind::Failed, message).because(source)
    }

    /// The system refused to read something. A file that is not there is "not found".
    pub fn io(message: impl Into<String>, source: std::io::Error) -> CommandError {
        let kind = match source.kind() {
            std::io::ErrorKind::NotFound => Kind::NotFound,
            _ => Kind::Failed,
        };
        CommandError::new(kind, message).because(source)
    }

    /// What a library says, to be told with another place. Its text must not name the place
    /// it knew, as that goes into the new one.
    pub fn of(error: &impl Classify) -> CommandError {
        let text = error.to_string();
        let place = error.place();
        let message = match &place {
            Some(place) => text.replacen(&format!("{place}: "), "", 1),
            None => text,
        };
        CommandError {
            kind: error.kind(),
            message,
            place,
            hint: error.hint(),
            source: None,
        }
    }

    /// The same as a fault of the call.
    #[must_use]
    pub fn into_usage(mut self) -> CommandError {
        self.kind = Kind::Usage;
        self
    }

    /// The file or URL in which the place lies: `index.yaml: line 10`.
    #[must_use]
    pub fn under(mut self, file: impl fmt::Display) -> CommandError {
        self.place = Some(match self.place {
            Some(place) => format!("{file}: {place}"),
            None => file.to_string(),
        });
        self
    }

    /// Where it happened.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> CommandError {
        self.place = Some(place.to_string());
        self
    }

    /// Where it happened, unless that was said already.
    #[must_use]
    pub fn somewhere_in(self, place: impl fmt::Display) -> CommandError {
        match self.place {
            Some(_) => self,
            None => self.at(place),
        }
    }

    /// What the user can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> CommandError {
        self.hint = Some(hint.into());
        self
    }

    /// What brought it about.
    #[must_use]
    pub fn because(mut self, source: impl Error + Send + Sync + 'static) -> CommandError {
        self.source = Some(Box::new(source));
        self
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for CommandError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl Classify for CommandError {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn place(&self) -> Option<String> {
        self.place.clone()
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

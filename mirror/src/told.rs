//! Errors as the log says them. Where it happened and what to do stand beside an error's text,
//! for a command to print on lines of their own; a log has one line.

use std::fmt;

use kubepkg_core::error::Classify;

/// An error with its kind, what caused it, where it happened and what to do.
pub(crate) fn told<E: Classify>(error: &E) -> Told<'_, E> {
    Told(error)
}

/// See [`told`].
pub(crate) struct Told<'e, E>(&'e E);

impl<E: Classify> fmt::Display for Told<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        write!(f, " ({}", self.0.kind().as_str())?;
        if let Some(place) = self.0.place() {
            write!(f, ", {place}")?;
        }
        write!(f, ")")?;
        match self.0.hint() {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use kubepkg_core::store::StoreError;

    use super::*;

    #[test]
    fn one_line_says_what_where_why_and_what_to_do() {
        let full = StoreError::Io {
            action: "write",
            path: "/srv/mirror/names/ab/cd.json".into(),
            source: io::ErrorKind::StorageFull.into(),
        };
        let unsettled = StoreError::Unsettled {
            number: 7,
            source: Box::new(full),
        };
        let line = told(&unsettled).to_string();
        for part in [
            "commit 7",
            "write",
            "no storage space",
            "(failed, /srv/mirror/names/ab/cd.json)",
            "look at the disk",
        ] {
            assert!(line.contains(part), "{line}");
        }
        assert!(!line.contains('\n'));
    }
}

//! What is wrong with a YAML text, and where.

use std::fmt;

pub(super) use crate::error::shown;
use crate::error::{Classify, Kind};

/// A YAML text is refused: what is wrong, on which line, at which member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    /// Line, from 1; `None` where it concerns the whole text.
    pub line: Option<usize>,
    /// Where in the document, e.g. `variants[0].components[1].name`; may be empty.
    pub path: String,
    /// What is wrong.
    pub problem: Box<Problem>,
}

/// What can be wrong with a YAML text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not UTF-8 or UTF-16 with a byte order mark.
    #[error("not UTF-8 text")]
    Encoding,
    /// A character that YAML does not allow unescaped.
    #[error("the character U+{0:04X} must be written as an escape in double quotes")]
    Character(u32),
    /// The parser says no.
    #[error("not YAML: {0}")]
    Syntax(String),
    /// Longer than the limit, in bytes.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// Nested deeper than the limit.
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    /// More values than the limit.
    #[error("more than {0} values")]
    TooManyNodes(usize),
    /// Aliases blow the document up beyond the limit.
    #[error("its aliases repeat too much content")]
    TooMuchExpansion,
    /// An alias of an anchor that contains it, or of none.
    #[error("an alias must name an anchor that is complete before it")]
    Alias,
    /// A key given twice.
    #[error("\"{0}\" is given twice")]
    Duplicate(String),
    /// A list, map or null as a key.
    #[error("a key must be text")]
    Key,
    /// A merge key whose value is not a map or a list of maps.
    #[error("'<<' wants a map or a list of maps")]
    Merge,
    /// A scalar that does not fit its tag.
    #[error("the value does not fit its tag")]
    Tag,
    /// Something our own files may not use.
    #[error("{0} are not allowed in this file; write the values out")]
    Feature(&'static str),
    /// A member that does not exist.
    #[error("unknown member \"{0}\"")]
    Unknown(String),
    /// A scalar that must be quoted (or written differently) to mean one thing to all readers.
    #[error("Go reads {raw} as {reading}; write {better}")]
    Unquoted {
        /// The scalar as written.
        raw: String,
        /// What Go makes of it.
        reading: String,
        /// How to write it instead.
        better: String,
    },
    /// There is no document at all.
    #[error("the file is empty")]
    NoDocument,
    /// Text is wanted and there is nothing.
    #[error("there is no value: write \"\" or leave the member out")]
    Empty,
    /// A value of another type is wanted.
    #[error("{wanted} is wanted, not {found}")]
    Type {
        /// What is wanted.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// What the type being read says.
    #[error("{0}")]
    Other(String),
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for YamlError {}

impl Classify for YamlError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn place(&self) -> Option<String> {
        self.line.map(|line| format!("line {line}"))
    }

    fn hint(&self) -> Option<String> {
        match self.problem.as_ref() {
            Problem::Unquoted { better, .. } => Some(format!("write {better}")),
            Problem::Encoding => Some("save the file as UTF-8".to_owned()),
            _ => None,
        }
    }
}

/// An error on its way out: the place is an offset, the path is built while it rises.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) at: Option<u32>,
    /// Innermost first.
    path: Vec<String>,
    problem: Box<Problem>,
}

impl Fault {
    pub(super) fn new(at: u32, problem: Problem) -> Fault {
        Fault {
            at: Some(at),
            path: Vec::new(),
            problem: Box::new(problem),
        }
    }

    /// The same fault seen from the member or element it lies in.
    pub(super) fn under(mut self, segment: impl fmt::Display, at: u32) -> Fault {
        self.at.get_or_insert(at);
        self.path.push(shown(&segment.to_string()));
        self
    }

    /// The error for a reader of `text`.
    pub(super) fn into_error(self, text: &str) -> YamlError {
        let line = self.at.map(|at| {
            let end = (at as usize).min(text.len());
            1 + text.as_bytes()[..end]
                .iter()
                .filter(|b| **b == b'\n')
                .count()
        });
        let mut path = String::new();
        for segment in self.path.iter().rev() {
            if !path.is_empty() && !segment.starts_with('[') {
                path.push('.');
            }
            path.push_str(segment);
        }
        YamlError {
            line,
            path,
            problem: self.problem,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Fault {
        Fault {
            at: None,
            path: Vec::new(),
            problem: Box::new(Problem::Other(message.to_string())),
        }
    }

    fn invalid_type(found: serde::de::Unexpected<'_>, wanted: &dyn serde::de::Expected) -> Fault {
        Fault {
            at: None,
            path: Vec::new(),
            problem: Box::new(Problem::Type {
                wanted: wanted.to_string(),
                found: shown(&found.to_string()),
            }),
        }
    }

    fn invalid_value(found: serde::de::Unexpected<'_>, wanted: &dyn serde::de::Expected) -> Fault {
        Fault::invalid_type(found, wanted)
    }

    fn unknown_field(field: &str, _expected: &'static [&'static str]) -> Fault {
        Fault {
            at: None,
            path: Vec::new(),
            problem: Box::new(Problem::Unknown(shown(field))),
        }
    }
}

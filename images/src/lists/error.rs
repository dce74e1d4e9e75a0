//! What is wrong with a list.

use std::fmt;

use kubepkg_core::error::{Classify, Kind, shown};

/// How many faults are told with their lines: enough to mend a file by, and to fit a screen.
pub(super) const MAX_FAULTS: usize = 20;

/// How many different advices a hint gives.
const MAX_ADVICES: usize = 3;

/// One thing that is wrong with a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; `None` where it concerns the whole.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
    /// What can be done.
    pub advice: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// A list that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListError {
    /// What the file is called.
    pub name: String,
    /// What is wrong, in the order of the text, up to a bound; never empty.
    pub faults: Vec<Fault>,
    /// How many more there are.
    pub more: usize,
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.faults.len() + self.more;
        if count > 1 {
            write!(f, "{count} places of the list cannot be taken: ")?;
        }
        for (number, fault) in self.faults.iter().enumerate() {
            let separator = if number > 0 { "; " } else { "" };
            write!(f, "{separator}{fault}")?;
        }
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        write!(f, ": {}", shown(&self.name))
    }
}

impl std::error::Error for ListError {}

impl Classify for ListError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn place(&self) -> Option<String> {
        Some(shown(&self.name))
    }

    fn hint(&self) -> Option<String> {
        let mut advices: Vec<&str> = Vec::new();
        for fault in &self.faults {
            let advice = fault.advice.as_str();
            if !advices.contains(&advice) && advices.len() < MAX_ADVICES {
                advices.push(advice);
            }
        }
        Some(advices.join("; "))
    }
}

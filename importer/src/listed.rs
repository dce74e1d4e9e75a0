//! Problems in one message.

use std::fmt;

/// How many problems a message names.
const SHOWN: usize = 20;

/// Writes the first of `problems`, and how many more there are.
pub fn write(f: &mut fmt::Formatter<'_>, problems: &[impl fmt::Display]) -> fmt::Result {
    for (n, problem) in problems.iter().take(SHOWN).enumerate() {
        if n > 0 {
            f.write_str("; ")?;
        }
        problem.fmt(f)?;
    }
    match problems.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => write!(f, "; and {more} more"),
    }
}

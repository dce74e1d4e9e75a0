//! The index of a Helm repository as it comes in: cut into the sections of its charts, so that
//! an index of a hundred megabytes never stands in memory.
//!
//! Indexes are written by tools, in block style: `entries:`, below it one key for each chart,
//! below that its versions. A line as far left as the first of these keys can only be another
//! one, for all that belongs to a chart lies further right or begins with a dash. Each
//! section is then read by the general reader, as are the few lines around `entries`. Whatever
//! looks different (flow style, several documents, tabs) is [`Odd`], and has to be read as a
//! whole.

/// The index is not written as tools write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Odd;

/// Longest section: the charts with the most versions have some 10 MiB.
const MAX_SECTION: usize = 32 << 20;

/// What a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before `entries`, or behind it.
    Outside,
    /// Below `entries`, before the first chart.
    Entries,
    /// In the section of a chart, whose key stands at this column.
    Chart(usize),
}

/// Cuts an index into sections.
pub(super) struct Splitter<F> {
    place: Place,
    /// A line that has not ended.
    line: Vec<u8>,
    section: Vec<u8>,
    had_entries: bool,
    /// Whether anything came yet: a document begins before it, never behind it.
    begun: bool,
    take: F,
}

impl<F: FnMut(&[u8]) -> Result<(), Odd>> Splitter<F> {
    /// `take` gets the section of each chart, with its key.
    pub(super) fn new(take: F) -> Splitter<F> {
        Splitter {
            place: Place::Outside,
            line: Vec::new(),
            section: Vec::new(),
            had_entries: false,
            begun: false,
            take,
        }
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Odd> {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.line.is_empty() {
                self.line_of(line)?;
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.line_of(&whole)?;
                whole.clear();
                self.line = whole;
            }
        }
        if self.line.len() + bytes.len() > MAX_SECTION {
            return Err(Odd);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// The index is at its end.
    pub(super) fn finish(mut self) -> Result<(), Odd> {
        if !self.line.is_empty() {
            let mut line = std::mem::take(&mut self.line);
            line.push(b'\n');
            self.line_of(&line)?;
        }
        self.end_of_section()?;
        match self.had_entries {
            true => Ok(()),
            false => Err(Odd),
        }
    }

    fn line_of(&mut self, line: &[u8]) -> Result<(), Odd> {
        let column = line.iter().take_while(|b| **b == b' ').count();
        let text = line[column..].trim_ascii_end();
        // an empty line or a comment belongs to whatever is around it
        if text.is_empty() || text[0] == b'#' {
            return self.keep(line);
        }
        if text == b"---" && column == 0 && !self.begun {
            self.begun = true;
            return Ok(());
        }
        self.begun = true;
        if text[0] == b'\t' || text.starts_with(b"---") || text == b"..." {
            return Err(Odd);
        }
        if column == 0 {
            return self.top(text);
        }
        match self.place {
            Place::Outside => Ok(()),
            Place::Entries => {
                self.place = Place::Chart(column);
                self.key(line, text)
            }
            Place::Chart(key) if column == key && text[0] != b'-' => {
                self.end_of_section()?;
                self.key(line, text)
            }
            Place::Chart(key) if column < key => Err(Odd),
            Place::Chart(_) => self.keep(line),
        }
    }

    /// A line that begins at the left.
    fn top(&mut self, text: &[u8]) -> Result<(), Odd> {
        self.end_of_section()?;
        self.place = Place::Outside;
        match text {
            b"entries:" if self.had_entries => Err(Odd),
            b"entries:" => {
                self.had_entries = true;
                self.place = Place::Entries;
                Ok(())
            }
            b"entries: {}" if !self.had_entries => {
                self.had_entries = true;
                Ok(())
            }
            text if text.starts_with(b"entries") => Err(Odd),
            // what else there is must be what it looks like: a name and a value on one line
            text if plain_member(text) => Ok(()),
            _ => Err(Odd),
        }
    }

    /// The key of a chart: a name, with nothing behind its colon.
    fn key(&mut self, line: &[u8], text: &[u8]) -> Result<(), Odd> {
        match text.strip_suffix(b":") {
            Some(name) if is_name(name) => self.keep(line),
            _ => Err(Odd),
        }
    }

    fn keep(&mut self, line: &[u8]) -> Result<(), Odd> {
        if !matches!(self.place, Place::Chart(_)) {
            return Ok(());
        }
        if self.section.len() + line.len() > MAX_SECTION {
            return Err(Odd);
        }
        self.section.extend_from_slice(line);
        Ok(())
    }

    fn end_of_section(&mut self) -> Result<(), Odd> {
        if self.section.is_empty() {
            return Ok(());
        }
        (self.take)(&self.section)?;
        self.section.clear();
        Ok(())
    }
}

/// `name: value` with a value that ends on its line.
fn plain_member(text: &[u8]) -> bool {
    let end = text
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric())
        .count();
    let value = text[end..].strip_prefix(b":").map(<[u8]>::trim_ascii);
    end > 0
        && value.is_some_and(|value| {
            let first = value.first().copied().unwrap_or(b' ');
            let quoted = matches!(first, b'"' | b'\'');
            let closed = value.len() > 1 && value.last() == Some(&first);
            (quoted && closed) || !b"\"'{[|>&*!%@`".contains(&first)
        })
}

/// What charts are called, and what needs no quotes as a key.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, step: usize) -> Result<Vec<String>, Odd> {
        let mut sections = Vec::new();
        let mut splitter = Splitter::new(|section: &[u8]| {
            sections.push(String::from_utf8_lossy(section).into_owned());
            Ok(())
        });
        for chunk in text.as_bytes().chunks(step) {
            splitter.push(chunk)?;
        }
        splitter.finish()?;
        Ok(sections)
    }

    const INDEX: &str = "---\napiVersion: v1\nentries:\n  web:\n  - version: 1.0.0\n    urls:\n    \
                         - a.tgz\n    description: |\n      x:\n\n      y\n  # between\n  db:\n    \
                         - version: 2\ngenerated: \"2026-01-01T00:00:00Z\"\n";

    #[test]
    fn sections_whatever_the_pieces_are() {
        for step in [1, 2, 7, 1000] {
            let sections = split(INDEX, step).unwrap();
            assert_eq!(sections.len(), 2, "{sections:?}");
            assert!(sections[0].starts_with("  web:\n") && sections[0].contains("      y\n"));
            assert_eq!(sections[1], "  db:\n    - version: 2\n");
        }
        assert!(split("entries: {}\n", 3).unwrap().is_empty());
        assert!(split("entries:\n", 3).unwrap().is_empty());
        // no line end at the end
        assert_eq!(split("entries:\n  a:\n  - x: 1", 4).unwrap().len(), 1);
    }

    #[test]
    fn what_looks_different_is_left_to_the_general_reader() {
        for odd in [
            "",
            "{\"entries\": {}}",
            "entries: {web: []}\n",
            "entries:\n  web: []\n",
            "entries:\n  \"web\":\n  - x: 1\n",
            "entries:\n  web:\n  - x: 1\n---\nentries:\n",
            "entries:\n  web:\n  - x: 1\nentries:\n  db:\n",
            "entries:\n    web:\n    - x: 1\n  db:\n  - x: 1\n",
            "text: \"begins\nentries:\n  web:\n  ends\"\n",
            "entries:\n\tweb:\n",
            "note: |\n  text\nentries:\n  web:\n  - x: 1\n",
            "entries: &a\n  web:\n",
            "apiVersion: v1\n---\nentries:\n  web:\n  - x: 1\n",
        ] {
            assert_eq!(split(odd, 5), Err(Odd), "{odd:?}");
        }
    }
}

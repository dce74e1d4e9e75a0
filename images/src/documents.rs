//! A text as documents, each read on its own: one that cannot be read does not take the others
//! with it.

use kubepkg_core::error::shown;
use kubepkg_core::yaml::{Limits, Node, go};
use serde::Serialize;

/// Bounds of one document: far above any object, and no document may fill the memory.
pub(crate) const LIMITS: Limits = Limits {
    bytes: 64 * 1024 * 1024,
    depth: 128,
    nodes: 2_000_000,
    expansion: 4 * 1024 * 1024,
};

/// A document that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The file, or the template of a chart.
    pub source: String,
    /// Line of the text it stands on, from 1.
    pub line: usize,
    /// Why.
    pub why: String,
}

/// One document of a text.
pub(crate) struct Document<'t> {
    /// The template it was rendered from, where Helm says so.
    pub(crate) template: Option<&'t str>,
    /// Line of the text it begins on, from 1.
    pub(crate) line: usize,
    pub(crate) text: &'t str,
}

/// How Helm says where a document comes from.
const SOURCE: &str = "# Source: ";

/// The documents of `text`, those without content left out. A line of three dashes is the end of a
/// document in any state of the reader, so the text can be cut there.
pub(crate) fn split(text: &str) -> Vec<Document<'_>> {
    let mut found = Vec::new();
    let mut begin = 0;
    let mut line = 1;
    let mut at = 0;
    for (number, next) in (1..).zip(text.split_inclusive('\n')) {
        let separates = next
            .strip_prefix("---")
            .is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with([' ', '\t']));
        if separates {
            found.push((line, &text[begin..at]));
            // what stands behind the dashes belongs to the next document
            begin = at + 3;
            line = number;
        }
        at += next.len();
    }
    found.push((line, &text[begin..]));
    let with_content = |text: &str| {
        text.lines()
            .map(str::trim)
            .any(|line| !line.is_empty() && !line.starts_with('#'))
    };
    found
        .into_iter()
        .filter(|(_, text)| with_content(text))
        .map(|(line, text)| Document {
            template: text
                .lines()
                .take_while(|line| line.trim().is_empty() || line.starts_with('#'))
                .find_map(|line| line.strip_prefix(SOURCE))
                .map(str::trim),
            line,
            text,
        })
        .collect()
}

impl Document<'_> {
    /// The value of this document, or the values: a line of three dots ends one as well.
    /// `source` is the text it is from.
    pub(crate) fn read(&self, source: &str) -> Result<Vec<Node<'static>>, Unread> {
        go::parse_all(self.text.as_bytes(), &LIMITS).map_err(|mut error| Unread {
            line: self.line + error.line.take().unwrap_or(1) - 1,
            source: self.template.unwrap_or(source).to_owned(),
            why: shown(&error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_cut_at_dashes_and_know_their_line() {
        let text = "# a comment\n---\n# Source: web/templates/a.yaml\na: 1\n---\n---\nb: |\n  ---\n  x\n--- {c: 1}\n----\n";
        let documents = split(text);
        let told: Vec<_> = documents.iter().map(|d| (d.template, d.line)).collect();
        assert_eq!(
            told,
            [(Some("web/templates/a.yaml"), 2), (None, 6), (None, 10)]
        );
        assert!(documents[1].text.contains("  ---"));
    }

    #[test]
    fn an_error_names_the_line_of_the_whole_text() {
        let text = "a: 1\n---\nb: 2\nc: [\n---\nd: 4\n";
        let documents = split(text);
        assert_eq!(documents.len(), 3);
        let unread = documents[1].read("x.yaml").unwrap_err();
        assert_eq!(unread.source, "x.yaml");
        assert!((3..=4).contains(&unread.line), "{unread:?}");
        assert!(documents[2].read("x.yaml").is_ok());
    }
}

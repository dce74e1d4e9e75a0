//! The value tree all readers build.

use std::borrow::Cow;

use super::scalar::go_float_text;

/// A value and where it stands in the text (byte offset). What the text has as it is may be
/// borrowed from there.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<'a> {
    pub(super) at: u32,
    /// The value.
    pub value: Value<'a>,
}

/// A value. Integers, floats, text, booleans and null are kept apart as Go's resolver does.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// An integer above `i64::MAX`.
    Uint(u64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Node<'a>>),
    /// A map, sorted by key, each key once.
    Map(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// A value that stands at this byte of its text.
    pub(crate) fn new(at: usize, value: Value<'a>) -> Node<'a> {
        // No text that is read is so long.
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        Node { at, value }
    }

    /// The byte of the text at which this value begins; for an alias, where the alias stands.
    pub fn offset(&self) -> usize {
        self.at as usize
    }

    /// The member of this map whose name is `name` without regard to case, as Go finds
    /// members: of several spellings the last in byte order.
    pub fn member(&self, name: &str) -> Option<&Node<'a>> {
        let Value::Map(entries) = &self.value else {
            return None;
        };
        let mut found = entries.iter().rev().filter(|(key, _)| fold_eq(key, name));
        found.next().map(|(_, node)| node)
    }

    /// The text this scalar is where text is wanted (Go's rule: numbers and booleans are
    /// written out, null is empty). `None` for lists and maps.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        Some(match &self.value {
            Value::Text(text) => Cow::Borrowed(&**text),
            Value::Null => Cow::Borrowed(""),
            Value::Bool(true) => Cow::Borrowed("true"),
            Value::Bool(false) => Cow::Borrowed("false"),
            Value::Int(n) => Cow::Owned(n.to_string()),
            Value::Uint(n) => Cow::Owned(n.to_string()),
            Value::Float(f) => Cow::Owned(go_float_text(*f)),
            Value::List(_) | Value::Map(_) => return None,
        })
    }

    /// What kind of value this is, for messages.
    pub(super) fn found(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::Uint(_) | Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// The memory this value takes, about; stops counting beyond `limit`.
    pub(super) fn weight(&self, limit: usize) -> usize {
        let own = size_of::<Node>();
        match &self.value {
            Value::Text(text) => own + text.len(),
            Value::List(items) => items.iter().fold(own, |sum, item| {
                if sum > limit {
                    sum
                } else {
                    sum + item.weight(limit - sum)
                }
            }),
            Value::Map(entries) => entries.iter().fold(own, |sum, (key, node)| {
                if sum > limit {
                    sum
                } else {
                    sum + size_of::<String>() + key.len() + node.weight(limit - sum)
                }
            }),
            _ => own,
        }
    }

    /// Levels of lists and maps in this value.
    pub(super) fn height(&self) -> usize {
        match &self.value {
            Value::List(items) => 1 + items.iter().map(Node::height).max().unwrap_or(0),
            Value::Map(entries) => 1 + entries.iter().map(|(_, n)| n.height()).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// Whether `key` is `name` as Go's JSON decoder compares: simple case folding, under which
/// `ſ` is an `s` and the Kelvin sign a `k`. `name` is ASCII.
pub(crate) fn fold_eq(key: &str, name: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars()
        .map(fold)
        .eq(name.chars().map(|c| c.to_ascii_lowercase()))
}

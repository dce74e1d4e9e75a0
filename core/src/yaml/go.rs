//! Reading as Go does: what others published and signed.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use super::de::{De, Notes, Policy};
use super::error::{Fault, Problem, YamlError};
use super::node::{Node, Value};
use super::tree::{Flaws, Limits, Reader, Tree, decode};

/// The first document of a text, and the text for the lines of errors.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    text: Cow<'a, str>,
    root: Node<'static>,
    flaws: Flaws,
}

/// What a type was read from, and what Go's decoder passed over.
#[derive(Clone, Debug)]
pub struct Decoded<T> {
    /// The value.
    pub value: T,
    /// Members the type does not have (the first 32).
    pub unknown: Vec<String>,
    /// Members given in two spellings, e.g. `version` and `Version` (the first 32).
    pub doubled: Vec<String>,
}

/// Reads the first document of `bytes`; an empty text is null. Of a key given twice the last
/// value counts.
pub fn parse(bytes: &[u8]) -> Result<Node<'static>, YamlError> {
    Document::read(bytes, &Limits::default()).map(|document| document.root)
}

/// Reads all documents of `bytes`, to the end of the text; empty ones are null.
pub fn parse_all(bytes: &[u8], limits: &Limits) -> Result<Vec<Node<'static>>, YamlError> {
    let text = decode(bytes, limits)?;
    let mut reader = Reader::new(&text, limits);
    let mut roots = Vec::new();
    while let Some(tree) = reader.next()? {
        roots.push(tree.root);
    }
    reader.finish()?;
    Ok(roots)
}

impl<'a> Document<'a> {
    /// Reads the first document of `bytes`; an empty text is null. Of a key given twice the
    /// last value counts.
    pub fn read(bytes: &'a [u8], limits: &Limits) -> Result<Document<'a>, YamlError> {
        let text = decode(bytes, limits)?;
        let mut reader = Reader::new(&text, limits);
        let tree = reader.next()?.unwrap_or_else(|| Tree {
            root: Node {
                at: 0,
                value: Value::Null,
            },
            line: 1,
            flaws: Flaws::default(),
        });
        reader.finish()?;
        let Tree { root, flaws, .. } = tree;
        Ok(Document { text, root, flaws })
    }

    /// Like [`Document::read`], for what a signature vouches for: a key given twice is
    /// refused, so that the bytes say one thing to every reader.
    pub fn read_signed(bytes: &'a [u8], limits: &Limits) -> Result<Document<'a>, YamlError> {
        let document = Document::read(bytes, limits)?;
        match &document.flaws.duplicate {
            Some((at, key)) => {
                let fault = Fault::new(*at, Problem::Duplicate(key.clone()));
                Err(fault.into_error(&document.text))
            }
            None => Ok(document),
        }
    }

    /// The value.
    pub fn root(&self) -> &Node<'static> {
        &self.root
    }

    /// The text, for reading types from nodes of this document.
    pub fn text(&self) -> Text<'_> {
        Text(&self.text)
    }

    /// [`Text::decode`] for a part of this document.
    pub fn decode<T: DeserializeOwned>(&self, node: &Node<'_>) -> Result<Decoded<T>, YamlError> {
        self.text().decode(node)
    }
}

/// The text that nodes were read from.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    pub(crate) fn new(text: &'a str) -> Text<'a> {
        Text(text)
    }

    /// The line `node` begins on.
    pub fn line(self, node: &Node<'_>) -> usize {
        let error = Fault::new(node.at, Problem::Empty).into_error(self.0);
        error.line.unwrap_or(1)
    }

    /// Reads a type from `node` as Go's JSON decoder does: names without regard to case,
    /// numbers and booleans as text where text is wanted, null as the zero value, unknown
    /// members passed over (and reported).
    pub fn decode<T: DeserializeOwned>(self, node: &Node<'_>) -> Result<Decoded<T>, YamlError> {
        let notes = Notes::default();
        let policy = Policy::Go(&notes);
        let de = De {
            node,
            policy: &policy,
        };
        let value = T::deserialize(de).map_err(|fault| fault.into_error(self.0))?;
        Ok(Decoded {
            value,
            unknown: notes.unknown.into_inner(),
            doubled: notes.doubled.into_inner(),
        })
    }

    /// The error that `node`, the member `name`, is not what is wanted.
    pub fn wrong(self, node: &Node<'_>, name: &str, wanted: &str) -> YamlError {
        let problem = Problem::Type {
            wanted: wanted.to_owned(),
            found: node.found().to_owned(),
        };
        let fault = Fault::new(node.at, problem);
        fault.under(name, node.at).into_error(self.0)
    }

    /// The error that the map `node` gives one member in two spellings.
    pub fn doubled(self, node: &Node<'_>, name: &str) -> YamlError {
        let fault = Fault::new(node.at, Problem::Duplicate(name.to_owned()));
        fault.into_error(self.0)
    }
}

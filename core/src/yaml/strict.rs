//! Reading files that people write for us: everything means one thing, or it is an error.

use serde::de::DeserializeOwned;

use super::de::{De, Policy};
use super::error::{Fault, Problem, YamlError, shown};
use super::node::{Node, Value};
use super::tree::{Limits, Reader, Tree, decode};

/// One document of a file, parsed but not yet judged: a file may hold documents that are
/// none of our business beside ours.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    text: &'a str,
    tree: Tree,
}

/// Reads the one document of `text` as a `T`.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    from_str_within(text, &Limits::default())
}

/// [`from_str`] with other limits.
pub fn from_str_within<T: DeserializeOwned>(text: &str, limits: &Limits) -> Result<T, YamlError> {
    let text = decode(text.as_bytes(), limits)?;
    let mut reader = Reader::new(&text, limits);
    let Some(first) = reader.next()? else {
        return Err(YamlError {
            line: None,
            path: String::new(),
            problem: Box::new(Problem::NoDocument),
        });
    };
    if let Some(second) = reader.next()? {
        let problem = Problem::Other("only one document is wanted here".to_owned());
        return Err(Fault::new(second.root.at, problem).into_error(&text));
    }
    reader.finish()?;
    let document = Document {
        text: &text,
        tree: first,
    };
    document.read()
}

/// The documents of `text`, empty ones left out.
pub fn documents<'a>(text: &'a str, limits: &Limits) -> Result<Vec<Document<'a>>, YamlError> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    // What is decoded from UTF-8 text is that text.
    decode(text.as_bytes(), limits)?;
    let mut reader = Reader::new(text, limits);
    let mut found = Vec::new();
    while let Some(tree) = reader.next()? {
        if tree.root.value != Value::Null {
            found.push(Document { text, tree });
        }
    }
    reader.finish()?;
    Ok(found)
}

impl Document<'_> {
    /// The value of the top-level member `kind`, where it is text.
    pub fn kind(&self) -> Option<&str> {
        match &self.tree.root.member("kind")?.value {
            Value::Text(kind) => Some(kind),
            _ => None,
        }
    }

    /// The line this document begins on.
    pub fn line(&self) -> usize {
        self.tree.line
    }

    /// The value tree, unjudged.
    pub fn root(&self) -> &Node<'static> {
        &self.tree.root
    }

    /// The error that a key is given twice, where one is: for readers that otherwise take
    /// documents as their authors' tools do.
    pub fn duplicate(&self) -> Option<YamlError> {
        let (at, key) = self.tree.flaws.duplicate.as_ref()?;
        let fault = Fault::new(*at, Problem::Duplicate(key.clone()));
        Some(fault.into_error(self.text))
    }

    /// Reads a `T`, refusing whatever readers could disagree on.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, YamlError> {
        self.flaw()
            .map_or(Ok(()), Err)
            .and_then(|()| {
                let policy = Policy::Strict(self.text);
                T::deserialize(De {
                    node: &self.tree.root,
                    policy: &policy,
                })
            })
            .map_err(|fault| fault.into_error(self.text))
    }

    fn flaw(&self) -> Option<Fault> {
        let flaws = &self.tree.flaws;
        if let Some((at, key)) = &flaws.duplicate {
            return Some(Fault::new(*at, Problem::Duplicate(key.clone())));
        }
        for (at, feature) in [
            (flaws.anchor, "anchors and aliases"),
            (flaws.merge, "merge keys"),
            (flaws.tag, "tags"),
        ] {
            if let Some(at) = at {
                return Some(Fault::new(at, Problem::Feature(feature)));
            }
        }
        let (at, raw, reading) = flaws.key.as_ref()?;
        let raw = shown(raw);
        Some(Fault::new(
            *at,
            Problem::Unquoted {
                better: format!("\"{raw}\""),
                raw,
                reading: reading.clone(),
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct Settings {
        name: String,
        count: u8,
        on: Option<bool>,
        mode: Option<Mode>,
        more: BTreeMap<String, Vec<String>>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        Fast,
        Limit(u32),
    }

    fn error(text: &str) -> String {
        from_str::<Settings>(text).unwrap_err().to_string()
    }

    #[test]
    fn reads_what_is_plain() {
        let text =
            "name: \"1.10\"\ncount: 3\n\"on\": true\nmode: {limit: 5}\nmore:\n  a: [b]\n  c:\n";
        let read: Settings = from_str(text).unwrap();
        assert_eq!(
            (read.name.as_str(), read.count, read.on),
            ("1.10", 3, Some(true))
        );
        assert_eq!(read.mode, Some(Mode::Limit(5)));
        assert_eq!((read.more["a"].len(), read.more["c"].len()), (1, 0));
        let fast: Settings = from_str("mode: fast\n").unwrap();
        assert_eq!(fast.mode, Some(Mode::Fast));
    }

    #[test]
    fn an_unjudged_document_tells_a_key_that_is_given_twice() {
        let text = "a: 1\n---\nb:\n  c: 1\n  d: 2\n  c: 3\n";
        let documents = documents(text, &Limits::default()).unwrap();
        assert_eq!(documents[0].duplicate(), None);
        let error = documents[1].duplicate().unwrap();
        assert_eq!(error.to_string(), "line 6: \"c\" is given twice");
        let inner = documents[1].root().member("b").unwrap();
        let inner = inner.member("d").unwrap();
        assert_eq!(&text[inner.offset()..=inner.offset()], "2");
    }

    #[test]
    fn says_line_member_and_remedy() {
        for (text, want) in [
            (
                "\nname: 1.10",
                "line 2: name: Go reads 1.10 as 1.1; write \"1.10\"",
            ),
            (
                "name: ~",
                "line 1: name: Go reads ~ as nothing; write \"~\"",
            ),
            (
                "name:",
                "line 1: name: there is no value: write \"\" or leave the member out",
            ),
            (
                "count: 010",
                "line 1: count: Go reads 010 as 8; write 8, or \"010\" if text is meant",
            ),
            (
                "\"on\": no",
                "line 1: on: Go reads no as false; write false, or \"no\" if text is meant",
            ),
            ("on: true", "line 1: Go reads on as true; write \"on\""),
            ("{a: 1}", "line 1: unknown member \"a\""),
            ("name: [x]", "line 1: name: text is wanted, not a list"),
            (
                "more: {a: [x, {}]}",
                "line 1: more.a[1]: text is wanted, not a map",
            ),
            (
                "name: a\n---\nname: b",
                "line 3: only one document is wanted here",
            ),
            (
                "name: !!str a",
                "line 1: tags are not allowed in this file; write the values out",
            ),
        ] {
            assert_eq!(error(text), want, "{text}");
        }
        assert!(error("count: 300").starts_with("line 1: count: "));
    }
}

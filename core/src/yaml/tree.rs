//! From text to value trees: the parser's events, anchors, merge keys, bounds.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use super::error::{Fault, Problem, YamlError, shown};
use super::node::{Node, Value};
use super::scalar::{go_float_text, resolve};

/// How much of a document is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of text.
    pub bytes: usize,
    /// Lists and maps within each other.
    pub depth: usize,
    /// Values in one document.
    pub nodes: usize,
    /// Bytes of memory that anchors and aliases may add together.
    pub expansion: usize,
}

impl Default for Limits {
    /// What a file of one repository or a configuration file can need, with room.
    fn default() -> Limits {
        Limits {
            bytes: 512 * 1024 * 1024,
            // An index has eleven levels.
            depth: 128,
            // About one per 25 bytes of the largest index.
            nodes: 20_000_000,
            expansion: 32 * 1024 * 1024,
        }
    }
}

/// What a document holds that a stricter reader refuses: the first of each, with its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Flaws {
    pub(super) duplicate: Option<(u32, String)>,
    pub(super) key: Option<(u32, String, String)>,
    pub(super) anchor: Option<u32>,
    pub(super) merge: Option<u32>,
    pub(super) tag: Option<u32>,
}

/// One document of a text.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) root: Node<'static>,
    /// Line the root begins on, from 1.
    pub(super) line: usize,
    pub(super) flaws: Flaws,
}

/// The text of a file: UTF-8, or UTF-16 with a byte order mark; without the mark.
pub(super) fn decode<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Cow<'a, str>, YamlError> {
    let whole = |problem| YamlError {
        line: None,
        path: String::new(),
        problem: Box::new(problem),
    };
    if bytes.len() > limits.bytes {
        return Err(whole(Problem::TooLong(limits.bytes)));
    }
    let wide = |big: bool| -> Result<Cow<'a, str>, YamlError> {
        let units = bytes[2..].chunks(2).map(|pair| match pair {
            [a, b] if big => u16::from_be_bytes([*a, *b]),
            [a, b] => u16::from_le_bytes([*a, *b]),
            // half a unit: a lone surrogate is refused below
            _ => 0xD800,
        });
        let text: Result<String, _> = char::decode_utf16(units).collect();
        text.map(Into::into).map_err(|_| whole(Problem::Encoding))
    };
    let text = match bytes {
        [0xFF, 0xFE, ..] => wide(false)?,
        [0xFE, 0xFF, ..] => wide(true)?,
        _ => {
            let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
            let text = str::from_utf8(bytes).map_err(|error| {
                Fault::new(0, Problem::Encoding)
                    .at(error.valid_up_to())
                    .into_error(&String::from_utf8_lossy(&bytes[..error.valid_up_to()]))
            })?;
            text.into()
        }
    };
    match first_forbidden(&text) {
        Some((at, c)) => Err(Fault::new(0, Problem::Character(c))
            .at(at)
            .into_error(&text)),
        None => Ok(text),
    }
}

/// The first character that YAML 1.1 does not allow in a text, or that ends a line for it
/// and not for YAML 1.2 (NEL).
fn first_forbidden(text: &str) -> Option<(usize, u32)> {
    let forbidden = |c: char| match c {
        '\t' | '\n' | '\r' | ' '..='~' => false,
        '\u{A0}'..='\u{FFFD}' => false,
        c => c < '\u{10000}',
    };
    // Bytes first: nearly every text is printable ASCII throughout.
    let plain = |b: &u8| matches!(b, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    if text.as_bytes().iter().all(plain) {
        return None;
    }
    text.char_indices()
        .find(|(_, c)| forbidden(*c))
        .map(|(at, c)| (at, u32::from(c)))
}

/// U+2028 and U+2029 end a line in YAML 1.1 only.
pub(super) fn line_separators(text: &str) -> usize {
    text.matches(['\u{2028}', '\u{2029}']).count()
}

/// Key and value of the members of a map.
type Entries = Vec<(Cow<'static, str>, Node<'static>)>;

/// Where a finished value goes.
enum Frame {
    List {
        at: u32,
        anchor: usize,
        items: Vec<Node<'static>>,
    },
    Map {
        at: u32,
        anchor: usize,
        entries: Entries,
        key: Option<Key>,
    },
}

enum Key {
    Name(String),
    Merge(u32),
}

/// Reads the documents of a text one after the other.
pub(super) struct Reader<'a> {
    text: &'a str,
    limits: Limits,
    events: Parser<'a, StrInput<'a>>,
    separators: usize,
    nodes: usize,
    expansion: usize,
    anchors: HashMap<usize, Node<'static>>,
    stack: Vec<Frame>,
    flaws: Flaws,
    root: Option<Node<'static>>,
    line: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, limits: &Limits) -> Reader<'a> {
        let mut options = granit_parser::options! {
            // Go refuses "%YAML 1.2" and unknown ones; nobody needs them here.
            disallow_directives: true,
            bom_inside_document_as_content: true,
            block_scalar_eof_without_line_feed: true,
            flow_nesting_limit: limits.depth,
            block_nesting_limit: limits.depth,
        };
        options.set_emit_comments(false);
        Reader {
            text,
            limits: *limits,
            events: Parser::new_from_str_with_options(text, options),
            separators: if text.is_ascii() {
                0
            } else {
                line_separators(text)
            },
            nodes: 0,
            expansion: 0,
            anchors: HashMap::new(),
            stack: Vec::new(),
            flaws: Flaws::default(),
            root: None,
            line: 1,
        }
    }

    /// The next document; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Tree>, YamlError> {
        self.document().map_err(|fault| fault.into_error(self.text))
    }

    /// To be called when nothing more is read: a raw U+2028 or U+2029 outside quotes would
    /// have ended a line, or a comment, for YAML 1.1.
    pub(super) fn finish(self) -> Result<(), YamlError> {
        if self.separators == 0 {
            return Ok(());
        }
        let at = self.text.find(['\u{2028}', '\u{2029}']).unwrap_or(0);
        Err(Fault::new(0, Problem::Character(0x2028))
            .at(at)
            .into_error(self.text))
    }

    fn document(&mut self) -> Result<Option<Tree>, Fault> {
        self.nodes = 0;
        self.expansion = 0;
        self.anchors.clear();
        while let Some(event) = self.events.next_event() {
            let (event, span) = event.map_err(|error| self.syntax(&error))?;
            let at = offset(&span);
            if self.stack.is_empty() && event.is_node() {
                self.line = span.start.line();
            }
            match event {
                Event::DocumentEnd => {
                    return Ok(Some(Tree {
                        root: self.root.take().unwrap_or(Node {
                            at,
                            value: Value::Null,
                        }),
                        line: self.line,
                        flaws: std::mem::take(&mut self.flaws),
                    }));
                }
                Event::StreamEnd => break,
                Event::Scalar(text, style, anchor, tag) => {
                    self.separators -= self.quoted_separators(style, &span);
                    let merge = style == ScalarStyle::Plain && tag.is_none() && text == "<<";
                    if merge && self.wants_key() {
                        self.set_key(Key::Merge(at));
                        continue;
                    }
                    let value = self.scalar(&text, style, tag.as_deref(), at)?;
                    self.finished(Node { at, value }, anchor)?;
                }
                Event::SequenceStart(_, anchor, tag) => {
                    self.open(tag.is_some(), at)?;
                    self.stack.push(Frame::List {
                        at,
                        anchor,
                        items: Vec::new(),
                    });
                }
                Event::MappingStart(_, anchor, tag) => {
                    self.open(tag.is_some(), at)?;
                    self.stack.push(Frame::Map {
                        at,
                        anchor,
                        entries: Vec::new(),
                        key: None,
                    });
                }
                Event::SequenceEnd | Event::MappingEnd => self.close()?,
                Event::Alias(id) => self.alias(id, at)?,
                _ => {}
            }
        }
        Ok(None)
    }

    fn syntax(&self, error: &granit_parser::ScanError) -> Fault {
        use granit_parser::ErrorKind;
        let at = error.marker().byte_offset().unwrap_or(0);
        let problem = match error.kind() {
            ErrorKind::RecursionLimitExceeded => Problem::TooDeep(self.limits.depth),
            ErrorKind::UnknownAnchor => Problem::Alias,
            _ => Problem::Syntax(shown(&error.info())),
        };
        Fault::new(0, problem).at(at)
    }

    fn quoted_separators(&self, style: ScalarStyle, span: &Span) -> usize {
        if self.separators == 0
            || !matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted)
        {
            return 0;
        }
        span.slice(self.text).map_or(0, line_separators)
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        at: u32,
    ) -> Result<Value<'static>, Fault> {
        const YAML: &str = "tag:yaml.org,2002:";
        let plain = style == ScalarStyle::Plain;
        let Some(tag) = tag else {
            return Ok(if plain {
                resolved(text)
            } else {
                Value::Text(text.to_owned().into())
            });
        };
        self.flaws.tag.get_or_insert(at);
        // The tag "!" makes libyaml forget the quotes.
        if tag.handle().is_empty() && tag.suffix() == "!"
            || tag.handle() == "!" && tag.suffix().is_empty()
        {
            return Ok(resolved(text));
        }
        let name = tag.suffix_in_namespace(YAML);
        let misfit = || Fault::new(at, Problem::Tag);
        match (name.as_deref(), resolved(text)) {
            (Some("binary"), _) => binary(text)
                .map(|text| Value::Text(text.into()))
                .ok_or_else(misfit),
            (Some("int"), value @ (Value::Int(_) | Value::Uint(_)))
            | (Some("float"), value @ Value::Float(_))
            | (Some("bool"), value @ Value::Bool(_))
            | (Some("null"), value @ Value::Null) => Ok(value),
            #[expect(clippy::cast_precision_loss, reason = "as Go converts")]
            (Some("float"), Value::Int(n)) => Ok(Value::Float(n as f64)),
            (Some("int" | "float" | "bool" | "null"), _) => Err(misfit()),
            _ => Ok(Value::Text(text.to_owned().into())),
        }
    }

    fn wants_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame::Map { key: None, .. }))
    }

    fn set_key(&mut self, new: Key) {
        if let Some(Frame::Map { key, .. }) = self.stack.last_mut() {
            *key = Some(new);
        }
    }

    /// Counts one value against the limit.
    fn count(&mut self, at: u32) -> Result<(), Fault> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            return Err(Fault::new(at, Problem::TooManyNodes(self.limits.nodes)));
        }
        Ok(())
    }

    fn open(&mut self, tagged: bool, at: u32) -> Result<(), Fault> {
        if tagged {
            self.flaws.tag.get_or_insert(at);
        }
        if self.wants_key() {
            return Err(Fault::new(at, Problem::Key));
        }
        if self.stack.len() >= self.limits.depth {
            return Err(Fault::new(at, Problem::TooDeep(self.limits.depth)));
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        match self.stack.pop() {
            Some(Frame::List { at, anchor, items }) => {
                let value = Value::List(items);
                self.finished(Node { at, value }, anchor)
            }
            Some(Frame::Map {
                at,
                anchor,
                entries,
                ..
            }) => {
                let value = Value::Map(self.settle(entries));
                self.finished(Node { at, value }, anchor)
            }
            None => Ok(()),
        }
    }

    /// Sorts the entries of a map; of equal keys the last stays.
    fn settle(&mut self, mut entries: Entries) -> Entries {
        if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            let flaw = &mut self.flaws.duplicate;
            // `dedup_by` keeps the first of a run: move the later value there.
            entries.dedup_by(|later, first| {
                let same = later.0 == first.0;
                if same {
                    flaw.get_or_insert_with(|| (later.1.at, shown(&later.0)));
                    std::mem::swap(&mut later.1, &mut first.1);
                }
                same
            });
        }
        entries
    }

    fn spend(&mut self, node: &Node<'_>, at: u32) -> Result<(), Fault> {
        let left = self.limits.expansion.saturating_sub(self.expansion);
        let weight = node.weight(left);
        if weight > left {
            return Err(Fault::new(at, Problem::TooMuchExpansion));
        }
        self.expansion += weight;
        Ok(())
    }

    fn alias(&mut self, id: usize, at: u32) -> Result<(), Fault> {
        self.flaws.anchor.get_or_insert(at);
        // Absent while the anchored value is still open: it would contain itself.
        let Some(node) = self.anchors.get(&id) else {
            return Err(Fault::new(at, Problem::Alias));
        };
        let node = Node {
            at,
            value: node.value.clone(),
        };
        self.spend(&node, at)?;
        if self.stack.len() + node.height() > self.limits.depth {
            return Err(Fault::new(at, Problem::TooDeep(self.limits.depth)));
        }
        self.finished(node, 0)
    }

    /// Puts a complete value where it belongs.
    fn finished(&mut self, node: Node<'static>, anchor: usize) -> Result<(), Fault> {
        self.count(node.at)?;
        if anchor != 0 {
            self.flaws.anchor.get_or_insert(node.at);
            self.spend(&node, node.at)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Frame::List { items, .. }) => items.push(node),
            Some(Frame::Map { entries, key, .. }) => match key.take() {
                Some(Key::Name(name)) => entries.push((name.into(), node)),
                Some(Key::Merge(at)) => {
                    self.flaws.merge.get_or_insert(at);
                    merge(entries, node)?;
                }
                None => {
                    let name = self.key(&node)?;
                    self.set_key(Key::Name(name));
                }
            },
        }
        Ok(())
    }

    /// A key as text, as Go writes it.
    fn key(&mut self, node: &Node<'_>) -> Result<String, Fault> {
        let name = match &node.value {
            Value::Text(text) => return Ok(text.clone().into_owned()),
            Value::Bool(b) => b.to_string(),
            Value::Int(n) => n.to_string(),
            Value::Float(f) => match go_float_text(*f).as_str() {
                "+Inf" => ".inf".to_owned(),
                "-Inf" => "-.inf".to_owned(),
                "NaN" => ".nan".to_owned(),
                text => text.to_owned(),
            },
            Value::Uint(_) | Value::Null | Value::List(_) | Value::Map(_) => {
                return Err(Fault::new(node.at, Problem::Key));
            }
        };
        let text = self.text;
        self.flaws.key.get_or_insert_with(|| {
            let raw = raw_scalar(text, node.at).to_owned();
            (node.at, raw, name.clone())
        });
        Ok(name)
    }
}

/// Merges the value of `<<` into a map: later entries win over earlier ones, and in a list of
/// maps the first map wins.
fn merge(entries: &mut Entries, node: Node<'static>) -> Result<(), Fault> {
    match node.value {
        Value::Map(merged) => entries.extend(merged),
        Value::List(maps) => {
            for map in maps.into_iter().rev() {
                match map.value {
                    Value::Map(merged) => entries.extend(merged),
                    _ => return Err(Fault::new(map.at, Problem::Merge)),
                }
            }
        }
        _ => return Err(Fault::new(node.at, Problem::Merge)),
    }
    Ok(())
}

/// The text of a `!!binary`: what is not UTF-8 in it becomes U+FFFD byte by byte, as Go's
/// JSON encoder does.
fn binary(text: &str) -> Option<String> {
    use base64::Engine as _;
    let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(compact)
        .ok()?;
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Some(out)
}

/// What a plain scalar is, owned: the parser's texts do not outlive their event.
fn resolved(text: &str) -> Value<'static> {
    match resolve(text) {
        Value::Text(text) => Value::Text(text.into_owned().into()),
        Value::Null => Value::Null,
        Value::Bool(b) => Value::Bool(b),
        Value::Int(n) => Value::Int(n),
        Value::Uint(n) => Value::Uint(n),
        Value::Float(f) => Value::Float(f),
        // A scalar is neither.
        Value::List(_) | Value::Map(_) => Value::Null,
    }
}

fn offset(span: &Span) -> u32 {
    let at = span.byte_range().map_or(0, |range| range.start);
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// A scalar that means something else unquoted is short; more is not shown.
const MAX_RAW: usize = 80;

/// The plain scalar that stands at `at` in the text, for messages.
pub(super) fn raw_scalar(text: &str, at: u32) -> &str {
    let rest = text.get(at as usize..).unwrap_or_default();
    let rest = &rest[..rest.floor_char_boundary(MAX_RAW)];
    let mut end = rest.len();
    for stop in ["\n", "\r", " #", "\t#", ", ", "]", "}", ": "] {
        end = rest.find(stop).map_or(end, |found| found.min(end));
    }
    rest[..end]
        .trim_end()
        .trim_end_matches(',')
        .trim_end_matches(':')
}

impl Fault {
    fn at(mut self, at: usize) -> Fault {
        self.at = Some(u32::try_from(at).unwrap_or(u32::MAX));
        self
    }
}

//! A fast reader for what tools write: block style, one value a line, keys in ascending
//! order, no anchors, tags, comments behind values or flow style.
//!
//! It goes over the text once, borrows from it and can be driven member by member, so that a
//! large document never stands in memory as a tree. Whatever it is not sure of it refuses with
//! [`Outside`]: the general reader, which stays the one truth, then reads the whole text. What
//! it does read means the same to the general reader (a property test holds the two together).

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr3, memmem};

use super::node::{Node, Value};
use super::scalar::resolve;
use super::tree::line_separators;

/// The text has something this reader does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outside;

/// Lists and maps within each other; an index has eleven levels.
const MAX_DEPTH: u32 = 32;

/// Values of one tree: bounds its memory. A version of a package has some hundred.
const MAX_NODES: usize = 1_000_000;

/// Longer keys are not looked at: the parser below the general reader has a limit of its own.
const MAX_KEY: usize = 128;

/// Column at the end of the text: left of everything.
const END: i32 = -1;

/// A reader within a text.
pub(crate) struct Block<'t> {
    text: &'t str,
    /// Where the content of the present line (or of the rest of it) begins.
    at: usize,
    /// Its column, or [`END`].
    column: i32,
    /// Values that may still be made.
    room: usize,
    /// Line and paragraph separators that were not seen yet: only quotes may hold them.
    separators: usize,
}

/// Where the value of a member or element stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Behind the colon or dash.
    after: usize,
    /// Column of the key or dash.
    column: i32,
    /// Whether a list may begin at that very column.
    member: bool,
}

/// What a value is, as far as it stands on lines of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    /// A map with members.
    Map,
    /// A list with elements.
    List,
    /// Anything else.
    Other,
}

type Read<T> = Result<T, Outside>;

/// Whether nothing in `text` needs the general reader wherever it stands.
fn fits(text: &str) -> bool {
    let bytes = text.as_bytes();
    // Chunks, so that the check of plain text is a handful of vector instructions.
    const CHUNK: usize = 64;
    for (n, chunk) in bytes.chunks(CHUNK).enumerate() {
        let mut control = false;
        let mut high = false;
        for b in chunk {
            control |= (*b < b' ' && *b != b'\n') || *b == 0x7F;
            high |= *b >= 0x80;
        }
        if control || high && !characters_fit(&bytes[n * CHUNK..], chunk.len()) {
            return false;
        }
    }
    bytes.last() == Some(&b'\n')
}

/// Whether the characters that begin in the first `len` bytes are no C1 controls, no byte
/// order marks and no non-characters.
fn characters_fit(bytes: &[u8], len: usize) -> bool {
    (0..len).all(|at| {
        let next = |n: usize| bytes.get(at + n).copied().unwrap_or_default();
        match bytes[at] {
            0xC2 => next(1) >= 0xA0,
            0xEF => match next(1) {
                0xBB => next(2) != 0xBF,
                0xBF => next(2) < 0xBE,
                _ => true,
            },
            _ => true,
        }
    })
}

/// Bytes of a key without quotes.
fn in_key(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/')
}

/// Bytes that begin a plain scalar and nothing else.
fn begins_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || b >= 0x80
        || matches!(
            b,
            b'_' | b'/' | b'.' | b'+' | b'^' | b'$' | b'~' | b'<' | b'=' | b'(' | b')' | b';'
        )
}

impl<'t> Block<'t> {
    /// A reader at the begin of `text`.
    pub(crate) fn new(text: &'t str) -> Read<Block<'t>> {
        if !fits(text) {
            return Err(Outside);
        }
        let mut block = Block::part(text, 0)?;
        if !text.is_ascii() {
            block.separators = line_separators(text);
        }
        Ok(block)
    }

    /// A reader at the line that begins at `from`, for a text that was read before.
    pub(crate) fn part(text: &'t str, from: usize) -> Read<Block<'t>> {
        let mut block = Block {
            text,
            at: 0,
            column: 0,
            room: MAX_NODES,
            separators: 0,
        };
        block.next_line(from)?;
        Ok(block)
    }

    /// Allows another tree of full size.
    pub(crate) fn refill(&mut self) {
        self.room = MAX_NODES;
    }

    /// Where the line begins that is read next.
    pub(crate) fn line_start(&self) -> usize {
        self.at - usize::try_from(self.column).unwrap_or(0)
    }

    /// Where the content begins that is read next.
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    /// To be called when everything should have been read.
    pub(crate) fn finish(&self) -> Read<()> {
        match self.column == END && self.separators == 0 {
            true => Ok(()),
            false => Err(Outside),
        }
    }

    fn byte(&self, at: usize) -> u8 {
        // The text ends with a line end, so that is what stands behind it as well.
        self.text.as_bytes().get(at).copied().unwrap_or(b'\n')
    }

    fn spaces(&self, from: usize) -> usize {
        let rest = &self.text.as_bytes()[from.min(self.text.len())..];
        rest.iter().take_while(|b| **b == b' ').count()
    }

    fn line_end(&self, from: usize) -> usize {
        let rest = &self.text.as_bytes()[from.min(self.text.len())..];
        memchr(b'\n', rest).map_or(self.text.len(), |n| from + n)
    }

    /// Goes to the first line with content from `start` on, which is the begin of a line.
    fn next_line(&mut self, mut start: usize) -> Read<()> {
        loop {
            if start >= self.text.len() {
                self.at = self.text.len();
                self.column = END;
                return Ok(());
            }
            let spaces = self.spaces(start);
            match self.byte(start + spaces) {
                b'\n' => start += spaces + 1,
                b'#' => start = self.line_end(start) + 1,
                b'-' | b'.' if spaces == 0 && self.is_marker(start) => return Err(Outside),
                _ => {
                    self.at = start + spaces;
                    self.column = i32::try_from(spaces).map_err(|_| Outside)?;
                    return Ok(());
                }
            }
        }
    }

    /// Whether a line begins as the begin or end of a document does.
    fn is_marker(&self, at: usize) -> bool {
        let rest = &self.text.as_bytes()[at..];
        rest.starts_with(b"---") || rest.starts_with(b"...")
    }

    fn is_dash(&self, at: usize) -> bool {
        self.byte(at) == b'-' && matches!(self.byte(at + 1), b' ' | b'\n')
    }

    /// The key at `at` and the place behind its colon.
    fn key(&self, at: usize) -> Option<(&'t str, usize)> {
        let bytes = &self.text.as_bytes()[at..];
        let bytes = &bytes[..bytes.len().min(MAX_KEY)];
        let first = *bytes.first()?;
        let (key, colon) = if matches!(first, b'"' | b'\'') {
            let end = 1 + memchr3(first, b'\\', b'\n', &bytes[1..])?;
            if bytes[end] != first {
                return None;
            }
            (self.text.get(at + 1..at + end)?, end + 1)
        } else {
            let end = bytes.iter().position(|b| !in_key(*b))?;
            if first == b'-' || end == 0 {
                return None;
            }
            let key = self.text.get(at..at + end)?;
            // Go takes some plain keys for a boolean or a number.
            let Value::Text(_) = resolve(key) else {
                return None;
            };
            (key, end)
        };
        let ended =
            self.byte(at + colon) == b':' && matches!(self.byte(at + colon + 1), b' ' | b'\n');
        ended.then_some((key, at + colon + 1))
    }

    /// Goes over the members of the map that begins here. `each` must read the value.
    pub(crate) fn members<E: From<Outside>>(
        &mut self,
        mut each: impl FnMut(&mut Self, &'t str, Slot) -> Result<(), E>,
    ) -> Result<(), E> {
        let column = self.column;
        let mut last: Option<&str> = None;
        loop {
            let (key, after) = self.key(self.at).ok_or(Outside)?;
            // Ascending: none comes twice, and there is nothing to sort.
            if last.is_some_and(|last| last >= key) {
                return Err(Outside.into());
            }
            last = Some(key);
            self.count()?;
            let slot = Slot {
                after,
                column,
                member: true,
            };
            each(self, key, slot)?;
            if self.column != column {
                return self.left(column).map_err(E::from);
            }
        }
    }

    /// Goes over the elements of the list that begins here. `each` must read the element.
    pub(crate) fn elements<E: From<Outside>>(
        &mut self,
        mut each: impl FnMut(&mut Self, Slot) -> Result<(), E>,
    ) -> Result<(), E> {
        let column = self.column;
        loop {
            let slot = Slot {
                after: self.at + 1,
                column,
                member: false,
            };
            each(self, slot)?;
            if self.column != column {
                return self.left(column).map_err(E::from);
            }
            // The next member of a map whose value was this list, or what its reader refuses.
            if !self.is_dash(self.at) {
                return Ok(());
            }
        }
    }

    /// The line is not at `column` any more, so it must be further left.
    fn left(&self, column: i32) -> Read<()> {
        if self.column < column {
            Ok(())
        } else {
            Err(Outside)
        }
    }

    /// Goes to the value of `slot` where that stands on lines of its own, or is a collection
    /// behind a dash.
    pub(crate) fn enter(&mut self, slot: Slot) -> Read<Inner> {
        if self.byte(slot.after) == b'\n' {
            self.next_line(slot.after + 1)?;
            let dash = self.column != END && self.is_dash(self.at);
            return Ok(match self.column.cmp(&slot.column) {
                std::cmp::Ordering::Equal if dash && slot.member => Inner::List,
                std::cmp::Ordering::Greater if dash => Inner::List,
                std::cmp::Ordering::Greater => Inner::Map,
                _ => Inner::Other,
            });
        }
        if slot.member {
            return Ok(Inner::Other);
        }
        let begin = slot.after + self.spaces(slot.after);
        let inner = if self.is_dash(begin) {
            Inner::List
        } else if self.key(begin).is_some() {
            Inner::Map
        } else {
            return Ok(Inner::Other);
        };
        self.column += i32::try_from(begin - self.at).map_err(|_| Outside)?;
        self.at = begin;
        Ok(inner)
    }

    /// Reads the value of `slot` whole.
    pub(crate) fn value(&mut self, slot: Slot) -> Read<Node<'t>> {
        self.value_within(slot, 0)
    }

    fn value_within(&mut self, slot: Slot, depth: u32) -> Read<Node<'t>> {
        match self.enter(slot)? {
            Inner::Map => self.map(depth),
            Inner::List => self.list(depth),
            Inner::Other if self.byte(slot.after) == b'\n' => self.node(slot.after, Value::Null),
            Inner::Other => self.scalar(slot),
        }
    }

    /// Reads the map that begins here.
    pub(crate) fn map(&mut self, depth: u32) -> Read<Node<'t>> {
        let at = self.at;
        if depth >= MAX_DEPTH {
            return Err(Outside);
        }
        let mut entries = Vec::new();
        self.members(|block, key, slot| {
            let value = block.value_within(slot, depth + 1)?;
            entries.push((Cow::Borrowed(key), value));
            Ok::<(), Outside>(())
        })?;
        self.node(at, Value::Map(entries))
    }

    fn list(&mut self, depth: u32) -> Read<Node<'t>> {
        let at = self.at;
        if depth >= MAX_DEPTH {
            return Err(Outside);
        }
        let mut items = Vec::new();
        self.elements(|block, slot| {
            items.push(block.value_within(slot, depth + 1)?);
            Ok::<(), Outside>(())
        })?;
        self.node(at, Value::List(items))
    }

    fn count(&mut self) -> Read<()> {
        self.room = self.room.checked_sub(1).ok_or(Outside)?;
        Ok(())
    }

    fn node(&mut self, at: usize, value: Value<'t>) -> Read<Node<'t>> {
        self.count()?;
        Ok(Node::new(at, value))
    }

    /// Reads a scalar or an empty collection behind a colon or dash.
    fn scalar(&mut self, slot: Slot) -> Read<Node<'t>> {
        let at = slot.after + self.spaces(slot.after);
        let (value, end) = match self.byte(at) {
            quote @ (b'"' | b'\'') => {
                let (value, end) = match quote {
                    b'"' => self.double_quoted(at, slot.column)?,
                    _ => self.single_quoted(at, slot.column)?,
                };
                if self.separators > 0 {
                    let raw = self.text.get(at..end).ok_or(Outside)?;
                    self.separators -= line_separators(raw);
                }
                (value, end)
            }
            b'|' => self.literal(at, slot.column)?,
            b'{' => (Value::Map(Vec::new()), self.empty(at, "{}")?),
            b'[' => (Value::List(Vec::new()), self.empty(at, "[]")?),
            _ => self.plain(at, slot.column)?,
        };
        if self.byte(end) != b'\n' {
            return Err(Outside);
        }
        self.next_line(end + 1)?;
        self.node(at, value)
    }

    fn empty(&self, at: usize, form: &str) -> Read<usize> {
        let rest = &self.text.as_bytes()[at..];
        match rest.starts_with(form.as_bytes()) {
            true => Ok(at + form.len()),
            false => Err(Outside),
        }
    }

    /// One line of a plain scalar, and where it ends.
    fn plain_line(&self, at: usize) -> Read<(&'t str, usize)> {
        let first = self.byte(at);
        let dashed = first == b'-' && matches!(self.byte(at + 1), b'0'..=b'9' | b'a'..=b'z' | b'.');
        if !begins_plain(first) && !dashed {
            return Err(Outside);
        }
        let end = self.line_end(at);
        let line = self.text.get(at..end).ok_or(Outside)?;
        let bytes = line.as_bytes();
        let mut rest = 0;
        while let Some(found) = memchr2(b':', b'#', &bytes[rest..]) {
            let here = rest + found;
            let ends = match bytes[here] {
                b':' => matches!(bytes.get(here + 1), None | Some(b' ')),
                _ => bytes.get(here.wrapping_sub(1)) == Some(&b' '),
            };
            if ends {
                return Err(Outside);
            }
            rest = here + 1;
        }
        match bytes.last() {
            Some(b' ') => Err(Outside),
            _ => Ok((line, end)),
        }
    }

    /// Where the content of the line behind `end` begins, if that line goes on with a value
    /// whose key or dash is at `column`.
    fn continuation(&self, end: usize, column: i32) -> Option<usize> {
        let start = end + 1;
        let spaces = self.spaces(start);
        let deeper = i32::try_from(spaces).is_ok_and(|spaces| spaces > column);
        let content = start < self.text.len() && self.byte(start + spaces) != b'\n';
        (deeper && content).then_some(start + spaces)
    }

    fn plain(&self, at: usize, column: i32) -> Read<(Value<'t>, usize)> {
        let (line, mut end) = self.plain_line(at)?;
        let Some(mut next) = self.continuation(end, column) else {
            return Ok((resolve(line), end));
        };
        let mut folded = line.to_owned();
        loop {
            let (line, line_end) = self.plain_line(next)?;
            folded.push(' ');
            folded.push_str(line);
            end = line_end;
            match self.continuation(end, column) {
                Some(more) => next = more,
                None => break,
            }
        }
        // Of several words, so it is text.
        Ok((Value::Text(folded.into()), end))
    }

    /// A line end within quotes at `at`: where the next line goes on.
    fn fold(&self, at: usize, begin: usize, quote: u8, column: i32) -> Read<usize> {
        let next = self.continuation(at, column).ok_or(Outside)?;
        let clean = at > begin && self.byte(at - 1) != b' ' && self.byte(next) != quote;
        if clean { Ok(next) } else { Err(Outside) }
    }

    fn single_quoted(&self, at: usize, column: i32) -> Read<(Value<'t>, usize)> {
        let bytes = self.text.as_bytes();
        let mut begin = at + 1;
        let mut text = Cow::Borrowed("");
        loop {
            let here = begin + memchr2(b'\'', b'\n', &bytes[begin..]).ok_or(Outside)?;
            let part = self.text.get(begin..here).ok_or(Outside)?;
            append(&mut text, part);
            if bytes[here] == b'\n' {
                begin = self.fold(here, begin, b'\'', column)?;
                append(&mut text, " ");
            } else if self.byte(here + 1) == b'\'' {
                append(&mut text, "'");
                begin = here + 2;
            } else {
                return Ok((Value::Text(text), here + 1));
            }
        }
    }

    fn double_quoted(&self, at: usize, column: i32) -> Read<(Value<'t>, usize)> {
        let bytes = self.text.as_bytes();
        let mut begin = at + 1;
        let mut text = Cow::Borrowed("");
        loop {
            let here = begin + memchr3(b'"', b'\\', b'\n', &bytes[begin..]).ok_or(Outside)?;
            let part = self.text.get(begin..here).ok_or(Outside)?;
            append(&mut text, part);
            match bytes[here] {
                b'\n' => {
                    begin = self.fold(here, begin, b'"', column)?;
                    append(&mut text, " ");
                }
                b'\\' => {
                    let (c, len) = self.escape(here)?;
                    text.to_mut().push(c);
                    begin = here + len;
                }
                _ => return Ok((Value::Text(text), here + 1)),
            }
        }
    }

    /// The character an escape stands for, and its length.
    fn escape(&self, at: usize) -> Read<(char, usize)> {
        let digits = match self.byte(at + 1) {
            b'"' => return Ok(('"', 2)),
            b'\\' => return Ok(('\\', 2)),
            b'n' => return Ok(('\n', 2)),
            b't' => return Ok(('\t', 2)),
            b'r' => return Ok(('\r', 2)),
            b' ' => return Ok((' ', 2)),
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            _ => return Err(Outside),
        };
        let hex = self.text.get(at + 2..at + 2 + digits).ok_or(Outside)?;
        if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(Outside);
        }
        let code = u32::from_str_radix(hex, 16).map_err(|_| Outside)?;
        let c = char::from_u32(code).ok_or(Outside)?;
        Ok((c, 2 + digits))
    }

    /// A literal block; the place is that of its last line end.
    fn literal(&self, at: usize, column: i32) -> Read<(Value<'t>, usize)> {
        let clip = match (self.byte(at + 1), self.byte(at + 2)) {
            (b'\n', _) => true,
            (b'-', b'\n') => false,
            _ => return Err(Outside),
        };
        let head = self.line_end(at);
        let first = self.continuation(head, column).ok_or(Outside)?;
        let indent = first - (head + 1);
        let mut text = String::new();
        let mut empty = 0;
        let mut end = head;
        while end + 1 < self.text.len() {
            let start = end + 1;
            if self.byte(start) == b'\n' {
                empty += 1;
                end = start;
                continue;
            }
            let spaces = self.spaces(start);
            if self.byte(start + spaces) == b'\n' {
                return Err(Outside);
            }
            if spaces < indent {
                let out = i32::try_from(spaces).is_ok_and(|spaces| spaces <= column);
                if !out {
                    return Err(Outside);
                }
                break;
            }
            let line_end = self.line_end(start);
            if start != head + 1 {
                text.push('\n');
            }
            text.extend(std::iter::repeat_n('\n', std::mem::take(&mut empty)));
            text.push_str(self.text.get(start + indent..line_end).ok_or(Outside)?);
            end = line_end;
        }
        if clip {
            text.push('\n');
        }
        Ok((Value::Text(text.into()), end))
    }
}

/// Whether `text` has `word` in it.
pub(crate) fn raw_contains(text: &str, word: &str) -> bool {
    memmem::find(text.as_bytes(), word.as_bytes()).is_some()
}

/// Adds to a text that is borrowed as long as it has one part.
fn append<'t>(text: &mut Cow<'t, str>, part: &'t str) {
    if text.is_empty() {
        *text = Cow::Borrowed(part);
    } else if !part.is_empty() {
        text.to_mut().push_str(part);
    }
}

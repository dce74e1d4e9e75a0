//! From bytes to text, and how a text begins.

use std::borrow::Cow;

use super::MAX_BYTES;
use super::error::Fault;
use super::looks::is_member;

/// The text of a list: UTF-8, or UTF-16 with a byte order mark, as Windows writes what a command
/// prints into a file. The mark is taken away.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Fault> {
    let whole = |what: &str, advice: &str| Fault {
        line: None,
        what: what.to_owned(),
        advice: advice.to_owned(),
    };
    if bytes.len() > MAX_BYTES {
        return Err(whole(
            &format!("the list is larger than {MAX_BYTES} bytes"),
            "give the list itself, not what it names; split it if it is that long",
        ));
    }
    let text = match bytes {
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        _ => str::from_utf8(bytes).ok().map(Cow::Borrowed),
    };
    let text = text.ok_or_else(|| {
        whole(
            "the list is no text in UTF-8",
            "save the list as UTF-8; archives of images are not read here",
        )
    })?;
    // a file put together of files has marks within, too; the first ones say nothing
    let text = match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_start_matches('\u{FEFF}')),
        Cow::Owned(text) => Cow::Owned(text.trim_start_matches('\u{FEFF}').to_owned()),
    };
    match text.find(['\u{1b}', '\0']) {
        None => Ok(text),
        Some(at) => Err(Fault {
            line: Some(1 + text[..at].matches('\n').count()),
            what: "a control character of terminals stands here".to_owned(),
            advice: "write the list without colours (helm images: --no-color)".to_owned(),
        }),
    }
}

fn wide(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<Cow<'static, str>> {
    let units = bytes.chunks(2).map(|pair| match pair {
        [a, b] => unit([*a, *b]),
        // half a unit: a lone surrogate is refused
        _ => 0xD800,
    });
    let text: Result<String, _> = char::decode_utf16(units).collect();
    text.ok().map(Cow::Owned)
}

/// What a text begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// There are only empty lines and comments.
    Nothing,
    /// The frame of a table.
    Frame,
    /// Something only YAML or JSON begins with.
    Yaml,
    /// Any other line.
    Line,
}

/// What the first line begins with that is neither empty nor a comment.
pub(super) fn begins(text: &str) -> Begins {
    let mut lines = text.lines().map(str::trim);
    let Some(line) = lines.find(|line| !line.is_empty() && !line.starts_with('#')) else {
        return Begins::Nothing;
    };
    let word = line.split(char::is_whitespace).next().unwrap_or_default();
    if line.starts_with(['+', '┌', '|', '│']) {
        Begins::Frame
    } else if matches!(word, "-" | "---")
        || line.starts_with(['{', '[', '%', '!', '&'])
        || is_member(line.trim_start_matches(['"', '\'']))
    {
        Begins::Yaml
    } else {
        Begins::Line
    }
}

/// The lines of a text and their numbers.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}

//! One image a line: what people write, and what k3s, RKE2 and Rancher publish.
//!
//! A `#` begins a comment at the beginning of a line and behind white space. Rancher publishes
//! its list a second time with a second word behind each image: the charts and components that
//! run it, with commas between. That word is passed over, but only in a list of this shape,
//! as in any other a second word may mean everything.

use kubepkg_core::{Digest, Reference};

use super::Form;
use super::gather::Gather;
use super::looks::brief;
use super::text::lines;

/// Longest line, in bytes. A line of Rancher's list names each chart that runs the image, in each
/// version, and has some thousands.
pub(super) const MAX_LINE: usize = 64 * 1024;

/// Reads the images of a plain text.
pub(super) fn read(text: &str, gather: &mut Gather) -> Form {
    let with_sources = has_sources(text);
    for (line, text) in lines(text) {
        if text.len() > MAX_LINE {
            gather.fault(
                line,
                format!("the line is longer than {MAX_LINE} bytes"),
                "write one image a line",
            );
            continue;
        }
        let words = without_comment(text);
        if words.is_empty() {
            continue;
        }
        if !with_sources {
            gather.image(line, words, None);
        } else if let Some((image, _)) = split_sources(words) {
            gather.image(line, image, None);
        } else {
            gather.fault(
                line,
                format!("{} is no image and its sources", brief(words)),
                "the list begins as Rancher's with sources: write each line so, or none",
            );
        }
    }
    match with_sources {
        true => Form::RancherSources,
        false => Form::Plain,
    }
}

/// What a line says, without its comment and the white space around.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (at, character) in line.char_indices() {
        if character == '#' && before.is_whitespace() {
            return line[..at].trim();
        }
        before = character;
    }
    line.trim()
}

/// Whether this is Rancher's list with sources: the first line has the shape, and among the
/// images are Rancher's own.
fn has_sources(text: &str) -> bool {
    let mut words = text
        .lines()
        .filter(|line| line.len() <= MAX_LINE)
        .map(without_comment)
        .filter(|words| !words.is_empty())
        .map(split_sources);
    let own = |found: Option<(&str, Reference)>| {
        found.is_some_and(|(_, image)| {
            image.path().starts_with("rancher/") || image.host().ends_with(".rancher.io")
        })
    };
    match words.next() {
        Some(Some(first)) => own(Some(first)) || words.any(own),
        _ => false,
    }
}

/// The image of a line `image source,source`: it has a tag, and each source is `name` or
/// `name:version`, and none is a digest.
fn split_sources(words: &str) -> Option<(&str, Reference)> {
    let (image, sources) = words.split_once(char::is_whitespace)?;
    let sources = sources.trim_start();
    let part = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._+~-".contains(&b))
    };
    let source = |text: &str| {
        let mut parts = text.split(':');
        let legal = parts.by_ref().take(2).all(part) && parts.next().is_none();
        legal && text.parse::<Digest>().is_err()
    };
    // without its colon the last element has no tag
    let tagged = image
        .rsplit('/')
        .next()
        .is_some_and(|end| end.contains(':'));
    let reference = image.parse().ok()?;
    (tagged && sources.split(',').all(source)).then_some((image, reference))
}

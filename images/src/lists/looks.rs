//! What a text is that stands where an image is wanted: a reference, or what it looks like
//! instead.

use kubepkg_core::Reference;
use kubepkg_core::error::shown;

/// What is wrong, and what can be done.
pub(super) type Refusal = (String, String);

/// How much of a foreign text a message repeats: a reference fits, and twenty of them fit a
/// screen.
const MAX_BRIEF: usize = 120;

/// A foreign text in quotes, short and harmless.
pub(super) fn brief(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_BRIEF).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("\"{}\"", shown(&short))
}

/// How the places of images begin for other programs. What begins so may read as a reference,
/// and means something else.
const TRANSPORTS: [&str; 5] = [
    "docker://",
    "docker-daemon:",
    "docker-archive:",
    "oci-archive:",
    "containers-storage:",
];

/// The reference `text` is.
pub(super) fn reference(text: &str) -> Result<Reference, Refusal> {
    if let Some(refusal) = template(text).or_else(|| instead(text)) {
        return Err(refusal);
    }
    text.parse::<Reference>().map_err(|error| {
        let advice = match text.is_ascii() {
            true => "write images as HOST/PATH:TAG or HOST/PATH@DIGEST, paths in lower case",
            false => {
                "write images in plain characters, and the host of an international name as xn--…"
            }
        };
        (
            format!("{} is no image: {}", brief(text), error.why),
            advice.to_owned(),
        )
    })
}

/// What `text` is where it is a template that another program fills in.
pub(super) fn template(text: &str) -> Option<Refusal> {
    if text.contains("###ZARF") {
        return Some((
            format!("{} is a template of Zarf", brief(text)),
            ZARF_RENDERED.to_owned(),
        ));
    }
    let marks = ["{{", "${", "$(", "<%"];
    marks.iter().any(|mark| text.contains(mark)).then(|| {
        (
            format!("{} is a template", brief(text)),
            "write what it stands for".to_owned(),
        )
    })
}

/// How Zarf itself writes templates and imports out.
pub(super) const ZARF_RENDERED: &str = "let Zarf write it out and read that: zarf dev inspect \
                                        definition DIR --set NAME=VALUE > zarf-rendered.yaml";

/// What `text` looks like, where that is something else than an image.
fn instead(text: &str) -> Option<Refusal> {
    let refusal =
        |what: &str, advice: &str| Some((format!("{} {what}", brief(text)), advice.to_owned()));
    if text.is_empty() {
        return Some((
            "an image is wanted, and there is nothing".to_owned(),
            "name the image, or take the place away".to_owned(),
        ));
    }
    if text.starts_with(['"', '\'', '`', '“', '‘']) {
        return refusal(
            "stands in quotes",
            "write images without quotes, or all lines as one YAML list",
        );
    }
    if text == "-" || text.starts_with("- ") {
        return refusal(
            "looks like an item of a YAML list",
            "write images without dashes, or all lines as one YAML list",
        );
    }
    if TRANSPORTS.iter().any(|start| text.starts_with(start)) {
        return refusal(
            "is a place of a copying program",
            "write the image alone, as a registry has it: HOST/PATH:TAG",
        );
    }
    if text.contains("://") && !text.starts_with("oci://") {
        // what stands before an @ may be a password
        let url = match text.contains('@') {
            true => "this".to_owned(),
            false => brief(text),
        };
        return Some((
            format!("{url} is a URL"),
            "write the image alone, as a registry has it: HOST/PATH:TAG".to_owned(),
        ));
    }
    if is_member(text) {
        return refusal(
            "looks like a line of YAML",
            "write the image alone, or the whole file in one of the YAML forms",
        );
    }
    let mut words = text.split_whitespace();
    if words.clone().count() > 1 && words.all(is_whole) {
        return refusal(
            "looks like several images",
            "write one image a line: tr -s ' ' '\\n' < FILE",
        );
    }
    if text.contains(char::is_whitespace) {
        return refusal(
            "is more than one word",
            "write one image a line, and what is said of it behind a #",
        );
    }
    if text.contains(',') {
        return refusal("looks like values between commas", "write one image a line");
    }
    if text.contains('=') {
        return refusal(
            "looks like a source and a destination",
            "write one image a line; kubepkg keeps the name an image is pulled under",
        );
    }
    None
}

/// Whether a word is an image with a path and a version, as no word of a sentence is.
fn is_whole(word: &str) -> bool {
    word.contains('/') && word.contains([':', '@']) && word.parse::<Reference>().is_ok()
}

/// Whether a line reads `key:` or `key: value`. A key has no slash: `quay.io/a/b:` is a
/// reference that lacks its tag.
pub(super) fn is_member(line: &str) -> bool {
    let colon = line.match_indices(':').map(|(at, _)| at).find(|at| {
        line[at + 1..]
            .chars()
            .next()
            .is_none_or(char::is_whitespace)
    });
    colon.is_some_and(|at| {
        let key = &line[..at];
        !key.is_empty() && !key.contains(['/', ',']) && !key.contains(char::is_whitespace)
    })
}

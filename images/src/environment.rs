//! Variables and arguments: values that a name stands before.

use kubepkg_core::yaml::{Node, Value};

use crate::found::How;
use crate::plausible::{Expect, Verdict, judge};
use crate::rules::element;
use crate::walk::{Walker, child};
use crate::words;

/// Whether this is written like the name of a variable, `RELATED_IMAGE_API`.
pub(crate) fn is_variable_name(name: &str) -> bool {
    name.bytes().any(|b| b.is_ascii_uppercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// The two texts of a variable in a list of variables.
fn pair<'n>(node: &'n Node<'_>) -> Option<(&'n str, &'n str)> {
    let text = |name| match child(node, name).map(|node| &node.value) {
        Some(Value::Text(text)) => Some(text.as_ref()),
        _ => None,
    };
    Some((text("name")?, text("value")?))
}

/// Looks at a map as a variable; whether it is one, and nothing else.
pub(crate) fn variable(walker: &mut Walker<'_>, node: &Node<'_>, place: &str) -> bool {
    let Some((name, value)) = pair(node) else {
        return false;
    };
    let place = format!("{place}.value");
    if words::option(name) {
        values(walker, value, &place, How::Environment);
    } else if let Verdict::Image(_) = judge(value, Expect::Anything, walker.rules) {
        walker.image(value, &place, How::Environment);
    } else {
        // a whole document in a variable, or nothing
        walker.text(value, &place, "");
    }
    matches!(&node.value, Value::Map(entries) if entries.len() == 2)
}

/// The images in the value of something whose name says that it holds some: one, a list, or
/// a list of `version=image`.
pub(crate) fn values(walker: &mut Walker<'_>, text: &str, place: &str, how: How) {
    // a map or list of images, as some operators want them
    if text.trim_start().starts_with(['{', '[']) {
        walker.text(text, place, "");
        return;
    }
    let separators = |c: char| c.is_whitespace() || c == ',' || c == ';';
    let list = text.trim().contains(separators);
    for token in text.split(separators) {
        let token = token.trim_matches(['"', '\'']);
        let (marked, value) = match token.split_once('=') {
            Some((_, value)) => (true, value),
            None => (false, token),
        };
        // words of a sentence are no images
        let expect = match list && !marked {
            true => Expect::Anything,
            false => Expect::Named,
        };
        match judge(value, expect, walker.rules) {
            Verdict::Image(_) => walker.image(value, place, how),
            Verdict::Perhaps(_) if !list => walker.image(value, place, How::Possible),
            _ => {}
        }
    }
}

/// Names of the two variables that an image is made of, by their last word.
const REPOSITORY: &[&str] = &["repository", "repo", "name"];
const TAG: &[&str] = &["tag", "version"];

/// Images that two variables of a list make together: `X_IMAGE_REPO` and `X_IMAGE_TAG`.
pub(crate) fn pairs(walker: &mut Walker<'_>, items: &[Node<'_>], place: &str) {
    let named = |ends: &[&str]| -> Vec<(usize, Vec<String>, &str)> {
        let variables = items.iter().enumerate().filter_map(|(n, item)| {
            let (name, value) = pair(item)?;
            let mut words = words::words(name);
            let last = words.pop()?;
            let fits = ends.contains(&last.as_str()) && words.iter().any(|word| word == "image");
            fits.then_some((n, words, value))
        });
        variables.collect()
    };
    let tags = named(TAG);
    if tags.is_empty() {
        return;
    }
    for (n, base, repository) in named(REPOSITORY) {
        if let Some((_, _, tag)) = tags.iter().find(|(_, other, _)| *other == base) {
            let image = format!("{repository}:{tag}");
            if let Verdict::Image(_) = judge(&image, Expect::Named, walker.rules) {
                walker.image(
                    &image,
                    &format!("{}.value", element(place, n)),
                    How::Environment,
                );
            }
        }
    }
}

/// The words a container is started with.
pub(crate) fn arguments(walker: &mut Walker<'_>, items: &[Node<'_>], place: &str) {
    let mut before = None;
    for (n, item) in items.iter().enumerate() {
        let place = element(place, n);
        let Value::Text(text) = &item.value else {
            before = None;
            // something else that is called like a list of arguments
            walker.visit(item, &place, "");
            continue;
        };
        let flag = before.take();
        if text.trim().contains('\n') || flag.is_some_and(runs_a_script) {
            script(walker, text, &place);
        } else if text.starts_with('-') {
            match text.split_once('=') {
                Some((flag, value)) => flagged(walker, flag, value, &place),
                None => before = Some(text.as_ref()),
            }
        } else if let Some(flag) = flag {
            flagged(walker, flag, text, &place);
        } else if let Verdict::Image(_) = judge(text, Expect::Anything, walker.rules) {
            walker.image(text, &place, How::Argument);
        }
    }
}

/// Whether a shell takes what follows this flag as a script: `-c`, `-ec`, `-euxc`.
fn runs_a_script(flag: &str) -> bool {
    let letters = flag.strip_prefix('-').unwrap_or_default();
    letters.ends_with('c') && letters.len() < 8 && letters.bytes().all(|b| b.is_ascii_lowercase())
}

/// A flag and its value.
fn flagged(walker: &mut Walker<'_>, flag: &str, value: &str, place: &str) {
    let flag = flag.trim_start_matches('-');
    let value = value.trim_matches(['"', '\'']);
    if words::option(flag) {
        // an operator adds the version to a base
        let base = words::words(flag).iter().any(|word| word == "base");
        let how = match base && !has_version(value) {
            true => How::Possible,
            false => How::Argument,
        };
        values(walker, value, place, how);
    } else if let Verdict::Image(_) = judge(value, Expect::Anything, walker.rules) {
        walker.image(value, place, How::Argument);
    } else if value.contains('=') {
        // --set=image=…
        let last = value.rsplit('=').next().unwrap_or_default();
        if let Verdict::Image(_) = judge(last, Expect::Anything, walker.rules) {
            walker.image(last, place, How::Argument);
        }
    }
}

fn has_version(value: &str) -> bool {
    let last = value.rsplit('/').next().unwrap_or_default();
    last.contains([':', '@'])
}

/// A command line in one word, as shells take it.
fn script(walker: &mut Walker<'_>, text: &str, place: &str) {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    for token in lines.flat_map(str::split_whitespace) {
        let token = token.trim_matches(['"', '\'', '\\', ';']);
        match token
            .strip_prefix('-')
            .and_then(|flag| flag.split_once('='))
        {
            Some((flag, value)) => flagged(walker, flag, value, place),
            None => {
                if let Verdict::Image(_) = judge(token, Expect::Anything, walker.rules) {
                    walker.image(token, place, How::Argument);
                }
            }
        }
    }
}

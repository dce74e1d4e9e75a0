//! Texts that are no YAML, line by line: configuration in other formats, scripts, templates,
//! documents with a mistake in them.

use crate::words;

/// A line that gives something called an image a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'t> {
    /// From 1.
    pub(crate) number: usize,
    pub(crate) value: &'t str,
}

/// The lines of `text` of the form `name: value` or `name = value` whose name says image.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().zip(1..).filter_map(|(line, number)| {
        let value = value(line)?;
        Some(Line { number, value })
    })
}

fn value(line: &str) -> Option<&str> {
    let line = line.trim();
    if line.starts_with('#') || line.starts_with("//") || line.starts_with(';') {
        return None;
    }
    let line = line.trim_start_matches("- ").trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once([':', '='])?;
    let name = name.trim().trim_matches(['"', '\'']);
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if name.is_empty() || !name.chars().all(word) || !words::option(name) {
        return None;
    }
    let value = value.trim_start();
    let value = match value.chars().next()? {
        quote @ ('"' | '\'') => value[1..].split(quote).next()?,
        _ => value
            .split(" #")
            .next()?
            .trim_end_matches([',', ';'])
            .trim_end(),
    };
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_name_an_image() {
        let text = "\
[runners.kubernetes]
  image = \"ubuntu:22.04\"
  helper_image = 'gitlab/helper:1' # why
# image: not/this:1
- image: quay.io/a/b:1 # or this
export SIDECAR_IMAGE=quay.io/c/d:2;
  \"image\": \"quay.io/e/f:3\",
imagePullPolicy: Always
The image: a thing
image:
";
        let found: Vec<_> = lines(text).map(|line| (line.number, line.value)).collect();
        assert_eq!(
            found,
            [
                (2, "ubuntu:22.04"),
                (3, "gitlab/helper:1"),
                (5, "quay.io/a/b:1"),
                (6, "quay.io/c/d:2"),
                (7, "quay.io/e/f:3"),
            ]
        );
    }
}

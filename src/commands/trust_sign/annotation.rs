//! Putting one annotation into a YAML document and leaving every other byte as it is: people's
//! comments and the order of their members are theirs.
//!
//! Only block style is understood, which is how such files are written. The caller reads the
//! result again and compares, so a shape that is misread here is refused, never published.

/// `text` with the annotation `key` of the document that begins on `line` (from 1) set to
/// `value`; `None` when the metadata is not in block style. `value` holds no `'`.
pub fn set(text: &str, line: usize, key: &str, value: &str) -> Option<String> {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (from, to) = document(&lines, line.checked_sub(1)?)?;
    let metadata = (from..to).find(|&at| is_key(lines[at], 0, "metadata"))?;
    let end = block_end(&lines, metadata, to, 0);
    let indent = child_indent(&lines, metadata, end)?;
    let line_end = if lines[metadata].ends_with("\r\n") {
        "\r\n"
    } else {
        "\n"
    };
    let entry = |indent: usize| format!("{:indent$}{key}: '{value}'{line_end}", "");
    let annotations = (metadata + 1..end).find(|&at| is_key(lines[at], indent, "annotations"));
    let (at, until, new) = match annotations {
        None => {
            let new = format!("{:indent$}annotations:{line_end}{}", "", entry(indent * 2));
            (metadata + 1, metadata + 1, new)
        }
        Some(found) => {
            let end = block_end(&lines, found, end, indent);
            let inner = child_indent(&lines, found, end)?;
            let own = (found + 1..end).find(|&at| {
                let quoted = [format!("\"{key}\""), format!("'{key}'"), key.to_owned()];
                quoted
                    .iter()
                    .any(|key| starts_member(lines[at], inner, key))
            });
            match own {
                None => (found + 1, found + 1, entry(inner)),
                Some(own) => (own, block_end(&lines, own, end, inner), entry(inner)),
            }
        }
    };
    lines.splice(at..until, [new.as_str()]);
    Some(lines.concat())
}

/// The lines of the document that begins on line `at` (from 0) or just after its marker.
fn document(lines: &[&str], at: usize) -> Option<(usize, usize)> {
    let marker = |line: &str| line.starts_with("---") || line.starts_with("...");
    let from = match lines.get(at)? {
        line if marker(line) => at + 1,
        _ => at,
    };
    let to = (from..lines.len())
        .find(|&at| marker(lines[at]))
        .unwrap_or(lines.len());
    Some((from, to))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Whether a line says nothing: blank, or only a comment.
fn is_silent(line: &str) -> bool {
    let rest = line.trim_start();
    rest.is_empty() || rest.starts_with('#')
}

fn starts_member(line: &str, indent: usize, key: &str) -> bool {
    indent_of(line) == indent
        && line[indent..]
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with(':'))
}

/// Whether a line is `key:` with nothing but a comment after it.
fn is_key(line: &str, indent: usize, key: &str) -> bool {
    starts_member(line, indent, key) && {
        let rest = line[indent + key.len() + 1..].trim();
        rest.is_empty() || rest.starts_with('#')
    }
}

/// The line after the block that the member on line `at` holds. Blank lines and comments after
/// its last line are not part of it.
fn block_end(lines: &[&str], at: usize, to: usize, indent: usize) -> usize {
    let mut end = at + 1;
    for (n, line) in lines.iter().enumerate().take(to).skip(at + 1) {
        if is_silent(line) {
            continue;
        }
        if indent_of(line) <= indent {
            break;
        }
        end = n + 1;
    }
    end
}

fn child_indent(lines: &[&str], at: usize, end: usize) -> Option<usize> {
    let first = lines[at + 1..end].iter().find(|line| !is_silent(line))?;
    Some(indent_of(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "kubepkg.dev/signatures";

    #[test]
    fn every_other_byte_stays() {
        for (text, want) in [
            (
                "kind: PackageSource\nmetadata: # who\n  name: a\nspec: {}\n",
                "kind: PackageSource\nmetadata: # who\n  annotations:\n    \
                 kubepkg.dev/signatures: '[]'\n  name: a\nspec: {}\n",
            ),
            (
                "metadata:\n    name: a\n    annotations:\n      # kept\n      x: y\n\nspec: {}\n",
                "metadata:\n    name: a\n    annotations:\n      kubepkg.dev/signatures: '[]'\n      \
                 # kept\n      x: y\n\nspec: {}\n",
            ),
            (
                "metadata:\n  annotations:\n    \"kubepkg.dev/signatures\": >-\n      old\n      \
                 more\n    x: y\n  name: a\n",
                "metadata:\n  annotations:\n    kubepkg.dev/signatures: '[]'\n    x: y\n  name: a\n",
            ),
            (
                "metadata:\r\n  name: a\r\n",
                "metadata:\r\n  annotations:\r\n    kubepkg.dev/signatures: '[]'\r\n  name: a\r\n",
            ),
        ] {
            let line = 1;
            assert_eq!(set(text, line, KEY, "[]").as_deref(), Some(want), "{text}");
            let again = set(want, line, KEY, "[]");
            assert_eq!(
                again.as_deref(),
                Some(want),
                "a second time changes nothing"
            );
        }
    }

    #[test]
    fn only_the_document_meant_is_changed() {
        let one = "metadata:\n  name: a\n";
        let text = format!("# top\n{one}---\n{one}---\n{one}");
        let second = set(&text, 5, KEY, "[]").unwrap();
        assert_eq!(second.matches(KEY).count(), 1);
        assert!(second.starts_with(&format!("# top\n{one}---\nmetadata:\n  annotations:")));
        assert_eq!(
            set(&text, 4, KEY, "[]").unwrap(),
            second,
            "the line of its marker"
        );
    }

    #[test]
    fn other_styles_are_not_guessed_at() {
        for text in [
            "metadata: {name: a}\n",
            "{metadata: {name: a}}\n",
            "metadata:\n",
            "spec: {}\n",
            "",
        ] {
            assert_eq!(set(text, 1, KEY, "[]"), None, "{text}");
        }
    }
}

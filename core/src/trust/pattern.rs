//! Patterns of package names in a delegation: shell style, as Go's `path.Match` reads them.

/// A pattern. `*` stands for any run of characters but `/`, `?` for one of them, `[a-z]` and
/// `[^a-z]` for one of (not of) a class, `\` takes the meaning from what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Run,
    Any,
    One(char),
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// A text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad pattern {0:?}")]
pub struct PatternError(String);

impl Pattern {
    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `name` fits.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut part, mut at) = (0, 0);
        // after the newest run: where to go on when what follows it does not fit
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let fits = match self.parts.get(part) {
                None if at == name.len() => return true,
                None => false,
                Some(Part::Run) => {
                    retry = Some((part + 1, at));
                    part += 1;
                    continue;
                }
                Some(part) => name.get(at).is_some_and(|c| part.takes(*c)),
            };
            if fits {
                part += 1;
                at += 1;
                continue;
            }
            match retry {
                Some((after, from)) if name.get(from).is_some_and(|c| *c != '/') => {
                    retry = Some((after, from + 1));
                    part = after;
                    at = from + 1;
                }
                _ => return false,
            }
        }
    }
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Part::Run | Part::Any => c != '/',
            Part::One(one) => *one == c,
            Part::Class { negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated
            }
        }
    }
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        let bad = || PatternError(text.chars().take(120).collect());
        let mut rest = text.chars().peekable();
        let mut parts = Vec::new();
        while let Some(c) = rest.next() {
            parts.push(match c {
                '*' => Part::Run,
                '?' => Part::Any,
                '\\' => Part::One(rest.next().ok_or_else(bad)?),
                '[' => class(&mut rest).ok_or_else(bad)?,
                c => Part::One(c),
            });
        }
        Ok(Pattern {
            text: text.to_owned(),
            parts,
        })
    }
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// A class after its `[`.
fn class(rest: &mut Rest<'_>) -> Option<Part> {
    let negated = rest.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && rest.next_if_eq(&']').is_some() {
            return Some(Part::Class { negated, ranges });
        }
        let from = bound(rest)?;
        let to = match rest.next_if_eq(&'-') {
            Some(_) => bound(rest)?,
            None => from,
        };
        ranges.push((from, to));
    }
}

/// One end of a range; `-` and `]` stand for themselves only after a `\`.
fn bound(rest: &mut Rest<'_>) -> Option<char> {
    match rest.next()? {
        '-' | ']' => None,
        '\\' => rest.next(),
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        pattern.parse::<Pattern>().unwrap().matches(name)
    }

    #[test]
    fn shell_patterns() {
        for (pattern, name, want) in [
            ("cdi", "cdi", true),
            ("cdi", "cdi2", false),
            ("*", "", true),
            ("*", "a/b", false),
            ("kubevirt-*", "kubevirt-ui", true),
            ("kubevirt-*", "kubevirt-", true),
            ("kubevirt-*", "kubevirt", false),
            ("*-*-x", "a-b-c-x", true),
            ("a*b*c", "abxbc", true),
            ("a*b*c", "abxbd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[\\]a]", "]", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn what_go_calls_bad_is_refused() {
        for bad in [
            "[", "[a", "[]", "[]a]", "[^]", "[-a]", "[a-]", "[a-", "a\\", "*[", "[\\",
        ] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = "a*".repeat(5_000) + "b";
        assert!(!matches(&pattern, &"a".repeat(5_000)));
    }
}

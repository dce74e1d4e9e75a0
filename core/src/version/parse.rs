//! Reading the pieces of versions and constraints.

use semver::{BuildMetadata, Prerelease};

use super::Version;
use super::constraint::{Group, Op, Precision, Term};

/// A number of 64 bits in decimal digits; leading zeros are taken.
pub(super) fn number(text: &str) -> Option<u64> {
    // `parse` alone would take a plus sign
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// What follows the numbers: nothing, `-pre`, `+build`, or both.
pub(super) fn suffixes(text: &str) -> Result<(Prerelease, BuildMetadata), &'static str> {
    let (pre, build) = match text.split_once('+') {
        Some((pre, build)) => (pre, Some(build)),
        None => (text, None),
    };
    let pre = match pre.strip_prefix('-') {
        Some("") => return Err("nothing stands behind its '-'"),
        Some(pre) => Prerelease::new(pre)
            .map_err(|_| "what stands behind its '-' is no legal pre-release")?,
        None => Prerelease::EMPTY,
    };
    let build = match build {
        Some("") => return Err("nothing stands behind its '+'"),
        Some(build) => BuildMetadata::new(build)
            .map_err(|_| "what stands behind its '+' is no legal build metadata")?,
        None => BuildMetadata::EMPTY,
    };
    Ok((pre, build))
}

/// Reads the alternatives of a constraint, joined by `||`.
pub(super) fn groups(text: &str) -> Result<Vec<Group>, &'static str> {
    text.split("||")
        .enumerate()
        .map(|(number, part)| group(part, number > 0))
        .collect()
}

/// Reads terms that must all hold, joined by spaces or commas.
fn group(text: &str, behind_or: bool) -> Result<Group, &'static str> {
    let mut scan = Scanner { rest: text };
    let mut terms = Vec::new();
    let mut fenced = scan.space() || !behind_or || scan.rest.starts_with('v');
    loop {
        let op = scan.op();
        scan.space();
        let term = scan.term(op.unwrap_or(Op::Equal))?;
        let range = op.is_none() && scan.hyphen();
        if range {
            // Here the existing program reads on across what stands to the left without a
            // comma: `3 1 - 2` is an error there, and `3||1 - 2` means `>=3 || 1 <=2`.
            if !fenced {
                return Err("a range A - B needs a comma, or spaces and ||, before it");
            }
            terms.push(Term {
                op: Op::GreaterEqual,
                ..term
            });
            terms.push(scan.term(Op::LessEqual)?);
        } else {
            terms.push(term);
        }
        let spaced = scan.space();
        let comma = scan.eat(',');
        if comma {
            scan.space();
        }
        match (scan.rest.is_empty(), comma, spaced) {
            (true, true, _) => return Err("nothing follows a comma"),
            (true, false, _) => break,
            (false, false, false) => {
                return Err("its parts must be joined by a space, a comma or ||");
            }
            (false, ..) => fenced = comma || range,
        }
    }
    Ok(Group::new(terms))
}

struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    /// Skips white space and says whether there was any. Only the five ASCII kinds: others
    /// are no white space to the existing program.
    fn space(&mut self) -> bool {
        let trimmed = self
            .rest
            .trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        let any = trimmed.len() < self.rest.len();
        self.rest = trimmed;
        any
    }

    fn eat(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn run(&mut self, take: impl Fn(u8) -> bool) -> &'a str {
        let end = self
            .rest
            .bytes()
            .position(|b| !take(b))
            .unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at(end);
        self.rest = rest;
        run
    }

    fn op(&mut self) -> Option<Op> {
        // longer spellings first
        const OPS: [(&str, Op); 11] = [
            ("!=", Op::NotEqual),
            (">=", Op::GreaterEqual),
            ("=>", Op::GreaterEqual),
            ("<=", Op::LessEqual),
            ("=<", Op::LessEqual),
            ("~>", Op::Tilde),
            ("=", Op::Equal),
            (">", Op::Greater),
            ("<", Op::Less),
            ("~", Op::Tilde),
            ("^", Op::Caret),
        ];
        for (text, op) in OPS {
            if let Some(rest) = self.rest.strip_prefix(text) {
                self.rest = rest;
                return Some(op);
            }
        }
        None
    }

    /// A hyphen with white space on both sides; takes nothing when there is none.
    fn hyphen(&mut self) -> bool {
        let before = self.rest;
        let found = self.space() && self.eat('-') && self.space();
        if !found {
            self.rest = before;
        }
        found
    }

    /// A version whose numbers may be missing or wildcards from some point on.
    fn term(&mut self, op: Op) -> Result<Term, &'static str> {
        const WORD: &str = "a version like 1.2.3, 1.2, 1.x or * is expected";
        let start = self.rest;
        self.eat('v');
        let part = |b: u8| b.is_ascii_digit() || matches!(b, b'x' | b'X' | b'*');
        let mut parts = [""; 3];
        parts[0] = self.run(part);
        if parts[0].is_empty() {
            return Err(WORD);
        }
        for slot in &mut parts[1..] {
            let before = self.rest;
            *slot = if self.eat('.') { self.run(part) } else { "" };
            if slot.is_empty() {
                self.rest = before;
                break;
            }
        }
        let tail = self.rest;
        let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
        if self.rest.starts_with('-') {
            self.run(word);
        }
        if self.eat('+') {
            self.run(word);
        }
        let tail = &tail[..tail.len() - self.rest.len()];
        if start.len() - self.rest.len() > super::MAX_VERSION {
            return Err("a version in it is longer than 256 bytes");
        }
        let (pre, build) = suffixes(tail)?;

        // what follows a wildcard is not looked at: `1.*.3` is `1.*`
        let open = |part: &str| matches!(part, "" | "x" | "X" | "*");
        let known = parts.iter().take_while(|part| !open(part)).count();
        let mut numbers = [0; 3];
        for (number, part) in numbers.iter_mut().zip(&parts[..known]) {
            *number = self::number(part).ok_or(WORD)?;
        }
        let precision = match known {
            0 => Precision::Any,
            1 => Precision::Major,
            2 => Precision::Minor,
            _ => Precision::Patch,
        };
        Ok(Term {
            op,
            bound: Version::from_parts(numbers, pre, build),
            precision,
        })
    }
}

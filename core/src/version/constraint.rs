//! Version constraints: what they hold and which versions meet them.
//!
//! Three texts that Masterminds takes are refused here, because it reads them in a way
//! nobody means: a range directly behind `||` (`3||1 - 2`), a term glued to the end of a
//! range (`1 - 2>3`), and a bar among the numbers behind a wildcard (`x.|1`). One that it
//! refuses is taken with its plain meaning: `||` glued to the end of a range (`1 - 2.0||3.0`).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::{Version, order, parse};
use crate::error::shown;

/// Longest text of a constraint in bytes: far more than any list of alternatives that
/// people write, and little enough that hostile ones cost nothing.
pub const MAX_CONSTRAINT: usize = 4096;

/// A constraint such as `~1.21`, `>=1.2, <2` or `1.0 - 1.4 || ^2`.
#[derive(Clone, PartialEq, Eq)]
pub struct Constraint {
    text: String,
    any_of: Vec<Group>,
}

/// Why a text is no constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no version constraint: {reason}")]
pub struct ConstraintError {
    /// The text, cut and without control characters.
    text: String,
    reason: &'static str,
}

impl crate::error::Classify for ConstraintError {
    fn kind(&self) -> crate::Kind {
        crate::Kind::Usage
    }

    fn hint(&self) -> Option<String> {
        Some("write it like ~1.21, ^2, 1.2.3 or \">=1.2, <2\"".to_owned())
    }
}

impl Constraint {
    /// Reads a constraint. An empty text is none: see [`Constraint::parse_optional`].
    pub fn parse(text: &str) -> Result<Constraint, ConstraintError> {
        let error = |reason| ConstraintError {
            text: shown(text),
            reason,
        };
        if text.len() > MAX_CONSTRAINT {
            return Err(error("it is longer than 4096 bytes"));
        }
        Ok(Constraint {
            text: text.trim().to_owned(),
            any_of: parse::groups(text).map_err(error)?,
        })
    }

    /// Reads a constraint where an empty or blank text means that every version will do.
    pub fn parse_optional(text: &str) -> Result<Option<Constraint>, ConstraintError> {
        match text.trim() {
            "" => Ok(None),
            _ => Constraint::parse(text).map(Some),
        }
    }

    /// Whether `version` meets this constraint. A pre-release meets only alternatives that
    /// name a pre-release themselves.
    pub fn matches(&self, version: &Version) -> bool {
        self.any_of.iter().any(|group| group.matches(version))
    }

    /// The version, where this constraint names exactly one: `1.2.3` or `=1.2.3`.
    pub fn exact(&self) -> Option<&Version> {
        match self.any_of.as_slice() {
            [group] => match group.terms.as_slice() {
                [term] if term.op == Op::Equal && term.precision == Precision::Patch => {
                    Some(&term.bound)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The text as it was written, without white space around it.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Constraint {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        Constraint::parse(text)
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Constraint({})", self.text)
    }
}

/// Terms that must all hold.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Group {
    terms: Vec<Term>,
    /// Whether a term names a pre-release, which admits pre-releases for all terms.
    prereleases: bool,
}

impl Group {
    pub(super) fn new(terms: Vec<Term>) -> Group {
        let prereleases = terms.iter().any(|term| term.bound.is_prerelease());
        Group { terms, prereleases }
    }

    fn matches(&self, version: &Version) -> bool {
        (self.prereleases || !version.is_prerelease())
            && self.terms.iter().all(|term| term.matches(version))
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Tilde,
    Caret,
}

/// How many numbers of the bound were written; the others are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Any,
    Major,
    Minor,
    Patch,
}

/// One comparison with one version.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) op: Op,
    pub(super) bound: Version,
    pub(super) precision: Precision,
}

impl Term {
    fn matches(&self, version: &Version) -> bool {
        match self.op {
            Op::Equal if self.precision == Precision::Patch => *version == self.bound,
            Op::Equal | Op::Tilde => self.tilde(version),
            Op::NotEqual => self.not_equal(version),
            Op::Greater => self.greater(version),
            Op::GreaterEqual => *version >= self.bound,
            Op::Less => *version < self.bound,
            Op::LessEqual => self.less_equal(version),
            Op::Caret => self.caret(version),
        }
    }

    fn same_major(&self, version: &Version) -> bool {
        version.0.major == self.bound.0.major
    }

    fn same_minor(&self, version: &Version) -> bool {
        version.0.minor == self.bound.0.minor
    }

    /// `~1` is 1.x.x, `~1.2` and `~1.2.3` stay within 1.2; `~0.0.0` and `~*` take all.
    fn tilde(&self, version: &Version) -> bool {
        let zero = (0, 0, 0) == (self.bound.0.major, self.bound.0.minor, self.bound.0.patch);
        let all = zero && matches!(self.precision, Precision::Any | Precision::Patch);
        *version >= self.bound
            && (all
                || self.same_major(version)
                    && (self.precision == Precision::Major || self.same_minor(version)))
    }

    fn not_equal(&self, version: &Version) -> bool {
        match self.precision {
            Precision::Patch | Precision::Any => *version != self.bound,
            Precision::Major => !self.same_major(version),
            Precision::Minor => {
                !self.same_major(version)
                    || !self.same_minor(version)
                    || order::prerelease(&version.0.pre, &self.bound.0.pre) != Ordering::Equal
            }
        }
    }

    /// `>1` begins at 2, `>1.2` at 1.3.
    fn greater(&self, version: &Version) -> bool {
        match self.precision {
            Precision::Major => version.0.major > self.bound.0.major,
            Precision::Minor => {
                (version.0.major, version.0.minor) > (self.bound.0.major, self.bound.0.minor)
            }
            Precision::Patch | Precision::Any => *version > self.bound,
        }
    }

    /// `<=1` takes all of 1, `<=1.2` all of 1.2.
    fn less_equal(&self, version: &Version) -> bool {
        match self.precision {
            Precision::Major => version.0.major <= self.bound.0.major,
            Precision::Minor | Precision::Any => {
                (version.0.major, version.0.minor) <= (self.bound.0.major, self.bound.0.minor)
            }
            Precision::Patch => *version <= self.bound,
        }
    }

    /// The leftmost number that is not zero stays as it is.
    fn caret(&self, version: &Version) -> bool {
        if *version < self.bound || !self.same_major(version) {
            return false;
        }
        if self.bound.0.major > 0 || self.precision == Precision::Major {
            return true;
        }
        if self.bound.0.minor > 0 || self.precision == Precision::Minor {
            return self.same_minor(version);
        }
        version.0.minor == 0 && version.0.patch == self.bound.0.patch
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meets(constraint: &str, version: &str) -> bool {
        Constraint::parse(constraint)
            .unwrap()
            .matches(&Version::parse(version).unwrap())
    }

    #[test]
    fn the_form_helm_charts_use_for_kubernetes_admits_vendor_suffixes() {
        assert!(meets(">= 1.26.0-0", "1.27.3-gke.100"));
        assert!(!meets(">= 1.26.0", "1.27.3-gke.100"));
    }

    #[test]
    fn both_bounds_of_a_comma_list_count() {
        assert!(meets(">=1.2, <2", "1.9.9"));
        assert!(!meets(">=1.2, <2", "1.1.0"));
        assert!(!meets(">=1.2, <2", "2.0.0"));
    }

    #[test]
    fn a_bare_partial_version_is_a_range_within_it() {
        assert!(meets("1.2", "1.2.9"));
        assert!(!meets("1.2", "1.3.0"));
    }

    #[test]
    fn texts_with_a_surprising_reading_elsewhere_are_refused() {
        for bad in ["3||1 - 2", "3 1 - 2", "1 - 2>3", "x.|1"] {
            assert!(Constraint::parse(bad).is_err(), "{bad}");
        }
        assert!(meets("3 || 1 - 2", "1.5.0"));
    }

    #[test]
    fn only_a_whole_version_is_exact() {
        let exact = |text: &str| Constraint::parse(text).unwrap().exact().is_some();
        assert!(exact("1.2.3") && exact("=v1.2.3-rc.1"));
        for range in [
            "1.2",
            "~1.2.3",
            ">=1.2.3",
            "1.2.3 || 1.2.4",
            "1.2.3, <2",
            "1.2.x",
        ] {
            assert!(!exact(range), "{range}");
        }
    }

    #[test]
    fn no_constraint_is_not_a_constraint() {
        assert!(Constraint::parse("").is_err());
        assert_eq!(Constraint::parse_optional(" \t").unwrap(), None);
        assert!(Constraint::parse_optional(">>1").is_err());
    }

    #[test]
    fn an_overlong_constraint_is_refused() {
        let error = Constraint::parse(&"1 ".repeat(3000)).unwrap_err();
        assert!(error.to_string().contains("4096"), "{error}");
    }

    fn constraints() -> impl Strategy<Value = String> {
        let term = "(=|!=|>|<|>=|=>|<=|=<|~|~>|\\^)? ?v?([0-9]{1,2}|x|\\*)(\\.([0-9]|X)){0,2}(-[a-z][a-z0]?)?";
        proptest::collection::vec(term, 1..4).prop_map(|terms| terms.join(", "))
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>()) {
            let _ = Constraint::parse(&text);
        }

        #[test]
        fn no_text_of_its_own_alphabet_makes_the_parser_panic(text in "[0-9xXv*.,|<>=!~^ +-]{0,24}") {
            let _ = Constraint::parse(&text);
        }

        #[test]
        fn a_printed_constraint_means_the_same(text in constraints()) {
            let constraint = Constraint::parse(&text).unwrap();
            prop_assert_eq!(Constraint::parse(&constraint.to_string()).unwrap(), constraint);
        }

        #[test]
        fn alternatives_widen_and_terms_narrow(a in constraints(), b in constraints(), n in 0u8..30, m in 0u8..4) {
            let version = Version::parse(&format!("{n}.{m}.1")).unwrap();
            let meets = |text: &str| Constraint::parse(text).unwrap().matches(&version);
            prop_assert_eq!(meets(&format!("{a} || {b}")), meets(&a) || meets(&b));
            prop_assert_eq!(meets(&format!("{a}, {b}")), meets(&a) && meets(&b));
        }
    }
}

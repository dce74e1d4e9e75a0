//! Versions and version constraints with the meaning Helm and the existing kubepkg give
//! them (Masterminds semver 3.5.0), over the types of the `semver` crate.
//!
//! The dialects of Rust's and npm's crates read the same texts differently (`1.2` would be
//! `^1.2`, `>=1.2, <2` would lose a bound), so only the types are used, not their parsers of
//! requirements.

mod constraint;
mod order;
mod parse;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

pub use constraint::{Constraint, ConstraintError, MAX_CONSTRAINT};
use semver::{BuildMetadata, Prerelease};

use crate::error::shown;

/// Longest text of a version in bytes; the existing program refuses more.
pub const MAX_VERSION: usize = 256;

/// A version. Equality and order are those of precedence: what stands behind a `+` does not
/// count, so two versions can be equal and print differently.
#[derive(Clone)]
pub struct Version(semver::Version);

/// Why a text is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no version: {reason}")]
pub struct VersionError {
    /// The text, cut and without control characters.
    text: String,
    reason: &'static str,
}

impl VersionError {
    fn new(text: &str, reason: &'static str) -> VersionError {
        VersionError {
            text: shown(text),
            reason,
        }
    }
}

impl crate::error::Classify for VersionError {
    fn kind(&self) -> crate::Kind {
        crate::Kind::Usage
    }

    fn hint(&self) -> Option<String> {
        Some("a version reads MAJOR.MINOR.PATCH, e.g. 1.21.0 or 1.21.0-rc.1".to_owned())
    }
}

impl Version {
    /// Reads a version as people write it: a leading `v`, missing parts (`1`, `v1.2`) and
    /// leading zeros are taken.
    pub fn parse(text: &str) -> Result<Version, VersionError> {
        let whole = text;
        let text = bounded(text)?;
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let (core, rest) = text.split_at(end);
        let mut numbers = [0; 3];
        for (count, part) in core.split('.').enumerate() {
            let number = numbers
                .get_mut(count)
                .ok_or_else(|| VersionError::new(whole, "it has more than three numbers"))?;
            *number = parse::number(part)
                .ok_or_else(|| VersionError::new(whole, "it is not made of numbers and dots"))?;
        }
        let (pre, build) =
            parse::suffixes(rest).map_err(|reason| VersionError::new(whole, reason))?;
        Ok(Version::from_parts(numbers, pre, build))
    }

    /// Reads a version that follows semver 2.0 to the letter.
    pub fn parse_strict(text: &str) -> Result<Version, VersionError> {
        semver::Version::parse(bounded(text)?)
            .map(Version)
            .map_err(|_| VersionError::new(text, "it is not MAJOR.MINOR.PATCH as semver 2.0 wants"))
    }

    /// Reads a version as a repository index may publish it: strict, but for one leading `v`.
    pub fn parse_published(text: &str) -> Result<Version, VersionError> {
        bounded(text)?;
        Version::parse_strict(text.strip_prefix('v').unwrap_or(text))
            .map_err(|error| VersionError::new(text, error.reason))
    }

    /// Whether this is a pre-release.
    pub fn is_prerelease(&self) -> bool {
        !self.0.pre.is_empty()
    }

    /// The version as a value of the `semver` crate.
    pub fn semver(&self) -> &semver::Version {
        &self.0
    }

    fn from_parts(numbers: [u64; 3], pre: Prerelease, build: BuildMetadata) -> Version {
        let [major, minor, patch] = numbers;
        Version(semver::Version {
            major,
            minor,
            patch,
            pre,
            build,
        })
    }
}

fn bounded(text: &str) -> Result<&str, VersionError> {
    if text.len() > MAX_VERSION {
        return Err(VersionError::new(text, "it is longer than 256 bytes"));
    }
    Ok(text)
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        Version::parse(text)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        order::precedence(&self.0, &other.0)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.major, self.0.minor, self.0.patch).hash(state);
        self.0.pre.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_three_readings_differ_in_what_they_take() {
        let taken = |text| {
            (
                Version::parse(text).is_ok(),
                Version::parse_published(text).is_ok(),
                Version::parse_strict(text).is_ok(),
            )
        };
        assert_eq!(taken("1.2.3-rc.1+b"), (true, true, true));
        assert_eq!(taken("v1.2.3"), (true, true, false));
        assert_eq!(taken("1.2"), (true, false, false));
        assert_eq!(taken("01.2.3"), (true, false, false));
        for bad in [
            "", "vv1.2.3", "1.2.3.4", "1.2.3-", "1.2.3+", "+1.2.3", "1.2.3-01",
        ] {
            assert_eq!(taken(bad), (false, false, false), "{bad}");
        }
    }

    #[test]
    fn build_metadata_does_not_count() {
        let version = |text| Version::parse(text).unwrap();
        assert_eq!(version("1.0.0"), version("v1+x"));
        assert!(version("1.0.0-rc.1") < version("1.0.0"));
    }

    #[test]
    fn an_error_is_short_and_without_control_characters() {
        let error = Version::parse(&"\u{7}".repeat(200))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("\"\\u{7}"), "{error}");
        assert!(error.len() < 800, "{error}");
    }

    fn texts() -> impl Strategy<Value = String> {
        "v?[0-9]{1,3}(\\.[0-9]{1,3}){0,2}(-(0|[1-9][0-9]{0,22}|[a-z-]{1,3})(\\.(0|1|a|z9)){0,2})?(\\+[a-z0-9.]{1,4})?"
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in any::<String>()) {
            let _ = Version::parse(&text);
            let _ = Version::parse_published(&text);
            let _ = Version::parse_strict(&text);
        }

        #[test]
        fn what_is_printed_is_read_back(text in texts()) {
            if let Ok(version) = Version::parse(&text) {
                prop_assert_eq!(Version::parse_strict(&version.to_string()).unwrap(), version);
            }
        }

        #[test]
        fn the_order_is_one_order(a in texts(), b in texts(), c in texts()) {
            if let (Ok(a), Ok(b), Ok(c)) = (Version::parse(&a), Version::parse(&b), Version::parse(&c)) {
                prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
                if a <= b && b <= c {
                    prop_assert!(a <= c);
                }
            }
        }
    }
}

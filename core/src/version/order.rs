//! The order of versions by precedence.
//!
//! It is semver's but for one thing: a number in a pre-release that does not fit 64 bits is
//! compared as text, as the existing program does. The `semver` crate would rank it among
//! the numbers and so could choose another version than a cluster does.

use std::cmp::Ordering;

use semver::{Prerelease, Version};

/// Compares two versions; what stands behind a `+` does not count.
pub(super) fn precedence(a: &Version, b: &Version) -> Ordering {
    (a.major, a.minor, a.patch)
        .cmp(&(b.major, b.minor, b.patch))
        .then_with(|| prerelease(&a.pre, &b.pre))
}

/// Compares two pre-releases; none at all is the highest.
pub(super) fn prerelease(a: &Prerelease, b: &Prerelease) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let mut left = a.split('.');
            let mut right = b.split('.');
            loop {
                match (left.next(), right.next()) {
                    (None, None) => return Ordering::Equal,
                    (None, Some(_)) => return Ordering::Less,
                    (Some(_), None) => return Ordering::Greater,
                    (Some(a), Some(b)) => match identifier(a, b) {
                        Ordering::Equal => {}
                        other => return other,
                    },
                }
            }
        }
    }
}

fn identifier(a: &str, b: &str) -> Ordering {
    match (super::parse::number(a), super::parse::number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

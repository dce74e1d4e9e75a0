//! Versions and constraints.

use std::cmp::Ordering;

use kubepkg_core::version::{Constraint, MAX_CONSTRAINT, MAX_VERSION, Version};

/// Versions at which constraints commonly differ.
const PROBES: [&str; 12] = [
    "0.0.0",
    "0.0.1-0",
    "0.1.0",
    "1.0.0-alpha",
    "1.0.0",
    "1.2.3",
    "1.2.4-rc.1",
    "1.3.0",
    "2.0.0",
    "2.0.0+build",
    "10.20.30",
    "18446744073709551615.0.0",
];

/// Each line is a version.
pub fn version(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let versions: Vec<Version> = text.lines().take(16).filter_map(one).collect();
    for a in &versions {
        for b in &versions {
            assert_eq!(a.cmp(b), b.cmp(a).reverse(), "{a} and {b}");
            assert_eq!(a == b, a.cmp(b) == Ordering::Equal, "{a} and {b}");
            for c in &versions {
                if a <= b && b <= c {
                    assert!(a <= c, "{a} <= {b} <= {c}");
                }
            }
        }
    }
}

fn one(text: &str) -> Option<Version> {
    let lenient = Version::parse(text).ok();
    if let Ok(strict) = Version::parse_strict(text) {
        assert_eq!(
            strict.to_string(),
            text,
            "a strict version prints as written"
        );
        assert!(lenient.as_ref() == Some(&strict), "{text:?}");
        assert!(Version::parse_published(text).is_ok(), "{text:?}");
    }
    let version = lenient?;
    assert!(text.len() <= MAX_VERSION);
    let printed = version.to_string();
    let again = Version::parse_strict(&printed);
    assert!(
        again.is_ok_and(|again| again == version && again.to_string() == printed),
        "{text:?} prints as {printed:?}"
    );
    Some(version)
}

/// The first line is a constraint, the others are versions to be judged by it.
pub fn constraint(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let (written, versions) = text.split_once('\n').unwrap_or((text, ""));
    let optional = Constraint::parse_optional(written);
    let Ok(constraint) = Constraint::parse(written) else {
        assert!(
            written.trim().is_empty() || optional.is_err(),
            "{written:?}"
        );
        return;
    };
    assert!(written.len() <= MAX_CONSTRAINT);
    assert_eq!(optional.ok().flatten().as_ref(), Some(&constraint));
    let printed = constraint.to_string();
    assert_eq!(printed, constraint.as_str());
    let again = Constraint::parse(&printed);
    assert_eq!(again.as_ref().ok(), Some(&constraint), "{written:?}");
    for version in PROBES.into_iter().chain(versions.lines().take(16)) {
        if let Ok(version) = Version::parse(version) {
            // what stands behind the + has no say
            let bare = version.to_string();
            let bare = bare.split_once('+').map_or(bare.as_str(), |(bare, _)| bare);
            let bare = Version::parse(bare).map(|bare| constraint.matches(&bare));
            assert_eq!(bare.ok(), Some(constraint.matches(&version)), "{version}");
        }
    }
}

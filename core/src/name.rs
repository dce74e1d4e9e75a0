//! Grammars of repository names and tags (OCI distribution specification, "Pulling
//! manifests") and of package names.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use crate::error::shown;

/// Longest repository name: many clients refuse more.
pub const MAX_REPOSITORY: usize = 255;

/// Longest package name: it is also the name of a Kubernetes object.
pub const MAX_PACKAGE: usize = 253;

/// Why a text is no legal name. The text says which rule and what was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not a repository name.
    #[error(
        "\"{0}\" is no repository name: lower-case letters and digits, joined by '.', '_', '__' or \
         '-', in elements joined by '/', at most 255 characters"
    )]
    Repository(String),
    /// Not a tag.
    #[error(
        "\"{0}\" is no tag: letters, digits and '_', then also '.' and '-', at most 128 characters"
    )]
    Tag(String),
    /// Not a package name.
    #[error(
        "\"{0}\" is no package name: lower-case letters, digits, '-' and '.', beginning and ending \
         with a letter or digit, at most 253 characters"
    )]
    Package(String),
}

macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident, $check:path, $error:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                if $check(text) {
                    Ok($name(text.to_owned()))
                } else {
                    Err($error(shown(text)))
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        crate::serde_by_text!($name);
    };
}

text_newtype!(
    /// The name of a repository in a registry, e.g. `docker.io/library/busybox`.
    RepositoryName,
    is_repository,
    NameError::Repository
);

text_newtype!(
    /// A tag, e.g. `1.36` or `sha256-….sig`.
    Tag,
    is_tag,
    NameError::Tag
);

text_newtype!(
    /// The name of a package: an RFC 1123 subdomain, as Kubernetes wants for object names.
    PackageName,
    is_package,
    NameError::Package
);

/// Whether `text` is one path element of a repository name.
pub fn is_repository_element(text: &str) -> bool {
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(&alnum) || !bytes.last().is_some_and(&alnum) {
        return false;
    }
    bytes
        .split(|b| alnum(b))
        .filter(|run| !run.is_empty())
        .all(|run| matches!(run, b"." | b"_" | b"__") || run.iter().all(|b| *b == b'-'))
}

fn is_repository(text: &str) -> bool {
    text.len() <= MAX_REPOSITORY && text.split('/').all(is_repository_element)
}

fn is_tag(text: &str) -> bool {
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let bytes = text.as_bytes();
    bytes.len() <= 128
        && bytes.first().is_some_and(word)
        && bytes.iter().all(|b| word(b) || *b == b'.' || *b == b'-')
}

fn is_package(text: &str) -> bool {
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= MAX_PACKAGE
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(&alnum)
                && bytes.last().is_some_and(&alnum)
                && bytes.iter().all(|b| alnum(b) || *b == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_grammar() {
        for good in [
            "a",
            "docker.io/library/x",
            "a__b",
            "a---b",
            "host_5000/x",
            "a/b/c/d/e/f/g/h/i",
        ] {
            assert!(good.parse::<RepositoryName>().is_ok(), "{good}");
        }
        let long = "a/".repeat(128) + "b";
        for bad in [
            "", "A", "a//b", "/a", "a/", "a..b", "a___b", "a._b", "-a", "a-", "a:b", "../x", &long,
        ] {
            assert!(bad.parse::<RepositoryName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn tag_grammar() {
        let long = "x".repeat(129);
        assert!("v1.0_a-b".parse::<Tag>().is_ok());
        for bad in ["", ".a", "-a", "a/b", "a+b", &long] {
            assert!(bad.parse::<Tag>().is_err(), "{bad}");
        }
    }

    #[test]
    fn package_grammar() {
        assert!("cert-manager".parse::<PackageName>().is_ok());
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", "a/b"] {
            assert!(bad.parse::<PackageName>().is_err(), "{bad}");
        }
    }
}

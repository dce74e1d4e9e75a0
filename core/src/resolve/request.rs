//! What is asked for, and in which variants.

use std::fmt;
use std::str::FromStr;

use crate::error::{Classify, Kind};
use crate::name::{NameError, PackageName};
use crate::version::{Constraint, ConstraintError};

/// A package somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub name: PackageName,
    /// The variant it shall run; without one that of the call, or the one that runs.
    pub variant: Option<String>,
    /// Which versions will do; all without one.
    pub constraint: Option<Constraint>,
}

/// Why a text is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The name is not legal.
    #[error(transparent)]
    Name(#[from] NameError),
    /// There is a colon, and no variant behind it.
    #[error("{0}: no variant stands behind the colon")]
    NoVariant(PackageName),
    /// The constraint is not legal.
    #[error("{package}: {source}")]
    Constraint {
        /// The package.
        package: PackageName,
        /// What is wrong.
        source: ConstraintError,
    },
}

impl Classify for RequestError {
    fn kind(&self) -> Kind {
        Kind::Usage
    }

    fn hint(&self) -> Option<String> {
        Some(
            "ask for a package as NAME[:VARIANT][@CONSTRAINT], e.g. cert-manager@~1.21 or \
             kubevirt:small"
                .to_owned(),
        )
    }
}

impl FromStr for Request {
    type Err = RequestError;

    /// Reads `NAME[:VARIANT][@CONSTRAINT]`.
    fn from_str(text: &str) -> Result<Self, RequestError> {
        let (package, constraint) = text.split_once('@').unwrap_or((text, ""));
        let (name, variant) = match package.split_once(':') {
            Some((name, variant)) => (name, Some(variant)),
            None => (package, None),
        };
        let name: PackageName = name.parse()?;
        if variant == Some("") {
            return Err(RequestError::NoVariant(name));
        }
        match Constraint::parse_optional(constraint) {
            Ok(constraint) => Ok(Request {
                name,
                variant: variant.map(str::to_owned),
                constraint,
            }),
            Err(source) => Err(RequestError::Constraint {
                package: name,
                source,
            }),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(variant) = &self.variant {
            write!(f, ":{variant}")?;
        }
        match &self.constraint {
            Some(constraint) => write!(f, "@{constraint}"),
            None => Ok(()),
        }
    }
}

/// Whose requirements count when packages are packed: one may come in variants that need
/// different packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variants {
    /// Those of every variant: whatever a site installs is there.
    All,
    /// Those of variants with these names, and of those that chosen packages and requests
    /// ask for. A package without such a variant requires nothing; of two variants with one
    /// name the last counts, as in a cluster.
    Named(Vec<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_package_a_variant_and_a_constraint() {
        for text in ["app", "app@~1.2", "app:small", "app:small@>=1, <2"] {
            let request: Request = text.parse().unwrap();
            assert_eq!(request.to_string(), text);
        }
        let request: Request = "app:small@1.0.0".parse().unwrap();
        assert_eq!(request.variant.as_deref(), Some("small"));
    }

    #[test]
    fn what_is_no_request_is_refused_with_the_form_to_use() {
        for text in ["", "App", "app:", "app:@1", "app@>>1", ":small"] {
            let error = text.parse::<Request>().unwrap_err();
            assert!(error.hint().unwrap().contains("NAME[:VARIANT]"), "{text}");
        }
    }
}

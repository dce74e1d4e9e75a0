//! Who wants a package.

use std::fmt;

/// Who wants a package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The call.
    Requested,
    /// A chosen package.
    Package {
        /// Its name.
        name: String,
        /// Its version as listed.
        version: String,
        /// The variant that wants it, where the package has several.
        variant: Option<String>,
        /// The capability it wants, where it did not ask for the package by name.
        via: Option<String>,
    },
    /// An installed package that stays as it is.
    Installed {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// The capability it wants, where it did not ask for the package by name.
        via: Option<String>,
    },
    /// Nobody: the installed version could not stay beside what was asked for.
    Displaced,
}

impl Origin {
    /// Whether the call asked for it.
    pub fn is_requested(&self) -> bool {
        *self == Origin::Requested
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let via = match self {
            Origin::Requested => return f.write_str("requested"),
            Origin::Displaced => {
                return f.write_str("the installed version cannot stay beside the rest");
            }
            Origin::Package {
                name,
                version,
                variant,
                via,
            } => {
                write!(f, "required by {name} {version}")?;
                if let Some(variant) = variant {
                    write!(f, " (variant {variant})")?;
                }
                via
            }
            Origin::Installed { name, version, via } => {
                write!(f, "required by {name} {version} (installed)")?;
                via
            }
        };
        match via {
            Some(capability) => write!(f, " via {capability}"),
            None => Ok(()),
        }
    }
}

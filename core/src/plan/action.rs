//! What is done with a package.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::At;
use crate::version::Version;

/// What is done with a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It was not there.
    Install,
    /// A newer version or build, or the same one in another variant.
    Upgrade,
    /// An older version or build.
    Downgrade,
    /// Nothing.
    Keep,
    /// It goes.
    Remove,
}

impl Action {
    /// What leads from one to the other.
    pub(super) fn between(from: Option<&At>, to: &At) -> Action {
        let Some(from) = from else {
            return Action::Install;
        };
        let versions = (Version::parse(&from.version), Version::parse(&to.version));
        let order = match versions {
            (Ok(from), Ok(to)) => to.cmp(&from),
            // what cannot be read is not known to be newer
            _ => to.version.cmp(&from.version).max(std::cmp::Ordering::Equal),
        };
        match order.then(to.build.cmp(&from.build)) {
            std::cmp::Ordering::Greater => Action::Upgrade,
            std::cmp::Ordering::Less => Action::Downgrade,
            std::cmp::Ordering::Equal if from.version != to.version => Action::Upgrade,
            std::cmp::Ordering::Equal if to.variant.is_empty() => Action::Keep,
            std::cmp::Ordering::Equal if from.variant != to.variant => Action::Upgrade,
            std::cmp::Ordering::Equal => Action::Keep,
        }
    }

    /// The word used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Install => "install",
            Action::Upgrade => "upgrade",
            Action::Downgrade => "downgrade",
            Action::Keep => "keep",
            Action::Remove => "remove",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

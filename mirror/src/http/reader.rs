//! Who reads something that tells of the mirror as a whole, and what of it they may be told.

use std::sync::Arc;

use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::Names;

use super::{Asking, Shared, auth, sites};
use crate::access::{Action, Gate, Who};

/// Whose page it is, or whose metrics.
#[derive(Debug)]
pub(super) struct Reader {
    /// Who decides; `None` where everybody reads everything.
    pub(super) gate: Option<Arc<Gate>>,
    pub(super) who: Who,
}

impl Reader {
    /// Who asks.
    pub(super) fn of(shared: &Shared, asking: &Asking) -> Reader {
        let decides = !auth::reads_are_open(shared);
        Reader {
            gate: shared.gate.clone().filter(|_| decides),
            who: asking.who.clone(),
        }
    }

    /// Whether they may read a repository.
    pub(super) fn reads(&self, repository: &RepositoryName) -> bool {
        self.may(repository.as_str())
    }

    /// Whether they may read an index.
    pub(super) fn reads_index(&self, url: &CanonicalUrl) -> bool {
        self.gate.is_none() || self.may(&sites::ruled_index(url))
    }

    /// Whether nothing that is here has to be kept from them. It looks at all names.
    pub(super) fn reads_everything(&self, names: &Names) -> bool {
        self.gate.is_none()
            || names.repositories.keys().all(|name| self.reads(name))
                && names.sites.values().all(|site| self.reads_index(&site.url))
    }

    fn may(&self, path: &str) -> bool {
        let gate = self.gate.as_ref();
        gate.is_none_or(|gate| gate.allows(&self.who, Action::Pull, path))
    }
}

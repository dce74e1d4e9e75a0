//! What servers have asked for before: who wants a token for one repository wants one for the next
//! too, and is not asked in vain first. That saves a request and a round trip for every repository.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::challenge::Challenge;
use super::endpoint::Endpoint;

/// The challenges of servers, by their address.
#[derive(Default)]
pub(super) struct Expected(Mutex<HashMap<String, Vec<Challenge>>>);

impl Expected {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Vec<Challenge>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `at` will ask for; nothing is known where it was not met yet.
    pub(super) fn of(&self, at: &Endpoint) -> Option<Vec<Challenge>> {
        self.all().get(&at.server()).cloned()
    }

    /// Takes note of what `at` asked for and took. What is about this repository under another
    /// name says nothing of the names others have.
    pub(super) fn learn(&self, at: &Endpoint, challenges: &[Challenge]) {
        let own = challenges.iter().filter(|one| {
            let scope = one.parameter("scope").unwrap_or_default();
            let name = scope.strip_prefix("repository:");
            let name = name.and_then(|rest| rest.rsplit_once(':'));
            scope.is_empty() || name.is_some_and(|(name, _)| name == at.repository)
        });
        let own: Vec<Challenge> = own.map(|one| one.without("scope")).collect();
        if !own.is_empty() {
            self.all().insert(at.server(), own);
        }
    }
}

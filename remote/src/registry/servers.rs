//! Which servers are asked for content, and which one next: mirrors in the order of the settings,
//! the registry itself last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kubepkg_core::Reference;

use super::Registry;
use super::endpoint::{Endpoint, Purpose, Routes};
use crate::error::{Fault, RemoteError};
use crate::http::{Ask, Way};

/// How long a mirror that failed is not asked: without that, a dead one would cost every
/// request the time it takes to notice.
const SHUN: Duration = Duration::from_secs(120);

/// Mirrors that failed, and until when they are left alone.
#[derive(Default)]
pub(super) struct Shunned(Mutex<HashMap<String, Instant>>);

impl Shunned {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, host: &str) {
        if let Some(until) = Instant::now().checked_add(SHUN) {
            self.all().insert(host.to_owned(), until);
        }
    }

    fn contains(&self, host: &str) -> bool {
        let until = self.all().get(host).copied();
        until.is_some_and(|until| until > Instant::now())
    }
}

impl Registry {
    /// The registry of `reference` itself, to write there, and nobody else.
    pub(super) fn server_to_push(&self, reference: &Reference) -> Result<Servers, RemoteError> {
        Ok(Servers {
            at: self.routes().to_push(reference)?,
            further: Vec::new(),
            answered_counts: true,
            shunned: Arc::clone(&self.inner.access.shunned),
        })
    }

    fn routes(&self) -> Routes<'_> {
        Routes {
            mirror: self.inner.mirror.as_ref(),
            settings: &self.inner.settings,
            plain: self.inner.http.plain(),
        }
    }

    /// The servers to ask about `reference`.
    pub(super) fn servers(
        &self,
        reference: &Reference,
        purpose: Purpose,
    ) -> Result<Servers, RemoteError> {
        let mut all = self.routes().of(reference, purpose)?;
        all.retain(|at| at.last || !self.inner.access.shunned.contains(&at.host));
        all.reverse();
        // never empty: the registry itself is always there
        let at = all.pop().ok_or_else(|| {
            RemoteError::new(reference.to_string(), Fault::Url("no server".to_owned()))
        })?;
        Ok(Servers {
            at,
            further: all,
            answered_counts: false,
            shunned: Arc::clone(&self.inner.access.shunned),
        })
    }

    /// Whether the registry itself answers, which matters where mirrors could be asked instead.
    /// One request finds out for all that ask of one host: there are many look-ups, and each would
    /// make its own tries and pauses.
    pub(super) async fn reaches(&self, at: &Endpoint) -> bool {
        let access = &self.inner.access;
        let answered = access.reached(&at.host);
        // before each of those who waited asks anew
        let ask = async || match access.shunned.contains(&at.host) {
            true => Err(()),
            false => self.answers(at).await,
        };
        !access.shunned.contains(&at.host) && answered.get_or_try_init(ask).await.is_ok()
    }

    async fn answers(&self, at: &Endpoint) -> Result<(), ()> {
        let Ok(ask) = at.front().map(Ask::get) else {
            return Ok(());
        };
        let ask = Ask {
            line: at.line.clone().map_or(Way::Own, Way::Host),
            ..ask
        };
        let mut tries = self.inner.http.tries();
        match self.inner.http.send(&at.host, &ask, &mut tries).await {
            Err(error) if error.fault().is_passing() => {
                tracing::info!(%error, "asking its mirrors instead");
                self.inner.access.shunned.add(&at.host);
                Err(())
            }
            Err(_) => Ok(()),
            Ok(answer) => {
                answer.went_well();
                Ok(())
            }
        }
    }
}

/// The servers that are asked one after the other.
pub(super) struct Servers {
    at: Endpoint,
    /// The others, the next one last.
    further: Vec<Endpoint>,
    /// What a server answers counts; the next one is asked only where it cannot be reached.
    answered_counts: bool,
    shunned: Arc<Shunned>,
}

impl Servers {
    /// The server that is asked now.
    pub(super) fn at(&self) -> &Endpoint {
        &self.at
    }

    /// The registry itself, where it is not the only one.
    pub(super) fn registry_behind(&self) -> Option<&Endpoint> {
        self.further.first()
    }

    /// The same with the registry itself first. Its mirrors are asked only where it cannot be
    /// reached.
    pub(super) fn registry_first(mut self) -> Servers {
        if !self.further.is_empty() {
            let registry = self.further.remove(0);
            let first = std::mem::replace(&mut self.at, registry);
            self.further.push(first);
        }
        self.answer_counts()
    }

    /// The same where the first answer is the one that counts.
    pub(super) fn answer_counts(mut self) -> Servers {
        self.answered_counts = true;
        self
    }

    /// Goes on to the next server after `error`; the error itself when this was the last one.
    pub(super) fn next(&mut self, error: RemoteError) -> Result<(), RemoteError> {
        if self.answered_counts && !error.fault().is_passing() {
            return Err(error);
        }
        let Some(next) = self.further.pop() else {
            return Err(error);
        };
        tracing::info!(%error, next = next.host, "asking the next server");
        if error.fault().is_passing() {
            self.shunned.add(&self.at.host);
        }
        self.at = next;
        Ok(())
    }
}

//! TLS: what it is spoken with, read anew when its files change.
//!
//! A connection keeps what it began with, so a new certificate disturbs nobody. What is new
//! and cannot be used is said in the log, and the old goes on.

mod ca;
mod error;
mod facts;
mod files;
mod own;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use kubepkg_core::time::Time;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};

pub use self::ca::{Ca, ca_pem};
pub use self::error::TlsError;
pub use self::facts::Facts;
pub use self::files::TlsFiles;
pub use self::own::{Made, Own};
use crate::changes::Changes;
use crate::told::told;

/// How long before its end a certificate is spoken of in the log.
pub const SOON: u64 = 14 * 24 * 60 * 60;

/// How often that is looked at.
const DAILY: Duration = Duration::from_secs(24 * 60 * 60);

/// Sessions remembered for clients that do not use tickets.
const SESSIONS: usize = 1024;

/// What TLS is spoken with, as of now.
pub struct Tls {
    files: TlsFiles,
    /// Makes a new certificate when the old one nears its end.
    own: Option<Own>,
    now: RwLock<Now>,
    changes: Changes,
    sessions: Sessions,
    /// The files as they are now cannot be used.
    unread: AtomicBool,
}

/// By what clients that come back are known.
struct Sessions {
    /// Outlives a change of files. `None`: who comes back with a session is not asked for a
    /// certificate again, so sessions end with what their clients were checked against.
    lasting: Option<(Arc<dyn ProducesTickets>, Arc<dyn StoresServerSessions>)>,
}

impl Sessions {
    fn new(files: &TlsFiles) -> Result<Sessions, TlsError> {
        let lasting = match files.client_ca {
            None => Some((tickets()?, ServerSessionMemoryCache::new(SESSIONS) as _)),
            Some(_) => None,
        };
        Ok(Sessions { lasting })
    }

    fn load(&self, files: &TlsFiles) -> Result<Now, TlsError> {
        let mut loaded = files::load(files)?;
        (loaded.config.ticketer, loaded.config.session_storage) = match &self.lasting {
            Some((tickets, cache)) => (Arc::clone(tickets), Arc::clone(cache)),
            None => (tickets()?, ServerSessionMemoryCache::new(SESSIONS) as _),
        };
        Ok(Now {
            config: Arc::new(loaded.config),
            facts: Arc::new(loaded.facts),
            ca: loaded.ca.map(Arc::new),
        })
    }
}

fn tickets() -> Result<Arc<dyn ProducesTickets>, TlsError> {
    Ticketer::new().map_err(|error| TlsError::Make {
        what: "keys for session tickets",
        why: error.to_string(),
    })
}

#[derive(Clone)]
struct Now {
    config: Arc<ServerConfig>,
    facts: Arc<Facts>,
    ca: Option<Arc<Ca>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads these files.
    pub fn open(files: TlsFiles) -> Result<Tls, TlsError> {
        let changes = Changes::of(files.paths());
        let sessions = Sessions::new(&files)?;
        Ok(Tls {
            now: RwLock::new(sessions.load(&files)?),
            sessions,
            files,
            own: None,
            changes,
            unread: AtomicBool::new(false),
        })
    }

    /// Uses the certificate a mirror made for itself; only clients with a certificate of
    /// `client_ca` are served, where it is given.
    pub fn own(own: Own, client_ca: Option<PathBuf>) -> Result<Tls, TlsError> {
        let file = own.file();
        let mut tls = Tls::open(TlsFiles {
            certificate: file.clone(),
            key: file,
            client_ca,
            ca: Some(own.ca_path()),
        })?;
        tls.own = Some(own);
        Ok(tls)
    }

    /// Reads the CA of clients alone; its errors are those of [`Tls::open`].
    pub fn check_client_ca(path: &std::path::Path) -> Result<(), TlsError> {
        files::client_verifier(path).map(|_| ())
    }

    /// What the certificate in use says.
    pub fn facts(&self) -> Arc<Facts> {
        Arc::clone(&self.now().facts)
    }

    /// The CA that vouches for it, as it is handed out.
    pub fn ca(&self) -> Option<Arc<Ca>> {
        self.now().ca.clone()
    }

    /// Whether the files were changed and cannot be used: what was read before goes on.
    pub fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// For the next connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.now().config)
    }

    fn now(&self) -> std::sync::RwLockReadGuard<'_, Now> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files again. The old ones go on where the new ones cannot be used, or do not
    /// hold now while the old ones do.
    pub fn reload(&self) -> Result<Arc<Facts>, TlsError> {
        let read = self.read_files(Time::now());
        self.unread.store(read.is_err(), Ordering::Relaxed);
        read
    }

    fn read_files(&self, at: Time) -> Result<Arc<Facts>, TlsError> {
        let now = self.sessions.load(&self.files)?;
        let facts = Arc::clone(&now.facts);
        if facts.left(at).is_none() && self.facts().left(at).is_some() {
            let why = format!(
                "the new certificate does not hold now, and the one in use does: it holds from {} \
                 to {}",
                facts.from, facts.until
            );
            let hint = "put one in its place that holds, or set the clock";
            return Err(TlsError::content(&self.files.certificate, why, hint));
        }
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(facts)
    }

    /// Looks every so often whether the files changed, for ever; a certificate of one's own is
    /// made anew in time.
    pub async fn keep(self: Arc<Self>, every: Duration) {
        let tls = Arc::clone(&self);
        let files = self
            .changes
            .clone()
            .each(every, move |again| tls.read_again(again));
        let daily = async {
            loop {
                let tls = Arc::clone(&self);
                if let Err(error) = tokio::task::spawn_blocking(move || tls.daily()).await {
                    tracing::error!(%error, "the age of the certificate is not looked at");
                }
                tokio::time::sleep(DAILY).await;
            }
        };
        tokio::join!(files, daily);
    }

    /// Answers whether they could be used; `again`: those that could not are tried once more.
    fn read_again(&self, again: bool) -> bool {
        match self.reload() {
            Ok(facts) => {
                tracing::warn!(
                    until = %facts.until,
                    names = %facts.names.join(", "),
                    fingerprint = %facts.fingerprint,
                    "the certificate was read again; new connections get it"
                );
                self.say_age(&facts);
                true
            }
            Err(error) => {
                if !again {
                    tracing::error!(
                        error = %told(&error),
                        "the changed certificate or key cannot be used; the one before goes on"
                    );
                }
                false
            }
        }
    }

    fn daily(&self) {
        if let Some(own) = &self.own {
            match own.renew(Time::now()) {
                Ok(Made::Kept) => {}
                Ok(_) => {
                    self.read_again(false);
                }
                Err(error) => {
                    tracing::error!(error = %told(&error), "no new certificate could be made");
                }
            }
        }
        self.say_age(&self.facts());
    }

    /// Says when the end is near.
    fn say_age(&self, facts: &Facts) {
        match facts.left(Time::now()) {
            None => tracing::error!(
                from = %facts.from,
                until = %facts.until,
                file = %self.files.certificate.display(),
                "the certificate does not hold now; clients will refuse it"
            ),
            Some(left) if left < SOON => tracing::warn!(
                until = %facts.until,
                file = %self.files.certificate.display(),
                "the certificate ends soon; put a new one in its place"
            ),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;

//! Who may do what: logins, and rules for repositories. Both lie in files that are read again
//! when they change; what is new and cannot be used is said in the log, and the old goes on.

mod credentials;
mod error;
mod failures;
mod passwords;
mod rules;
mod token;
mod users;
mod verified;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use kubepkg_core::time::Time;
use tokio::sync::Semaphore;

pub use self::credentials::Credentials;
pub use self::error::AccessError;
use self::failures::Failures;
pub use self::failures::PER_MINUTE;
pub use self::passwords::Passwords;
use self::rules::RulesError;
pub use self::rules::{Action, Rules};
pub use self::token::LIFE as TOKEN_LIFE;
use self::token::{Bearer, Tokens};
pub use self::users::Users;
use self::verified::Verified;
use crate::changes::{Changes, read_bounded};
use crate::told::told;

/// Logins that may wait for a processor; more are told to come again.
const WAITING: usize = 64;

/// Where the settings lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessFiles {
    /// Users and their passwords, where that file must be there.
    pub passwords: Option<PathBuf>,
    /// Users and their passwords, where that file may come later.
    pub users: Option<PathBuf>,
    /// The rules.
    pub rules: Option<PathBuf>,
}

/// Who somebody is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Who {
    /// Nobody in particular.
    #[default]
    Anyone,
    /// A user who has shown a password.
    User(Arc<str>),
}

impl Who {
    /// The user's name.
    pub fn user(&self) -> Option<&str> {
        match self {
            Who::Anyone => None,
            Who::User(name) => Some(name),
        }
    }
}

/// Why somebody is not who they say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotThem {
    /// User or password are wrong.
    Wrong,
    /// The token is not ours, or counts no longer.
    Token,
    /// What was sent is no login.
    Unreadable,
    /// There were too many wrong logins, or there are too many at once; try again after this.
    Later(Duration),
}

/// What was read.
#[derive(Debug, Default)]
struct Settings {
    /// `None`: there are no logins.
    passwords: Option<Passwords>,
    rules: Rules,
}

/// Parts of the settings.
#[derive(Debug)]
struct Known {
    logins: AtomicBool,
    all_may_read: AtomicBool,
}

impl Known {
    fn of(settings: &Settings) -> Known {
        Known {
            logins: settings.passwords.is_some().into(),
            all_may_read: settings.rules.are_open().into(),
        }
    }

    fn follow(&self, settings: &Settings) {
        let logins = settings.passwords.is_some();
        self.logins.store(logins, Ordering::Release);
        let open = settings.rules.are_open();
        self.all_may_read.store(open, Ordering::Release);
    }
}

/// Decides who may do what.
pub struct Gate {
    files: AccessFiles,
    /// Everybody may write where no rule says otherwise.
    open: bool,
    settings: RwLock<Arc<Settings>>,
    /// What is asked for each request, without a lock.
    known: Known,
    changes: Changes,
    verified: Verified,
    failures: Failures,
    tokens: Tokens,
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("files", &self.files)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// Reads the settings. `open`: everybody may write where no rule says otherwise.
    /// `failures`: wrong logins an address may have in a minute, 0 for any number.
    pub fn open(files: AccessFiles, open: bool, failures: u32) -> Result<Gate, AccessError> {
        let paths = [&files.passwords, &files.users, &files.rules];
        let changes = Changes::of(paths.into_iter().flatten().cloned().collect());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let settings = read(&files)?;
        Ok(Gate {
            known: Known::of(&settings),
            settings: RwLock::new(Arc::new(settings)),
            files,
            open,
            changes,
            verified: Verified::new()?,
            failures: Failures::new(failures),
            tokens: Tokens::new()?,
            // half of the processors are left for those who are in
            turns: Arc::new(Semaphore::new((cores / 2).max(1))),
            waiting: AtomicUsize::new(0),
        })
    }

    fn settings(&self) -> Arc<Settings> {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&settings)
    }

    /// Whether there are users.
    pub fn has_logins(&self) -> bool {
        self.known.logins.load(Ordering::Acquire)
    }

    /// The users' names, in order.
    pub fn users(&self) -> Vec<String> {
        let settings = self.settings();
        let users = settings.passwords.iter().flat_map(Passwords::users);
        users.map(str::to_owned).collect()
    }

    /// Whether anybody at all may write somewhere.
    pub fn lets_write(&self) -> bool {
        let settings = self.settings();
        self.open || settings.passwords.is_some() || settings.rules.let_anyone_write()
    }

    /// Whether everybody may read everything.
    pub fn is_open_for_reading(&self) -> bool {
        self.known.all_may_read.load(Ordering::Acquire)
    }

    /// Whether somebody may do this with a repository.
    pub fn allows(&self, who: &Who, action: Action, repository: &str) -> bool {
        let rules = &self.settings().rules;
        rules.allow(who.user(), action, repository, self.open)
    }

    /// Reads the files again. The old settings go on where the new ones cannot be used.
    pub fn reload(&self) -> Result<(), AccessError> {
        let settings = Arc::new(read(&self.files)?);
        let mut now = self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.known.follow(&settings);
        *now = settings;
        Ok(())
    }

    /// Looks every so often whether the files changed, for ever.
    pub async fn keep(self: Arc<Self>, every: Duration) {
        let changes = self.changes.clone();
        changes
            .each(every, move || match self.reload() {
                Ok(()) => tracing::warn!(
                    users = self.users().len(),
                    "users and rules were read again"
                ),
                Err(error) => tracing::error!(
                    error = %told(&error),
                    "the changed users or rules cannot be used; those before go on"
                ),
            })
            .await;
    }

    /// Who has sent these credentials from `address`.
    pub async fn who(
        &self,
        credentials: &Credentials,
        address: Option<IpAddr>,
    ) -> Result<Who, NotThem> {
        match credentials {
            Credentials::None => Ok(Who::Anyone),
            Credentials::Unreadable => Err(NotThem::Unreadable),
            Credentials::Token(token) => self.bearer(token, Time::now()),
            Credentials::Password { user, password } => {
                let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
                self.login(user, password, address.unwrap_or(nowhere)).await
            }
        }
    }

    fn bearer(&self, token: &str, now: Time) -> Result<Who, NotThem> {
        let bearer = self.tokens.check(token, now).ok_or(NotThem::Token)?;
        let Some(user) = &bearer.user else {
            return Ok(Who::Anyone);
        };
        let settings = self.settings();
        let passwords = settings.passwords.as_ref().ok_or(NotThem::Token)?;
        // a user who was taken away or has a new password logs in again
        match passwords.version(user) == Some(bearer.version) {
            true => passwords.user(user).map(Who::User).ok_or(NotThem::Token),
            false => Err(NotThem::Token),
        }
    }

    async fn login(&self, user: &str, password: &str, address: IpAddr) -> Result<Who, NotThem> {
        let settings = self.settings();
        let Some(passwords) = &settings.passwords else {
            return Err(NotThem::Wrong);
        };
        let hash = passwords.hash(user);
        let login = hash.map(|hash| self.verified.login(user, password, hash));
        let known = || login.is_some_and(|login| self.verified.knows(login, Instant::now()));
        let them = || passwords.user(user).map(Who::User).ok_or(NotThem::Wrong);
        // not held up by the wrong logins of others behind the same address
        if known() {
            return them();
        }
        let _turn = self.turn().await?;
        if known() {
            return them();
        }
        if let Some(wait) = self.failures.wait(address, Instant::now()) {
            return Err(NotThem::Later(wait));
        }
        // for a name nobody has it takes as long
        let compared = hash.or_else(|| passwords.users().find_map(|user| passwords.hash(user)));
        let Some(compared) = compared.map(str::to_owned) else {
            self.failures.note(address, Instant::now());
            return Err(NotThem::Wrong);
        };
        let shown = zeroize::Zeroizing::new(password.to_owned());
        let right = tokio::task::spawn_blocking(move || {
            bcrypt::verify(shown.as_bytes(), &compared).unwrap_or(false)
        })
        .await
        .unwrap_or(false);
        match login {
            Some(login) if right => {
                self.verified.remember(login, Instant::now());
                them()
            }
            _ => {
                self.failures.note(address, Instant::now());
                tracing::warn!(user = %kubepkg_core::error::shown(user), %address, "wrong login");
                Err(NotThem::Wrong)
            }
        }
    }

    /// Waits for a processor.
    async fn turn(&self) -> Result<tokio::sync::OwnedSemaphorePermit, NotThem> {
        struct Waits<'a>(&'a AtomicUsize);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.waiting);
        let soon = NotThem::Later(Duration::from_secs(1));
        if before >= WAITING {
            return Err(soon);
        }
        let turns = Arc::clone(&self.turns);
        turns.acquire_owned().await.map_err(|_| soon)
    }

    /// A token for somebody.
    pub fn token(&self, who: &Who) -> String {
        let settings = self.settings();
        let version = who.user().and_then(|user| {
            let passwords = settings.passwords.as_ref()?;
            passwords.version(user)
        });
        let bearer = Bearer {
            user: who.user().map(str::to_owned),
            version: version.unwrap_or_default(),
        };
        self.tokens.make(&bearer, Time::now())
    }
}

fn read(files: &AccessFiles) -> Result<Settings, AccessError> {
    let what = "the users of the mirror";
    let passwords = match (&files.passwords, &files.users) {
        (Some(path), _) => Some((path, read_bounded(path, passwords::MAX_FILE))),
        (None, Some(path)) => match read_bounded(path, passwords::MAX_FILE) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            read => Some((path, read)),
        },
        (None, None) => None,
    };
    let passwords = match passwords {
        None => None,
        Some((path, bytes)) => {
            let bytes = bytes.map_err(AccessError::read(what, path))?;
            let text = String::from_utf8_lossy(&bytes);
            let wrong = |(line, why)| AccessError::Login {
                path: path.clone(),
                line,
                why,
            };
            Some(Passwords::parse(&text).map_err(wrong)?)
        }
    };
    let rules = match &files.rules {
        None => Rules::default(),
        Some(path) => {
            let bytes = read_bounded(path, rules::MAX_FILE)
                .map_err(AccessError::read("the rules of the mirror", path))?;
            let text = String::from_utf8_lossy(&bytes);
            let known = |name: &str| {
                let users = passwords.as_ref();
                users.is_some_and(|users| users.hash(name).is_some())
            };
            // a rule for a user who comes later is no error as long as there is none at all
            let known: Option<&dyn Fn(&str) -> bool> = passwords.as_ref().map(|_| &known as _);
            Rules::parse(&text, known).map_err(|error| match error {
                RulesError::Yaml(source) => AccessError::Rules {
                    path: path.clone(),
                    source,
                },
                RulesError::Meaning(place, why) => AccessError::Meaning {
                    path: path.clone(),
                    place,
                    why,
                },
            })?
        }
    };
    Ok(Settings { passwords, rules })
}

#[cfg(test)]
mod tests;

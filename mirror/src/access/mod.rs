//! Who may do what: logins, and rules for repositories. Both lie in files that are read again
//! when they change, each for itself; what is new and cannot be used is said in the log, and the
//! old goes on.

mod client;
mod credentials;
mod error;
mod failures;
mod passwords;
mod rules;
mod token;
mod token_key;
mod users;
mod verified;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use kubepkg_core::time::Time;
use tokio::sync::Semaphore;

pub use self::client::Client;
pub use self::credentials::Credentials;
pub use self::error::AccessError;
use self::failures::Failures;
pub use self::failures::PER_MINUTE;
pub use self::passwords::Passwords;
use self::rules::RulesError;
pub use self::rules::{Action, Decision, Ruled, Rules};
pub use self::token::LIFE as TOKEN_LIFE;
use self::token::{Bearer, Tokens};
pub use self::token_key::TokenKey;
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
    /// The key of tokens.
    pub token_key: TokenKey,
}

/// Who somebody is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Who {
    /// Nobody in particular: there was no login.
    #[default]
    Nobody,
    /// A user who has shown a password.
    User(Arc<str>),
}

impl Who {
    /// The user's name.
    pub fn into_user(self) -> Option<Arc<str>> {
        match self {
            Who::Nobody => None,
            Who::User(name) => Some(name),
        }
    }

    /// The user's name.
    pub fn user(&self) -> Option<&str> {
        match self {
            Who::Nobody => None,
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
    /// There were too many wrong logins of this name, or there are too many at once; try again after this.
    Later(Duration),
}

/// What was read.
#[derive(Debug)]
struct Settings {
    /// `None`: there are no logins.
    passwords: Option<Passwords>,
    rules: Rules,
    tokens: Arc<Tokens>,
}

impl Settings {
    /// What is odd about them and does no harm. As long as nobody can log in at all nobody has
    /// to be a user.
    fn doubts(&self, files: &AccessFiles) -> Vec<AccessError> {
        let (Some(passwords), Some(path)) = (&self.passwords, &files.rules) else {
            return Vec::new();
        };
        let is_user = |name: &str| passwords.hash(name).is_some();
        let doubts = self.rules.doubts(&is_user).into_iter();
        let said = doubts.map(|(place, why)| AccessError::Meaning {
            path: path.clone(),
            place,
            why,
        });
        said.collect()
    }
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
    unread: Unread,
    checks: Arc<Checks>,
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// What passwords that were shown came to.
struct Checks {
    verified: Verified,
    failures: Failures,
    /// Wrong logins since the beginning.
    wrong: AtomicU64,
}

impl Checks {
    /// Counts a wrong login and says so.
    fn failed(&self, address: IpAddr, user: &str) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        self.failures.note(address, user, Instant::now());
        tracing::warn!(user = %kubepkg_core::error::shown(user), %address, "wrong login");
    }
}

/// Which files, as they are now, cannot be used; what was read before goes on.
#[derive(Debug, Default)]
struct Unread {
    users: AtomicBool,
    rules: AtomicBool,
    token_key: AtomicBool,
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
    /// `failures`: wrong logins a name may have from an address in a minute, 0 for any number.
    pub fn open(mut files: AccessFiles, open: bool, failures: u32) -> Result<Gate, AccessError> {
        // first, as it may be made: that is no change
        let tokens = Arc::new(Tokens::under(files.token_key.begin()?));
        let paths = [
            files.passwords.as_ref(),
            files.users.as_ref(),
            files.rules.as_ref(),
            files.token_key.path(),
        ];
        let changes = Changes::of(paths.into_iter().flatten().cloned().collect());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let settings = Settings {
            passwords: read_passwords(&files)?,
            rules: read_rules(&files)?,
            tokens,
        };
        Ok(Gate {
            known: Known::of(&settings),
            settings: RwLock::new(Arc::new(settings)),
            files,
            open,
            changes,
            unread: Unread::default(),
            checks: Arc::new(Checks {
                verified: Verified::new()?,
                failures: Failures::new(failures),
                wrong: AtomicU64::new(0),
            }),
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

    /// Wrong logins since the beginning.
    pub fn wrong_logins(&self) -> u64 {
        self.checks.wrong.load(Ordering::Relaxed)
    }

    /// The files that are read again, by what is in them; and whether they were changed and
    /// cannot be used.
    pub fn unread(&self) -> [(&'static str, bool); 3] {
        let is = |unread: &AtomicBool| unread.load(Ordering::Relaxed);
        [
            ("users", is(&self.unread.users)),
            ("rules", is(&self.unread.rules)),
            ("token key", is(&self.unread.token_key)),
        ]
    }

    /// Whether anybody at all may write somewhere.
    pub fn lets_write(&self) -> bool {
        let settings = self.settings();
        let logins = settings.passwords.is_some();
        settings.rules.let_write(logins, self.open)
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

    /// The same, and which rule says so.
    pub fn decides(&self, who: &Who, action: Action, repository: &str) -> Decision {
        let rules = &self.settings().rules;
        rules.decide(who.user(), action, repository, self.open)
    }

    /// What of the rules is odd, as that they name somebody who is no user. It opens nothing.
    pub fn doubts(&self) -> Vec<AccessError> {
        self.settings().doubts(&self.files)
    }

    /// Reads the files again. Users, rules and the key count each for itself: whoever was taken
    /// away is out, whatever became of the rules. The old go on where the new ones cannot be used; the
    /// errors say which.
    pub fn reload(&self) -> Result<(), Vec<AccessError>> {
        let (passwords, rules) = (read_passwords(&self.files), read_rules(&self.files));
        let key = self.files.token_key.again();
        let Unread {
            users: no_users,
            rules: no_rules,
            token_key: no_key,
        } = &self.unread;
        no_users.store(passwords.is_err(), Ordering::Relaxed);
        no_rules.store(rules.is_err(), Ordering::Relaxed);
        no_key.store(key.is_err(), Ordering::Relaxed);
        let mut errors = Vec::new();
        let mut now = self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let settings = Arc::new(Settings {
            passwords: passwords.unwrap_or_else(|error| {
                errors.push(error);
                now.passwords.clone()
            }),
            rules: rules.unwrap_or_else(|error| {
                errors.push(error);
                now.rules.clone()
            }),
            tokens: match key {
                Ok(Some(key)) => Arc::new(Tokens::under(key)),
                Ok(None) => Arc::clone(&now.tokens),
                Err(error) => {
                    errors.push(error);
                    Arc::clone(&now.tokens)
                }
            },
        });
        self.known.follow(&settings);
        *now = settings;
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors),
        }
    }

    /// Reads what changed and says so; answers whether all of it could be used. What cannot be
    /// is tried `again` until it can, and said once.
    fn read_again(&self, again: bool) -> bool {
        let read = self.reload();
        if read.is_ok() || !again {
            let users = self.users().len();
            tracing::warn!(users, "users, rules and the token key were read again");
            for doubt in self.doubts() {
                tracing::warn!(what = %told(&doubt), "the rules name what is not there");
            }
        }
        let Err(errors) = read else {
            return true;
        };
        for error in errors.iter().filter(|_| !again) {
            tracing::error!(
                error = %told(error),
                "the changed users, rules or token key cannot be used; those before go on"
            );
        }
        false
    }

    /// Looks every so often whether the files changed, for ever.
    pub async fn keep(self: Arc<Self>, every: Duration) {
        let changes = self.changes.clone();
        changes
            .each(every, move |again| self.read_again(again))
            .await;
    }

    /// Who has sent these credentials from `address`.
    pub async fn who(
        &self,
        credentials: &Credentials,
        address: Option<IpAddr>,
    ) -> Result<Who, NotThem> {
        self.judge(&self.settings(), credentials, address).await
    }

    /// The same, by these settings.
    async fn judge(
        &self,
        settings: &Settings,
        credentials: &Credentials,
        address: Option<IpAddr>,
    ) -> Result<Who, NotThem> {
        match credentials {
            Credentials::None => Ok(Who::Nobody),
            Credentials::Unreadable => Err(NotThem::Unreadable),
            Credentials::Token(token) => Gate::bearer(settings, token, Time::now()),
            Credentials::Password { user, password } => {
                let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                self.login(settings, user, password, address).await
            }
        }
    }

    fn bearer(settings: &Settings, token: &str, now: Time) -> Result<Who, NotThem> {
        let bearer = settings.tokens.check(token, now).ok_or(NotThem::Token)?;
        let Some(user) = &bearer.user else {
            return Ok(Who::Nobody);
        };
        let passwords = settings.passwords.as_ref().ok_or(NotThem::Token)?;
        // a user who was taken away or has a new password logs in again
        match passwords.version(user) == Some(bearer.version) {
            true => passwords.user(user).map(Who::User).ok_or(NotThem::Token),
            false => Err(NotThem::Token),
        }
    }

    async fn login(
        &self,
        settings: &Settings,
        user: &str,
        password: &str,
        address: IpAddr,
    ) -> Result<Who, NotThem> {
        let Some(passwords) = &settings.passwords else {
            return Err(NotThem::Wrong);
        };
        let hash = passwords.hash(user);
        let checks = &self.checks;
        let login = hash.map(|hash| checks.verified.login(user, password, hash));
        let known = || login.is_some_and(|login| checks.verified.knows(login, Instant::now()));
        let them = || passwords.user(user).map(Who::User).ok_or(NotThem::Wrong);
        let may_try = || match checks.failures.wait(address, user, Instant::now()) {
            Some(wait) => Err(NotThem::Later(wait)),
            None => Ok(()),
        };
        // not held up by the wrong logins of others behind the same address
        if known() {
            return them();
        }
        // who has to wait takes no place among those who need not
        may_try()?;
        let turn = self.turn().await?;
        if known() {
            return them();
        }
        may_try()?;
        // for a name nobody has it takes as long
        let Some(compared) = hash.or_else(|| passwords.costliest()) else {
            checks.failed(address, user);
            return Err(NotThem::Wrong);
        };
        let (compared, checks) = (compared.to_owned(), Arc::clone(checks));
        let name = user.to_owned();
        let shown = zeroize::Zeroizing::new(password.to_owned());
        let span = tracing::Span::current();
        // It goes on when the client does not wait for it. The turn is held and a wrong password
        // is noted and logged all the same, or hanging up would get around that.
        let checked = tokio::task::spawn_blocking(move || {
            let (_turn, _request) = (turn, span.enter());
            let right = bcrypt::verify(shown.as_bytes(), &compared).unwrap_or(false);
            match login {
                Some(login) if right => checks.verified.remember(login, Instant::now()),
                _ => checks.failed(address, &name),
            }
            login.is_some() && right
        });
        match checked.await.unwrap_or(false) {
            true => them(),
            false => Err(NotThem::Wrong),
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

    /// A token for who has sent these credentials from `address`. It is one of the password that
    /// was shown: where the user has another one meanwhile it counts for nothing.
    pub async fn token(
        &self,
        credentials: &Credentials,
        address: Option<IpAddr>,
    ) -> Result<String, NotThem> {
        let settings = self.settings();
        let who = self.judge(&settings, credentials, address).await?;
        let version = who.user().and_then(|user| {
            let passwords = settings.passwords.as_ref()?;
            passwords.version(user)
        });
        let bearer = Bearer {
            user: who.user().map(str::to_owned),
            version: version.unwrap_or_default(),
        };
        // the key may have changed as well, and only the new one is of use
        Ok(self.settings().tokens.make(&bearer, Time::now()))
    }
}

fn read_passwords(files: &AccessFiles) -> Result<Option<Passwords>, AccessError> {
    let (path, bytes) = match (&files.passwords, &files.users) {
        (Some(path), _) => (path, read_bounded(path, passwords::MAX_FILE)),
        (None, Some(path)) => match read_bounded(path, passwords::MAX_FILE) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => (path, read),
        },
        (None, None) => return Ok(None),
    };
    let bytes = bytes.map_err(AccessError::read("the users of the mirror", path))?;
    let passwords = Passwords::parse(&String::from_utf8_lossy(&bytes));
    passwords
        .map(Some)
        .map_err(|(line, why)| AccessError::Login {
            path: path.clone(),
            line,
            why,
        })
}

fn read_rules(files: &AccessFiles) -> Result<Rules, AccessError> {
    let Some(path) = &files.rules else {
        return Ok(Rules::default());
    };
    let bytes = read_bounded(path, rules::MAX_FILE)
        .map_err(AccessError::read("the rules of the mirror", path))?;
    Rules::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| match error {
        RulesError::Yaml(source) => AccessError::Rules {
            path: path.clone(),
            source,
        },
        RulesError::Meaning(place, why) => AccessError::Meaning {
            path: path.clone(),
            place,
            why,
        },
    })
}

#[cfg(test)]
mod tests;

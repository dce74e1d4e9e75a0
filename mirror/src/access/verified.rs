//! Logins that were found right lately. bcrypt is slow so that stolen hashes are of little use;
//! a client that shows its password with every request need not pay for that each time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hmac::Mac as _;

use super::error::AccessError;
use super::token::{code, random_key};

/// Most logins remembered.
const MAX: usize = 4096;

/// How long one that is not used is remembered.
const LIFE: Duration = Duration::from_secs(60 * 60);

/// Logins found right, by a hash under a key nobody knows: memory holds no passwords.
pub(super) struct Verified {
    key: zeroize::Zeroizing<[u8; 32]>,
    right: Mutex<HashMap<[u8; 32], Instant>>,
}

/// A login, as it is remembered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Login([u8; 32]);

impl Verified {
    pub(super) fn new() -> Result<Verified, AccessError> {
        Ok(Verified {
            key: random_key()?,
            right: Mutex::default(),
        })
    }

    /// What this password of a user is remembered as, as long as its hash is this one.
    pub(super) fn login(&self, user: &str, password: &str, hash: &str) -> Login {
        let mut code = code(&self.key);
        for part in [user, hash, password] {
            code.update(&(part.len() as u64).to_be_bytes());
            code.update(part.as_bytes());
        }
        Login(code.finalize().into_bytes().into())
    }

    /// Whether it was found right. One that is used is remembered from now on: a client that
    /// never pauses never pays again.
    pub(super) fn knows(&self, login: Login, now: Instant) -> bool {
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        match right.get_mut(&login.0) {
            Some(since) if now.saturating_duration_since(*since) < LIFE => {
                *since = now.max(*since);
                true
            }
            _ => false,
        }
    }

    /// Remembers that it was found right.
    pub(super) fn remember(&self, login: Login, now: Instant) {
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        if right.len() >= MAX {
            right.retain(|_, since| now.saturating_duration_since(*since) < LIFE);
            if right.len() >= MAX {
                right.clear();
            }
        }
        right.insert(login.0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_remembered_for_a_while_and_for_one_hash() {
        let verified = Verified::new().unwrap();
        let now = Instant::now();
        let login = verified.login("alice", "secret", "hash");
        assert!(!verified.knows(login, now));
        verified.remember(login, now);
        assert!(verified.knows(login, now));
        assert!(!verified.knows(login, now + LIFE));
        let half = LIFE / 2;
        assert!(verified.knows(login, now + half), "which counts as a use");
        assert!(verified.knows(login, now + LIFE));
        assert!(!verified.knows(login, now + LIFE + LIFE));
        for (user, password, hash) in [
            ("alice", "secret", "other"),
            ("alice", "Secret", "hash"),
            ("alices", "ecret", "hash"),
        ] {
            assert!(!verified.knows(verified.login(user, password, hash), now));
        }
        for n in 0..2 * MAX {
            verified.remember(verified.login("bob", &n.to_string(), "hash"), now);
        }
        assert!(verified.right.lock().unwrap().len() <= MAX);
    }
}

//! Users and their passwords, one `name:hash` a line, as `htpasswd -B` writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bcrypt::HashParts;
use sha2::{Digest as _, Sha256};

use super::rules::{ANYONE, USERS};

/// Longest file, in bytes: [`MAX_USERS`] of the longest lines.
pub(super) const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Most users.
const MAX_USERS: usize = 10_000;

/// Longest name, in bytes.
pub(super) const MAX_NAME: usize = 255;

/// Rounds that are taken, as a power of two: with more one login costs seconds, and who knows
/// a name could keep the mirror busy with wrong passwords.
const MAX_COST: u32 = 14;

/// bcrypt looks at no more bytes of a password.
pub(super) const MAX_PASSWORD: usize = 72;

/// Users and the hashes of their passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passwords {
    users: BTreeMap<Arc<str>, Arc<str>>,
    /// The hash that takes longest.
    costliest: Option<(u32, Arc<str>)>,
}

impl Passwords {
    /// Reads the lines. The error names the first line that is of no use.
    pub fn parse(text: &str) -> Result<Passwords, (usize, String)> {
        let mut users: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        let mut costliest: Option<(u32, Arc<str>)> = None;
        for (at, line) in text.lines().enumerate() {
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: String| (at + 1, why);
            let (name, hash) = line
                .split_once(':')
                .ok_or_else(|| wrong("this is no line of the form name:hash".to_owned()))?;
            check_name(name).map_err(wrong)?;
            let cost = cost_of(hash).map_err(|why| {
                wrong(format!("the password of \"{name}\" cannot be used: {why}"))
            })?;
            let hash: Arc<str> = Arc::from(hash);
            if costliest.as_ref().is_none_or(|(most, _)| cost > *most) {
                costliest = Some((cost, Arc::clone(&hash)));
            }
            if users.insert(Arc::from(name), hash).is_some() {
                return Err(wrong(format!("\"{name}\" is there twice")));
            }
            if users.len() > MAX_USERS {
                return Err(wrong(format!("there are more than {MAX_USERS} users")));
            }
        }
        Ok(Passwords { users, costliest })
    }

    /// The hash of a user's password.
    pub fn hash(&self, user: &str) -> Option<&str> {
        self.users.get(user).map(|hash| &**hash)
    }

    /// What the password of a name nobody has is compared with, so that it does not answer
    /// sooner than one somebody has.
    pub(super) fn costliest(&self) -> Option<&str> {
        self.costliest.as_ref().map(|(_, hash)| &**hash)
    }

    /// The name as it is kept here.
    pub(super) fn user(&self, name: &str) -> Option<Arc<str>> {
        let found = self.users.get_key_value(name);
        found.map(|(name, _)| Arc::clone(name))
    }

    /// A short text that changes with the user's password; `None` for nobody.
    pub(super) fn version(&self, user: &str) -> Option<String> {
        let hash = self.hash(user)?;
        Some(hex::encode(&Sha256::digest(hash)[..8]))
    }

    /// The users, in order.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(|name| &**name)
    }
}

/// Whether a user can have this name; else why not.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let why = match name {
        "" => "it is empty",
        name if name.len() > MAX_NAME => "it is too long",
        name if name.contains(':') => "it holds a colon, which ends a name",
        name if name.chars().any(|c| c.is_control() || c.is_whitespace()) => {
            "it holds spaces or control characters"
        }
        name if name.starts_with(['#', '@']) => "it begins with # or @",
        ANYONE | USERS => "in rules it has a meaning of its own",
        _ => return Ok(()),
    };
    let name = kubepkg_core::error::shown(name);
    Err(format!("no user can be called \"{name}\": {why}"))
}

/// The rounds of a hash, as a power of two; else why it is not taken.
fn cost_of(hash: &str) -> Result<u32, String> {
    let kind = match hash {
        hash if ["$2y$", "$2b$", "$2a$"].iter().any(|p| hash.starts_with(p)) => {
            let cost = hash
                .parse::<HashParts>()
                .map_err(|_| "its bcrypt hash is damaged".to_owned())?
                .get_cost();
            return match cost <= MAX_COST {
                true => Ok(cost),
                false => Err(format!(
                    "its bcrypt hash has cost {cost}, and no more than {MAX_COST} is taken"
                )),
            };
        }
        hash if hash.starts_with("$apr1$") => "MD5",
        hash if hash.starts_with("{SHA}") => "SHA-1 without salt",
        hash if hash.starts_with("$5$") || hash.starts_with("$6$") => "crypt's SHA-2",
        _ => "something else, or not at all",
    };
    Err(format!("it is hashed with {kind}; only bcrypt is taken"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC";

    #[test]
    fn lines_of_htpasswd_are_read() {
        let text = format!("# made by hand\nalice:{HASH}\r\n\nbob:{HASH}\n");
        let passwords = Passwords::parse(&text).unwrap();
        assert_eq!(passwords.users().collect::<Vec<_>>(), ["alice", "bob"]);
        assert_eq!(passwords.hash("alice"), Some(HASH));
        assert_eq!(passwords.hash("eve"), None);
        assert!(passwords.version("eve").is_none());
        let other = HASH.replace("05", "04");
        let changed = Passwords::parse(&format!("alice:{other}")).unwrap();
        assert_ne!(changed.version("alice"), passwords.version("alice"));
        let dear = HASH.replace("05", "06");
        for text in [
            format!("a:{other}\nb:{dear}\nc:{HASH}\n"),
            format!("a:{dear}\nb:{other}\n"),
        ] {
            let passwords = Passwords::parse(&text).unwrap();
            assert_eq!(passwords.costliest(), Some(&*dear));
        }
        assert_eq!(Passwords::default().costliest(), None);
    }

    #[test]
    fn a_line_that_is_of_no_use_is_named_and_its_hash_is_not_shown() {
        let costly = HASH.replace("$05$", "$31$");
        for (line, why) in [
            ("alice", "name:hash"),
            (":x", "it is empty"),
            ("a b:x", "spaces"),
            ("@a:x", "begins with"),
            ("users:x", "meaning of its own"),
            ("anyone:x", "meaning of its own"),
            ("alice:$apr1$9Cv/OMGj$ZomWQzuQbL.3TRCS81A1g/", "MD5"),
            ("alice:{SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "SHA-1"),
            ("alice:secret", "only bcrypt"),
            ("alice:$2y$05$short", "damaged"),
            (&format!("alice:{costly}"), "cost 31"),
            (&format!("bob:{HASH}"), "twice"),
        ] {
            let text = format!("bob:{HASH}\n{line}\n");
            let (at, said) = Passwords::parse(&text).unwrap_err();
            assert_eq!(at, 2, "{line}");
            assert!(said.contains(why), "{said}");
            assert!(!said.contains("ZomW") && !said.contains("secret"), "{said}");
        }
    }
}

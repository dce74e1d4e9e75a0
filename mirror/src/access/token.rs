//! Tokens: who has one has shown a password lately. They say who somebody is; what that person
//! may do is looked up when it is done, so a changed rule counts at once.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use kubepkg_core::time::Time;
use sha2::Sha256;

use super::error::AccessError;
use super::token_key::Key;

/// How long clients are told that a token counts. They fetch a new one without asking anybody.
pub const LIFE: Duration = Duration::from_secs(15 * 60);

/// How much the clocks of two mirrors may differ that know each other's tokens. Each counts for
/// that much longer than its client is told.
const SKEW: i64 = 60;

/// Seconds a token counts.
const HOLDS: i64 = LIFE.as_secs() as i64 + SKEW;

/// Longest token that is looked at.
const MAX_TOKEN: usize = 2048;

/// First line of what is signed.
const FORM: &str = "kubepkg mirror token 1";

/// Makes and checks tokens under a key ([`super::token_key`]).
pub(super) struct Tokens {
    key: Key,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

/// Who a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bearer {
    /// The user; `None` for somebody without a login.
    pub(super) user: Option<String>,
    /// Changes with the user's password.
    pub(super) version: String,
}

/// A random key.
pub(super) fn random_key() -> Result<Key, AccessError> {
    let mut key = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(&mut *key).map_err(|error| AccessError::Random(error.to_string()))?;
    Ok(key)
}

/// An authentication code over bytes.
pub(super) fn code(key: &[u8; 32]) -> Hmac<Sha256> {
    match Hmac::new_from_slice(key) {
        Ok(code) => code,
        // every length is legal
        Err(_) => Hmac::new(&Default::default()),
    }
}

impl Tokens {
    pub(super) fn under(key: Key) -> Tokens {
        Tokens { key }
    }

    /// A token that counts for [`LIFE`] from `now` on, and a little longer.
    pub(super) fn make(&self, bearer: &Bearer, now: Time) -> String {
        let until = now.unix() + HOLDS;
        let user = bearer.user.as_deref().unwrap_or_default();
        let signed = format!("{FORM}\n{until}\n{}\n{user}", bearer.version);
        let mut code = code(&self.key);
        code.update(signed.as_bytes());
        format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(&signed),
            URL_SAFE_NO_PAD.encode(code.finalize().into_bytes())
        )
    }

    /// Who a token is for, if it is one of ours and counts at `now`.
    pub(super) fn check(&self, token: &str, now: Time) -> Option<Bearer> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let (signed, signature) = token.split_once('.')?;
        let signed = URL_SAFE_NO_PAD.decode(signed).ok()?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let mut code = code(&self.key);
        code.update(&signed);
        // in the same time wherever they differ
        code.verify_slice(&signature).ok()?;
        let text = String::from_utf8(signed).ok()?;
        let mut lines = text.splitn(4, '\n');
        if lines.next()? != FORM {
            return None;
        }
        let until: i64 = lines.next()?.parse().ok()?;
        let (version, user) = (lines.next()?.to_owned(), lines.next()?);
        let left = until - now.unix();
        // a clock that was set back does not make it last longer
        (0 < left && left <= HOLDS + SKEW).then(|| Bearer {
            user: (!user.is_empty()).then(|| user.to_owned()),
            version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_for_its_time_and_under_its_key() {
        let tokens = Tokens::under(random_key().unwrap());
        let now = Time::from_unix(1_790_000_000);
        let bearer = Bearer {
            user: Some("alice".to_owned()),
            version: "0123".to_owned(),
        };
        let token = tokens.make(&bearer, now);
        assert_eq!(tokens.check(&token, now), Some(bearer.clone()));
        // by the clock of another mirror, too, that goes a little wrong
        for moment in [now.plus(HOLDS - 1), now.plus(-SKEW)] {
            assert!(tokens.check(&token, moment).is_some());
        }
        for moment in [now.plus(HOLDS), now.plus(-SKEW - 1)] {
            assert_eq!(tokens.check(&token, moment), None);
        }
        let other = Tokens::under(random_key().unwrap());
        assert_eq!(other.check(&token, now), None);
        let same = Tokens::under(tokens.key.clone());
        assert!(same.check(&token, now).is_some());
        for at in 0..token.len() {
            let mut broken = token.clone().into_bytes();
            broken[at] = if broken[at] == b'A' { b'B' } else { b'A' };
            let broken = String::from_utf8(broken).unwrap();
            // the last character holds bits that are not looked at
            if at + 1 < token.len() {
                assert_eq!(tokens.check(&broken, now), None, "{at}");
            }
        }
        let nobody = Bearer {
            user: None,
            version: String::new(),
        };
        assert_eq!(tokens.check(&tokens.make(&nobody, now), now), Some(nobody));
        assert_eq!(tokens.check(&"x".repeat(5000), now), None);
    }
}

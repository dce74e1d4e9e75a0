//! Tokens: who has one has shown a password lately. They say who somebody is; what that person
//! may do is looked up when it is done, so a changed rule counts at once.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use kubepkg_core::time::Time;
use sha2::Sha256;

use super::error::AccessError;

/// How long a token counts. Clients fetch a new one without asking anybody.
pub const LIFE: Duration = Duration::from_secs(15 * 60);

/// Longest token that is looked at.
const MAX_TOKEN: usize = 2048;

/// First line of what is signed.
const FORM: &str = "kubepkg mirror token 1";

/// Makes and checks tokens. The key lives as long as the process: after a restart clients fetch
/// new ones.
pub(super) struct Tokens {
    key: zeroize::Zeroizing<[u8; 32]>,
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
pub(super) fn random_key() -> Result<zeroize::Zeroizing<[u8; 32]>, AccessError> {
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
    pub(super) fn new() -> Result<Tokens, AccessError> {
        let key = random_key()?;
        Ok(Tokens { key })
    }

    /// A token that counts for [`LIFE`] from `now` on.
    pub(super) fn make(&self, bearer: &Bearer, now: Time) -> String {
        let until = now.unix() + LIFE.as_secs() as i64;
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
        (0 < left && left <= LIFE.as_secs() as i64).then(|| Bearer {
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
        let tokens = Tokens::new().unwrap();
        let now = Time::from_unix(1_790_000_000);
        let bearer = Bearer {
            user: Some("alice".to_owned()),
            version: "0123".to_owned(),
        };
        let token = tokens.make(&bearer, now);
        assert_eq!(tokens.check(&token, now), Some(bearer.clone()));
        let life = LIFE.as_secs() as i64;
        assert!(tokens.check(&token, now.plus(life - 1)).is_some());
        for moment in [now.plus(life), now.plus(-1)] {
            assert_eq!(tokens.check(&token, moment), None);
        }
        assert_eq!(Tokens::new().unwrap().check(&token, now), None);
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

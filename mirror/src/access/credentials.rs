//! The header `Authorization`.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Longest header that is looked at.
const MAX_HEADER: usize = 8 * 1024;

/// Some clients leave the padding out.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a client shows to say who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing.
    None,
    /// A name and a password.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: zeroize::Zeroizing<String>,
    },
    /// A token.
    Token(String),
    /// Something else.
    Unreadable,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Credentials::None => "None",
            Credentials::Password { .. } => "Password",
            Credentials::Token(_) => "Token",
            Credentials::Unreadable => "Unreadable",
        })
    }
}

impl Credentials {
    /// What these headers show.
    pub fn of(headers: &HeaderMap) -> Credentials {
        let mut all = headers.get_all(AUTHORIZATION).iter();
        match (all.next(), all.next()) {
            (None, _) => Credentials::None,
            (Some(value), None) if value.len() <= MAX_HEADER => value
                .to_str()
                .ok()
                .and_then(parse)
                .unwrap_or(Credentials::Unreadable),
            _ => Credentials::Unreadable,
        }
    }

    /// A name and a password; none where both are empty.
    pub fn password(user: &str, password: &str) -> Credentials {
        match (user, password) {
            ("", "") => Credentials::None,
            _ => Credentials::Password {
                user: user.to_owned(),
                password: password.to_owned().into(),
            },
        }
    }
}

fn parse(value: &str) -> Option<Credentials> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credentials::Token(rest.to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let bytes = zeroize::Zeroizing::new(LENIENT.decode(rest).ok()?);
    let (user, password) = std::str::from_utf8(&bytes).ok()?.split_once(':')?;
    Some(Credentials::password(user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Credentials {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        Credentials::of(&headers)
    }

    #[test]
    fn what_clients_send() {
        let alice = Credentials::password("alice", "se:cret");
        assert!(of(&[]) == Credentials::None);
        assert!(of(&["Basic YWxpY2U6c2U6Y3JldA=="]) == alice);
        assert!(of(&["basic  YWxpY2U6c2U6Y3JldA"]) == alice);
        assert!(of(&["Basic Og=="]) == Credentials::None);
        assert!(of(&["bearer abc.def"]) == Credentials::Token("abc.def".to_owned()));
        for odd in [
            &["Basic"][..],
            &["Basic !"],
            &["Basic YWxpY2U="],
            &["Basic /w=="],
            &["Digest x"],
            &["Basic Og==", "Basic Og=="],
            &[&"x".repeat(10_000)],
        ] {
            assert!(of(odd) == Credentials::Unreadable, "{odd:?}");
        }
        assert_eq!(format!("{alice:?}"), "Password");
    }
}

//! Credentials from a Docker `config.json`.
//!
//! Read are `auths` entries with `auth`, `username` and `password`, or `registrytoken`, for
//! a host or for a path at a host. Helper programs (`credHelpers`, `credsStore`) and identity
//! tokens are not used; where a registry refuses access and only those would help, the
//! error says so.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubepkg_core::reference::canonical_host;
use serde::Deserialize;

use crate::error::{Fault, RemoteError, shown};

/// Largest file: real ones have a few kilobytes.
const MAX_CONFIG: u64 = 1 << 20;

/// What is known for one repository.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing: it is asked anonymously.
    Nothing,
    /// User and password.
    Password { user: String, password: String },
    /// A bearer token for the registry itself.
    Token(String),
    /// There is an entry that cannot be used, for this reason.
    Unusable(String),
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Known::Nothing => "Nothing",
            Known::Password { .. } => "Password(…)",
            Known::Token(_) => "Token(…)",
            Known::Unusable(_) => "Unusable",
        })
    }
}

/// All entries of one file, by `host[:port]` or `host[:port]/path`.
#[derive(Default)]
pub(crate) struct Credentials {
    entries: BTreeMap<String, Known>,
    /// The program that keeps the credentials of every other host.
    store: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    #[serde(default)]
    creds_store: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Auth {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

impl Credentials {
    /// Reads `path`.
    pub(crate) fn load(path: &Path) -> Result<Credentials, RemoteError> {
        let read = || {
            if std::fs::metadata(path).map_err(Fault::File)?.len() > MAX_CONFIG {
                return Err(Fault::TooLarge { limit: MAX_CONFIG });
            }
            let text = std::fs::read(path).map_err(Fault::File)?;
            Credentials::parse(&text).map_err(Fault::Credentials)
        };
        read().map_err(|fault| RemoteError::new(path.display().to_string(), fault))
    }

    fn parse(text: &[u8]) -> Result<Credentials, String> {
        let config: Config = serde_json::from_slice(text).map_err(|e| {
            // serde_json quotes what it found there, which may be a secret.
            format!(
                "it is not valid JSON of a Docker configuration, near line {}",
                e.line()
            )
        })?;
        let mut entries = BTreeMap::new();
        for (key, auth) in config.auths {
            let known = auth
                .known()
                .map_err(|why| format!("entry \"{}\": {why}", shown(&key)))?;
            if known != Known::Nothing {
                entries.insert(place(&key), known);
            }
        }
        for (host, program) in config.cred_helpers {
            // An entry of its own in the file is nearer at hand than a program.
            entries
                .entry(place(&host))
                .or_insert_with(|| helper(&program));
        }
        Ok(Credentials {
            entries,
            store: Some(config.creds_store).filter(|program| !program.is_empty()),
        })
    }

    /// What is known for `account`, a `host[:port]/repository`. The entry with the longest
    /// path that it lies under wins.
    pub(crate) fn of(&self, account: &str) -> Known {
        let mut prefix = account;
        loop {
            if let Some(known) = self.entries.get(prefix) {
                return known.clone();
            }
            match prefix.rsplit_once('/') {
                Some((shorter, _)) => prefix = shorter,
                None => break,
            }
        }
        match &self.store {
            Some(program) => helper(program),
            None => Known::Nothing,
        }
    }
}

fn helper(program: &str) -> Known {
    Known::Unusable(format!(
        "they are kept by docker-credential-{}, and kubepkg runs no such programs",
        shown(program)
    ))
}

impl Auth {
    fn known(self) -> Result<Known, String> {
        if !self.auth.is_empty() {
            let pair = STANDARD
                .decode(self.auth.trim())
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or("`auth` is not base64 of text")?;
            let (user, password) = pair
                .split_once(':')
                .ok_or("`auth` is not base64 of user:password")?;
            // Docker itself tolerates NUL bytes at the end, which old versions wrote.
            let password = password.trim_end_matches('\0');
            if !password.is_empty() {
                return Ok(Known::Password {
                    user: user.to_owned(),
                    password: password.to_owned(),
                });
            }
        }
        if !self.username.is_empty() && !self.password.is_empty() {
            return Ok(Known::Password {
                user: self.username,
                password: self.password,
            });
        }
        if !self.registrytoken.is_empty() {
            return Ok(Known::Token(self.registrytoken));
        }
        if !self.identitytoken.is_empty() {
            let why = "the entry holds an identity token, which kubepkg cannot use";
            return Ok(Known::Unusable(why.to_owned()));
        }
        Ok(Known::Nothing)
    }
}

/// The key of an entry in one form: without scheme and API version, host canonical.
fn place(key: &str) -> String {
    let bare = key.split_once("://").map_or(key, |(_, rest)| rest);
    let bare = bare.trim_end_matches('/');
    let (host, path) = match bare.split_once('/') {
        Some((host, path)) => (host, path),
        None => (bare, ""),
    };
    let host = canonical_host(host).unwrap_or_else(|| host.to_owned());
    match path {
        // What `docker login` writes for Docker Hub: https://index.docker.io/v1/
        "" | "v1" | "v2" => host,
        path => format!("{host}/{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Credentials {
        Credentials::parse(text.as_bytes()).unwrap()
    }

    fn password(user: &str, password: &str) -> Known {
        Known::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }

    #[test]
    fn entries_of_a_docker_config() {
        let known = parse(
            r#"{"auths":{
                "https://index.docker.io/v1/":{"auth":"dTpw"},
                "ghcr.io":{"auth":"dTpwOnE="},
                "Registry.example.com:5000":{"username":"a","password":"b"},
                "https://token.example.com":{"registrytoken":"t"}
            }}"#,
        );
        assert_eq!(known.of("docker.io/library/nginx"), password("u", "p"));
        assert_eq!(known.of("ghcr.io/a/b"), password("u", "p:q"));
        assert_eq!(known.of("registry.example.com:5000/x"), password("a", "b"));
        assert_eq!(
            known.of("token.example.com/x"),
            Known::Token("t".to_owned())
        );
        assert_eq!(known.of("registry.example.com/x"), Known::Nothing);
    }

    #[test]
    fn the_longest_path_wins() {
        let known =
            parse(r#"{"auths":{"ghcr.io":{"auth":"aDpo"},"ghcr.io/org/team":{"auth":"dDp0"}}}"#);
        assert_eq!(known.of("ghcr.io/org/team/app"), password("t", "t"));
        assert_eq!(known.of("ghcr.io/org/teamwork"), password("h", "h"));
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let known = parse(
            r#"{"auths":{"a.example":{"identitytoken":"x"},"own.example":{"auth":"dTpw"},"empty.example":{}},
                "credHelpers":{"b.example":"ecr-login","own.example":"no"},"credsStore":"desktop"}"#,
        );
        for (account, word) in [
            ("a.example/x", "identity token"),
            ("b.example/x", "ecr-login"),
            ("empty.example/x", "desktop"),
            ("c.example/x", "desktop"),
        ] {
            match known.of(account) {
                Known::Unusable(why) => assert!(why.contains(word), "{why}"),
                other => panic!("{account}: {other:?}"),
            }
        }
        assert_eq!(known.of("own.example/x"), password("u", "p"));
    }

    #[test]
    fn a_broken_file_gives_away_no_secret() {
        for bad in [
            r#"{"auths":{"h":{"auth":"!secret!"}}}"#,
            r#"{"auths":{"h":{"auth":"c2VjcmV0"}}}"#,
            r#"{"auths":"secret"}"#,
            "secret",
        ] {
            let Err(why) = Credentials::parse(bad.as_bytes()) else {
                panic!("{bad} accepted");
            };
            assert!(!why.contains("secret"), "{why}");
        }
    }
}

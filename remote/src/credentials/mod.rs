//! Credentials: Docker's `config.json`, containers' `auth.json` (one form), the programs these
//! name, and the users of Helm repositories.
//!
//! An entry is for a host, or for a path at a host; the longest path counts. Within a file a
//! program named for a host comes before what lies beside it, and the program for all hosts
//! after the entries; an earlier file wins over a later one. Programs are asked once for each
//! host, when that host asks for credentials.

mod helm;
mod helper;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubepkg_core::reference::{DOCKER_HUB, canonical_host};
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::error::{Fault, RemoteError, shown};

/// What Docker calls its Hub where it keeps credentials.
const DOCKER_HUB_LOGIN: &str = "https://index.docker.io/v1/";

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
    /// An identity token: the registry's token server takes it for an access token.
    Identity(String),
    /// There is an entry that cannot be used, for this reason.
    Unusable(String),
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Known::Nothing => "Nothing",
            Known::Password { .. } => "Password(…)",
            Known::Token(_) => "Token(…)",
            Known::Identity(_) => "Identity(…)",
            Known::Unusable(_) => "Unusable",
        })
    }
}

/// What is written for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// The credentials themselves.
    Here(Known),
    /// This program keeps them, under this name of the server. Where it has none, or cannot be
    /// asked, those beside it in the file are taken.
    Kept {
        program: String,
        server: String,
        beside: Known,
    },
}

/// What programs answered, by program and server.
type Answers = Mutex<HashMap<(String, String), Arc<OnceCell<Known>>>>;

/// All entries of all files, by `host[:port]` or `host[:port]/path`.
#[derive(Default)]
pub(crate) struct Credentials {
    entries: BTreeMap<String, Entry>,
    /// The programs that keep the credentials of every other host.
    stores: Vec<String>,
    answers: Answers,
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
    /// Reads `docker` (in the form of Docker's `config.json`), then `helm` (in that of Helm's
    /// `repositories.yaml`).
    pub(crate) fn load(docker: &[PathBuf], helm: &[PathBuf]) -> Result<Credentials, RemoteError> {
        let mut all = Credentials::default();
        for path in docker {
            let read =
                bounded(path).and_then(|text| all.add_docker(&text).map_err(Fault::Credentials));
            read.map_err(|fault| RemoteError::new(path.display().to_string(), fault))?;
        }
        for path in helm {
            let read = bounded(path).and_then(|text| helm::read(&text).map_err(Fault::Credentials));
            let found =
                read.map_err(|fault| RemoteError::new(path.display().to_string(), fault))?;
            for (url, known) in found {
                all.add(web_place(&url), Entry::Here(known));
            }
        }
        Ok(all)
    }

    fn add(&mut self, place: String, entry: Entry) {
        self.entries.entry(place).or_insert(entry);
    }

    fn add_docker(&mut self, text: &[u8]) -> Result<(), String> {
        let config: Config = serde_json::from_slice(text).map_err(|e| {
            // serde_json quotes what it found there, which may be a secret.
            format!(
                "it is not valid JSON of a Docker configuration, near line {}",
                e.line()
            )
        })?;
        let mut here = BTreeMap::new();
        for (key, auth) in config.auths {
            let known = auth
                .known()
                .map_err(|why| format!("entry \"{}\": {why}", shown(&key)))?;
            if known != Known::Nothing {
                here.insert(place(&key), known);
            }
        }
        // what a program keeps is fresher than what an old login left in the file
        for (host, program) in config.cred_helpers {
            let place = place(&host);
            let entry = Entry::Kept {
                program: checked(program)?,
                server: host,
                beside: here.remove(&place).unwrap_or(Known::Nothing),
            };
            self.add(place, entry);
        }
        for (place, known) in here {
            self.add(place, Entry::Here(known));
        }
        if !config.creds_store.is_empty() {
            self.stores.push(checked(config.creds_store)?);
        }
        Ok(())
    }

    /// The entry with the longest path that `account`, a `host[:port]/path`, lies under.
    fn entry(&self, account: &str) -> Option<&Entry> {
        let mut prefix = account;
        loop {
            if let Some(entry) = self.entries.get(prefix) {
                return Some(entry);
            }
            prefix = prefix.rsplit_once('/')?.0;
        }
    }

    /// What is known for `account`, a `host[:port]/path`.
    pub(crate) async fn of(&self, account: &str) -> Known {
        match self.entry(account) {
            Some(Entry::Here(known)) => known.clone(),
            Some(Entry::Kept {
                program,
                server,
                beside,
            }) => match self.kept(program, server).await {
                Known::Nothing | Known::Unusable(_) if *beside != Known::Nothing => beside.clone(),
                known => known,
            },
            None => {
                let host = account.split('/').next().unwrap_or_default();
                let server = match host {
                    DOCKER_HUB => DOCKER_HUB_LOGIN,
                    host => host,
                };
                for program in &self.stores {
                    match self.kept(program, server).await {
                        Known::Nothing => {}
                        known => return known,
                    }
                }
                Known::Nothing
            }
        }
    }

    /// What `program` keeps for `server`; asked once.
    async fn kept(&self, program: &str, server: &str) -> Known {
        let key = (program.to_owned(), server.to_owned());
        let cell = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(answers.entry(key).or_default())
        };
        cell.get_or_init(|| helper::ask(program, server))
            .await
            .clone()
    }
}

fn bounded(path: &Path) -> Result<Vec<u8>, Fault> {
    if std::fs::metadata(path).map_err(Fault::File)?.len() > MAX_CONFIG {
        return Err(Fault::TooLarge { limit: MAX_CONFIG });
    }
    std::fs::read(path).map_err(Fault::File)
}

fn checked(program: String) -> Result<String, String> {
    match helper::is_name(&program) {
        true => Ok(program),
        false => Err(format!(
            "\"{}\" is no name of a credential helper",
            shown(&program)
        )),
    }
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
            return Ok(Known::Identity(self.identitytoken));
        }
        Ok(Known::Nothing)
    }
}

/// The key of the address of a web server: without scheme, host canonical.
fn web_place(url: &str) -> String {
    let bare = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
    let host = canonical_host(host).unwrap_or_else(|| host.to_owned());
    match path.trim_matches('/') {
        "" => host,
        path => format!("{host}/{path}"),
    }
}

/// The key of an entry in one form: without scheme and API version, host canonical.
fn place(key: &str) -> String {
    let place = web_place(key);
    match place.split_once('/') {
        // What `docker login` writes for Docker Hub: https://index.docker.io/v1/
        Some((host, "v1" | "v2")) => host.to_owned(),
        _ => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Credentials {
        let mut all = Credentials::default();
        all.add_docker(text.as_bytes()).unwrap();
        all
    }

    fn password(user: &str, password: &str) -> Known {
        Known::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }

    #[tokio::test]
    async fn entries_of_a_docker_config() {
        let known = parse(
            r#"{"auths":{
                "https://index.docker.io/v1/":{"auth":"dTpw"},
                "ghcr.io":{"auth":"dTpwOnE="},
                "Registry.example.com:5000":{"username":"a","password":"b"},
                "https://token.example.com":{"registrytoken":"t"},
                "azure.example":{"auth":"dTo=","identitytoken":"i"}
            }}"#,
        );
        for (account, want) in [
            ("docker.io/library/nginx", password("u", "p")),
            ("ghcr.io/a/b", password("u", "p:q")),
            ("registry.example.com:5000/x", password("a", "b")),
            ("token.example.com/x", Known::Token("t".to_owned())),
            ("azure.example/x", Known::Identity("i".to_owned())),
            ("registry.example.com/x", Known::Nothing),
        ] {
            assert_eq!(known.of(account).await, want, "{account}");
        }
    }

    #[tokio::test]
    async fn the_longest_path_wins() {
        let known =
            parse(r#"{"auths":{"ghcr.io":{"auth":"aDpo"},"ghcr.io/org/team":{"auth":"dDp0"}}}"#);
        assert_eq!(known.of("ghcr.io/org/team/app").await, password("t", "t"));
        assert_eq!(known.of("ghcr.io/org/teamwork").await, password("h", "h"));
    }

    #[tokio::test]
    async fn an_earlier_file_wins_and_a_program_for_the_host() {
        let mut known =
            parse(r#"{"auths":{"a.example":{"auth":"dTpw"}},"credsStore":"none-such"}"#);
        known
            .add_docker(
                br#"{"auths":{"a.example":{"auth":"aDpo"},"b.example":{"auth":"aDpo"}},
                    "credHelpers":{"b.example":"other","c.example":"other"}}"#,
            )
            .unwrap();
        assert_eq!(known.of("a.example/x").await, password("u", "p"));
        // its program is not there, so what lies beside it is taken
        assert_eq!(known.of("b.example/x").await, password("h", "h"));
        for (account, word) in [("c.example/x", "other"), ("d.example/x", "none-such")] {
            match known.of(account).await {
                Known::Unusable(why) => assert!(why.contains(word), "{why}"),
                other => panic!("{account}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_broken_file_gives_away_no_secret() {
        for bad in [
            r#"{"auths":{"h":{"auth":"!secret!"}}}"#,
            r#"{"auths":{"h":{"auth":"c2VjcmV0"}}}"#,
            r#"{"auths":"secret"}"#,
            r#"{"credHelpers":{"h":"../secrets/run"}}"#,
            "secret",
        ] {
            let Err(why) = Credentials::default().add_docker(bad.as_bytes()) else {
                panic!("{bad} accepted");
            };
            assert!(!why.contains("secret") || bad.contains("run"), "{why}");
        }
    }
}

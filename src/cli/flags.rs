//! Groups of flags that mean the same in every verb that has them.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use kubepkg_core::keys::{KeyError, MAX_KEY_FILE, PublicKey};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::trust::Given;

use kubepkg_remote::{Client, Options};

use crate::error::CommandError;

// Headings stand at each flag: one given for a whole group goes on to whatever flag follows it.
const TALK: &str = "Talk";
const REACH: &str = "Reaching other machines";
const TRUST: &str = "Trust";

/// How much is said, and how.
#[derive(Clone, Debug, Default, Args)]
pub struct Talk {
    /// Say only what must be known: warnings and errors
    #[arg(help_heading = TALK, short, long, global = true)]
    pub quiet: bool,
    /// Say more; repeat for more still
    #[arg(help_heading = TALK, short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Form of log lines on stderr
    #[arg(help_heading = TALK, long, global = true, value_name = "FORM", default_value = "text")]
    pub log_format: LogFormat,
    /// Show no progress
    #[arg(help_heading = TALK, long, global = true)]
    pub no_progress: bool,
    /// Use colours
    #[arg(help_heading = TALK, long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Form of the answer.
#[derive(Clone, Debug, Args)]
pub struct Reporting {
    /// Form of the answer on stdout; with json, errors are JSON on stderr too (kind, message,
    /// where, causes, hint, retry)
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub output: Format,
}

/// Forms an answer can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs; only ever added to.
    Json,
}

/// How registries and servers are reached.
#[derive(Clone, Debug, Args)]
pub struct Reach {
    /// Speak HTTP without TLS to this host[:port]; loopback addresses need no flag (repeatable)
    #[arg(help_heading = REACH, long, value_name = "HOST")]
    pub plain_http: Vec<String>,
    /// Also trust the certificates in this PEM file
    #[arg(help_heading = REACH, long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Registry credentials in Docker's form [default: $DOCKER_CONFIG/config.json or
    /// ~/.docker/config.json]
    #[arg(help_heading = REACH, long, value_name = "FILE")]
    pub registry_config: Option<PathBuf>,
}

impl Reach {
    /// A client that reaches others this way, through `mirror` where one is given.
    pub fn client(&self, mirror: Option<&str>, jobs: &Jobs) -> anyhow::Result<Client> {
        let mirror = mirror
            .map(|text| text.parse::<CanonicalUrl>())
            .transpose()
            .map_err(|error| CommandError::usage(error.to_string()).at("--mirror"))?;
        let options = Options {
            plain_http: self.plain_http.clone(),
            mirror,
            docker_config: self.docker_config(),
            ca_file: self.ca_file.clone(),
            jobs: usize::from(jobs.jobs),
            ..Options::default()
        };
        Ok(Client::new(options)?)
    }

    /// The credentials file: as given, else Docker's own when there is one.
    fn docker_config(&self) -> Option<PathBuf> {
        self.registry_config
            .clone()
            .or_else(crate::places::docker_config)
    }
}

/// How hard to work.
#[derive(Clone, Copy, Debug, Args)]
pub struct Jobs {
    /// How many transfers run at the same time
    #[arg(help_heading = REACH, long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
}

/// Who is trusted for a repository.
#[derive(Clone, Debug, Args)]
pub struct Trust {
    /// Public key file that must have signed the index; with several repositories give
    /// URL=FILE (repeatable: any one of a repository's keys is enough)
    #[arg(help_heading = TRUST, long, value_name = "FILE|URL=FILE")]
    pub public_key: Vec<KeyFor>,
    /// Take an index that nobody signed, for repositories without a public key
    #[arg(help_heading = TRUST, long)]
    pub allow_unsigned: bool,
}

/// A key file, and the repository it speaks for where that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFor {
    /// The repository's index; `None`: the only repository there is.
    pub repository: Option<CanonicalUrl>,
    /// The PEM file.
    pub file: PathBuf,
}

impl FromStr for KeyFor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            // a file name may hold '=', but no "://"
            Some((url, file)) if url.contains("://") => {
                if file.is_empty() {
                    return Err("no file after '='".to_owned());
                }
                Ok(KeyFor {
                    repository: Some(url.parse().map_err(|e| format!("{e}"))?),
                    file: file.into(),
                })
            }
            _ if text.contains("://") => Err("a URL needs a key file: URL=FILE".to_owned()),
            _ => Ok(KeyFor {
                repository: None,
                file: text.into(),
            }),
        }
    }
}

impl Trust {
    /// Refuses a call that trusts nobody, before any file is opened.
    pub fn required(&self) -> Result<(), CommandError> {
        if self.public_key.is_empty() && !self.allow_unsigned {
            return Err(
                CommandError::usage("no key given: without one nothing can be trusted").hint(
                    "add --public-key release.pub, the key you were given by another way than \
                       the file itself",
                ),
            );
        }
        Ok(())
    }

    /// Whom to trust; reads the key files.
    pub fn given(&self) -> Result<Given, CommandError> {
        self.required()?;
        let mut given = Given {
            allow_unsigned: self.allow_unsigned,
            ..Given::default()
        };
        for key in &self.public_key {
            let public = read_public_key(&key.file)?;
            match &key.repository {
                Some(url) => given.by_url.push((url.clone(), public)),
                None => given.keys.push(public),
            }
        }
        Ok(given)
    }
}

fn read_public_key(file: &Path) -> Result<PublicKey, CommandError> {
    let text = read_key_file(file)?;
    PublicKey::from_pem(&text).map_err(|error| bad_key(file, error))
}

/// A key file that holds no usable key.
pub fn bad_key(file: &Path, error: KeyError) -> CommandError {
    CommandError::usage(error.to_string()).at(file.display())
}

/// The text of a key file, which is never large.
pub fn read_key_file(file: &Path) -> Result<String, CommandError> {
    use std::io::Read as _;
    let failed = |error| CommandError::io("cannot read the key", error).at(file.display());
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|f| f.take(MAX_KEY_FILE + 1).read_to_string(&mut text))
        .map_err(failed)?;
    if text.len() as u64 > MAX_KEY_FILE {
        return Err(CommandError::usage("this file is too large to be a key").at(file.display()));
    }
    Ok(text)
}

/// Whether a URL carries a user, a password, a query or a fragment, none of which is used.
pub fn has_unused_parts(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    scheme != "file" && (authority.contains('@') || rest.contains(['?', '#']))
}

/// The canonical URL of a repository given as URL or as the path of its index file (or of the
/// folder that index.yaml lies in).
pub fn repository_url(text: &str) -> Result<CanonicalUrl, CommandError> {
    let wrong = |error: kubepkg_core::location::UrlError| CommandError::usage(error.to_string());
    if text.contains("://") {
        return text.parse().map_err(wrong);
    }
    let path = std::fs::canonicalize(text).map_err(|error| {
        CommandError::io("there is no such repository", error)
            .at(text)
            .hint("give the URL of an index (https://…/index.yaml) or the path of an index file")
    })?;
    let path = if path.is_dir() {
        path.join("index.yaml")
    } else {
        path
    };
    match path.to_str() {
        Some(path) => format!("file://{path}").parse().map_err(wrong),
        None => Err(CommandError::usage("the path of the index is not UTF-8").at(path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::keys::PrivateKey;

    const A: &str = "https://a.example/index.yaml";

    fn trust(keys: &[String], allow_unsigned: bool) -> Trust {
        Trust {
            public_key: keys.iter().map(|k| k.parse().unwrap()).collect(),
            allow_unsigned,
        }
    }

    fn key_file(folder: &Path) -> String {
        let file = folder.join("release.pub");
        let public = PrivateKey::generate().unwrap().public().unwrap();
        std::fs::write(&file, public.to_pem()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_key_may_name_its_repository() {
        let key: KeyFor = "HTTPS://A.example:443/index.yaml=x.pub".parse().unwrap();
        assert_eq!(key.repository.unwrap().as_str(), A);
        let key: KeyFor = "dir=1/x.pub".parse().unwrap();
        assert_eq!((key.repository, key.file), (None, "dir=1/x.pub".into()));
        for bad in [
            "https://a.example/index.yaml",
            "https://a.example/=",
            "ftp://a=x",
        ] {
            assert!(bad.parse::<KeyFor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn nobody_is_trusted_by_default() {
        let error = trust(&[], false).given().unwrap_err();
        assert!(error.to_string().contains("no key given"));
        assert!(trust(&[], true).given().unwrap().allow_unsigned);
    }

    #[test]
    fn keys_are_read_with_their_repositories() {
        let folder = tempfile::tempdir().unwrap();
        let file = key_file(folder.path());
        let given = trust(&[file.clone(), format!("{A}={file}")], false)
            .given()
            .unwrap();
        assert_eq!(given.keys.len(), 1);
        assert_eq!(given.by_url[0].0.as_str(), A);
    }

    #[test]
    fn what_is_not_used_of_a_url() {
        for text in ["https://u:p@h/i", "https://h/i?token=x", "https://h/i#x"] {
            assert!(has_unused_parts(text), "{text}");
        }
        for text in [A, "https://h/a@b/i", "dir/a@b?c", "file:///a@b#c"] {
            assert!(!has_unused_parts(text), "{text}");
        }
    }

    #[test]
    fn a_repository_may_be_a_file_or_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("index.yaml");
        std::fs::write(&file, "").unwrap();
        let by_file = repository_url(file.to_str().unwrap()).unwrap();
        assert_eq!(
            by_file,
            repository_url(folder.path().to_str().unwrap()).unwrap()
        );
        assert_eq!(
            (by_file.scheme(), by_file.file_name()),
            ("file", "index.yaml")
        );
        assert!(repository_url("/no/such/file").is_err());
    }
}

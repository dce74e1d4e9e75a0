//! Who is trusted for a repository, as flags say it: the one place that reads them.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use kubepkg_core::keys::PublicKey;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Entry, Given, parse_file};

use super::key_files::{read_key_file, read_public_key};
use crate::error::CommandError;
use crate::units::parse_duration;

pub(super) const TRUST: &str = "Trust";

/// Larger than any trust file, in bytes.
const MAX_TRUST_FILE: u64 = 1024 * 1024;

/// Who is trusted for a repository.
#[derive(Clone, Debug, Default, Args)]
pub struct Trust {
    /// Public key file that must have signed the index; with several repositories give
    /// URL=FILE (repeatable: any one of a repository's keys is enough)
    #[arg(help_heading = TRUST, long, value_name = "FILE|URL=FILE")]
    pub public_key: Vec<KeyFor>,
    /// Public key file that must have signed version 1 of the repository's root of trust; the
    /// root says who signs the index (repeatable; with several repositories give URL=FILE)
    #[arg(help_heading = TRUST, long, value_name = "FILE|URL=FILE")]
    pub root_key: Vec<KeyFor>,
    /// How many of the root keys must have signed; 1 when not given
    #[arg(help_heading = TRUST, long, value_name = "N", requires = "root_key",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub root_threshold: Option<u32>,
    /// Trust file: for each repository its keys and what else is asked of it
    #[arg(help_heading = TRUST, long = "trust", value_name = "FILE")]
    pub trust_file: Option<PathBuf>,
    /// Refuse an index that is older than this, e.g. 30d, whatever it says of its expiry
    #[arg(help_heading = TRUST, long, value_name = "DURATION", value_parser = parse_duration)]
    pub max_age: Option<Duration>,
    /// Take an index that nobody signed, for repositories without a public key
    #[arg(help_heading = TRUST, long)]
    pub allow_unsigned: bool,
}

/// Who may have signed a bundle itself.
#[derive(Clone, Debug, Default, Args)]
pub struct BundleKeys {
    /// Public key file of who signed the bundle itself (`bundle sign`) and so vouches for what
    /// belongs to no package (repeatable: any one of them is enough)
    #[arg(help_heading = TRUST, long, value_name = "FILE")]
    pub bundle_key: Vec<PathBuf>,
}

impl BundleKeys {
    /// Reads the keys.
    pub fn read(&self) -> Result<Vec<PublicKey>, CommandError> {
        self.bundle_key
            .iter()
            .map(|file| read_public_key(file))
            .collect()
    }
}

/// The time expiry is judged by.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct AsOf {
    /// Judge expiry as of this time (RFC 3339), for audits: it is printed, and what was
    /// accepted before stays as it is
    #[arg(help_heading = TRUST, long, value_name = "TIME")]
    pub as_of: Option<Time>,
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
    /// Whether nothing says whom to trust.
    pub fn names_nobody(&self) -> bool {
        self.public_key.is_empty()
            && self.root_key.is_empty()
            && self.trust_file.is_none()
            && !self.allow_unsigned
    }

    /// Refuses a call that trusts nobody, before any file is opened.
    pub fn required(&self) -> Result<(), CommandError> {
        if self.names_nobody() {
            return Err(
                CommandError::usage("no key given: without one nothing can be trusted").hint(
                    "add --public-key release.pub (or --root-key root.pub, where the repository \
                       has a root of trust), the key you were given by another way than the \
                       file itself",
                ),
            );
        }
        Ok(())
    }

    /// Whom to trust; reads the key files.
    pub fn given(&self) -> Result<Given, CommandError> {
        let (keys, by_url) = read_keys(&self.public_key)?;
        let (root_keys, root_by_url) = read_keys(&self.root_key)?;
        Ok(Given {
            entries: match &self.trust_file {
                Some(file) => read_trust_file(file)?,
                None => Vec::new(),
            },
            keys,
            by_url,
            root_keys,
            root_by_url,
            root_threshold: self.root_threshold,
            allow_unsigned: self.allow_unsigned,
        })
    }

    /// The greatest age of an index, in seconds.
    pub fn max_age_seconds(&self) -> Option<i64> {
        self.max_age
            .map(|age| i64::try_from(age.as_secs()).unwrap_or(i64::MAX))
    }
}

type Keys = (Vec<PublicKey>, Vec<(CanonicalUrl, PublicKey)>);

fn read_keys(of: &[KeyFor]) -> Result<Keys, CommandError> {
    let mut keys = Keys::default();
    for key in of {
        let public = read_public_key(&key.file)?;
        match &key.repository {
            Some(url) => keys.1.push((url.clone(), public)),
            None => keys.0.push(public),
        }
    }
    Ok(keys)
}

/// Reads a trust file; keys named in it as files lie beside it.
pub fn read_trust_file(file: &Path) -> Result<Vec<Entry>, CommandError> {
    use std::io::Read as _;
    let failed = |error| CommandError::io("cannot read the trust file", error).at(file.display());
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(MAX_TRUST_FILE + 1).read_to_string(&mut text))
        .map_err(failed)?;
    if text.len() as u64 > MAX_TRUST_FILE {
        return Err(
            CommandError::usage("this file is too large to be a trust file").at(file.display()),
        );
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    let key = |name: &str| read_key_file(&folder.join(name)).map_err(|error| why(&error));
    parse_file(&text, &key)
        .map_err(|error| CommandError::of(&error).into_usage().under(file.display()))
}

/// Why a key file does not read, in one line.
fn why(error: &CommandError) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::keys::PrivateKey;
    use kubepkg_core::trust::Anchor;

    const A: &str = "https://a.example/index.yaml";

    fn trust(keys: &[String], allow_unsigned: bool) -> Trust {
        Trust {
            public_key: keys.iter().map(|k| k.parse().unwrap()).collect(),
            allow_unsigned,
            ..Trust::default()
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
        let error = trust(&[], false).required().unwrap_err();
        assert!(error.to_string().contains("no key given"));
        assert!(trust(&[], true).given().unwrap().allow_unsigned);
    }

    #[test]
    fn keys_are_read_with_their_repositories() {
        let folder = tempfile::tempdir().unwrap();
        let file = key_file(folder.path());
        let mut trust = trust(&[file.clone(), format!("{A}={file}")], false);
        trust.root_key = vec![format!("{A}={file}").parse().unwrap()];
        trust.root_threshold = Some(1);
        let given = trust.given().unwrap();
        assert_eq!(given.keys.len(), 1);
        assert_eq!(given.by_url[0].0.as_str(), A);
        assert_eq!(given.root_by_url[0].0.as_str(), A);
        assert_eq!(given.root_threshold, Some(1));
    }

    #[test]
    fn a_trust_file_names_keys_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        key_file(folder.path());
        let file = folder.path().join("trust.yaml");
        let text = |key: &str| {
            format!(
                "apiVersion: kubepkg.dev/v1\nkind: Trust\nentries:\n- url: {A}\n  keys: [{key}]\n"
            )
        };
        std::fs::write(&file, text("release.pub")).unwrap();
        let entries = read_trust_file(&file).unwrap();
        assert!(matches!(&entries[0].anchor, Anchor::Keys(keys) if keys.threshold() == 1));
        std::fs::write(&file, text("none.pub")).unwrap();
        let error = read_trust_file(&file).unwrap_err().to_string();
        assert!(error.contains("none.pub"), "{error}");
        assert!(!error.contains("cannot read the key:"), "{error}");
    }
}

//! The command's own configuration, `$XDG_CONFIG_HOME/kubepkg/config.yaml`: repositories and
//! who is trusted for them. Read strictly, so that a misspelt word is an error and not a check
//! that is not made. A cluster's repositories are another matter.

mod trust;

use std::path::{Path, PathBuf};

use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::trust::Entry;
use kubepkg_core::yaml::{strict, write};
use serde::{Deserialize, Serialize};

use crate::error::CommandError;
use crate::output::Pending;
use crate::places;

pub use trust::ConfigTrust;

/// Larger than any configuration, in bytes.
const MAX_CONFIG: u64 = 1024 * 1024;

const API_VERSION: &str = "kubepkg.dev/v1";
const KIND: &str = "Configuration";

/// Longest name of a repository.
const MAX_NAME: usize = 63;

/// The file's content.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    repositories: Vec<Repository>,
}

/// A repository the command knows.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repository {
    /// What it is called here.
    pub name: String,
    /// Canonical URL of its index.
    pub url: CanonicalUrl,
    /// The one with the highest number that carries a package provides it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Who is trusted for it.
    #[serde(default)]
    pub trust: ConfigTrust,
}

fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

/// The configuration, and where it is kept.
#[derive(Clone, Debug)]
pub struct Config {
    file: PathBuf,
    /// Whether the file holds comments, which do not survive a change.
    commented: bool,
    /// The repositories, the one that comes first at the front.
    repositories: Vec<Repository>,
}

impl Config {
    /// The user's. One that is not there is empty.
    pub fn of_user() -> Result<Config, CommandError> {
        let file = places::config_file().ok_or_else(|| {
            CommandError::failed("there is no home directory for the configuration")
                .hint("set HOME or XDG_CONFIG_HOME")
        })?;
        Config::read(&file)
    }

    /// The user's, where there is a home directory; else an empty one.
    pub fn of_user_if_any() -> Result<Option<Config>, CommandError> {
        places::config_file()
            .map(|file| Config::read(&file))
            .transpose()
    }

    fn read(file: &Path) -> Result<Config, CommandError> {
        use std::io::Read as _;
        let failed =
            |error| CommandError::io("cannot read the configuration", error).at(file.display());
        let mut config = Config {
            file: file.to_owned(),
            commented: false,
            repositories: Vec::new(),
        };
        let open = match std::fs::File::open(file) {
            Ok(open) => open,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(config),
            Err(error) => return Err(failed(error)),
        };
        let mut text = String::new();
        open.take(MAX_CONFIG + 1)
            .read_to_string(&mut text)
            .map_err(failed)?;
        config.commented = text.lines().any(|line| line.trim_start().starts_with('#'));
        config.repositories = parse(&text).map_err(|error| error.at(file.display()))?;
        Ok(config)
    }

    /// Where it is kept.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The repositories, the one that comes first at the front: the highest priority, then the
    /// smaller name.
    pub fn repositories(&self) -> &[Repository] {
        &self.repositories
    }

    /// The trust entries. Keys may be named as files beside the configuration.
    pub fn entries(&self) -> Result<Vec<Entry>, CommandError> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        self.repositories
            .iter()
            .map(|known| {
                let entry = known.trust.entry(&known.url, folder);
                entry.map_err(|error| {
                    error.somewhere_in(format!(
                        "{}: repository {}",
                        self.file.display(),
                        known.name
                    ))
                })
            })
            .collect()
    }

    /// Takes in a repository, in place of one of its name when `replace` is set.
    pub fn add(&mut self, new: Repository, replace: bool) -> Result<(), CommandError> {
        check_name(&new.name)?;
        let others = |known: &&Repository| known.name != new.name;
        if let Some(same) = self
            .repositories
            .iter()
            .filter(others)
            .find(|known| known.url == new.url)
        {
            return Err(CommandError::failed(format!(
                "this repository is known already, as {}",
                same.name
            ))
            .at(&new.url)
            .hint(format!("kubepkg repo remove {}", same.name)));
        }
        match self
            .repositories
            .iter_mut()
            .find(|known| known.name == new.name)
        {
            Some(_) if !replace => {
                return Err(
                    CommandError::failed("a repository of this name is known already")
                        .at(&new.name)
                        .hint("choose another name, or --force to replace it"),
                );
            }
            Some(known) => *known = new,
            None => self.repositories.push(new),
        }
        sort(&mut self.repositories);
        Ok(())
    }

    /// Takes out the repository of this name.
    pub fn remove(&mut self, name: &str) -> Option<Repository> {
        let at = self
            .repositories
            .iter()
            .position(|known| known.name == name)?;
        Some(self.repositories.remove(at))
    }

    /// Whether writing it loses what somebody wrote into it by hand.
    pub fn loses_comments(&self) -> bool {
        self.commented
    }

    /// Writes it.
    pub fn write(&self) -> Result<(), CommandError> {
        let failed = |error| {
            CommandError::io("cannot write the configuration", error).at(self.file.display())
        };
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = File {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            repositories: self.repositories.clone(),
        };
        let text = write::to_string(&file).map_err(|error| failed(error.into()))?;
        Pending::write(&self.file, text.as_bytes(), 0o644)?.replace()
    }
}

fn parse(text: &str) -> Result<Vec<Repository>, CommandError> {
    let wrong = |message: String| CommandError::usage(message);
    if text.len() as u64 > MAX_CONFIG {
        return Err(wrong(
            "this file is too large to be a configuration".to_owned(),
        ));
    }
    let file: File = strict::from_str(text).map_err(|error| {
        wrong(format!("the configuration does not read: {error}")).because(error)
    })?;
    if file.api_version != API_VERSION || file.kind != KIND {
        return Err(wrong(format!(
            "this is no configuration: apiVersion and kind are \"{}\" and \"{}\"",
            file.api_version, file.kind
        ))
        .hint(format!(
            "begin it with apiVersion: {API_VERSION} and kind: {KIND}"
        )));
    }
    let mut repositories = file.repositories;
    sort(&mut repositories);
    for (n, one) in repositories.iter().enumerate() {
        check_name(&one.name)?;
        let twice = |known: &&Repository| known.name == one.name || known.url == one.url;
        if let Some(known) = repositories[..n].iter().find(twice) {
            return Err(wrong(format!(
                "repositories {} and {} have the same name or URL",
                known.name, one.name
            )));
        }
    }
    Ok(repositories)
}

fn sort(repositories: &mut [Repository]) {
    repositories.sort_by(|a, b| {
        b.priority
            .cmp(&a.priority)
            .then_with(|| a.name.cmp(&b.name))
    });
}

/// A name can stand in for a URL on the command line, so it must look like none, and like no
/// path either.
fn check_name(name: &str) -> Result<(), CommandError> {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(legal)
        && !name.starts_with('-')
    {
        return Ok(());
    }
    Err(CommandError::usage(format!(
        "\"{}\" is no name of a repository",
        kubepkg_core::error::shown(name)
    ))
    .hint("use lower case letters, digits and -"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://packages.example.com/index.yaml";

    fn repository(name: &str, url: &str, priority: i32) -> Repository {
        Repository {
            name: name.to_owned(),
            url: url.parse().unwrap(),
            priority,
            trust: ConfigTrust::default(),
        }
    }

    fn empty(folder: &Path) -> Config {
        Config::read(&folder.join("deep/er/config.yaml")).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = empty(folder.path());
        assert!(config.repositories().is_empty());
        for (name, n, priority) in [("b", 1, 0), ("c", 2, 5), ("a", 3, 0)] {
            let url = format!("https://r{n}.example.com/index.yaml");
            config.add(repository(name, &url, priority), false).unwrap();
        }
        config.write().unwrap();
        let again = Config::read(config.file()).unwrap();
        let names: Vec<&str> = again
            .repositories()
            .iter()
            .map(|r| r.name.as_str())
            .collect();
        assert_eq!(names, ["c", "a", "b"]);
        assert!(!again.loses_comments());
    }

    #[test]
    fn one_name_and_one_url_are_one_repository() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = empty(folder.path());
        config.add(repository("main", URL, 0), false).unwrap();
        assert!(
            config
                .add(repository("main", "https://b/i", 0), false)
                .is_err()
        );
        assert!(config.add(repository("other", URL, 0), true).is_err());
        config.add(repository("main", URL, 3), true).unwrap();
        assert_eq!(config.repositories()[0].priority, 3);
        assert!(config.remove("main").is_some() && config.remove("main").is_none());
    }

    #[test]
    fn a_misspelt_word_is_an_error() {
        let head = "apiVersion: kubepkg.dev/v1\nkind: Configuration\nrepositories:\n";
        let one = |more: &str| format!("{head}- {{name: a, url: \"{URL}\"{more}}}\n");
        assert_eq!(parse(&one("")).unwrap().len(), 1);
        for bad in [
            one(", prioritty: 1"),
            one(", trust: {key: [x]}"),
            one(", name: b"),
            one("").replace("name: a", "name: A"),
            one("").replace("name: a", "name: a/b"),
            one("").replace("Configuration", "Trust"),
            format!("{}- {{name: a, url: \"https://b/i\"}}\n", one("")),
            format!("{}- {{name: b, url: \"{URL}\"}}\n", one("")),
            String::new(),
        ] {
            assert!(parse(&bad).is_err(), "{bad}");
        }
    }
}

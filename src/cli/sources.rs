//! Repositories a verb takes packages from: flags first, then the configuration.

use std::collections::BTreeMap;

use clap::Args;
use kubepkg_core::location::{CanonicalUrl, redacted};
use kubepkg_core::trust::{Given, Remembered};

use super::trust::{TRUST, Trust};
use crate::config::Config;
use crate::error::CommandError;
use crate::printer::Printer;

/// Where packages come from, and who is trusted for it.
#[derive(Clone, Debug, Default, Args)]
pub struct Sources {
    /// Index of a repository: URL, file, or name of a repository of `repo add` (repeatable:
    /// earlier ones come first) [default: all of `repo list`]
    #[arg(long, value_name = "URL|FILE|NAME")]
    pub repo: Vec<String>,
    /// Whom to trust.
    #[command(flatten)]
    pub trust: Trust,
    /// Let these flags take the place of who was trusted for the repository before
    #[arg(help_heading = TRUST, long)]
    pub change_trust: bool,
}

/// Repositories in their order, and whom to trust for each.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The URLs of their indexes.
    pub repositories: Vec<CanonicalUrl>,
    /// What `repo add` called them.
    pub names: BTreeMap<CanonicalUrl, String>,
    /// Whom to trust.
    pub given: Given,
}

impl Sources {
    /// The repositories to use.
    ///
    /// # Errors
    /// None is given and none is configured; nothing says whom to trust. Who is trusted for a
    /// repository that was used before is remembered.
    pub fn chosen(
        &self,
        remembered: &Remembered,
        printer: &Printer,
    ) -> Result<Chosen, CommandError> {
        let config = Config::of_user_if_any()?;
        let configured = config.as_ref().map_or(&[][..], Config::repositories);
        for repo in self.repo.iter().filter(|repo| has_unused_parts(repo)) {
            printer.warn(&format!(
                "user, password, query and fragment of --repo {} are not used",
                redacted(repo)
            ));
        }
        let repositories: Vec<CanonicalUrl> = if self.repo.is_empty() {
            configured.iter().map(|known| known.url.clone()).collect()
        } else {
            let by_name = |text: &String| configured.iter().find(|known| known.name == *text);
            let url = |text| match by_name(text) {
                Some(known) => Ok(known.url.clone()),
                None => repository_url(text),
            };
            self.repo.iter().map(url).collect::<Result<_, _>>()?
        };
        if repositories.is_empty() {
            return Err(
                CommandError::usage("no repository given to take packages from").hint(
                    "add --repo https://…/index.yaml (or the path of an index file), or make one \
                     known with: kubepkg repo add NAME URL --public-key release.pub",
                ),
            );
        }
        let known = |url: &CanonicalUrl| configured.iter().any(|known| known.url == *url);
        if remembered.memories.is_empty() && !repositories.iter().any(known) {
            self.trust.required()?;
        }
        let mut given = self.trust.given()?;
        if let Some(config) = &config {
            let alone = repositories.len() == 1;
            for entry in config.entries()? {
                let by_flag = given.entries.iter().any(|other| other.url == entry.url)
                    || given.by_url.iter().any(|(url, _)| *url == entry.url)
                    || given.root_by_url.iter().any(|(url, _)| *url == entry.url)
                    || (alone && !(given.keys.is_empty() && given.root_keys.is_empty()));
                if !by_flag {
                    given.entries.push(entry);
                }
            }
        }
        let names = configured.iter();
        Ok(Chosen {
            names: names
                .map(|known| (known.url.clone(), known.name.clone()))
                .collect(),
            repositories,
            given,
        })
    }
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
        let url: CanonicalUrl = text.parse().map_err(wrong)?;
        if url.scheme() == "oci" {
            return Err(CommandError::usage(
                "a registry holds charts, not the index of a repository",
            )
            .at(url)
            .hint("give the URL of an index (https://…/index.yaml)"));
        }
        return Ok(url);
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

    const A: &str = "https://a.example/index.yaml";

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

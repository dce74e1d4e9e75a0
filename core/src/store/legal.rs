//! What a change may be called: site folders, paths of repository files, ids of trust entries.
//!
//! Stores make file names and object keys of these, and they come out of bundles. So they are
//! judged here, once, before anything is written.

use std::collections::BTreeMap;

use super::{Batch, Change, SiteEntry, StoreError};

/// Longest path of a repository file; real ones are below 100.
const MAX_PATH: usize = 512;

/// Longest element of a path: what file systems agree on, less a suffix.
const MAX_ELEMENT: usize = 200;

/// Longest id of a trust entry.
const MAX_ENTRY: usize = 255;

/// Longest upstream location: a host, and a path no longer than a repository's name may be.
const MAX_UPSTREAM: usize = 1024;

/// Most files of one index: roots are added a few a year.
const MAX_FILES: usize = 10_000;

impl Batch {
    /// Refuses names no store may take.
    pub fn check(&self) -> Result<(), StoreError> {
        for change in &self.changes {
            match change {
                Change::Site { folder, new } => site(folder, new.as_ref())?,
                Change::Trust { entry, .. } => trust(entry)?,
                Change::Upstream { new, .. } => upstream(new.as_deref())?,
                Change::Manifest { .. } | Change::Blob { .. } | Change::Tag { .. } => {}
            }
        }
        Ok(())
    }
}

fn site(folder: &str, entry: Option<&SiteEntry>) -> Result<(), StoreError> {
    let refuse = |what: &str, why| Err(illegal(what, why));
    if !is_folder(folder) {
        return refuse(folder, "this is no folder name of a repository");
    }
    let Some(entry) = entry else { return Ok(()) };
    if entry.url.folder() != folder {
        return refuse(folder, "this is not the folder of the repository's URL");
    }
    repository_files(entry.files.keys().map(String::as_str))
        .or_else(|(path, why)| refuse(path, why))
}

/// Whether the files of a repository may lie in `folder`.
pub(crate) fn is_folder(folder: &str) -> bool {
    let letters = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    !folder.starts_with('.') && is_element(folder) && folder.bytes().all(letters)
}

/// Checks the paths of the files of one repository. The error is the path and what is wrong
/// with it. Bundles are held to the same rule, so that none is refused only once its content
/// is stored.
pub(crate) fn repository_files<'p>(
    paths: impl Iterator<Item = &'p str>,
) -> Result<(), (&'p str, &'static str)> {
    let mut seen = BTreeMap::new();
    for (n, path) in paths.enumerate() {
        if n >= MAX_FILES {
            return Err((path, "the repository has more than 10000 files"));
        }
        if path.len() > MAX_PATH || !path.split('/').all(is_element) {
            return Err((path, "this is no path of a repository file"));
        }
        if seen.insert(path.to_ascii_lowercase(), path).is_some() {
            return Err((path, "two repository files differ only in letter case"));
        }
    }
    for (folded, path) in &seen {
        let mut parents = folded.match_indices('/').map(|(at, _)| &folded[..at]);
        if parents.any(|parent| seen.contains_key(parent)) {
            return Err((path, "a repository file lies below another file"));
        }
    }
    Ok(())
}

fn trust(entry: &str) -> Result<(), StoreError> {
    if entry.is_empty() || entry.len() > MAX_ENTRY || entry.chars().any(char::is_control) {
        return Err(illegal(entry, "this is no id of a trust entry"));
    }
    Ok(())
}

fn upstream(location: Option<&str>) -> Result<(), StoreError> {
    match location {
        Some(text)
            if text.is_empty()
                || text.len() > MAX_UPSTREAM
                || text.chars().any(char::is_control) =>
        {
            Err(illegal(text, "this is no upstream location"))
        }
        _ => Ok(()),
    }
}

fn is_element(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
        && text.len() <= MAX_ELEMENT
        && !text.starts_with(".tmp-")
        && !text.contains(['/', '\\'])
        && !text.chars().any(char::is_control)
}

fn illegal(what: &str, why: &'static str) -> StoreError {
    StoreError::Illegal {
        what: crate::error::shown(what),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::location::CanonicalUrl;
    use crate::store::{Cause, SiteFile};
    use crate::time::Time;

    fn check(change: Change) -> Result<(), StoreError> {
        let batch = Batch {
            at: Time::from_unix(0),
            cause: Cause::Push,
            changes: vec![change],
        };
        batch.check()
    }

    fn files(paths: &[&str]) -> Result<(), StoreError> {
        let url: CanonicalUrl = "https://x.example:8443/a/index.yaml".parse().unwrap();
        let file = SiteFile {
            digest: Digest::sha256(b""),
            size: 0,
        };
        check(Change::Site {
            folder: url.folder(),
            new: Some(SiteEntry {
                url,
                set: 0,
                files: paths
                    .iter()
                    .map(|p| ((*p).to_owned(), file.clone()))
                    .collect(),
            }),
        })
    }

    #[test]
    fn repository_files_stay_in_their_folder() {
        files(&[
            "index.yaml",
            "index.yaml.sig",
            "root/1.yaml",
            "carried.json",
        ])
        .unwrap();
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "root/../../x",
            "root//1",
            "a\\b",
            "a\nb",
            ".tmp-x",
        ] {
            assert!(
                matches!(files(&[bad]), Err(StoreError::Illegal { .. })),
                "{bad}"
            );
        }
        assert!(files(&["Index.yaml", "index.yaml"]).is_err());
        assert!(files(&["root", "root/1.yaml"]).is_err());
    }

    #[test]
    fn a_site_lies_in_the_folder_of_its_url() {
        for bad in ["..", "x/y", "", "X.example-000000000000", ".tmp-1"] {
            let change = Change::Site {
                folder: bad.to_owned(),
                new: None,
            };
            assert!(check(change).is_err(), "{bad}");
        }
    }

    #[test]
    fn upstream_locations_are_one_line() {
        for (location, good) in [
            (Some("oci://x.example/a"), true),
            (None, true),
            (Some(""), false),
            (Some("oci://x\ny"), false),
        ] {
            let change = Change::Upstream {
                repository: "x.example/a".parse().unwrap(),
                new: location.map(str::to_owned),
            };
            assert_eq!(check(change).is_ok(), good, "{location:?}");
        }
    }

    #[test]
    fn trust_entries_have_an_id() {
        for (entry, good) in [("packages", true), ("", false), ("a\0b", false)] {
            let change = Change::Trust {
                entry: entry.to_owned(),
                new: None,
            };
            assert_eq!(check(change).is_ok(), good, "{entry:?}");
        }
    }
}

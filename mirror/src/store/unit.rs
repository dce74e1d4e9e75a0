//! The file of one unit: a repository, the current set of a site, the memory of a trust entry.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Names, Repository, SiteEntry, StoreError, Unit};
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use super::log::{self, Form};
use super::sealed::{self, damaged};

/// `names/…/<hash>.json`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepositoryFile<'a> {
    name: Cow<'a, RepositoryName>,
    applied: u64,
    repository: Cow<'a, Repository>,
}

/// `sites/<folder>/current.json`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurrentFile<'a> {
    folder: Cow<'a, str>,
    applied: u64,
    entry: Option<Cow<'a, SiteEntry>>,
}

/// `trust/<entry>.json`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile<'a> {
    entry: Cow<'a, str>,
    applied: u64,
    memory: Option<Cow<'a, serde_json::Value>>,
}

/// One of the files, read.
pub(super) struct Found {
    pub(super) unit: Unit,
    /// The commit that changed it last.
    pub(super) applied: u64,
    pub(super) value: Value,
    /// How a repository lies on the disk that has more than a small file.
    pub(super) form: Option<Form>,
}

/// What it says.
pub(super) enum Value {
    Repository(Arc<Repository>),
    Site(Option<SiteEntry>),
    Trust(Option<serde_json::Value>),
}

/// Path and content of the file that says how `unit` stands in `names`, after commit `applied`.
pub(super) fn file(
    layout: &Layout,
    unit: &Unit,
    names: &Names,
    applied: u64,
) -> Result<(PathBuf, Vec<u8>), StoreError> {
    let path = path(layout, unit);
    let bytes = match unit {
        Unit::Repository(name) => {
            let repository = match names.repositories.get(name) {
                Some(repository) => Cow::Borrowed(&**repository),
                None => Cow::Owned(Repository::default()),
            };
            let name = Cow::Borrowed(name);
            sealed::encode(
                &path,
                &RepositoryFile {
                    name,
                    applied,
                    repository,
                },
            )
        }
        Unit::Site(folder) => sealed::encode(
            &path,
            &CurrentFile {
                folder: Cow::Borrowed(folder),
                applied,
                entry: names.sites.get(folder).map(Cow::Borrowed),
            },
        ),
        Unit::Trust(entry) => sealed::encode(
            &path,
            &TrustFile {
                entry: Cow::Borrowed(entry),
                applied,
                memory: names.trust.get(entry).map(Cow::Borrowed),
            },
        ),
    }?;
    Ok((path, bytes))
}

/// Reads one file, if it is there, and checks that it is the file of what it says.
pub(super) fn read(
    layout: &Layout,
    file: &Path,
    wanted: Option<&Unit>,
) -> Result<Option<Found>, StoreError> {
    let found = if file.starts_with(layout.names()) {
        read_repository(layout, file)?
    } else if file.starts_with(layout.sites()) {
        sealed::read::<CurrentFile<'_>>(file)?.map(|found| Found {
            unit: Unit::Site(found.folder.into_owned()),
            applied: found.applied,
            value: Value::Site(found.entry.map(Cow::into_owned)),
            form: None,
        })
    } else {
        sealed::read::<TrustFile<'_>>(file)?.map(|found| Found {
            unit: Unit::Trust(found.entry.into_owned()),
            applied: found.applied,
            value: Value::Trust(found.memory.map(Cow::into_owned)),
            form: None,
        })
    };
    if let Some(Found { unit, .. }) = &found
        && (path(layout, unit) != file || wanted.is_some_and(|wanted| wanted != unit))
    {
        return Err(damaged(file, format!("it is the file of {}", shown(unit))));
    }
    Ok(found)
}

/// The log is read before its base file: who compacts meanwhile writes a base with everything
/// that was in the log, and the other way round its lines could be missed.
fn read_repository(layout: &Layout, file: &Path) -> Result<Option<Found>, StoreError> {
    let log_at = layout.log_beside(file);
    let log = log::read(&log_at)?;
    let Some((found, length)) = sealed::read_measured::<RepositoryFile<'_>>(file)? else {
        return match log {
            Some(_) => Err(damaged(
                file,
                "it is missing, and the log beside it is there",
            )),
            None => Ok(None),
        };
    };
    let mut name = found.name.into_owned();
    let mut repository = found.repository.into_owned();
    let mut applied = found.applied;
    let mut form = None;
    if let Some(log) = log {
        let mut names = Names::default();
        names
            .repositories
            .insert(name.clone(), Arc::new(repository));
        let mut other = None;
        let followed = log.follow(&log_at, applied, length, |changes, commit| {
            for change in changes {
                if change.unit() != Unit::Repository(name.clone()) {
                    other = Some(commit);
                }
            }
            names.repeat(changes, commit);
        })?;
        if let Some(commit) = other {
            let why = format!("the line of commit {commit} is about something else");
            return Err(damaged(&log_at, why));
        }
        applied = followed.applied;
        form = Some(followed);
        (name, repository) = match names.repositories.get_key_value(&name) {
            Some((name, repository)) => (name.clone(), Repository::clone(repository)),
            None => (name, Repository::default()),
        };
    } else if repository.entries() > log::SMALL {
        form = Some(Form::of_base(length, applied));
    }
    Ok(Some(Found {
        unit: Unit::Repository(name),
        applied,
        value: Value::Repository(Arc::new(repository)),
        form,
    }))
}

/// The file of a unit.
pub(super) fn path(layout: &Layout, unit: &Unit) -> PathBuf {
    match unit {
        Unit::Repository(name) => layout.repository(name),
        Unit::Site(folder) => layout.site(folder),
        Unit::Trust(entry) => layout.trust_entry(entry),
    }
}

/// Leaves out what editors and file managers drop.
pub(super) fn is_ours(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".json") && !name.starts_with('.')
}

/// Whether this is the log of a repository; it is read with the repository's file.
pub(super) fn is_log(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with("-log.jsonl") && !name.starts_with('.')
}

fn shown(unit: &Unit) -> String {
    match unit {
        Unit::Repository(name) => format!("repository {name}"),
        Unit::Site(folder) => format!("repository files {}", kubepkg_core::error::shown(folder)),
        Unit::Trust(entry) => format!("trust entry {}", kubepkg_core::error::shown(entry)),
    }
}

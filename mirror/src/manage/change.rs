//! Removing, tagging and copying within one store.

use kubepkg_core::Digest;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{Batch, Cause, Change, Committed, Names, TagEntry};
use kubepkg_core::time::Time;

use super::closure::Closure;
use super::managed::Managed;
use super::removal::{Removal, removal};
use super::{ManageError, repository, resolve};
use crate::route::Target;
use crate::source::Age;

/// How often a change is tried on newer names: others commit a few hundred times a second at
/// most.
pub(super) const ATTEMPTS: usize = 100;

/// What was changed.
#[derive(Clone, Debug)]
pub struct Moved {
    /// The commit; `None` where it was so already.
    pub commit: Option<u64>,
    /// The manifest.
    pub digest: Digest,
    /// Manifests that are new in the repository.
    pub manifests: u64,
    /// Blobs that are new in the repository.
    pub blobs: u64,
}

/// Removes `target` from the repository `name`. The content itself stays until it is collected.
pub async fn remove<S: Managed>(
    store: &S,
    name: &RepositoryName,
    target: &Target,
    force: bool,
) -> Result<(u64, Removal), ManageError> {
    let what = |names: &Names| {
        let removal = removal(&mut Closure::new(store), names, name, target, force)?;
        Ok((removal.changes.clone(), removal))
    };
    let (commit, removal) = committed(store, "rm", what).await?;
    Ok((commit.unwrap_or_default(), removal))
}

/// Gives a manifest of the repository `name` another tag. Without `force` a tag that points at
/// something else stays.
pub async fn tag<S: Managed>(
    store: &S,
    name: &RepositoryName,
    target: &Target,
    new: &Tag,
    force: bool,
) -> Result<Moved, ManageError> {
    let what = |names: &Names| {
        let digest = resolve(names, name, target)?;
        let change = tagged(names, name, new, digest, force)?;
        Ok((Vec::from_iter(change), digest))
    };
    let (commit, digest) = committed(store, "tag", what).await?;
    Ok(Moved {
        commit,
        digest,
        manifests: 0,
        blobs: 0,
    })
}

/// Brings a manifest with all it leads to, and what is about it, into the repository `to`, byte
/// for byte, and tags it there where a tag is given. No content is copied.
pub async fn copy<S: Managed>(
    store: &S,
    (from, target): (&RepositoryName, &Target),
    (to, new): (&RepositoryName, Option<&Tag>),
    force: bool,
) -> Result<Moved, ManageError> {
    let what = |names: &Names| {
        let digest = resolve(names, from, target)?;
        let source = repository(names, from)?;
        let reached = Closure::new(store).of(source, [digest])?;
        let mut changes = Vec::new();
        for blob in &reached.blobs {
            changes.push(Change::Blob {
                repository: to.clone(),
                digest: *blob,
                new: source.blobs.get(blob).copied(),
            });
        }
        for manifest in &reached.manifests {
            changes.push(Change::Manifest {
                repository: to.clone(),
                digest: *manifest,
                new: source.manifests.get(manifest).cloned(),
            });
        }
        // tags that say by their form what they are about go along
        for (tag, entry) in &source.tags {
            let stem = tag.as_str().split('.').next().unwrap_or_default();
            let about = stem.replacen('-', ":", 1).parse::<Digest>();
            if about.is_ok_and(|about| reached.manifests.contains(&about)) {
                changes.extend(tagged(names, to, tag, entry.digest, force)?);
            }
        }
        if let Some(new) = new {
            changes.extend(tagged(names, to, new, digest, force)?);
        }
        changes.retain(|change| names.differs(change));
        let count = |of: fn(&Change) -> bool| changes.iter().filter(|c| of(c)).count() as u64;
        let manifests = count(|change| matches!(change, Change::Manifest { .. }));
        let blobs = count(|change| matches!(change, Change::Blob { .. }));
        Ok((changes, (digest, manifests, blobs)))
    };
    let (commit, (digest, manifests, blobs)) = committed(store, "copy", what).await?;
    Ok(Moved {
        commit,
        digest,
        manifests,
        blobs,
    })
}

/// The change that lets a tag point at `digest`; `None` where it does.
fn tagged(
    names: &Names,
    name: &RepositoryName,
    tag: &Tag,
    digest: Digest,
    force: bool,
) -> Result<Option<Change>, ManageError> {
    let now = names.repositories.get(name).and_then(|r| r.tags.get(tag));
    match now {
        Some(entry) if entry.digest == digest => return Ok(None),
        Some(entry) if !force => {
            return Err(ManageError::Taken {
                reference: format!("{name}:{tag}"),
                digest: entry.digest,
            });
        }
        _ => {}
    }
    Ok(Some(Change::Tag {
        repository: name.clone(),
        tag: tag.clone(),
        new: Some(TagEntry {
            digest,
            origin: None,
        }),
    }))
}

/// Commits what `what` makes of the names, again and again until nobody was faster.
async fn committed<T, S: Managed>(
    store: &S,
    verb: &str,
    what: impl Fn(&Names) -> Result<(Vec<Change>, T), ManageError>,
) -> Result<(Option<u64>, T), ManageError> {
    for _ in 0..ATTEMPTS {
        // brings the names up to the newest record first
        let expected = store.sequence().await?;
        let names = store.names(Age::Now).await?;
        if names.sequence != expected {
            continue;
        }
        let (changes, told) = what(&names)?;
        if changes.is_empty() {
            return Ok((None, told));
        }
        let batch = Batch {
            at: Time::now(),
            cause: Cause::Command {
                verb: verb.to_owned(),
            },
            changes,
        };
        if let Committed::Done(number) = store.commit(expected, batch).await? {
            return Ok((Some(number), told));
        }
    }
    Err(ManageError::Busy)
}

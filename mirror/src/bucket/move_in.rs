//! Moving a store from a folder into a bucket: content first, then all names in one commit.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::StreamExt as _;
use kubepkg_core::Digest;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::store::{
    Batch, Body, Cause, Change, Committed, FileRange, Names, Store as _, StoreError, Unit,
};
use kubepkg_core::time::Time;

use super::{BucketStore, TRIES};
use crate::store::FileStore;

/// Contents on their way at once.
const AT_ONCE: usize = 4;

/// What a move did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// The commit that brought the names; `None` where they were all there.
    pub commit: Option<u64>,
    /// Pieces of content that were sent.
    pub contents: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pieces of content that were there already.
    pub there: u64,
}

/// Why a store was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The bucket says something else about a name.
    #[error("{what} is not the same in {bucket}; nothing was changed there")]
    Differs {
        /// The name.
        what: String,
        /// The bucket.
        bucket: String,
    },
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Classify for MoveError {
    fn kind(&self) -> Kind {
        match self {
            MoveError::Differs { .. } => Kind::Failed,
            MoveError::Store(error) => error.kind(),
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            MoveError::Differs { .. } => None,
            MoveError::Store(error) => error.place(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            MoveError::Differs { .. } => Some(
                "move into another prefix, e.g. s3://bucket/other; a bucket that is in use goes \
                 its own way"
                    .to_owned(),
            ),
            MoveError::Store(error) => error.hint(),
        }
    }
}

/// Brings everything that is in `from` into `to`, where it is not. Names that mean something
/// else there are refused. `sent` is told of each piece of content.
pub async fn move_in(
    from: &FileStore,
    to: &BucketStore,
    sent: &(dyn Fn(u64) + Sync),
) -> Result<Moved, MoveError> {
    let names = from.names().await?;
    refuse_others(&names, to)?;
    let _lease = to.lease().await?;
    let mut moved = Moved::default();
    let moving = contents(&names).into_iter().map(|(digest, (size, file))| {
        let names = &names;
        async move {
            if to.stat(&digest).await? == Some(size) {
                return Ok::<_, StoreError>((size, false));
            }
            let range = range(from, names, &digest, file.as_ref())?;
            let range = range.ok_or(StoreError::Missing { digest })?;
            let staged = to.stage(digest, size, Body::Range(range)).await?;
            to.publish(vec![staged]).await?;
            Ok((size, true))
        }
    });
    let mut moving = futures_util::stream::iter(moving).buffer_unordered(AT_ONCE);
    while let Some(one) = moving.next().await {
        let (size, new) = one?;
        sent(size);
        match new {
            true => {
                moved.contents += 1;
                moved.bytes += size;
            }
            false => moved.there += 1,
        }
    }
    drop(moving);
    for _ in 0..TRIES {
        let sequence = to.sequence().await?;
        refuse_others(&names, to)?;
        let there = to.names().await?;
        if there.sequence != sequence {
            continue;
        }
        let changes: Vec<Change> = (changes(&names).into_iter())
            .filter(|change| there.differs(change))
            .collect();
        if changes.is_empty() {
            return Ok(moved);
        }
        let batch = Batch {
            at: Time::now(),
            cause: Cause::Command {
                verb: "copy".to_owned(),
            },
            changes,
        };
        let judged_by = |unit: &Unit| match unit {
            Unit::Repository(name) => names.repositories.contains_key(name),
            Unit::Site(folder) => names.sites.contains_key(folder),
            Unit::Trust(entry) => names.trust.contains_key(entry),
        };
        let committed = to.commit_beside(sequence, batch, &judged_by).await?;
        if let Committed::Done(number) = committed {
            moved.commit = Some(number);
            return Ok(moved);
        }
    }
    Err(to.crowded().into())
}

/// Bytes of all content these names need.
pub fn weight(names: &Names) -> u64 {
    contents(names).values().map(|(size, _)| size).sum()
}

/// A file of a site, by its folder and path.
type File = (String, String);

/// All content with its size; repository files with where they lie besides.
fn contents(names: &Names) -> BTreeMap<Digest, (u64, Option<File>)> {
    let mut contents = BTreeMap::new();
    for repository in names.repositories.values() {
        let manifests = repository.manifests.iter();
        let manifests = manifests.map(|(digest, entry)| (*digest, (entry.size, None)));
        let blobs = repository.blobs.iter();
        let blobs = blobs.map(|(digest, size)| (*digest, (*size, None)));
        contents.extend(manifests.chain(blobs));
    }
    for (folder, site) in &names.sites {
        for (path, file) in &site.files {
            let place = (folder.clone(), path.clone());
            contents.insert(file.digest, (file.size, Some(place)));
        }
    }
    contents
}

fn range(
    from: &FileStore,
    names: &Names,
    digest: &Digest,
    file: Option<&File>,
) -> Result<Option<FileRange>, StoreError> {
    match (from.blob_range(digest)?, file) {
        (None, Some((folder, path))) => match names.sites.get(folder) {
            Some(site) => from.site_file(folder, site, path),
            None => Ok(None),
        },
        (found, _) => Ok(found),
    }
}

/// The changes that make these names of none.
fn changes(names: &Names) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, found) in &names.repositories {
        let repository = || name.clone();
        if found.upstream.is_some() {
            changes.push(Change::Upstream {
                repository: repository(),
                new: found.upstream.clone(),
            });
        }
        changes.extend(found.blobs.iter().map(|(digest, size)| Change::Blob {
            repository: repository(),
            digest: *digest,
            new: Some(*size),
        }));
        changes.extend(
            found
                .manifests
                .iter()
                .map(|(digest, entry)| Change::Manifest {
                    repository: repository(),
                    digest: *digest,
                    new: Some(entry.clone()),
                }),
        );
        changes.extend(found.tags.iter().map(|(tag, entry)| Change::Tag {
            repository: repository(),
            tag: tag.clone(),
            new: Some(entry.clone()),
        }));
    }
    changes.extend(names.sites.iter().map(|(folder, site)| Change::Site {
        folder: folder.clone(),
        new: Some(site.clone()),
    }));
    changes.extend(names.trust.iter().map(|(entry, memory)| Change::Trust {
        entry: entry.clone(),
        new: Some(memory.clone()),
    }));
    changes
}

/// Refuses names of which the bucket says something else.
fn refuse_others(names: &Names, to: &BucketStore) -> Result<(), MoveError> {
    let there = to.log.known();
    let there = &there.names;
    let mut differs = BTreeSet::new();
    for (name, found) in &names.repositories {
        let Some(other) = there.repositories.get(name) else {
            continue;
        };
        if other.upstream.is_some() && other.upstream != found.upstream {
            differs.insert(name.to_string());
        }
        let tags = found.tags.iter();
        let moved = tags.filter(|(tag, entry)| other.tags.get(*tag).is_some_and(|t| t != *entry));
        differs.extend(moved.map(|(tag, _)| format!("{name}:{tag}")));
    }
    for (folder, site) in &names.sites {
        let other = there.sites.get(folder);
        if other.is_some_and(|other| other.files != site.files) {
            differs.insert(site.url.to_string());
        }
    }
    for (entry, memory) in &names.trust {
        if there.trust.get(entry).is_some_and(|other| other != memory) {
            differs.insert(format!("what was accepted under {entry}"));
        }
    }
    match differs.into_iter().next() {
        None => Ok(()),
        Some(what) => Err(MoveError::Differs {
            what,
            bucket: to.place().to_owned(),
        }),
    }
}

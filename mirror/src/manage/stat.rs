//! What one reference is made of, and what a store holds as a whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::StreamExt as _;
use kubepkg_core::Digest;
use kubepkg_core::descriptor::Descriptor;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{Cause, Change, ManifestEntry, Origin, StoreError};
use kubepkg_core::time::Time;

use super::closure::Closure;
use super::managed::Managed;
use super::usage::{holders, sizes};
use super::{ManageError, repository, resolve};
use crate::route::Target;
use crate::source::{Age, Standing};

/// What one reference is made of.
#[derive(Clone, Debug)]
pub struct ReferenceStat {
    /// The manifest.
    pub digest: Digest,
    /// What is known of it.
    pub entry: ManifestEntry,
    /// Tags that point at it.
    pub tags: Vec<Tag>,
    /// The package that brought the tag.
    pub origin: Option<Origin>,
    /// The manifests of an index, and whether each is here.
    pub children: Vec<(Descriptor, bool)>,
    /// Config and layers, and whether each is here.
    pub blobs: Vec<(Descriptor, bool)>,
    /// What is about it.
    pub referrers: Vec<(Digest, ManifestEntry)>,
    /// The commit that brought it.
    pub brought: Option<Brought>,
    /// Bytes of all it leads to that nothing else needs: no other tag and no other repository.
    pub own: u64,
    /// Bytes that others need too.
    pub shared: u64,
    /// Whether it was set aside as damaged.
    pub quarantined: bool,
}

/// A commit that brought something.
#[derive(Clone, Debug)]
pub struct Brought {
    /// Its number.
    pub commit: u64,
    /// When.
    pub at: Time,
    /// The bundle, where it was an import.
    pub bundle: Option<String>,
}

/// Records read at once: in a bucket each takes a while.
const AT_ONCE: usize = 16;

/// Looks at one reference.
pub async fn stat<S: Managed>(
    store: &S,
    name: &RepositoryName,
    target: &Target,
) -> Result<ReferenceStat, ManageError> {
    let names = store.names(Age::Now).await?;
    let digest = resolve(&names, name, target)?;
    let repository = repository(&names, name)?;
    let mut closure = Closure::new(store);
    let Some(entry) = repository.manifests.get(&digest) else {
        return Err(ManageError::Lost { digest });
    };
    let quarantined = store.standing(&digest) == Standing::Quarantined;
    let manifest = closure.manifest(&digest, &entry.media_type)?;
    let (mut children, mut blobs) = (Vec::new(), Vec::new());
    if let Some(manifest) = manifest {
        for child in manifest.children() {
            children.push((
                child.clone(),
                repository.manifests.contains_key(&child.digest),
            ));
        }
        let named: Vec<Descriptor> = manifest.blobs().into_iter().cloned().collect();
        let sizes = store.sizes(named.iter().map(|blob| blob.digest).collect());
        for (blob, size) in named.into_iter().zip(sizes.await?) {
            let here = repository.blobs.contains_key(&blob.digest);
            blobs.push((blob, here && size.is_some()));
        }
    }
    let pointing = repository
        .tags
        .iter()
        .filter(|(_, entry)| entry.digest == digest);
    let tags: Vec<Tag> = pointing.clone().map(|(tag, _)| tag.clone()).collect();
    let origin = match target {
        Target::Tag(tag) => repository
            .tags
            .get(tag)
            .and_then(|entry| entry.origin.clone()),
        Target::Digest(_) => pointing.clone().find_map(|(_, entry)| entry.origin.clone()),
    };
    let referrers = repository.referrers(&digest);
    let referrers = referrers
        .map(|(digest, entry)| (*digest, entry.clone()))
        .collect();

    let reached = closure.of(repository, [digest])?;
    let others: Vec<Digest> = repository
        .tags
        .values()
        .map(|entry| entry.digest)
        .filter(|other| !reached.manifests.contains(other))
        .collect();
    let others = closure.of(repository, others)?;
    let holders = holders(&names);
    let (mut own, mut shared) = (0, 0);
    for (content, size) in reached.sizes(repository) {
        let elsewhere = holders.get(&content).is_some_and(|holders| *holders > 1);
        if elsewhere || others.manifests.contains(&content) || others.blobs.contains(&content) {
            shared += size;
        } else {
            own += size;
        }
    }
    let brought = brought(store, name, target, &digest, names.sequence).await?;
    Ok(ReferenceStat {
        digest,
        entry: entry.clone(),
        tags,
        origin: origin.map(|origin| *origin),
        children,
        blobs,
        referrers,
        brought,
        own,
        shared,
        quarantined,
    })
}

/// The newest commit that let the tag point here or brought the manifest. Records that are gone
/// or damaged end the search: it is told only where it is known.
async fn brought<S: Managed>(
    store: &S,
    name: &RepositoryName,
    target: &Target,
    digest: &Digest,
    newest: u64,
) -> Result<Option<Brought>, StoreError> {
    let numbers = futures_util::stream::iter((1..=newest).rev());
    let mut records = std::pin::pin!(
        numbers
            .map(|number| async move { (number, store.record(number).await) })
            .buffered(AT_ONCE)
    );
    while let Some((number, record)) = records.next().await {
        let record = match record {
            Ok(Some(record)) => record,
            Ok(None) | Err(StoreError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let brings = record
            .changes
            .iter()
            .any(|recorded| match &recorded.change {
                Change::Tag {
                    repository,
                    tag,
                    new: Some(new),
                } => {
                    repository == name
                        && new.digest == *digest
                        && matches!(target, Target::Tag(wanted) if wanted == tag)
                }
                Change::Manifest {
                    repository,
                    digest: brought,
                    new: Some(_),
                } => repository == name && brought == digest,
                _ => false,
            });
        if brings {
            let bundle = match record.cause {
                Cause::Import(receipt) => Some(receipt.bundle),
                _ => None,
            };
            return Ok(Some(Brought {
                commit: number,
                at: record.at,
                bundle,
            }));
        }
    }
    Ok(None)
}

/// What a store holds as a whole.
#[derive(Clone, Debug, Default)]
pub struct StoreStat {
    /// Number of the newest commit.
    pub sequence: u64,
    /// Repositories with something in them.
    pub repositories: u64,
    /// Tags.
    pub tags: u64,
    /// Different manifests.
    pub manifests: u64,
    /// Different blobs.
    pub blobs: u64,
    /// Bytes of all of them, each counted once.
    pub bytes: u64,
    /// Bytes there would be if nothing were shared between repositories.
    pub bytes_unshared: u64,
    /// Indexes whose repository files are served.
    pub sites: Vec<String>,
    /// Bytes that may still be stored.
    pub room: Option<u64>,
    /// Content that was set aside as damaged.
    pub quarantined: u64,
    /// When the last scrub came to its end.
    pub scrubbed: Option<Time>,
}

/// Looks at the whole store, from its names.
pub async fn stat_store<S: Managed>(store: &S) -> Result<StoreStat, ManageError> {
    let names = store.names(Age::Now).await?;
    let mut manifests: BTreeSet<Digest> = BTreeSet::new();
    let mut all: HashMap<Digest, u64> = HashMap::new();
    let mut told = StoreStat {
        sequence: names.sequence,
        room: store.room().await?,
        scrubbed: store.scrubbed_at(),
        sites: names
            .sites
            .values()
            .map(|site| site.url.to_string())
            .collect(),
        ..StoreStat::default()
    };
    for repository in names.repositories.values() {
        let sizes: BTreeMap<Digest, u64> = sizes(repository);
        told.repositories += u64::from(!sizes.is_empty());
        told.tags += repository.tags.len() as u64;
        told.bytes_unshared += sizes.values().sum::<u64>();
        manifests.extend(repository.manifests.keys());
        all.extend(sizes);
    }
    told.manifests = manifests.len() as u64;
    told.blobs = all
        .keys()
        .filter(|digest| !manifests.contains(digest))
        .count() as u64;
    told.bytes = all.values().sum();
    let aside = all
        .keys()
        .filter(|d| store.standing(d) == Standing::Quarantined);
    told.quarantined = aside.count() as u64;
    Ok(told)
}

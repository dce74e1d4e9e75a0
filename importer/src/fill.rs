//! Moving payload from the bundle into a store: every byte is read and hashed once; bytes that
//! the store lacks are written once on the way.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kubepkg_core::bundle::head::Class;
use kubepkg_core::bundle::verify::hash_blob;
use kubepkg_core::bundle::{Bundle, Damage, FormatError, Member, MemberKind};
use kubepkg_core::digest::Digest;
use kubepkg_core::progress::Progress;
use kubepkg_core::reader::Reader;
use kubepkg_core::store::{Body, FileRange, Store, StoreError};

use crate::judge::is_root;
use crate::{ImportError, Judged};

/// Staged content is published in groups of this many: one sync each, and a bounded number of
/// temporary files.
const GROUP: usize = 2_000;

/// A group is published when it has this many bytes: what a stopped import has to write again
/// stays small, and a sync stays rare against the seconds these bytes take.
const GROUP_BYTES: u64 = 512 * 1024 * 1024;

/// Content looked up at once: a store in a bucket answers each in milliseconds.
const LOOKED_UP: usize = 16;

/// One member on its way in.
#[derive(Clone, Debug)]
struct Work {
    member: Member,
    digest: Digest,
    layer: bool,
}

/// What is to be moved.
#[derive(Debug, Default)]
pub struct Need {
    /// The store lacks it: staged and published.
    missing: Vec<Work>,
    /// The store has it: only hashed, so that a damaged file is never called good.
    present: Vec<Work>,
}

impl Need {
    /// Bytes the store lacks.
    pub fn new_bytes(&self) -> u64 {
        self.missing.iter().map(|work| work.member.size).sum()
    }

    /// All payload bytes.
    pub fn bytes(&self) -> u64 {
        self.new_bytes()
            + self
                .present
                .iter()
                .map(|work| work.member.size)
                .sum::<u64>()
    }

    /// Splits off what must be verified before a layer is stored.
    pub fn split(self) -> (Need, Need) {
        let layer = |work: &Work| work.layer;
        let (missing_layers, missing) = self.missing.into_iter().partition(layer);
        let (present_layers, present) = self.present.into_iter().partition(layer);
        let layers = Need {
            missing: missing_layers,
            present: present_layers,
        };
        (Need { missing, present }, layers)
    }
}

/// Looks up which payload of the bundle the store lacks. Some does not enter the store and is
/// only hashed: files of features unknown here, and those of a repository whose index is older
/// than the one the store has accepted.
pub async fn need<S: Store>(
    bundle: &Bundle,
    store: &S,
    judged: &[Judged],
) -> Result<Need, ImportError> {
    let mut need = Need::default();
    let layers: HashSet<Digest> = bundle
        .head()
        .blobs
        .iter()
        .filter(|blob| blob.class == Class::Layer)
        .map(|blob| blob.digest)
        .collect();
    let published = published(bundle, judged);
    let mut works = Vec::new();
    for member in bundle.layout().payload() {
        let Some(digest) = member.digest else {
            continue;
        };
        works.push(Work {
            member: member.clone(),
            digest,
            layer: member.kind == MemberKind::Blob && layers.contains(&digest),
        });
    }
    let looking = stream::iter(works).map(|work| looked_up(store, work));
    let mut looked = looking.buffered(LOOKED_UP);
    while let Some(found) = looked.next().await {
        let (work, there) = found?;
        let member = &work.member;
        let enters = match member.kind {
            MemberKind::Blob => true,
            MemberKind::Repository => published.contains(member.path.as_str()),
            _ => false,
        };
        let list = if enters && there != Some(member.size) {
            &mut need.missing
        } else {
            &mut need.present
        };
        list.push(work);
    }
    // one content can be two members (an empty file and an empty blob); it is stored once
    need.missing
        .sort_by_key(|work| (std::cmp::Reverse(work.member.size), work.digest));
    need.present
        .sort_by_key(|work| std::cmp::Reverse(work.member.size));
    Ok(need)
}

async fn looked_up<S: Store>(store: &S, work: Work) -> Result<(Work, Option<u64>), StoreError> {
    let there = store.stat(&work.digest).await?;
    Ok((work, there))
}

/// Paths of the repository files that enter the store: all beside an index that is accepted, and
/// newer roots beside an older one.
fn published<'b>(bundle: &'b Bundle, judged: &[Judged]) -> HashSet<&'b str> {
    let mut published = HashSet::new();
    for judged in judged.iter().filter(|judged| judged.memory().is_some()) {
        let url = &judged.entry.url;
        let repositories = bundle.head().repositories.iter();
        let files = repositories
            .filter(|repository| repository.url == *url)
            .flat_map(|repository| &repository.files);
        let enters =
            files.filter(|file| judged.replaces() || judged.newer_root() && is_root(&file.path));
        let members = enters.filter_map(|file| bundle.layout().repository_member(url, &file.path));
        published.extend(members.map(|member| member.path.as_str()));
    }
    published
}

/// Hashes what is there and takes in what is not, `jobs` members at a time, large ones first.
/// Damage in what is there already is named all together; of what is taken in, the first ends
/// the work, since nothing more need be written then. What was taken in until then is published:
/// it is verified, and the next run finds it.
pub async fn fill<S: Store>(
    bundle: &Bundle,
    store: &S,
    need: Need,
    jobs: usize,
    progress: &dyn Progress,
) -> Result<(), ImportError> {
    hash_present(bundle, need.present, jobs, progress).await?;
    let mut staged = stream::iter(need.missing)
        .map(|work| stage(bundle, store, work, progress))
        .buffer_unordered(jobs);
    let mut group = Vec::new();
    let mut bytes = 0;
    let failure = loop {
        let (one, size) = match staged.try_next().await {
            Ok(Some(next)) => next,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        group.push(one);
        bytes += size;
        if is_full(group.len(), bytes) {
            store.publish(std::mem::take(&mut group)).await?;
            bytes = 0;
        }
    };
    // what is still being read gives its room back
    drop(staged);
    let published = store.publish(group).await;
    match failure {
        // the first error is the one to be told
        Some(error) => Err(error),
        None => Ok(published?),
    }
}

/// Whether staged content is to be published now.
fn is_full(members: usize, bytes: u64) -> bool {
    members >= GROUP || bytes >= GROUP_BYTES
}

/// Publishes small files made here.
pub async fn put<S: Store>(store: &S, files: &[(Digest, Bytes)]) -> Result<(), ImportError> {
    let mut staged = Vec::new();
    for (digest, bytes) in files {
        if store.stat(digest).await?.is_none() {
            let body = Body::Bytes(bytes.clone());
            staged.push(store.stage(*digest, bytes.len() as u64, body).await?);
        }
    }
    Ok(store.publish(staged).await?)
}

async fn stage<S: Store>(
    bundle: &Bundle,
    store: &S,
    work: Work,
    progress: &dyn Progress,
) -> Result<(S::Staged, u64), ImportError> {
    let range = FileRange {
        file: bundle.file(),
        offset: work.member.data_at,
        len: work.member.size,
    };
    let staged = store
        .stage(work.digest, work.member.size, Body::Range(range))
        .await;
    match staged {
        Ok(staged) => {
            progress.advance(work.member.size);
            Ok((staged, work.member.size))
        }
        Err(StoreError::Mismatch { found, .. }) => Err(damaged(bundle, &work, found)),
        Err(error) => Err(error.into()),
    }
}

/// The store found other bytes than announced: it is the bundle that is damaged.
fn damaged(bundle: &Bundle, work: &Work, found: String) -> ImportError {
    let error = match found.parse() {
        Ok(found) => FormatError::Damaged(vec![Damage {
            member: work.member.path.clone(),
            offset: work.member.data_at,
            wanted: work.digest,
            found,
        }]),
        Err(_) => FormatError::Absent(format!("{} in full: {found}", work.member.path)),
    };
    ImportError::from(error).of(bundle)
}

async fn hash_present(
    bundle: &Bundle,
    works: Vec<Work>,
    jobs: usize,
    progress: &dyn Progress,
) -> Result<(), ImportError> {
    let hash = |work: Work| {
        let file = bundle.file();
        async move {
            let extent = work.member.extent();
            let digest = work.digest;
            let task = tokio::task::spawn_blocking(move || {
                let mut reader = Reader::new(&file, extent.size);
                hash_blob(&mut reader, extent, &digest, &|_| {})
            });
            match task.await {
                Ok(Ok(found)) if found == work.digest => {
                    progress.advance(work.member.size);
                    Ok(None)
                }
                Ok(Ok(found)) => Ok(Some(Damage {
                    member: work.member.path.clone(),
                    offset: work.member.data_at,
                    wanted: work.digest,
                    found,
                })),
                Ok(Err(error)) => Err(ImportError::from(error).of(bundle)),
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
    };
    let found: Vec<Option<Damage>> = stream::iter(works)
        .map(hash)
        .buffer_unordered(jobs)
        .try_collect()
        .await?;
    let mut damaged: Vec<Damage> = found.into_iter().flatten().collect();
    if damaged.is_empty() {
        return Ok(());
    }
    damaged.sort_by_key(|damage| damage.offset);
    Err(ImportError::from(FormatError::Damaged(damaged)).of(bundle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_bounded_in_members_and_bytes() {
        assert!(!is_full(0, 0));
        assert!(!is_full(GROUP - 1, GROUP_BYTES - 1));
        assert!(is_full(GROUP, 0));
        assert!(is_full(1, GROUP_BYTES));
    }
}

//! One import, from an open bundle to one commit.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::thread::available_parallelism;

use bytes::Bytes;
use kubepkg_core::bundle::Bundle;
use kubepkg_core::carried;
use kubepkg_core::digest::Digest;
use kubepkg_core::index::MAX_INDEX;
use kubepkg_core::index::signature::MAX_SIGNATURE_FILE;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::manifest::{MAX_MANIFEST, Manifest};
use kubepkg_core::name::RepositoryName;
use kubepkg_core::progress::Progress;
use kubepkg_core::store::{Batch, Body, Cause, Committed, Names, Receipt, SiteEntry, Store, Unit};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{
    CURRENT, Entry, KNOWN_ID, Known, MAX_ROOT, Memory, MemoryError, Remembered, Roots, TrustError,
    entry_id,
};

use crate::carried::damaged as damaged_list;
use crate::check::{check, judged};
use crate::fill::{fill, need, put};
use crate::judge::{AcceptedIndex, root_number};
use crate::plan::{Now, plan, receipt};
use crate::upstream::upstreams;
use crate::{Checked, ImportError, Trusted};

/// How often an import that is ready starts over because others changed the store.
pub(crate) const MAX_CONFLICTS: u32 = 16;

/// Largest `carried.json` that is read. It holds less of each version than the index does,
/// and no version the index does not list.
const MAX_CARRIED: u64 = MAX_INDEX;

/// How an import is done.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The clock, read once for the whole run.
    pub now: Time,
    /// Members handled at the same time; the number of processors when not given.
    pub jobs: Option<usize>,
}

/// How an import ended.
#[derive(Debug)]
pub struct Imported {
    /// The commit it became; `None` when the store held all of it already.
    pub commit: Option<u64>,
    /// What came in, with everything that should be said.
    pub receipt: Receipt,
}

/// Verifies `bundle` with the keys in `trusted` and brings it into `store`.
///
/// Everything before the first layer is verified before one layer byte is stored; names, tags,
/// repository files, memory and the receipt become visible in one commit at the end. Run
/// twice, the second run finds nothing to do.
///
/// # Errors
/// See [`ImportError`]. Whatever the error, no name, tag, file or memory has changed, but for
/// [`StoreError::Unsettled`](kubepkg_core::store::StoreError::Unsettled): after that only
/// another import tells.
pub async fn import<S: Store>(
    bundle: &Bundle,
    store: &S,
    trusted: &Trusted,
    options: Options,
    progress: &dyn Progress,
) -> Result<Imported, ImportError> {
    let jobs = options
        .jobs
        .unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
    let _lease = store.lease().await?;
    // read before everything that is judged: a change in between makes the commit conflict
    let expected = store.sequence().await?;
    let checked = look(bundle, store, trusted, options.now).await?;
    // refused before anything is stored; judged again by what stands when it is committed
    let early = now(bundle, store, &checked).await?;
    upstreams(bundle, &checked, &early.names)?;
    let need = need(bundle, store, &checked.judged).await?;
    let new_bytes = need.new_bytes();
    if let Some(free) = store.room().await?.filter(|free| *free < new_bytes) {
        return Err(ImportError::NoRoom {
            needed: new_bytes,
            free,
        });
    }
    progress.begin("importing", need.bytes());
    let (small, layers) = need.split();
    let filled = match fill(bundle, store, small, jobs, progress).await {
        Ok(()) => fill(bundle, store, layers, jobs, progress).await,
        Err(error) => Err(error),
    };
    progress.end();
    filled?;
    let ready = Ready {
        expected,
        checked,
        new_bytes,
    };
    finish(bundle, store, trusted, options, ready).await
}

/// A bundle whose content is in the store, and what it was judged by.
struct Ready {
    expected: u64,
    checked: Checked,
    new_bytes: u64,
}

/// Commits. When somebody else committed meanwhile, trust is judged and names are planned
/// again: what was accepted may have become newer.
async fn finish<S: Store>(
    bundle: &Bundle,
    store: &S,
    trusted: &Trusted,
    options: Options,
    mut ready: Ready,
) -> Result<Imported, ImportError> {
    for _ in 0..MAX_CONFLICTS {
        let now = now(bundle, store, &ready.checked).await?;
        let mut plan = plan(bundle, &ready.checked, &now, trusted.allow_tag_back)?;
        plan.changes
            .extend(upstreams(bundle, &ready.checked, &now.names)?);
        let mut warnings = ready.checked.warnings.clone();
        warnings.extend(plan.warnings.iter().cloned());
        let receipt = receipt(
            bundle,
            &ready.checked,
            ready.new_bytes,
            warnings,
            trusted.as_of,
        );
        if plan.changes.is_empty() {
            return Ok(Imported {
                commit: None,
                receipt,
            });
        }
        put(store, &plan.files).await?;
        let batch = Batch {
            at: options.now,
            cause: Cause::Import(Box::new(receipt.clone())),
            changes: plan.changes,
        };
        // it was judged by what was accepted, and by the names it brings: what is pushed beside it
        // all the time is no reason to begin anew
        let placements = ready.checked.placements.iter();
        let repositories: HashSet<RepositoryName> =
            placements.map(|place| place.repository.clone()).collect();
        let judged_by = |unit: &Unit| match unit {
            Unit::Repository(name) => repositories.contains(name),
            Unit::Site(_) | Unit::Trust(_) => true,
        };
        let committed = store.commit_beside(ready.expected, batch, &judged_by);
        match committed.await? {
            Committed::Done(number) => {
                return Ok(Imported {
                    commit: Some(number),
                    receipt,
                });
            }
            Committed::Conflict { .. } => {
                ready.expected = store.sequence().await?;
                ready.checked = look(bundle, store, trusted, options.now).await?;
            }
        }
    }
    Err(ImportError::Busy(MAX_CONFLICTS))
}

/// Judges the bundle by what the store remembers, and checks it.
async fn look<S: Store>(
    bundle: &Bundle,
    store: &S,
    trusted: &Trusted,
    now: Time,
) -> Result<Checked, ImportError> {
    let remembered = remembered(bundle, store, trusted).await?;
    let mut judgement = judged(bundle, trusted, remembered, now)?;
    for at in 0..judgement.judged.len() {
        let judged = &judgement.judged[at];
        // an index is large, and needed only where the bundle's own is older
        let Some(digest) = judged.needs_accepted() else {
            continue;
        };
        let site = store.site(&judged.entry.url.folder()).await?;
        let accepted = AcceptedIndex {
            index: read_small(store, &digest, MAX_INDEX)
                .await?
                .map(Bytes::from),
            signature: signature(store, &judged.entry, site.as_ref()).await?,
            roots: roots(store, site.as_ref()).await?,
        };
        judgement.settle(at, &accepted)?;
    }
    check(bundle, judgement, trusted)
}

/// What the store remembers of the repositories of `bundle`, and over all of them.
async fn remembered<S: Store>(
    bundle: &Bundle,
    store: &S,
    trusted: &Trusted,
) -> Result<Remembered, ImportError> {
    let repositories = &bundle.head().repositories;
    let damaged = |url: &CanonicalUrl, error: MemoryError| ImportError::Memory {
        url: url.clone(),
        why: error.to_string(),
    };
    // without a repository nothing of this is looked at or changed
    let known = match (store.trust(KNOWN_ID).await?, repositories.first()) {
        (Some(json), Some(first)) => {
            Known::from_value(&json).map_err(|error| damaged(&first.url, error))?
        }
        _ => Known::default(),
    };
    let mut memories = BTreeMap::new();
    for repository in repositories {
        let url = &repository.url;
        // under the id it has, the one it gets, and the one it would have without a trust file
        let given = trusted.given.entries.iter();
        let given = given.filter(|entry| entry.url == *url);
        let mut ids: BTreeSet<String> = given.map(|entry| entry.id.clone()).collect();
        ids.extend(known.id_of(url).map(str::to_owned));
        ids.insert(entry_id(url));
        for id in ids {
            if let Some(json) = store.trust(&id).await? {
                let memory = Memory::from_value(&json).map_err(|error| damaged(url, error))?;
                memories.insert(id, memory);
            }
        }
    }
    for (id, memory) in &memories {
        if memory.entry != *id {
            return Err(ImportError::Trust {
                url: memory.url.clone(),
                source: Box::new(TrustError::OtherMemory {
                    url: memory.url.clone(),
                    id: id.clone(),
                    recorded_url: memory.url.clone(),
                    recorded_id: memory.entry.clone(),
                }),
            });
        }
    }
    Ok(Remembered::new(memories.into_values(), known))
}

/// The signature of the accepted index.
async fn signature<S: Store>(
    store: &S,
    entry: &Entry,
    site: Option<&SiteEntry>,
) -> Result<Option<Vec<u8>>, ImportError> {
    let name = format!("{}.sig", entry.url.file_name());
    match site.and_then(|site| site.files.get(&name)) {
        Some(file) => read_small(store, &file.digest, MAX_SIGNATURE_FILE).await,
        None => Ok(None),
    }
}

/// The roots that are published.
async fn roots<S: Store>(store: &S, site: Option<&SiteEntry>) -> Result<Roots, ImportError> {
    let mut roots = Roots::default();
    for (path, file) in site.into_iter().flat_map(|site| &site.files) {
        let number = root_number(path);
        if number.is_none() && path != CURRENT {
            continue;
        }
        let Some(bytes) = read_small(store, &file.digest, MAX_ROOT as u64).await? else {
            continue;
        };
        match number {
            Some(number) => {
                roots.numbered.insert(number, bytes.into());
            }
            None => roots.current = Some(bytes.into()),
        }
    }
    Ok(roots)
}

/// The names the bundle touches, as they stand.
async fn now<S: Store>(bundle: &Bundle, store: &S, checked: &Checked) -> Result<Now, ImportError> {
    let mut now = Now {
        names: Names::default(),
        carried: BTreeMap::new(),
        manifests: BTreeMap::new(),
    };
    for place in &checked.placements {
        if let Some(repository) = store.repository(&place.repository).await? {
            let closure = &checked.closure;
            let compared = place.tags.iter().filter(|(_, tagged)| {
                tagged.packages.is_empty() || closure.chart(&tagged.digest).is_some()
            });
            for (tag, tagged) in compared {
                if let Some(old) = repository.tags.get(tag)
                    && old.digest != tagged.digest
                    && let Some(bytes) = read_small(store, &old.digest, MAX_MANIFEST).await?
                    && let Some(entry) = repository.manifests.get(&old.digest)
                    && let Ok(manifest) = Manifest::parse(&bytes, Some(&entry.media_type))
                {
                    now.manifests.insert(old.digest, manifest);
                }
            }
            now.names
                .repositories
                .insert(place.repository.clone(), Arc::new(repository));
        }
    }
    for repository in &bundle.head().repositories {
        let folder = repository.url.folder();
        let Some(site) = store.site(&folder).await? else {
            continue;
        };
        if let Some(file) = site.files.get(carried::FILE) {
            let Some(bytes) = read_small(store, &file.digest, MAX_CARRIED).await? else {
                return Err(damaged_list(&folder, "it is missing or too large").into());
            };
            now.carried.insert(folder.clone(), bytes);
        }
        now.names.sites.insert(folder, site);
    }
    let mut ids = vec![KNOWN_ID];
    for judged in &checked.judged {
        ids.push(&judged.entry.id);
        ids.extend(judged.moved());
    }
    for id in ids {
        if let Some(memory) = store.trust(id).await? {
            now.names.trust.insert(id.to_owned(), memory);
        }
    }
    Ok(now)
}

/// Small content of the store, `None` when it is not there or larger than `limit`.
async fn read_small<S: Store>(
    store: &S,
    digest: &Digest,
    limit: u64,
) -> Result<Option<Vec<u8>>, ImportError> {
    match store.stat(digest).await? {
        Some(size) if size <= limit => {}
        _ => return Ok(None),
    }
    let Some(body) = store.read(digest).await? else {
        return Ok(None);
    };
    Ok(Some(collect(body, digest).await?))
}

async fn collect(body: Body, digest: &Digest) -> Result<Vec<u8>, ImportError> {
    use futures_util::TryStreamExt as _;
    use std::os::unix::fs::FileExt as _;
    let failed = |source| kubepkg_core::store::StoreError::Source {
        digest: *digest,
        source,
    };
    match body {
        Body::Bytes(bytes) => Ok(bytes.to_vec()),
        Body::Range(range) => {
            let mut bytes = vec![0; usize::try_from(range.len).unwrap_or(usize::MAX)];
            range
                .file
                .read_exact_at(&mut bytes, range.offset)
                .map_err(failed)?;
            Ok(bytes)
        }
        Body::Stream(stream) => {
            let pieces: Vec<Bytes> = stream.try_collect().await.map_err(failed)?;
            Ok(pieces.concat())
        }
    }
}

//! One import, from an open bundle to one commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::available_parallelism;

use kubepkg_core::bundle::Bundle;
use kubepkg_core::carried;
use kubepkg_core::digest::Digest;
use kubepkg_core::index::MAX_INDEX;
use kubepkg_core::index::signature::MAX_SIGNATURE_FILE;
use kubepkg_core::manifest::{MAX_MANIFEST, Manifest};
use kubepkg_core::progress::Progress;
use kubepkg_core::store::{Batch, Body, Cause, Committed, Names, Receipt, Store};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Entry, KNOWN_ID, Known, Memory};

use crate::carried::damaged as damaged_list;
use crate::check::{check, entries};
use crate::fill::{fill, need, put};
use crate::judge::{AcceptedIndex, Remembered, judge};
use crate::plan::{Now, plan, receipt};
use crate::upstream::upstreams;
use crate::{Checked, ImportError, Trusted};

/// How often an import that is ready starts over because others changed the store.
const MAX_CONFLICTS: u32 = 16;

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
    let entries = entries(bundle, trusted)?;
    let _lease = store.lease().await?;
    // read before everything that is judged: a change in between makes the commit conflict
    let expected = store.sequence().await?;
    let checked = look(bundle, store, &entries, trusted, options.now).await?;
    // refused before anything is stored; judged again by what stands when it is committed
    let early = now(bundle, store, &checked, &entries).await?;
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
        entries,
        expected,
        checked,
        new_bytes,
    };
    finish(bundle, store, trusted, options, ready).await
}

/// A bundle whose content is in the store, and what it was judged by.
struct Ready {
    entries: Vec<Entry>,
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
        let now = now(bundle, store, &ready.checked, &ready.entries).await?;
        let mut plan = plan(bundle, &ready.checked, &now, trusted.allow_tag_back)?;
        plan.changes
            .extend(upstreams(bundle, &ready.checked, &now.names)?);
        let mut warnings = ready.checked.warnings.clone();
        warnings.extend(plan.warnings.iter().cloned());
        let receipt = receipt(bundle, &ready.checked, ready.new_bytes, warnings);
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
        match store.commit(ready.expected, batch).await? {
            Committed::Done(number) => {
                return Ok(Imported {
                    commit: Some(number),
                    receipt,
                });
            }
            Committed::Conflict { .. } => {
                ready.expected = store.sequence().await?;
                ready.checked = look(bundle, store, &ready.entries, trusted, options.now).await?;
            }
        }
    }
    Err(ImportError::Busy(MAX_CONFLICTS))
}

/// Judges the bundle by what the store remembers, and checks it.
async fn look<S: Store>(
    bundle: &Bundle,
    store: &S,
    entries: &[Entry],
    trusted: &Trusted,
    now: Time,
) -> Result<Checked, ImportError> {
    let remembered = remembered(store, entries).await?;
    let mut judgement = judge(bundle, entries, &remembered, now)?;
    for at in 0..judgement.judged.len() {
        let judged = &judgement.judged[at];
        // an index is large, and needed only where the bundle's own is older
        let Some(memory) = judged.needs_accepted() else {
            continue;
        };
        let accepted = AcceptedIndex {
            index: read_small(store, &memory.index, MAX_INDEX).await?,
            signature: signature(store, &judged.entry).await?,
        };
        judgement.settle(at, &accepted)?;
    }
    check(bundle, judgement, trusted)
}

/// What the store remembers of the repositories of `entries`, and over all of them.
async fn remembered<S: Store>(store: &S, entries: &[Entry]) -> Result<Remembered, ImportError> {
    let mut remembered = Remembered::default();
    for entry in entries {
        let damaged = |error: kubepkg_core::trust::MemoryError| ImportError::Memory {
            url: entry.url.clone(),
            why: error.to_string(),
        };
        if let Some(json) = store.trust(KNOWN_ID).await? {
            remembered.known = Known::from_value(&json).map_err(damaged)?;
        }
        if let Some(json) = store.trust(&entry.id).await? {
            let memory = Memory::from_value(&json).map_err(damaged)?;
            remembered.memories.insert(entry.id.clone(), memory);
        }
    }
    Ok(remembered)
}

/// The signature of the accepted index.
async fn signature<S: Store>(store: &S, entry: &Entry) -> Result<Option<Vec<u8>>, ImportError> {
    let name = format!("{}.sig", entry.url.file_name());
    match store.site(&entry.url.folder()).await? {
        Some(site) => match site.files.get(&name) {
            Some(file) => read_small(store, &file.digest, MAX_SIGNATURE_FILE).await,
            None => Ok(None),
        },
        None => Ok(None),
    }
}

/// The names the bundle touches, as they stand.
async fn now<S: Store>(
    bundle: &Bundle,
    store: &S,
    checked: &Checked,
    entries: &[Entry],
) -> Result<Now, ImportError> {
    let mut now = Now {
        names: Names::default(),
        carried: BTreeMap::new(),
        manifests: BTreeMap::new(),
    };
    for place in &checked.placements {
        if let Some(repository) = store.repository(&place.repository).await? {
            for (tag, tagged) in place.tags.iter().filter(|(_, t)| t.packages.is_empty()) {
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
    let ids = entries.iter().map(|entry| entry.id.as_str());
    for id in ids.chain([KNOWN_ID]) {
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
            let pieces: Vec<bytes::Bytes> = stream.try_collect().await.map_err(failed)?;
            Ok(pieces.concat())
        }
    }
}

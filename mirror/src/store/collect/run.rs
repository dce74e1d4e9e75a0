//! One collection from beginning to end: marks, removes what an earlier one condemned, and
//! condemns what it found. Everything but the short steps of [`super::protocol`] happens
//! without the store's lock.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use kubepkg_core::manifest::MAX_MANIFEST;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Cause, Claim, Garbage, Names, StoreError, Swept, Wait};
use kubepkg_core::time::Time;
use kubepkg_core::{Algorithm, Digest};

use super::super::disk::{self, failed};
use super::super::layout::{Layout, NUMBER_WIDTH};
use super::super::open::{Opened, Writable};
use super::super::{records, work};
use super::ground::OnDisk;
use super::mark::{self, Kept, Marked, Reading};
use super::protocol::{self, Ground as _};
use super::report::{Amount, Collected};
use super::served::milliseconds;
use super::{kept, list, reserve};

/// After so many batches the names are looked at again.
const BATCHES: usize = 32;

/// What a collection is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collecting {
    /// Only say what would be done.
    pub dry_run: bool,
    /// Condemn manifests nobody tagged, too.
    pub untagged: bool,
    /// How long something stays condemned, in time the store is served.
    pub grace: Duration,
    /// How many imports can be gone back to.
    pub keep_imports: usize,
    /// When, by the clock of who asks.
    pub at: Time,
}

/// How long something stays condemned unless said otherwise: longer than a push of large
/// layers takes from its first question to its manifest.
pub const GRACE: Duration = Duration::from_secs(60 * 60);

/// How many imports can be gone back to unless said otherwise.
pub const KEEP_IMPORTS: usize = 3;

impl Collecting {
    /// With the grace and imports kept that are usual.
    pub fn new(at: Time) -> Collecting {
        Collecting {
            dry_run: false,
            untagged: false,
            grace: GRACE,
            keep_imports: KEEP_IMPORTS,
            at,
        }
    }
}

/// What is reachable in a whole store.
struct Reached {
    sequence: u64,
    kept: Kept,
    repositories: BTreeMap<RepositoryName, Marked>,
}

impl Reached {
    /// Names nothing reaches.
    fn names(&self) -> BTreeSet<Garbage> {
        let marked = self.repositories.values();
        marked
            .flat_map(|marked| marked.garbage.iter().cloned())
            .collect()
    }
}

/// One collection on a store this process may write.
pub(in super::super) fn run(
    opened: &Opened,
    collecting: &Collecting,
) -> Result<Collected, StoreError> {
    let writable = opened.writable()?;
    let path = writable.layout.collector();
    let collector = writable.disk.open_or_create(&path)?;
    collector.lock().map_err(failed("lock", &path))?;
    let room = reserve::Released::where_full(writable)?;
    let collected = match once(opened, writable, collecting) {
        // what is counted as free is not always what can be written
        Err(error) if error.is_no_room() && room.is_none() => {
            let _room = reserve::Released::now(writable)?;
            once(opened, writable, collecting)
        }
        done => done,
    }?;
    if !collecting.dry_run {
        let line = format!("{:0NUMBER_WIDTH$}\n", collecting.at.unix());
        let noted = collector.write_all_at(line.as_bytes(), 0);
        noted.map_err(failed("write", &path))?;
    }
    Ok(collected)
}

/// When the last collection was made, by the clock of who asked for it; `None` where nobody
/// knows.
pub(super) fn last(layout: &Layout) -> Option<Time> {
    let text = fs::read_to_string(layout.collector()).ok()?;
    Some(Time::from_unix(text.trim_end().parse().ok()?))
}

fn once(
    opened: &Opened,
    writable: &Writable,
    collecting: &Collecting,
) -> Result<Collected, StoreError> {
    let on_disk = OnDisk {
        writable,
        at: collecting.at,
        cause: Cause::Collect,
    };
    let ledger = on_disk.ledger(&on_disk.hold()?)?;
    let mut reading = Reading::new(|digest: &Digest| children(writable, digest));
    let mut names = opened
        .snapshot
        .refresh(&opened.layout, &opened.generation)?;
    let kept = kept::states(&writable.layout, &names, collecting.keep_imports)?;
    let mut reached = Reached {
        sequence: names.sequence,
        kept,
        repositories: BTreeMap::new(),
    };
    let given_up = |name: &RepositoryName, digest: &Digest| {
        collecting.untagged
            || ledger.holds(&Garbage {
                digest: *digest,
                claim: Claim::Manifest(name.clone()),
            })
    };
    for (name, repository) in &names.repositories {
        let kept = reached.kept.repositories.get(name);
        let marked = mark::repository(
            name,
            repository,
            kept,
            |digest| given_up(name, digest),
            &mut reading,
        );
        reached.repositories.insert(name.clone(), marked);
    }
    let mut report = Collected::new(collecting, &reached.repositories, &reached.kept);
    let mut swept = Swept::default();
    if !collecting.dry_run {
        // names first: each repository judged again right before, so that one that is pushed to
        // all the time is collected too
        let due: Vec<RepositoryName> = reached
            .repositories
            .iter()
            .filter(|(_, marked)| marked.garbage.iter().any(|garbage| ledger.holds(garbage)))
            .map(|(name, _)| name.clone())
            .collect();
        let grace = milliseconds(collecting.grace);
        let (now, _) = writable.served.now()?;
        let leased = on_disk.leased(&on_disk.hold()?)?.map(|(oldest, _)| oldest);
        for name in due {
            names = opened
                .snapshot
                .refresh(&opened.layout, &opened.generation)?;
            let Some(repository) = names.repositories.get(&name) else {
                continue;
            };
            let kept = reached.kept.repositories.get(&name);
            // a manifest that may not go yet keeps what it is made of
            let may_go = |digest: &Digest| {
                let claim = Claim::Manifest(name.clone());
                let digest = *digest;
                let judged = ledger.judge(&Garbage { digest, claim }, now, grace, leased);
                judged.is_ok()
            };
            let marked = mark::repository(&name, repository, kept, may_go, &mut reading);
            let swept_now =
                protocol::sweep(&on_disk, names.sequence, marked.garbage, collecting.grace)?;
            // as it is from now on, for what is condemned
            let given_up = |digest: &Digest| given_up(&name, digest);
            let marked = mark::repository(&name, repository, kept, given_up, &mut reading);
            let told: BTreeSet<&Garbage> = (swept_now.names.iter())
                .chain(swept_now.waiting.iter().map(|(garbage, _)| garbage))
                .collect();
            let untold = marked
                .garbage
                .iter()
                .filter(|garbage| !told.contains(garbage));
            let waiting = untold
                .filter(|garbage| ledger.holds(garbage))
                .map(|garbage| {
                    let judged = ledger.judge(garbage, now, grace, leased);
                    (garbage.clone(), judged.err().unwrap_or(Wait::Changed))
                });
            swept.waiting.extend(waiting);
            add(&mut swept, swept_now);
            reached.repositories.insert(name, marked);
        }
    }
    let mut garbage: BTreeSet<Garbage> = reached.names();
    for taken in &swept.names {
        garbage.remove(taken);
    }

    // content the names reached that the marking saw, and names that came since
    names = opened
        .snapshot
        .refresh(&opened.layout, &opened.generation)?;
    let unnamed = unnamed(writable, &reached, &names, &garbage)?;
    let sizes: HashMap<Digest, u64> = unnamed
        .iter()
        .filter_map(|digest| Some((*digest, size_of(writable, digest)?)))
        .collect();
    report.kept_for_imports = kept_for_imports(writable, &reached.kept, &names);
    if !collecting.dry_run {
        let listed: Vec<Digest> = unnamed
            .iter()
            .filter(|digest| ledger.has(digest))
            .copied()
            .collect();
        for batches in listed.chunks(BATCHES * protocol::SWEPT_AT_ONCE) {
            names = opened
                .snapshot
                .refresh(&opened.layout, &opened.generation)?;
            let named = names.contents();
            let free = batches.iter().filter(|digest| !named.contains(*digest));
            let batch = free.map(|digest| bytes(*digest)).collect();
            add(
                &mut swept,
                protocol::sweep(&on_disk, names.sequence, batch, collecting.grace)?,
            );
        }
    }
    let removed: HashSet<Digest> = swept.contents.iter().map(|(digest, _)| *digest).collect();
    let left = unnamed.iter().filter(|digest| !removed.contains(*digest));
    garbage.extend(left.map(|digest| bytes(*digest)));
    report.removed = Amount {
        names: swept.names.len() as u64,
        contents: swept.contents.len() as u64,
        bytes: swept.contents.iter().map(|(_, size)| size).sum(),
    };
    report.condemn(&garbage, |garbage| ledger.holds(garbage), &sizes);
    if collecting.dry_run {
        let (now, _) = writable.served.now()?;
        let grace = milliseconds(collecting.grace);
        let leased = on_disk.leased(&on_disk.hold()?)?.map(|(oldest, _)| oldest);
        for garbage in garbage.iter().filter(|garbage| ledger.holds(garbage)) {
            match ledger.judge(garbage, now, grace, leased) {
                Ok(()) => report.would_remove(garbage, &sizes),
                Err(wait) => swept.waiting.push((garbage.clone(), wait)),
            }
        }
    } else {
        report.sets = old_sets(writable, &reached.kept)?;
        protocol::condemn(&on_disk, garbage)?;
        let keep = collecting.keep_imports;
        report.records = records::trim(&writable.layout, &opened.generation, keep)?;
    }
    report.wait(&swept.waiting, &sizes);
    Ok(report)
}

fn add(swept: &mut Swept, more: Swept) {
    swept.names.extend(more.names);
    swept.contents.extend(more.contents);
    swept.waiting.extend(more.waiting);
}

fn bytes(digest: Digest) -> Garbage {
    Garbage {
        digest,
        claim: Claim::Bytes,
    }
}

/// What a manifest names, `None` when it cannot be read as the manifest it should be.
fn children(writable: &Writable, digest: &Digest) -> Option<Vec<Digest>> {
    let path = writable.layout.blob(digest);
    if disk::length(&path).ok()?? > MAX_MANIFEST {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    digest.matches(&bytes).then(|| mark::named_by(&bytes))?
}

/// Size of content that is here or set aside.
fn size_of(writable: &Writable, digest: &Digest) -> Option<u64> {
    let aside = || disk::length(&writable.layout.quarantined(digest));
    let here = writable.content.size(digest).ok()?;
    here.or_else(|| aside().ok().flatten())
}

/// Content that no name needs, and that going back to one of the last imports does.
fn kept_for_imports(writable: &Writable, kept: &Kept, names: &Names) -> Amount {
    let named = names.contents();
    let mut amount = Amount::default();
    let only_kept = kept.contents().into_iter().filter(|d| !named.contains(d));
    for size in only_kept.filter_map(|digest| writable.content.size(&digest).ok()?) {
        amount.contents += 1;
        amount.bytes += size;
    }
    amount
}

/// Content nothing names but what is garbage itself.
fn unnamed(
    writable: &Writable,
    reached: &Reached,
    names: &Names,
    garbage: &BTreeSet<Garbage>,
) -> Result<BTreeSet<Digest>, StoreError> {
    let wanted = mark::wanted(&reached.kept, &reached.repositories, names, garbage);
    let mut unnamed = BTreeSet::new();
    for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
        for first in 0..=u8::MAX {
            let found = contents_in(&writable.layout, algorithm, first)?;
            unnamed.extend(found.into_iter().filter(|digest| !wanted.contains(digest)));
        }
    }
    // what was set aside waits to be brought again only as long as somebody wants it
    let aside = work::entries(&writable.layout.quarantine())?;
    unnamed.extend(list::quarantined(&aside).filter(|digest| !wanted.contains(digest)));
    tracing::debug!(
        sequence = reached.sequence,
        unnamed = unnamed.len(),
        "marked"
    );
    Ok(unnamed)
}

/// Digests of all content whose hash begins with this byte.
pub(in super::super) fn contents_in(
    layout: &Layout,
    algorithm: Algorithm,
    first: u8,
) -> Result<Vec<Digest>, StoreError> {
    let name = algorithm.as_str();
    let folder = layout.blobs().join(name).join(format!("{first:02x}"));
    let paths = work::entries(&folder)?;
    let digest = |path: &std::path::PathBuf| {
        let hex = path.file_name()?.to_str()?;
        format!("{name}:{hex}").parse().ok()
    };
    Ok(paths.iter().filter_map(digest).collect())
}

/// Removes sets of repository files that neither the names nor a kept state needs. Answers how
/// many.
fn old_sets(writable: &Writable, kept: &Kept) -> Result<u64, StoreError> {
    let mut removed = 0;
    for folder in work::entries(&writable.layout.sites())? {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        for path in work::entries(&folder)? {
            let set = path.file_name().and_then(|set| set.to_str());
            let Some(set) = set.and_then(|set| set.parse::<u64>().ok()) else {
                continue;
            };
            if kept.sets.contains(&(name.to_owned(), set)) {
                continue;
            }
            let _lock = writable.lock.hold()?;
            let newest = writable.redo()?;
            if set > newest || writable.current_set(name)? == Some(set) {
                continue;
            }
            // out of sight in one step, so that no reader sees half of it
            let aside = writable.work.folder()?;
            let to = aside.path().join(set.to_string());
            fs::rename(&path, &to).map_err(failed("remove", &path))?;
            removed += 1;
        }
    }
    Ok(removed)
}

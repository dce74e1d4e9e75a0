//! Is everything in a store as it should be?
//!
//! One look at all names, then one pass over all content. Nothing is locked and nothing is
//! touched, so it runs beside a server; what others do meanwhile is told from damage by looking
//! again before anything is reported. [`FileStore::repair`] mends what can be mended.
//!
//! Two things make it safe beside a server. Names are read before content is listed, and
//! content is there before a name is, so what a name promises must be found. And whatever
//! seems wrong is looked at once more at the end, by the names of then.

mod hash;
mod own;
mod pace;
mod repair;
mod resolve;
mod suffer;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use kubepkg_core::Digest;
use kubepkg_core::progress::Progress;
use kubepkg_core::store::{Names, StoreError, Unit};

pub(super) use hash::{Verdict, hash};
pub(crate) use pace::Pace;
pub(super) use walk::{Blob, Stamp, digests_in};

use super::FileStore;
use super::layout::Layout;

/// How a check works.
#[derive(Clone, Copy, Debug)]
pub struct CheckSettings {
    /// Threads that hash: more than cores would only make others wait.
    pub jobs: usize,
    /// Most bytes read in a second, `None` for as fast as it goes.
    pub rate: Option<u64>,
}

impl Default for CheckSettings {
    fn default() -> CheckSettings {
        CheckSettings {
            jobs: std::thread::available_parallelism().map_or(2, usize::from),
            rate: None,
        }
    }
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Its bytes are not those it is named by, or its seal does not fit.
    Damaged,
    /// It is shorter than its name says.
    Cut,
    /// A name promises it and it is not there.
    Missing,
    /// The disk does not give its bytes.
    Unreadable,
    /// It is as old as a backup, or younger than the records beside it.
    Stale,
    /// It belongs to somebody else than the store.
    Owner,
    /// Nothing in a store has this name.
    Strange,
    /// A manifest names something that its repository does not have.
    Incomplete,
    /// It was set aside as damaged, and nobody has brought it again.
    Quarantined,
}

impl Fault {
    /// One word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Damaged => "damaged",
            Fault::Cut => "cut",
            Fault::Missing => "missing",
            Fault::Unreadable => "unreadable",
            Fault::Stale => "stale",
            Fault::Owner => "owner",
            Fault::Strange => "strange",
            Fault::Incomplete => "incomplete",
            Fault::Quarantined => "quarantined",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What it is.
    pub fault: Fault,
    /// The file, below the store's folder.
    pub path: PathBuf,
    /// The content it is, where it is content.
    pub digest: Option<Digest>,
    /// What was seen.
    pub detail: String,
    /// Who cannot be served rightly because of it.
    pub suffers: Vec<Sufferer>,
    /// What to do.
    pub advice: String,
    /// What was done about it.
    pub repaired: Option<String>,
    /// The file as it was when it was looked at.
    stamp: Option<Stamp>,
    /// The names it is the file of.
    unit: Option<Unit>,
    /// The content it can be made of again.
    source: Option<Digest>,
}

/// Somebody who needs content that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sufferer {
    /// A repository, or a site's folder.
    pub name: String,
    /// The tags that need it; none where only a digest leads to it.
    pub tags: Vec<String>,
}

impl Finding {
    pub(crate) fn of(
        fault: Fault,
        path: PathBuf,
        detail: impl Into<String>,
        advice: &str,
    ) -> Finding {
        Finding {
            fault,
            path,
            digest: None,
            detail: detail.into(),
            suffers: Vec::new(),
            advice: advice.to_owned(),
            repaired: None,
            stamp: None,
            unit: None,
            source: None,
        }
    }
}

/// What a check saw.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Number of the newest commit.
    pub sequence: u64,
    /// What is wrong, by file.
    pub findings: Vec<Finding>,
    /// Files of content that were hashed, and their bytes.
    pub content: Count,
    /// Content no name leads to, which is no fault: collection takes it.
    pub unreferenced: Count,
    /// Manifests, by repository.
    pub manifests: u64,
    /// Repositories.
    pub repositories: u64,
    /// Entries of indexes that are not here, which is no fault: not all platforms are carried.
    pub sparse: u64,
}

/// A number of files and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub files: u64,
    /// How large together.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

/// Advice that several findings share.
pub(crate) const BRING_AGAIN: &str = "run `kubepkg mirror check --repair`, then push the image \
                                      or import a bundle that carries it again";

/// Advice where content could not be read for a reason that says nothing of the content.
const NOT_READ: &str = "mend what keeps it from being read (its owner and mode, the limit of open \
                        files, memory) and run `kubepkg mirror check` again";

impl FileStore {
    /// Looks at everything in the store. Does file work for long: call it from a thread of its
    /// own. `stop` ends it early, with an error.
    pub fn check(
        &self,
        settings: &CheckSettings,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Checked, StoreError> {
        let layout = &self.opened.layout;
        let own = own::read(layout, &self.opened.generation)?;
        let walked = walk::blobs(layout)?;
        let resolved = resolve::resolve(layout, &own.names, &walked.blobs)?;
        let mut checked = Checked {
            sequence: own.sequence,
            repositories: own.names.repositories.len() as u64,
            manifests: resolved.manifests,
            unreferenced: resolved.unreferenced,
            sparse: resolved.sparse,
            ..Checked::default()
        };
        let mut findings = own.findings;
        findings.extend(walk::strangers(layout)?);
        findings.extend(walked.findings);
        findings.extend(resolved.findings);
        findings.extend(self.hash_all(&walked.blobs, settings, progress, stop, &mut checked)?);

        let names = self.look_again(&mut findings, own.names)?;
        join(&mut findings);
        suffer::find(layout, &names, &mut findings);
        checked.findings = findings;
        Ok(checked)
    }

    /// Hashes all content, in the order it lies in on the disk as far as inodes tell.
    fn hash_all(
        &self,
        blobs: &BTreeMap<Digest, Stamp>,
        settings: &CheckSettings,
        progress: &dyn Progress,
        stop: &AtomicBool,
        checked: &mut Checked,
    ) -> Result<Vec<Finding>, StoreError> {
        let layout = &self.opened.layout;
        let mut order: Vec<Blob> = blobs
            .iter()
            .map(|(digest, stamp)| Blob {
                digest: *digest,
                stamp: *stamp,
            })
            .collect();
        order.sort_by_key(|blob| blob.stamp.inode);
        progress.begin("checking", order.iter().map(|blob| blob.stamp.size).sum());
        let pace = Pace::new(settings.rate);
        let next = Mutex::new(order.iter());
        let found = Mutex::new((Vec::new(), Count::default()));
        std::thread::scope(|scope| {
            for _ in 0..settings.jobs.clamp(1, MAX_JOBS) {
                scope.spawn(|| {
                    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    while let Some(blob) = take().filter(|_| !stop.load(Ordering::Relaxed)) {
                        let seen = hash(layout, blob, &pace, stop, &|n| progress.advance(n));
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.1.add(blob.stamp.size);
                        found.0.extend(finding(layout, blob, seen));
                    }
                });
            }
        });
        progress.end();
        if stop.load(Ordering::Relaxed) {
            let interrupted = std::io::ErrorKind::Interrupted.into();
            return Err(super::disk::failed("check", layout.root())(interrupted));
        }
        let (findings, content) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        checked.content = content;
        Ok(findings)
    }

    /// Drops what was only somebody else's work in between; answers the names of now.
    fn look_again(&self, findings: &mut Vec<Finding>, names: Names) -> Result<Names, StoreError> {
        let layout = &self.opened.layout;
        // bytes were looked at twice already, and strange files are what they are
        let doubtful = |finding: &Finding| match finding.fault {
            Fault::Damaged => finding.unit.is_some() || finding.stamp.is_none(),
            Fault::Unreadable => finding.digest.is_none(),
            Fault::Strange | Fault::Owner => false,
            _ => true,
        };
        if !findings.iter().any(doubtful) {
            return Ok(names);
        }
        let own = own::read(layout, &self.opened.generation)?;
        let resolved = resolve::resolve(layout, &own.names, &walk::blobs(layout)?.blobs)?;
        let still: BTreeSet<(&Path, Fault)> = own
            .findings
            .iter()
            .chain(&resolved.findings)
            .map(|finding| (&*finding.path, finding.fault))
            .collect();
        findings.retain(|f| !doubtful(f) || still.contains(&(&*f.path, f.fault)));
        Ok(own.names)
    }
}

/// One finding for each file, in order.
fn join(findings: &mut Vec<Finding>) {
    findings.sort_by(|a, b| (&a.path, a.fault).cmp(&(&b.path, b.fault)));
    findings.dedup_by(|later, kept| {
        if later.path != kept.path {
            return false;
        }
        match (kept.fault, later.fault) {
            (Fault::Damaged, Fault::Cut) => {
                kept.fault = Fault::Cut;
                kept.detail.clone_from(&later.detail);
                true
            }
            // a manifest that cannot be read says nothing of what it needs
            (Fault::Damaged | Fault::Cut | Fault::Unreadable, Fault::Incomplete) => true,
            (kept, later) => kept == later,
        }
    });
}

/// More threads than this only wait for the disk.
const MAX_JOBS: usize = 64;

/// What to tell of content that was hashed.
fn finding(layout: &Layout, blob: &Blob, verdict: Verdict) -> Option<Finding> {
    let path = below(layout, &layout.blob(&blob.digest));
    let (fault, detail, stamp, advice) = match verdict {
        Verdict::Sound | Verdict::Gone | Verdict::Stopped => return None,
        Verdict::Other(found, stamp) => {
            let detail = format!("its {} bytes have the digest {found}", stamp.size);
            (Fault::Damaged, detail, Some(stamp), BRING_AGAIN)
        }
        Verdict::Unreadable(error) => {
            let detail = error.to_string();
            (Fault::Unreadable, detail, Some(blob.stamp), BRING_AGAIN)
        }
        // without a stamp it is not set aside
        Verdict::Failed(error) => (Fault::Unreadable, error.to_string(), None, NOT_READ),
    };
    let mut finding = Finding::of(fault, path, detail, advice);
    finding.digest = Some(blob.digest);
    finding.stamp = stamp;
    Some(finding)
}

/// `path` as seen from the store's folder.
fn below(layout: &Layout, path: &Path) -> PathBuf {
    path.strip_prefix(layout.root()).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpenMode;

    #[test]
    fn what_cannot_be_read_for_other_reasons_than_the_disk_is_told_and_not_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        let layout = &store.opened.layout;
        let digest = Digest::sha256(b"content");
        // reading a folder fails, and not because of the disk
        let path = layout.blob(&digest);
        std::fs::create_dir_all(&path).unwrap();
        let stamp = Stamp::of(&std::fs::symlink_metadata(&path).unwrap());
        let blob = Blob { digest, stamp };
        let stop = AtomicBool::new(false);
        let seen = hash(layout, &blob, &Pace::new(None), &stop, &|_| {});
        let found = finding(layout, &blob, seen).unwrap();
        assert_eq!(found.fault, Fault::Unreadable);
        let mut checked = Checked {
            findings: vec![found],
            ..Checked::default()
        };
        store.repair(&mut checked).unwrap();
        assert!(checked.findings[0].repaired.is_none());
        assert!(path.exists());
    }
}

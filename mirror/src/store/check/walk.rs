//! What lies in a store's folders.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kubepkg_core::Digest;
use kubepkg_core::store::StoreError;

use super::super::disk::failed;
use super::super::layout::{Layout, TEMPORARY};
use super::super::work;
use super::{Fault, Finding, below};

/// A file as it was when it was looked at: another one, or a changed one, has another stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Stamp {
    pub(in super::super) device: u64,
    pub(in super::super) inode: u64,
    pub(in super::super) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(in super::super) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Content and the file it is in.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Blob {
    pub(in super::super) digest: Digest,
    pub(in super::super) stamp: Stamp,
}

/// All of `blobs/`.
#[derive(Default)]
pub(super) struct Walked {
    pub(super) blobs: BTreeMap<Digest, Stamp>,
    pub(super) findings: Vec<Finding>,
}

/// Lists all content.
pub(super) fn blobs(layout: &Layout) -> Result<Walked, StoreError> {
    let mut walked = Walked::default();
    let owner = owner(layout)?;
    for algorithm in work::entries(&layout.blobs())? {
        if !algorithm.is_dir() {
            walked.findings.extend(strange(layout, &algorithm));
            continue;
        }
        for folder in work::entries(&algorithm)? {
            folder_of(layout, &folder, owner, &mut walked)?;
        }
    }
    Ok(walked)
}

/// Lists the content in one folder, e.g. `blobs/sha256/3f`.
pub(super) fn folder_of(
    layout: &Layout,
    folder: &Path,
    owner: (u32, u32),
    walked: &mut Walked,
) -> Result<(), StoreError> {
    if !folder.is_dir() {
        walked.findings.extend(strange(layout, folder));
        return Ok(());
    }
    for path in work::entries(folder)? {
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            // collected a moment ago
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(failed("look at", &path)(e)),
        };
        match digest_of(layout, &path) {
            Some(digest) if metadata.is_file() => {
                walked
                    .findings
                    .extend(foreign(layout, &path, &metadata, owner));
                walked.blobs.insert(digest, Stamp::of(&metadata));
            }
            _ => walked.findings.extend(strange(layout, &path)),
        }
    }
    Ok(())
}

/// The content in one folder, in the order it lies in on the disk as far as inodes tell.
pub(in super::super) fn digests_in(
    layout: &Layout,
    folder: &Path,
) -> Result<Vec<Blob>, StoreError> {
    let mut walked = Walked::default();
    folder_of(layout, folder, owner(layout)?, &mut walked)?;
    let blob = |(digest, stamp)| Blob { digest, stamp };
    let mut blobs: Vec<Blob> = walked.blobs.into_iter().map(blob).collect();
    blobs.sort_by_key(|blob| blob.stamp.inode);
    Ok(blobs)
}

/// The digest a file of content is named by.
pub(in super::super) fn digest_of(layout: &Layout, path: &Path) -> Option<Digest> {
    let name = path.file_name()?.to_str()?;
    let algorithm = path.parent()?.parent()?.file_name()?.to_str()?;
    let digest: Digest = format!("{algorithm}:{name}").parse().ok()?;
    (layout.blob(&digest) == path).then_some(digest)
}

/// User and group everything in the store belongs to.
pub(super) fn owner(layout: &Layout) -> Result<(u32, u32), StoreError> {
    let root = layout.root();
    let metadata = root.metadata().map_err(failed("look at", root))?;
    Ok((metadata.uid(), metadata.gid()))
}

/// A finding where a file belongs to others. Who serves the store may not be able to read or
/// replace it.
pub(super) fn foreign(
    layout: &Layout,
    path: &Path,
    metadata: &Metadata,
    (uid, gid): (u32, u32),
) -> Option<Finding> {
    if metadata.uid() == uid && metadata.gid() == gid {
        return None;
    }
    let detail = format!(
        "it belongs to user {} and group {}, the store to {uid} and {gid}",
        metadata.uid(),
        metadata.gid()
    );
    let advice = format!("chown {uid}:{gid} {}", path.display());
    Some(Finding::of(
        Fault::Owner,
        below(layout, path),
        detail,
        &advice,
    ))
}

/// Files in the folders of names, sites, trust, commits and in the root that no store has.
pub(super) fn strangers(layout: &Layout) -> Result<Vec<Finding>, StoreError> {
    let owner = owner(layout)?;
    let mut findings = Vec::new();
    for path in work::entries(layout.root())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !Layout::knows(&name) {
            findings.extend(strange(layout, &path));
        } else if let Ok(metadata) = fs::symlink_metadata(&path)
            && !name.starts_with(TEMPORARY)
            && name != "lost+found"
        {
            findings.extend(foreign(layout, &path, &metadata, owner));
        }
    }
    Ok(findings)
}

/// A finding about something that no store has; `None` for what file systems leave.
pub(super) fn strange(layout: &Layout, path: &Path) -> Option<Finding> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // NFS keeps what was removed while open under such a name
    if name.starts_with(TEMPORARY) || name.starts_with(".nfs") || !path.exists() {
        return None;
    }
    let path: PathBuf = below(layout, path);
    let detail = "nothing in a store has this name; it is not served";
    Some(Finding::of(
        Fault::Strange,
        path,
        detail,
        "move it elsewhere, or remove it",
    ))
}

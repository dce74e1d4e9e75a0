//! Does every name lead to content that is there, and is all that a manifest needs in its
//! repository?

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use kubepkg_core::Digest;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::manifest::{MAX_MANIFEST, Manifest, ManifestError};
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Names, Repository, StoreError};

use super::super::disk::failed;
use super::super::layout::Layout;
use super::walk::Stamp;
use super::{BRING_AGAIN, Count, Fault, Finding, below};

/// What the names came to.
#[derive(Default)]
pub(super) struct Resolved {
    pub(super) findings: Vec<Finding>,
    pub(super) manifests: u64,
    pub(super) unreferenced: Count,
    pub(super) sparse: u64,
}

/// Follows all names.
pub(super) fn resolve(
    layout: &Layout,
    names: &Names,
    blobs: &BTreeMap<Digest, Stamp>,
) -> Result<Resolved, StoreError> {
    let mut resolved = Resolved::default();
    let mut promised: BTreeMap<Digest, u64> = BTreeMap::new();
    for (name, repository) in &names.repositories {
        resolved.manifests += repository.manifests.len() as u64;
        promised.extend(
            repository
                .manifests
                .iter()
                .map(|(d, entry)| (*d, entry.size)),
        );
        promised.extend(
            repository
                .blobs
                .iter()
                .map(|(digest, size)| (*digest, *size)),
        );
        for (digest, entry) in &repository.manifests {
            // one that is not whole is told by its size or its hash
            if let Some(bytes) = sound_manifest(layout, digest, blobs) {
                let read = Manifest::parse(&bytes, Some(&entry.media_type));
                let whole = match read {
                    Ok(manifest) => needs(name, repository, digest, &manifest, &mut resolved),
                    // a client may push types kubepkg does not read
                    Err(ManifestError::MediaType(_)) => None,
                    Err(error) => Some(error.to_string()),
                };
                if let Some(detail) = whole {
                    let path = below(layout, &layout.blob(digest));
                    let advice = "push the image or import a bundle that carries it again";
                    let mut finding = Finding::of(Fault::Incomplete, path, detail, advice);
                    finding.digest = Some(*digest);
                    resolved.findings.push(finding);
                }
            }
        }
        for (tag, entry) in &repository.tags {
            if !repository.manifests.contains_key(&entry.digest) {
                let path = below(layout, &layout.repository(name));
                let detail = format!("tag {tag} points at {}, which is not in it", entry.digest);
                let advice = format!("push or import {name}:{tag} again, or remove the tag");
                let finding = Finding::of(Fault::Incomplete, path, detail, &advice);
                resolved.findings.push(finding);
            }
        }
    }
    sites(layout, names, blobs, &mut promised, &mut resolved)?;
    for (digest, size) in &promised {
        resolved
            .findings
            .extend(absent(layout, digest, *size, blobs.get(digest)));
    }
    for (digest, stamp) in blobs {
        if !promised.contains_key(digest) {
            resolved.unreferenced.add(stamp.size);
        }
    }
    Ok(resolved)
}

/// A finding where content is not there, or not of its size.
fn absent(layout: &Layout, digest: &Digest, size: u64, there: Option<&Stamp>) -> Option<Finding> {
    let path = below(layout, &layout.blob(digest));
    let aside = layout.quarantined(digest);
    let mut finding = match there {
        Some(stamp) if stamp.size == size => return None,
        Some(stamp) if stamp.size < size => {
            let detail = format!("it has {} bytes of {size}", stamp.size);
            Finding::of(Fault::Cut, path, detail, BRING_AGAIN)
        }
        Some(stamp) => {
            let detail = format!("it has {} bytes instead of {size}", stamp.size);
            Finding::of(Fault::Damaged, path, detail, BRING_AGAIN)
        }
        None if aside.exists() => {
            // of what was missing there is a mark only
            let detail = match aside.metadata().is_ok_and(|aside| aside.len() == 0) {
                true => "it was found missing before".to_owned(),
                false => format!(
                    "it was damaged and lies in {}",
                    below(layout, &aside).display()
                ),
            };
            let advice = "push the image or import a bundle that carries it again";
            Finding::of(Fault::Quarantined, path, detail, advice)
        }
        None => {
            let advice = "push the image or import a bundle that carries it again; until then \
                          clients are told that it is not here";
            Finding::of(Fault::Missing, path, "names promise it", advice)
        }
    };
    finding.digest = Some(*digest);
    Some(finding)
}

/// The bytes of a manifest, where they are those of its digest.
fn sound_manifest(
    layout: &Layout,
    digest: &Digest,
    blobs: &BTreeMap<Digest, Stamp>,
) -> Option<Vec<u8>> {
    blobs
        .get(digest)
        .filter(|stamp| stamp.size <= MAX_MANIFEST)?;
    let bytes = fs::read(layout.blob(digest)).ok()?;
    digest.matches(&bytes).then_some(bytes)
}

/// What a manifest names and its repository does not have.
fn needs(
    name: &RepositoryName,
    repository: &Repository,
    digest: &Digest,
    manifest: &Manifest,
    resolved: &mut Resolved,
) -> Option<String> {
    let absent = |child: &&kubepkg_core::descriptor::Descriptor| {
        !repository.manifests.contains_key(&child.digest)
    };
    resolved.sparse += manifest.children().iter().filter(absent).count() as u64;
    let here: BTreeSet<&Digest> = repository.blobs.keys().collect();
    let lacking = manifest.blobs().into_iter().find(|blob| {
        let foreign = media_type::is_foreign_layer(&blob.media_type);
        blob.urls.is_empty() && !foreign && !here.contains(&blob.digest)
    })?;
    Some(format!(
        "manifest {digest} needs {}, which is not in {name}",
        lacking.digest
    ))
}

/// The files of every site: the set, and the content it is made of.
fn sites(
    layout: &Layout,
    names: &Names,
    blobs: &BTreeMap<Digest, Stamp>,
    promised: &mut BTreeMap<Digest, u64>,
    resolved: &mut Resolved,
) -> Result<(), StoreError> {
    const MADE_AGAIN: &str =
        "run `kubepkg mirror check --repair`: it is made anew from the content";
    for (folder, site) in &names.sites {
        for (path, file) in &site.files {
            promised.insert(file.digest, file.size);
            let at = layout.site_set(folder, site.set).join(path);
            let finding = |fault, detail: &str| {
                let mut finding = Finding::of(fault, below(layout, &at), detail, MADE_AGAIN);
                finding.unit = Some(kubepkg_core::store::Unit::Site(folder.clone()));
                finding.source = Some(file.digest);
                finding
            };
            let metadata = match fs::symlink_metadata(&at) {
                Ok(metadata) => metadata,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                    let detail = "it is not in its set; it is served from the content";
                    resolved.findings.push(finding(Fault::Missing, detail));
                    continue;
                }
                Err(e) => return Err(failed("look at", &at)(e)),
            };
            let stamp = Stamp::of(&metadata);
            let one_file = |blob: &Stamp| (blob.device, blob.inode) == (stamp.device, stamp.inode);
            if blobs.get(&file.digest).is_some_and(one_file) {
                continue; // hashed as content
            }
            let sound = metadata.len() == file.size
                && fs::read(&at).is_ok_and(|bytes| file.digest.matches(bytes));
            if !sound {
                let detail = "its bytes are not those that were accepted";
                resolved.findings.push(finding(Fault::Damaged, detail));
            }
        }
    }
    Ok(())
}

/// The file of a path that a finding is about.
pub(super) fn absolute(layout: &Layout, finding: &Finding) -> PathBuf {
    layout.root().join(&finding.path)
}

//! What has to go when a reference is removed, and what it needs no more.

use std::collections::{BTreeMap, BTreeSet};

use kubepkg_core::Digest;
use kubepkg_core::descriptor::media_type::is_index;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{Change, Names};

use super::closure::Closure;
use super::usage::holders;
use super::{ManageError, reference, resolve};
use crate::route::Target;

/// What a removal takes.
#[derive(Clone, Debug, Default)]
pub struct Removal {
    /// Tags.
    pub tags: BTreeSet<Tag>,
    /// Manifests that nothing in the repository leads to any more.
    pub manifests: BTreeMap<Digest, u64>,
    /// Blobs of these that nothing else in the repository needs.
    pub blobs: BTreeMap<Digest, u64>,
    /// A manifest that stays and cannot be read: what it may need stays with it, and only the
    /// tag, or the manifest that was asked for by its digest, goes.
    pub unjudged: Option<Digest>,
    /// Of both, what no other repository needs: collection frees it.
    pub garbage: BTreeMap<Digest, u64>,
    /// The changes of names.
    pub changes: Vec<Change>,
}

impl Removal {
    /// Bytes that collection will free.
    pub fn garbage_bytes(&self) -> u64 {
        self.garbage.values().sum()
    }
}

/// What removing `target` takes: the tag, and what only it leads to, signatures and other
/// referrers included. A digest takes the tags that point at it too.
///
/// Without `force` this refuses a manifest by digest that an index needs or tags point at.
pub fn removal(
    closure: &mut Closure<'_>,
    names: &Names,
    name: &RepositoryName,
    target: &Target,
    force: bool,
) -> Result<Removal, ManageError> {
    let digest = resolve(names, name, target)?;
    let repository = super::repository(names, name)?;
    let mut removal = Removal::default();
    match target {
        Target::Tag(tag) => {
            removal.tags.insert(tag.clone());
        }
        Target::Digest(digest) => {
            let pointing = repository
                .tags
                .iter()
                .filter(|(_, entry)| entry.digest == *digest);
            removal.tags.extend(pointing.map(|(tag, _)| tag.clone()));
        }
    }
    let by_digest = matches!(target, Target::Digest(_));
    if by_digest && !force {
        let needed = |by: String| {
            let reference = reference(name, target);
            Err(ManageError::Needed { reference, by })
        };
        if let Some(tag) = removal.tags.first() {
            return needed(format!("tag {tag} points at it"));
        }
        for (index, entry) in &repository.manifests {
            let manifest = closure.manifest(index, &entry.media_type)?;
            let needs = |manifest: &&kubepkg_core::manifest::Manifest| {
                manifest
                    .children()
                    .iter()
                    .any(|child| child.digest == digest)
            };
            match manifest {
                Some(manifest) if needs(&manifest) => {
                    return needed(format!("index {index} lists it"));
                }
                None if is_index(&entry.media_type) && *index != digest => {
                    return needed(format!("index {index} cannot be read and may list it"));
                }
                _ => {}
            }
        }
    }

    let gone = closure.of(repository, [digest])?;
    // what is about something stays as long as that does, so it keeps nothing by itself
    let stays = |candidate: &&Digest| !gone.manifests.contains(candidate);
    let others = repository.manifests.keys().filter(stays).copied();
    let tagged = repository.tags.iter().filter(|(tag, entry)| {
        let about_it = gone.manifests.contains(&entry.digest) && is_about(tag, &gone.manifests);
        !removal.tags.contains(*tag) && !about_it
    });
    let roots: Vec<Digest> = others
        .chain(tagged.map(|(_, entry)| entry.digest))
        .collect();
    let mut kept = closure.of(repository, roots)?;
    if by_digest {
        // it was asked for by its own name
        kept.manifests.remove(&digest);
        kept.unreadable.remove(&digest);
    }
    let mut taken: BTreeSet<Digest> = gone
        .manifests
        .difference(&kept.manifests)
        .copied()
        .collect();
    removal.unjudged = kept.unreadable.first().copied();
    let indexes = |digest: &&Digest| {
        let entry = repository.manifests.get(digest);
        entry.is_some_and(|entry| is_index(&entry.media_type))
    };
    if kept.unreadable.iter().any(|digest| indexes(&digest)) {
        taken.retain(|manifest| by_digest && *manifest == digest);
    }
    if taken.contains(&digest) {
        for (tag, entry) in &repository.tags {
            if taken.contains(&entry.digest) {
                removal.tags.insert(tag.clone());
            }
        }
        for (blob, size) in &repository.blobs {
            let judged = removal.unjudged.is_none();
            if judged && gone.blobs.contains(blob) && !kept.blobs.contains(blob) {
                removal.blobs.insert(*blob, *size);
            }
        }
        for manifest in taken {
            if let Some(entry) = repository.manifests.get(&manifest) {
                removal.manifests.insert(manifest, entry.size);
            }
        }
    }

    let holders = holders(names);
    let sites: BTreeSet<Digest> = names
        .sites
        .values()
        .flat_map(|site| site.files.values().map(|file| file.digest))
        .collect();
    let all = removal.manifests.iter().chain(&removal.blobs);
    removal.garbage = all
        .filter(|(digest, _)| holders.get(digest) == Some(&1) && !sites.contains(digest))
        .map(|(digest, size)| (*digest, *size))
        .collect();
    removal.changes = changes(name, &removal);
    Ok(removal)
}

/// Whether a tag names, by its form, one of these manifests as what it is about.
fn is_about(tag: &Tag, manifests: &BTreeSet<Digest>) -> bool {
    let stem = tag.as_str().split('.').next().unwrap_or_default();
    let digest = stem.replacen('-', ":", 1).parse::<Digest>();
    digest.is_ok_and(|digest| manifests.contains(&digest))
}

fn changes(name: &RepositoryName, removal: &Removal) -> Vec<Change> {
    let tags = removal.tags.iter().map(|tag| Change::Tag {
        repository: name.clone(),
        tag: tag.clone(),
        new: None,
    });
    let manifests = removal.manifests.keys().map(|digest| Change::Manifest {
        repository: name.clone(),
        digest: *digest,
        new: None,
    });
    let blobs = removal.blobs.keys().map(|digest| Change::Blob {
        repository: name.clone(),
        digest: *digest,
        new: None,
    });
    tags.chain(manifests).chain(blobs).collect()
}

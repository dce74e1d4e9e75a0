//! What a manifest leads to within its repository.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;

use kubepkg_core::Digest;
use kubepkg_core::manifest::{MAX_MANIFEST, Manifest};
use kubepkg_core::store::{Repository, StoreError};

use crate::source::Source;

/// Manifests of one store, read once each.
pub struct Closure<'s> {
    source: &'s dyn Source,
    read: BTreeMap<Digest, Option<Manifest>>,
}

/// Manifests and blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) manifests: BTreeSet<Digest>,
    pub(super) blobs: BTreeSet<Digest>,
    /// Of the manifests those that are not here or cannot be read: what they are made of nobody
    /// knows.
    pub(super) unreadable: BTreeSet<Digest>,
}

impl<'s> Closure<'s> {
    /// Nothing read yet.
    pub fn new(source: &'s dyn Source) -> Closure<'s> {
        Closure {
            source,
            read: BTreeMap::new(),
        }
    }

    /// A manifest, `None` where it is not here or cannot be read as one.
    pub(super) fn manifest(
        &mut self,
        digest: &Digest,
        media_type: &str,
    ) -> Result<Option<&Manifest>, StoreError> {
        if !self.read.contains_key(digest) {
            let manifest = self.open(digest, media_type)?;
            self.read.insert(*digest, manifest);
        }
        Ok(self.read.get(digest).and_then(Option::as_ref))
    }

    fn open(&self, digest: &Digest, media_type: &str) -> Result<Option<Manifest>, StoreError> {
        let Some(range) = self
            .source
            .blob(digest)?
            .filter(|range| range.len <= MAX_MANIFEST)
        else {
            return Ok(None);
        };
        let mut bytes = vec![0; usize::try_from(range.len).unwrap_or_default()];
        let read = range.file.read_exact_at(&mut bytes, range.offset);
        read.map_err(|source| StoreError::Source {
            digest: *digest,
            source,
        })?;
        if !digest.matches(&bytes) {
            return Ok(None);
        }
        Ok(Manifest::parse(&bytes, Some(media_type)).ok())
    }

    /// All that these manifests lead to and what is about them: children, configs, layers, and
    /// referrers at any depth.
    pub(super) fn of(
        &mut self,
        repository: &Repository,
        roots: impl IntoIterator<Item = Digest>,
    ) -> Result<Reached, StoreError> {
        let mut about: BTreeMap<&Digest, Vec<Digest>> = BTreeMap::new();
        for (digest, entry) in &repository.manifests {
            if let Some(subject) = &entry.subject {
                about.entry(subject).or_default().push(*digest);
            }
        }
        let mut reached = Reached::default();
        let mut open: Vec<Digest> = roots.into_iter().collect();
        while let Some(digest) = open.pop() {
            let Some(entry) = repository.manifests.get(&digest) else {
                continue;
            };
            if !reached.manifests.insert(digest) {
                continue;
            }
            open.extend(about.get(&digest).into_iter().flatten());
            let fallback = format!("{}-{}", digest.algorithm().as_str(), digest.hex());
            for ending in ["", ".sig", ".att", ".sbom"] {
                let tag = repository.tags.get(format!("{fallback}{ending}").as_str());
                open.extend(tag.map(|entry| entry.digest));
            }
            let Some(manifest) = self.manifest(&digest, &entry.media_type)? else {
                reached.unreadable.insert(digest);
                continue;
            };
            open.extend(manifest.children().iter().map(|child| child.digest));
            let blobs = manifest.blobs().into_iter().map(|blob| blob.digest);
            reached
                .blobs
                .extend(blobs.filter(|d| repository.blobs.contains_key(d)));
        }
        Ok(reached)
    }
}

impl Reached {
    /// Bytes of it, as the repository says.
    pub(super) fn sizes(&self, repository: &Repository) -> BTreeMap<Digest, u64> {
        let manifests = self.manifests.iter().filter_map(|digest| {
            let entry = repository.manifests.get(digest)?;
            Some((*digest, entry.size))
        });
        let blobs = self.blobs.iter().filter_map(|digest| {
            let size = repository.blobs.get(digest)?;
            Some((*digest, *size))
        });
        manifests.chain(blobs).collect()
    }
}

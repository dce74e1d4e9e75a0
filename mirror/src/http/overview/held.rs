//! What all repositories hold together.

use std::collections::HashMap;

use kubepkg_core::Digest;
use kubepkg_core::store::Names;

/// Numbers of a whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
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
}

impl Held {
    pub(super) fn of(names: &Names) -> Held {
        let mut held = Held::default();
        // whether it is a manifest anywhere, and its size
        let mut all: HashMap<u64, (bool, u64)> = HashMap::new();
        for repository in names.repositories.values() {
            held.repositories += u64::from(!repository.is_empty());
            held.tags += repository.tags.len() as u64;
            for (digest, entry) in &repository.manifests {
                all.insert(short(digest), (true, entry.size));
            }
            for (digest, size) in &repository.blobs {
                all.entry(short(digest)).or_insert((false, *size));
            }
        }
        for (manifest, size) in all.into_values() {
            match manifest {
                true => held.manifests += 1,
                false => held.blobs += 1,
            }
            held.bytes = held.bytes.saturating_add(size);
        }
        held
    }
}

/// The beginning of a digest: among 10 million pieces of content two share one with a chance of
/// three in a million, and then a count is one less. Whole digests would take nine times the
/// memory.
fn short(digest: &Digest) -> u64 {
    let first = digest.as_bytes().first_chunk();
    first.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kubepkg_core::store::{ManifestEntry, Repository, TagEntry};

    use super::*;

    #[test]
    fn content_of_several_repositories_counts_once() {
        let manifest = Digest::sha256(b"m");
        let mut repository = Repository::default();
        let entry = ManifestEntry {
            media_type: "application/vnd.oci.image.manifest.v1+json".into(),
            size: 100,
            subject: None,
            artifact_type: None,
            annotations: Default::default(),
        };
        repository.manifests.insert(manifest, entry);
        repository.blobs.insert(Digest::sha256(b"a"), 10);
        // a manifest that is a blob as well
        repository.blobs.insert(manifest, 100);
        let tag = TagEntry {
            digest: manifest,
            origin: None,
        };
        repository.tags.insert("1".parse().unwrap(), tag);
        let mut other = repository.clone();
        other.blobs.insert(Digest::sha256(b"b"), 1);
        let mut names = Names::default();
        for (name, repository) in [
            ("a.example/x", repository),
            ("a.example/y", other),
            ("a.example/gone", Repository::default()),
        ] {
            let name = name.parse().unwrap();
            names.repositories.insert(name, Arc::new(repository));
        }
        let held = Held::of(&names);
        assert_eq!((held.repositories, held.tags), (2, 2));
        assert_eq!((held.manifests, held.blobs, held.bytes), (1, 2, 111));
    }
}

//! What repositories weigh, from names alone.

use std::collections::{BTreeMap, HashMap};

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Names, Repository};

/// One repository and what it weighs.
#[derive(Clone, Debug)]
pub struct Usage<'n> {
    /// Its name.
    pub name: &'n RepositoryName,
    /// What is in it.
    pub repository: &'n Repository,
    /// Bytes that no other repository needs.
    pub own: u64,
    /// Bytes that other repositories need too.
    pub shared: u64,
}

/// Content of a repository with its sizes. Content that is a manifest and a blob counts once.
pub(super) fn sizes(repository: &Repository) -> BTreeMap<Digest, u64> {
    let manifests = repository
        .manifests
        .iter()
        .map(|(digest, entry)| (*digest, entry.size));
    let blobs = repository
        .blobs
        .iter()
        .map(|(digest, size)| (*digest, *size));
    manifests.chain(blobs).collect()
}

/// How many repositories need each piece of content.
pub(super) fn holders(names: &Names) -> HashMap<Digest, u32> {
    let mut holders = HashMap::new();
    for repository in names.repositories.values() {
        for digest in sizes(repository).into_keys() {
            *holders.entry(digest).or_default() += 1;
        }
    }
    holders
}

/// The repositories that `wanted` says, in order of their names.
pub fn usages<'n>(names: &'n Names, wanted: impl Fn(&RepositoryName) -> bool) -> Vec<Usage<'n>> {
    let holders = holders(names);
    let mut usages = Vec::new();
    for (name, repository) in names.repositories.iter().filter(|(name, _)| wanted(name)) {
        if repository.manifests.is_empty() && repository.blobs.is_empty() {
            continue; // everything was taken out of it
        }
        let (mut own, mut shared) = (0, 0);
        for (digest, size) in sizes(repository) {
            match holders.get(&digest) {
                Some(1) => own += size,
                _ => shared += size,
            }
        }
        usages.push(Usage {
            name,
            repository,
            own,
            shared,
        });
    }
    usages
}

//! Bodies of manifests, kept in memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use kubepkg_core::Digest;

/// Bytes kept at most. Manifests are a few KiB; 8 MiB hold those of more images than a site
/// pulls at one time, and two of the largest kind.
pub const BUDGET: usize = 8 * 1024 * 1024;

/// A bounded cache by digest. Content with a digest never changes, so nothing is invalidated.
///
/// Two halves: what is used moves to the young one; when that is full the old one is dropped
/// and the young one becomes old. That keeps what is in use without a list to maintain.
#[derive(Debug, Default)]
pub struct ManifestCache {
    halves: Mutex<Halves>,
}

#[derive(Debug, Default)]
struct Halves {
    young: HashMap<Digest, Bytes>,
    young_bytes: usize,
    old: HashMap<Digest, Bytes>,
}

impl ManifestCache {
    /// The body with this digest, if it is kept.
    pub fn get(&self, digest: &Digest) -> Option<Bytes> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(body) = halves.young.get(digest) {
            return Some(body.clone());
        }
        let body = halves.old.remove(digest)?;
        halves.insert(*digest, body.clone());
        Some(body)
    }

    /// Keeps a body whose digest was checked.
    pub fn insert(&self, digest: Digest, body: Bytes) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.insert(digest, body);
    }
}

impl Halves {
    fn insert(&mut self, digest: Digest, body: Bytes) {
        if body.len() > BUDGET / 2 {
            return;
        }
        if self.young_bytes + body.len() > BUDGET / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += body.len();
        if let Some(same) = self.young.insert(digest, body) {
            self.young_bytes -= same.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_is_used_within_its_budget() {
        let cache = ManifestCache::default();
        let body = |i: u32| Bytes::from(vec![i as u8; 64 * 1024]);
        let digest = |i: u32| Digest::sha256(i.to_le_bytes());
        cache.insert(digest(0), body(0));
        for i in 1..1000 {
            cache.insert(digest(i), body(i));
            assert!(
                cache.get(&digest(0)).is_some(),
                "used all the time, lost at {i}"
            );
            let halves = cache.halves.lock().unwrap();
            let bytes: usize = halves
                .young
                .values()
                .chain(halves.old.values())
                .map(Bytes::len)
                .sum();
            assert!(bytes <= BUDGET);
        }
        assert!(cache.get(&digest(1)).is_none());
        assert_eq!(cache.get(&digest(999)), Some(body(999)));
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let cache = ManifestCache::default();
        let digest = Digest::sha256(b"");
        cache.insert(digest, Bytes::from(vec![0; BUDGET]));
        assert!(cache.get(&digest).is_none());
    }
}

//! What manifests name, for a collection: many are read at once, and what was read is remembered,
//! for content never changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use kubepkg_core::Digest;
use kubepkg_core::manifest::MAX_MANIFEST;
use kubepkg_core::store::{Repository, StoreError};

use super::objects::Bucket;
use super::remembered::Remembered;
use super::state::State;
use super::{AT_ONCE, keys};
use crate::store::mark;

/// Digests remembered: 65 bytes each.
const REMEMBERED: usize = 500_000;

/// What a manifest names.
type Named = Arc<[Digest]>;

/// What manifests name, as far as it was read.
#[derive(Clone)]
pub(super) struct Children {
    known: Arc<Mutex<Remembered<Digest, Named>>>,
}

impl Default for Children {
    fn default() -> Children {
        Children {
            known: Arc::new(Mutex::new(Remembered::new(REMEMBERED))),
        }
    }
}

impl Children {
    fn known(&self) -> std::sync::MutexGuard<'_, Remembered<Digest, Named>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the manifests of a repository name. Those that are not here, or are none, are left out.
    ///
    /// # Errors
    /// The bucket does not answer: then nobody knows.
    pub(super) async fn of(
        &self,
        bucket: &Bucket,
        state: &State,
        repository: &Repository,
    ) -> Result<HashMap<Digest, Vec<Digest>>, StoreError> {
        let mut all = HashMap::new();
        let mut open = Vec::new();
        {
            let known = self.known();
            for digest in repository.manifests.keys() {
                match known.get(digest) {
                    Some(named) => {
                        all.insert(*digest, named.to_vec());
                    }
                    None => open.push(*digest),
                }
            }
        }
        let reading = open.into_iter().map(|digest| async move {
            let key = keys::blob(&digest, state.removed(&digest));
            let bytes = match bucket.get(&key, MAX_MANIFEST).await {
                Ok(bytes) => bytes,
                Err(StoreError::Damaged { .. }) => None,
                Err(error) => return Err(error),
            };
            let Some(bytes) = bytes else {
                return Ok(None);
            };
            let named = bucket.blocking(move || {
                let sound = digest.matches(&bytes);
                sound.then(|| mark::named_by(&bytes)).flatten()
            });
            Ok(named.await?.map(|named| (digest, named)))
        });
        let mut reading = futures_util::stream::iter(reading).buffer_unordered(AT_ONCE);
        while let Some(read) = reading.next().await {
            if let Some((digest, named)) = read? {
                let remembered: Named = named.clone().into();
                self.known().note(digest, remembered, named.len() + 1);
                all.insert(digest, named);
            }
        }
        Ok(all)
    }
}

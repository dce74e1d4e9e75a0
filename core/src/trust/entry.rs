//! Who is trusted for which repository.

use std::collections::BTreeMap;

use crate::keys::{KeyId, PublicKey};
use crate::location::CanonicalUrl;

/// A repository, and the keys that may sign its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the memory of this repository is filed under.
    pub id: String,
    /// URL of the index.
    pub url: CanonicalUrl,
    /// One of them must have signed.
    pub keys: Vec<PublicKey>,
    /// Whether an index without any signature is accepted. A signature that is there and
    /// does not verify is refused all the same when there are keys.
    pub allow_unsigned: bool,
    /// Whether the index must name its URL itself, see [`mark_shared_keys`].
    pub must_name_url: bool,
}

impl Entry {
    /// The entry that `--public-key` makes.
    pub fn new(url: CanonicalUrl, keys: Vec<PublicKey>, allow_unsigned: bool) -> Entry {
        let mut distinct: Vec<PublicKey> = Vec::with_capacity(keys.len());
        for key in keys {
            if !distinct.contains(&key) {
                distinct.push(key);
            }
        }
        Entry {
            id: entry_id(&url),
            url,
            keys: distinct,
            allow_unsigned,
            must_name_url: false,
        }
    }
}

/// The id of an entry made on the command line. It depends on the URL alone: who changes
/// keys keeps the memory, and so the protection against old indexes.
pub fn entry_id(url: &CanonicalUrl) -> String {
    url.folder()
}

/// Marks entries that share a key: their indexes must name their own URL. Otherwise who
/// carries the files could pass off one repository's index, rightly signed, as the other's.
pub fn mark_shared_keys(entries: &mut [Entry]) {
    let mut users: BTreeMap<KeyId, usize> = BTreeMap::new();
    for entry in entries.iter() {
        for key in &entry.keys {
            *users.entry(key.id()).or_default() += 1;
        }
    }
    for entry in entries {
        let shared = |key: &PublicKey| users.get(&key.id()).is_some_and(|n| *n > 1);
        entry.must_name_url |= entry.keys.iter().any(shared);
    }
}

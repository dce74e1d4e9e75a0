//! A second hash of an accepted index, to know it again in a fraction of the time.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Shorter indexes are read and checked in less time than it takes to notice.
const MIN_INDEX: usize = 1024 * 1024;

/// The BLAKE3 hash of an index. It is as hard to find two texts with one as with SHA-256, and
/// it is computed several times as fast. It never leaves the record of a site: what people,
/// bundles and mirrors call an index by is its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quick(blake3::Hash);

impl Quick {
    /// The hash of `index`, where it is large enough to be worth it.
    pub(super) fn of(index: &[u8]) -> Option<Quick> {
        (index.len() >= MIN_INDEX).then(|| Quick(blake3::hash(index)))
    }
}

impl Serialize for Quick {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.to_hex())
    }
}

impl<'de> Deserialize<'de> for Quick {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Quick, D::Error> {
        let text = String::deserialize(from)?;
        let hash = blake3::Hash::from_hex(&text);
        hash.map(Quick).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_indexes_have_one_and_it_is_stored_as_hex() {
        assert_eq!(Quick::of(&[b'a'; MIN_INDEX - 1]), None);
        let one = Quick::of(&[b'a'; MIN_INDEX]).unwrap();
        assert_ne!(one, Quick::of(&[b'b'; MIN_INDEX]).unwrap());
        let json = serde_json::to_value(&one).unwrap();
        assert_eq!(json.as_str().unwrap().len(), 64);
        assert_eq!(serde_json::from_value::<Quick>(json).unwrap(), one);
        assert!(serde_json::from_str::<Quick>("\"xy\"").is_err());
    }
}

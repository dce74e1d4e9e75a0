//! Keys that decide together: so many of these must have signed.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::index::signature::Entry as Signature;
use crate::keys::{KeyId, PublicKey};

/// Keys that one set may have: more than any group of people that signs together, and a bound
/// on the work a file can ask for.
pub const MAX_SET: usize = 256;

/// Keys, each there once, and how many of them must have signed: at least one, at most all.
#[derive(Clone)]
pub struct KeySet {
    keys: Vec<PublicKey>,
    threshold: u32,
}

/// A threshold no signatures can meet, or that none has to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// Zero, or more than there are keys. One key given twice is one key.
    #[error("threshold {threshold} with {keys} {}", if *keys == 1 { "key" } else { "keys" })]
    Threshold {
        /// The threshold.
        threshold: i64,
        /// Number of distinct keys.
        keys: usize,
    },
    /// More than [`MAX_SET`].
    #[error("more than {MAX_SET} keys")]
    TooMany,
}

impl KeySet {
    /// A set of `keys`, of which `threshold` must sign. A key given twice counts once.
    ///
    /// # Errors
    /// A threshold of 0 or above the number of keys.
    pub fn new(
        keys: impl IntoIterator<Item = PublicKey>,
        threshold: i64,
    ) -> Result<KeySet, KeySetError> {
        let mut distinct: Vec<PublicKey> = Vec::new();
        for key in keys {
            if distinct.iter().all(|known| known.id() != key.id()) {
                if distinct.len() == MAX_SET {
                    return Err(KeySetError::TooMany);
                }
                distinct.push(key);
            }
        }
        match u32::try_from(threshold) {
            Ok(count @ 1..) if count as usize <= distinct.len() => Ok(KeySet {
                keys: distinct,
                threshold: count,
            }),
            _ => Err(KeySetError::Threshold {
                threshold,
                keys: distinct.len(),
            }),
        }
    }

    /// The keys, in the order given.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// How many of them must have signed.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// The ids of the keys, in the order given.
    pub fn ids(&self) -> Vec<KeyId> {
        self.keys.iter().map(PublicKey::id).collect()
    }

    /// Whether `count` signers are enough.
    pub fn met_by(&self, count: usize) -> bool {
        count >= self.threshold as usize
    }

    /// Whether `signers` holds enough keys of this set.
    pub fn met_by_keys(&self, signers: &BTreeSet<KeyId>) -> bool {
        let known = |key: &&PublicKey| signers.contains(&key.id());
        self.met_by(self.keys.iter().filter(known).count())
    }

    /// Which keys of this set signed `message`, each once, in the order given. An entry counts
    /// for the key it names; one that names none counts for the first key it fits.
    pub fn signed_by(&self, message: &[u8], signatures: &[Signature]) -> Vec<KeyId> {
        let mut found = Vec::new();
        for key in &self.keys {
            let id = key.id().to_string();
            let fits = |entry: &Signature| {
                (entry.key_id.is_empty() || entry.key_id == id)
                    && key.verifies(message, &entry.signature)
            };
            if signatures.iter().any(fits) {
                found.push(key.id());
            }
        }
        found
    }
}

/// How many of which keys.
impl fmt::Display for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<String> = self.ids().iter().map(ToString::to_string).collect();
        write!(f, "{} of ({})", self.threshold, ids.join(", "))
    }
}

/// The order of the keys does not matter.
impl PartialEq for KeySet {
    fn eq(&self, other: &KeySet) -> bool {
        let ids = |set: &KeySet| set.ids().into_iter().collect::<BTreeSet<_>>();
        self.threshold == other.threshold && ids(self) == ids(other)
    }
}

impl Eq for KeySet {}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.threshold, self.ids())
    }
}

/// How a set is written: `{keys: [PEM, …], threshold: n}`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    keys: Vec<String>,
    threshold: u32,
}

impl Serialize for KeySet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Form {
            keys: self.keys.iter().map(PublicKey::to_pem).collect(),
            threshold: self.threshold,
        }
        .serialize(to)
    }
}

impl<'de> Deserialize<'de> for KeySet {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<KeySet, D::Error> {
        let form = Form::deserialize(from)?;
        let keys = form.keys.iter().map(|pem| PublicKey::from_pem(pem));
        let keys: Vec<PublicKey> = keys.collect::<Result<_, _>>().map_err(de::Error::custom)?;
        if keys.len() > MAX_SET {
            return Err(de::Error::custom(KeySetError::TooMany));
        }
        KeySet::new(keys, i64::from(form.threshold)).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PrivateKey;

    fn pair() -> (PrivateKey, PublicKey) {
        let private = PrivateKey::generate().unwrap();
        let public = private.public().unwrap();
        (private, public)
    }

    #[test]
    fn one_key_counted_twice_does_not_meet_a_threshold_of_two() {
        let ((a, a_public), (_, b_public)) = (pair(), pair());
        assert!(KeySet::new([a_public.clone(), a_public.clone()], 2).is_err());
        let set = KeySet::new([a_public.clone(), a_public.clone(), b_public], 2).unwrap();
        assert_eq!(set.keys().len(), 2);
        let signature = |key_id: String| Signature {
            key_id,
            signature: a.sign(b"text"),
        };
        let entries = [
            signature(a_public.id().to_string()),
            signature(a_public.id().to_string()),
            signature(String::new()),
        ];
        let by = set.signed_by(b"text", &entries);
        assert_eq!(by, [a_public.id()]);
        assert!(!set.met_by(by.len()));
    }

    #[test]
    fn a_threshold_nobody_has_to_meet_or_nobody_can_is_refused() {
        let (_, key) = pair();
        for threshold in [0, -1, 2, i64::MAX] {
            assert!(KeySet::new([key.clone()], threshold).is_err());
        }
        assert!(KeySet::new([], 1).is_err());
        assert!(KeySet::new([], 0).is_err());
    }

    #[test]
    fn what_is_stored_is_read_again_and_damage_is_an_error() {
        let set = KeySet::new([pair().1, pair().1], 2).unwrap();
        let json = serde_json::to_value(&set).unwrap();
        assert_eq!(serde_json::from_value::<KeySet>(json.clone()).unwrap(), set);
        for damage in ["threshold", "keys"] {
            let mut damaged = json.clone();
            damaged[damage] = serde_json::json!(0);
            assert!(serde_json::from_value::<KeySet>(damaged).is_err());
        }
    }
}

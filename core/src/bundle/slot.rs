//! The signature slot (`kubepkg/signatures.json`): who vouches for this bundle's head.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::error::FormatError;
use super::format::SIGNATURE_SLOT;
use super::json;
use crate::digest::Digest;
use crate::keys::{KeyError, KeyId, PrivateKey, PublicKey};

/// Signatures over a bundle's head, each verified when it was read or made here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signatures {
    /// Key and signature, sorted by key id.
    entries: Vec<(PublicKey, [u8; 64])>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    signatures: Vec<WireEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEntry {
    key: String,
    signature: String,
}

/// The bytes that are signed for the bundle with this id.
pub fn statement(id: &Digest) -> Vec<u8> {
    format!("{{\"type\":\"kubepkg.dev/bundle\",\"head\":\"{id}\"}}").into_bytes()
}

impl Signatures {
    /// Whose signatures are here, in order.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Whether nobody has signed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds (or replaces) the signature of `key` over the bundle with this id.
    pub fn sign(&mut self, key: &PrivateKey, id: &Digest) -> Result<KeyId, KeyError> {
        let public = key.public()?;
        let signed = public.id();
        self.entries.retain(|(other, _)| other.id() != signed);
        self.entries.push((public, key.sign(&statement(id))));
        self.entries.sort_by_key(|(key, _)| key.id());
        Ok(signed)
    }

    /// The bytes of the slot.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let wire = Wire {
            signatures: self
                .entries
                .iter()
                .map(|(key, signature)| WireEntry {
                    key: key.to_pem(),
                    signature: STANDARD.encode(signature),
                })
                .collect(),
        };
        let mut out = Vec::new();
        json::write(&wire, &mut out)?;
        if out.len() as u64 > SIGNATURE_SLOT {
            return Err(FormatError::too_long(
                "the signature slot",
                out.len() as u64,
                SIGNATURE_SLOT,
            ));
        }
        out.resize(SIGNATURE_SLOT as usize, b' ');
        Ok(out)
    }

    /// Reads the slot of the bundle with this id. Every entry must verify, and the bytes must be
    /// those [`Signatures::encode`] writes.
    pub fn decode(bytes: &[u8], id: &Digest) -> Result<Signatures, FormatError> {
        let fail = |why: String| Err(FormatError::Slot(why));
        if bytes.len() as u64 != SIGNATURE_SLOT {
            return fail(format!(
                "it has {} bytes, not {SIGNATURE_SLOT}",
                bytes.len()
            ));
        }
        let wire: Wire = match serde_json::from_slice(bytes) {
            Ok(wire) => wire,
            Err(error) => return fail(crate::error::shown(&error.to_string())),
        };
        let message = statement(id);
        let mut entries = Vec::with_capacity(wire.signatures.len());
        for (n, entry) in wire.signatures.iter().enumerate() {
            let n = n + 1;
            let key = match PublicKey::from_pem(&entry.key) {
                Ok(key) => key,
                Err(error) => return fail(format!("entry {n}: {error}")),
            };
            let signature = STANDARD
                .decode(&entry.signature)
                .ok()
                .and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
            match signature {
                Some(signature) if key.verifies(&message, &signature) => {
                    entries.push((key, signature));
                }
                _ => {
                    return fail(format!(
                        "entry {n}: the signature of key {} does not verify",
                        key.id()
                    ));
                }
            }
        }
        if entries
            .windows(2)
            .any(|pair| pair[0].0.id() >= pair[1].0.id())
        {
            return fail("its entries are not sorted by key, or one is there twice".to_owned());
        }
        let signatures = Signatures { entries };
        if signatures.encode()? != bytes {
            return fail("it is not written in its one form".to_owned());
        }
        Ok(signatures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed() -> (Signatures, Digest) {
        let id = Digest::sha256(b"head");
        let mut signatures = Signatures::default();
        for _ in 0..3 {
            let key = PrivateKey::generate().unwrap();
            signatures.sign(&key, &id).unwrap();
        }
        (signatures, id)
    }

    #[test]
    fn what_is_written_is_read() {
        let (signatures, id) = signed();
        let bytes = signatures.encode().unwrap();
        assert_eq!(bytes.len() as u64, SIGNATURE_SLOT);
        assert_eq!(Signatures::decode(&bytes, &id).unwrap(), signatures);
        let empty = Signatures::default().encode().unwrap();
        assert!(Signatures::decode(&empty, &id).unwrap().is_empty());
    }

    #[test]
    fn the_slot_has_room_for_fifty_signatures() {
        let (signatures, _) = signed();
        let entry = &signatures.entries[0];
        let many = Signatures {
            entries: vec![entry.clone(); 50],
        };
        assert!(many.encode().is_ok());
        let too_many = Signatures {
            entries: vec![entry.clone(); 90],
        };
        assert!(too_many.encode().is_err());
    }

    #[test]
    fn a_signature_of_another_bundle_is_refused() {
        let (signatures, _) = signed();
        let bytes = signatures.encode().unwrap();
        let error = Signatures::decode(&bytes, &Digest::sha256(b"other")).unwrap_err();
        assert!(error.to_string().contains("does not verify"), "{error}");
    }

    #[test]
    fn every_flipped_byte_is_refused() {
        let (signatures, id) = signed();
        let mut bytes = signatures.encode().unwrap();
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(Signatures::decode(&bytes, &id).is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
        assert!(Signatures::decode(&bytes, &id).is_ok());
        assert!(Signatures::decode(&bytes[..100], &id).is_err());
    }
}

//! Ed25519 keys: PEM files (PKCS#8 private, SPKI public), key ids, signing, verifying.
//!
//! Verification is always strict (no small-order keys, canonical points), so that one
//! signature is never valid under two readings. Key id: hex SHA-256 of the public key's
//! DER form, as the existing program computes it.

mod encrypted;

use std::fmt;

use ed25519_dalek::pkcs8::{
    DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey,
    spki::der::pem::LineEnding,
};
use ed25519_dalek::{Signature, SigningKey, VerifyingKey};

use crate::Digest;

pub use encrypted::{MAX_PASSPHRASE, MAX_PBKDF2_ROUNDS, MAX_SCRYPT_MEMORY, MAX_SCRYPT_WORK};

/// Larger than any PEM file of one ed25519 key; more is not read.
pub const MAX_KEY_FILE: u64 = 16 * 1024;

/// Why a text is no usable key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a PEM public key.
    #[error("not an ed25519 public key in PEM form (\"-----BEGIN PUBLIC KEY-----\")")]
    NotPublic,
    /// Not a PEM private key.
    #[error("not an ed25519 private key in PEM form (\"-----BEGIN PRIVATE KEY-----\")")]
    NotPrivate,
    /// A private key was given where a public one is wanted.
    #[error("this is a private key; give the public one (.pub), and keep this one secret")]
    PrivateGiven,
    /// The key is of small order: everything would verify under it.
    #[error("this public key is weak: some signatures verify under it for any text")]
    Weak,
    /// The key is under a passphrase, and none was given.
    #[error("this private key is under a passphrase")]
    Encrypted,
    /// Another passphrase.
    #[error("the passphrase does not open this key (or the file is damaged)")]
    Passphrase,
    /// Empty or over [`MAX_PASSPHRASE`].
    #[error("a passphrase has 1 to {MAX_PASSPHRASE} bytes")]
    PassphraseLength,
    /// The file asks for more work than a key needs.
    #[error("opening this key would take far more time or memory than any key needs")]
    Cost,
    /// Another encryption than PBES2 with AES and scrypt or PBKDF2.
    #[error("this key is encrypted in a way that is not read: only PBES2 with AES is")]
    Cipher,
    /// The passphrase fits, but what it opens is no ed25519 key.
    #[error("this private key is of another kind than ed25519")]
    OtherKey,
    /// The system gave no random numbers.
    #[error("the system gave no random numbers")]
    Random,
}

/// The id of a public key: 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 32]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for KeyId {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, hex::FromHexError> {
        let mut id = [0; 32];
        hex::decode_to_slice(text, &mut id)?;
        Ok(KeyId(id))
    }
}

/// A public key that signatures are checked with.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: VerifyingKey,
    id: KeyId,
}

impl PublicKey {
    /// Reads a PEM text.
    pub fn from_pem(text: &str) -> Result<PublicKey, KeyError> {
        if text.contains("PRIVATE KEY-----") {
            return Err(KeyError::PrivateGiven);
        }
        let key =
            VerifyingKey::from_public_key_pem(text.trim()).map_err(|_| KeyError::NotPublic)?;
        if key.is_weak() {
            return Err(KeyError::Weak);
        }
        PublicKey::from_key(key)
    }

    fn from_key(key: VerifyingKey) -> Result<PublicKey, KeyError> {
        let der = key.to_public_key_der().map_err(|_| KeyError::NotPublic)?;
        let mut id = [0; 32];
        id.copy_from_slice(Digest::sha256(der.as_bytes()).as_bytes());
        Ok(PublicKey { key, id: KeyId(id) })
    }

    /// The id of this key.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The PEM text.
    pub fn to_pem(&self) -> String {
        self.key
            .to_public_key_pem(LineEnding::LF)
            .unwrap_or_default()
    }

    /// Whether `signature` (64 bytes) is this key's signature over `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = Signature::from_slice(signature) else {
            return false;
        };
        self.key.verify_strict(message, &signature).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id)
    }
}

/// A private key. Its `Debug` form shows the public key's id only.
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    /// A new random key.
    pub fn generate() -> Result<PrivateKey, KeyError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|_| KeyError::Random)?;
        Ok(PrivateKey(SigningKey::from_bytes(&seed)))
    }

    /// Reads a PEM text.
    pub fn from_pem(text: &str) -> Result<PrivateKey, KeyError> {
        if PrivateKey::is_encrypted(text) {
            return Err(KeyError::Encrypted);
        }
        SigningKey::from_pkcs8_pem(text.trim())
            .map(PrivateKey)
            .map_err(|_| KeyError::NotPrivate)
    }

    /// The PEM text: only the seed (PKCS#8 version 1), which OpenSSL and Go read.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let pair = ed25519_dalek::pkcs8::KeypairBytes {
            secret_key: self.0.to_bytes(),
            public_key: None,
        };
        let pem = pair
            .to_pkcs8_pem(LineEnding::LF)
            .map_err(|_| KeyError::NotPrivate)?;
        Ok(pem.to_string())
    }

    /// The public half.
    pub fn public(&self) -> Result<PublicKey, KeyError> {
        PublicKey::from_key(self.0.verifying_key())
    }

    /// The signature over `message`: 64 bytes.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        use ed25519_dalek::Signer as _;
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_round_trip_and_signature() {
        let private = PrivateKey::generate().unwrap();
        let again = PrivateKey::from_pem(&private.to_pem().unwrap()).unwrap();
        let public = PublicKey::from_pem(&private.public().unwrap().to_pem()).unwrap();
        let signature = again.sign(b"text");
        assert!(public.verifies(b"text", &signature));
        assert!(!public.verifies(b"texu", &signature));
        assert!(!public.verifies(b"text", &signature[..63]));
    }

    #[test]
    fn line_ends_of_other_systems_are_read() {
        let private = PrivateKey::generate().unwrap();
        let crlf = |pem: &str| format!("\r\n{}\r\n", pem.replace('\n', "\r\n"));
        let public = private.public().unwrap();
        assert_eq!(
            PublicKey::from_pem(&crlf(&public.to_pem())).unwrap(),
            public
        );
        let again = PrivateKey::from_pem(&crlf(&private.to_pem().unwrap())).unwrap();
        assert_eq!(again.public().unwrap(), public);
    }

    #[test]
    fn a_private_key_is_not_taken_for_a_public_one() {
        let pem = PrivateKey::generate().unwrap().to_pem().unwrap();
        assert_eq!(
            PublicKey::from_pem(&pem).unwrap_err(),
            KeyError::PrivateGiven
        );
        assert_eq!(
            PublicKey::from_pem("nonsense").unwrap_err(),
            KeyError::NotPublic
        );
    }

    #[test]
    fn a_key_of_small_order_is_refused() {
        // the neutral element: y = 1
        let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n-----END PUBLIC KEY-----\n";
        assert_eq!(PublicKey::from_pem(pem).unwrap_err(), KeyError::Weak);
    }
}

//! Content digests (`sha256:…`, `sha512:…`) and the hashers that compute them.
//!
//! Source: OCI image specification, "Digests". Only the two registered algorithms exist
//! here; anything else is refused when parsed, so no digest is ever carried unchecked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;

/// A digest algorithm. The order (sha256 before sha512) is the order of members in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// SHA-256: 32 bytes, 64 hex digits.
    Sha256,
    /// SHA-512: 64 bytes, 128 hex digits.
    Sha512,
}

impl Algorithm {
    /// The name before the colon.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }

    /// Length of the hash in bytes.
    pub fn hash_len(self) -> usize {
        match self {
            Algorithm::Sha256 => 32,
            Algorithm::Sha512 => 64,
        }
    }
}

impl FromStr for Algorithm {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        match text {
            "sha256" => Ok(Algorithm::Sha256),
            "sha512" => Ok(Algorithm::Sha512),
            _ => Err(ParseDigestError::Algorithm(text.chars().take(64).collect())),
        }
    }
}

/// The digest of some bytes: algorithm and hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    /// The hash, left-aligned; bytes past `algorithm.hash_len()` are zero.
    bytes: [u8; 64],
}

/// Why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDigestError {
    /// There is no colon.
    #[error("a digest reads <algorithm>:<hex>")]
    Form,
    /// The algorithm is not sha256 or sha512.
    #[error("digest algorithm \"{0}\" is not sha256 or sha512")]
    Algorithm(String),
    /// The hash is not lower-case hex of the right length.
    #[error("a {} digest has {} lower-case hex digits", .0.as_str(), .0.hash_len() * 2)]
    Hex(Algorithm),
}

impl Digest {
    /// The SHA-256 digest of `data`.
    pub fn sha256(data: impl AsRef<[u8]>) -> Digest {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(data.as_ref());
        hasher.finish()
    }

    /// The digest of `data` under `algorithm`.
    pub fn of(algorithm: Algorithm, data: impl AsRef<[u8]>) -> Digest {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(data.as_ref());
        hasher.finish()
    }

    /// The algorithm of this digest.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The raw hash.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.algorithm.hash_len()]
    }

    /// The hash in lower-case hex, without the algorithm.
    pub fn hex(&self) -> String {
        self.write_hex(&mut [0; 128]).to_owned()
    }

    /// The hash in hex, at the beginning of `text`. Every answer of a mirror says a digest.
    fn write_hex<'a>(&self, text: &'a mut [u8; 128]) -> &'a str {
        let text = &mut text[..2 * self.algorithm.hash_len()];
        // the lengths fit and hex digits are ASCII: neither fails
        match hex::encode_to_slice(self.as_bytes(), text) {
            Ok(()) => str::from_utf8(text).unwrap_or_default(),
            Err(_) => "",
        }
    }

    /// Whether `data` has this digest.
    pub fn matches(&self, data: impl AsRef<[u8]>) -> bool {
        Digest::of(self.algorithm, data) == *self
    }

    /// The first twelve hex digits, for messages and folder names.
    pub fn short(&self) -> String {
        hex::encode(&self.bytes[..6])
    }

    /// The digest whose raw hash is known.
    pub(crate) fn from_bytes(algorithm: Algorithm, hash: &[u8]) -> Digest {
        let mut bytes = [0; 64];
        bytes[..hash.len()].copy_from_slice(hash);
        Digest { algorithm, bytes }
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let (algorithm, encoded) = text.split_once(':').ok_or(ParseDigestError::Form)?;
        let algorithm: Algorithm = algorithm.parse()?;
        let lower = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if encoded.len() != algorithm.hash_len() * 2 || !encoded.bytes().all(lower) {
            return Err(ParseDigestError::Hex(algorithm));
        }
        let mut bytes = [0; 64];
        hex::decode_to_slice(encoded, &mut bytes[..algorithm.hash_len()])
            .map_err(|_| ParseDigestError::Hex(algorithm))?;
        Ok(Digest { algorithm, bytes })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm.as_str())?;
        f.write_str(":")?;
        f.write_str(self.write_hex(&mut [0; 128]))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DigestText)
    }
}

/// Reads the text where it lies: a store has millions of digests.
struct DigestText;

impl serde::de::Visitor<'_> for DigestText {
    type Value = Digest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a digest")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Digest, E> {
        text.parse().map_err(E::custom)
    }
}

/// Computes one digest over bytes given piece by piece.
#[derive(Clone)]
pub enum Hasher {
    /// SHA-256.
    Sha256(sha2::Sha256),
    /// SHA-512.
    Sha512(Box<sha2::Sha512>),
}

impl Hasher {
    /// A hasher that has seen nothing yet.
    pub fn new(algorithm: Algorithm) -> Hasher {
        match algorithm {
            Algorithm::Sha256 => Hasher::Sha256(sha2::Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(Box::new(sha2::Sha512::new())),
        }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        match self {
            Hasher::Sha256(h) => h.update(data),
            Hasher::Sha512(h) => h.update(data),
        }
    }

    /// The digest of everything added.
    pub fn finish(self) -> Digest {
        match self {
            Hasher::Sha256(h) => Digest::from_bytes(Algorithm::Sha256, &h.finalize()),
            Hasher::Sha512(h) => Digest::from_bytes(Algorithm::Sha512, &h.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_both_algorithms() {
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            let digest = Digest::of(algorithm, b"{}");
            assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        }
        assert_eq!(
            Digest::sha256(b"{}").to_string(),
            "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
    }

    #[test]
    fn refuses_what_is_no_digest() {
        let upper = Digest::sha256(b"")
            .to_string()
            .to_uppercase()
            .replace("SHA", "sha");
        for bad in [
            "",
            "sha256",
            "sha256:",
            "sha1:00",
            "md5:ab",
            "sha256:zz",
            &upper,
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}

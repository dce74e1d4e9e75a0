//! Private keys under a passphrase: PKCS#8 `ENCRYPTED PRIVATE KEY`, PBES2 (RFC 8018).
//!
//! Written with scrypt and AES-256-CBC at the cost OpenSSL takes by itself, so that each reads
//! what the other wrote. Read with scrypt or PBKDF2 and any AES, up to a cost that a key file
//! may ask for: who can exchange the file must not be able to keep the signer busy for an hour
//! or to fill its memory.

use ed25519_dalek::pkcs8::DecodePrivateKey as _;
use ed25519_dalek::{SigningKey, pkcs8::KeypairBytes};
use pkcs8::EncodePrivateKey as _;
use pkcs8::EncryptedPrivateKeyInfoOwned;
use pkcs8::LineEnding;
use pkcs8::der::Decode as _;
use pkcs8::der::pem::PemLabel as _;
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::Kdf;
use zeroize::Zeroizing;

use super::{KeyError, PrivateKey};

/// Most rounds of PBKDF2 a file may ask for: RFC 8018 names this many for the most critical
/// keys. A few seconds of one core.
pub const MAX_PBKDF2_ROUNDS: u32 = 10_000_000;

/// Most memory scrypt may be asked to use, in bytes.
pub const MAX_SCRYPT_MEMORY: u64 = 256 * 1024 * 1024;

/// Most memory scrypt may be asked to go through, in bytes: memory times parallelization.
pub const MAX_SCRYPT_WORK: u64 = 1024 * 1024 * 1024;

/// Longest passphrase, in bytes.
pub const MAX_PASSPHRASE: usize = 1024;

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";

impl PrivateKey {
    /// Whether this PEM text is a private key under a passphrase.
    pub fn is_encrypted(pem: &str) -> bool {
        pem.trim_start().starts_with(BEGIN)
    }

    /// Reads a PEM text of a key under `passphrase`.
    ///
    /// # Errors
    /// [`KeyError::Passphrase`] when the passphrase is another one. The cost the file asks for
    /// is checked before any of it is spent ([`KeyError::Cost`]).
    pub fn from_encrypted_pem(pem: &str, passphrase: &str) -> Result<PrivateKey, KeyError> {
        let (label, der) =
            pkcs8::SecretDocument::from_pem(pem.trim()).map_err(|_| KeyError::NotPrivate)?;
        if label != EncryptedPrivateKeyInfoOwned::PEM_LABEL {
            return Err(KeyError::NotPrivate);
        }
        let info =
            EncryptedPrivateKeyInfoOwned::from_der(der.as_bytes()).map_err(|_| KeyError::Cipher)?;
        check_cost(&info.encryption_algorithm)?;
        let opened = info.decrypt(passphrase).map_err(|error| match error {
            pkcs8::Error::EncryptedPrivateKey(
                pkcs8::pkcs5::Error::DecryptFailed | pkcs8::pkcs5::Error::EncryptFailed,
            )
            // what a wrong key makes of the content can end like padding and still be no key
            | pkcs8::Error::Asn1(_)
            | pkcs8::Error::KeyMalformed(_) => KeyError::Passphrase,
            _ => KeyError::Cipher,
        })?;
        SigningKey::from_pkcs8_der(opened.as_bytes())
            .map(PrivateKey)
            .map_err(|_| KeyError::OtherKey)
    }

    /// The PEM text of this key under `passphrase`.
    pub fn to_encrypted_pem(&self, passphrase: &str) -> Result<Zeroizing<String>, KeyError> {
        if passphrase.is_empty() || passphrase.len() > MAX_PASSPHRASE {
            return Err(KeyError::PassphraseLength);
        }
        let pair = KeypairBytes {
            secret_key: self.0.to_bytes(),
            public_key: None,
        };
        pair.to_pkcs8_encrypted_pem(passphrase, LineEnding::LF)
            .map_err(|_| KeyError::Random)
    }
}

fn check_cost(scheme: &EncryptionScheme) -> Result<(), KeyError> {
    let EncryptionScheme::Pbes2(parameters) = scheme else {
        return Err(KeyError::Cipher);
    };
    let fits = match &parameters.kdf {
        Kdf::Pbkdf2(pbkdf2) => (1..=MAX_PBKDF2_ROUNDS).contains(&pbkdf2.iteration_count),
        Kdf::Scrypt(scrypt) => {
            let memory = scrypt
                .cost_parameter
                .checked_mul(128 * u64::from(scrypt.block_size));
            let work = memory.and_then(|m| m.checked_mul(u64::from(scrypt.parallelization)));
            scrypt.cost_parameter.is_power_of_two()
                && memory.is_some_and(|m| (1..=MAX_SCRYPT_MEMORY).contains(&m))
                && work.is_some_and(|w| (1..=MAX_SCRYPT_WORK).contains(&w))
        }
        _ => return Err(KeyError::Cipher),
    };
    if fits { Ok(()) } else { Err(KeyError::Cost) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pkcs8::der::Encode as _;
    use pkcs8::der::asn1::OctetString;
    use pkcs8::pkcs5::pbes2::{EncryptionScheme as Cipher, Parameters, Pbkdf2Params, ScryptParams};

    fn pem(kdf: Kdf) -> String {
        let parameters = Parameters {
            kdf,
            encryption: Cipher::Aes256Cbc { iv: [7; 16] },
        };
        let info = EncryptedPrivateKeyInfoOwned {
            encryption_algorithm: EncryptionScheme::Pbes2(parameters),
            encrypted_data: OctetString::new(vec![0; 64]).unwrap(),
        };
        pkcs8::SecretDocument::try_from(info.to_der().unwrap())
            .unwrap()
            .to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF)
            .unwrap()
            .to_string()
    }

    fn pbkdf2(iteration_count: u32) -> Kdf {
        let mut parameters = Pbkdf2Params::hmac_sha256(1, b"saltsalt").unwrap();
        parameters.iteration_count = iteration_count;
        parameters.into()
    }

    fn scrypt(cost_parameter: u64, block_size: u16, parallelization: u16) -> Kdf {
        let salt = b"saltsalt".as_slice().try_into().unwrap();
        ScryptParams {
            salt,
            cost_parameter,
            block_size,
            parallelization,
            key_length: None,
        }
        .into()
    }

    fn refused(pem: &str) -> KeyError {
        PrivateKey::from_encrypted_pem(pem, "word").unwrap_err()
    }

    #[test]
    fn round_trip_and_only_with_the_passphrase() {
        let key = PrivateKey::generate().unwrap();
        let pem = key.to_encrypted_pem("correct horse").unwrap();
        assert!(PrivateKey::is_encrypted(&pem));
        let again = PrivateKey::from_encrypted_pem(&pem, "correct horse").unwrap();
        assert_eq!(again.0.to_bytes(), key.0.to_bytes());
        let windows = pem.replace('\n', "\r\n");
        assert!(PrivateKey::from_encrypted_pem(&windows, "correct horse").is_ok());
        for wrong in ["correct horse ", "", "Correct horse"] {
            let error = PrivateKey::from_encrypted_pem(&pem, wrong).unwrap_err();
            assert_eq!(error, KeyError::Passphrase, "{wrong}");
        }
        assert_eq!(PrivateKey::from_pem(&pem).unwrap_err(), KeyError::Encrypted);
        let other = key.to_encrypted_pem("correct horse").unwrap();
        assert_ne!(*pem, *other, "salt and iv are new each time");
    }

    #[test]
    fn an_empty_passphrase_protects_nothing() {
        let key = PrivateKey::generate().unwrap();
        let long = "x".repeat(MAX_PASSPHRASE + 1);
        for passphrase in ["", &long] {
            let error = key.to_encrypted_pem(passphrase).unwrap_err();
            assert_eq!(error, KeyError::PassphraseLength);
        }
    }

    #[test]
    fn a_hostile_file_cannot_ask_for_hours_or_gigabytes() {
        for kdf in [
            pbkdf2(MAX_PBKDF2_ROUNDS + 1),
            pbkdf2(u32::MAX),
            pbkdf2(0),
            scrypt(1 << 19, 8, 1),
            scrypt(1 << 63, 8, 1),
            scrypt(1 << 14, u16::MAX, 1),
            scrypt(1 << 18, 8, 5),
            scrypt(1 << 14, 8, u16::MAX),
            scrypt((1 << 14) + 1, 8, 1),
            scrypt(0, 8, 1),
            scrypt(1 << 14, 0, 1),
            scrypt(1 << 14, 8, 0),
        ] {
            assert_eq!(refused(&pem(kdf.clone())), KeyError::Cost, "{kdf:?}");
        }
        assert_eq!(refused(&pem(pbkdf2(2048))), KeyError::Passphrase);
        assert_eq!(refused(&pem(scrypt(1 << 10, 8, 1))), KeyError::Passphrase);
    }

    #[test]
    fn what_is_no_such_key() {
        let plain = PrivateKey::generate().unwrap().to_pem().unwrap();
        assert_eq!(refused(&plain), KeyError::NotPrivate);
        assert_eq!(refused("nonsense"), KeyError::NotPrivate);
        let empty = format!("{BEGIN}\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n");
        assert_eq!(refused(&empty), KeyError::Cipher);
    }
}

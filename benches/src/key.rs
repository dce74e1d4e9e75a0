//! The key that signs. It is here for everyone to read: never trust it outside a test.

use kubepkg_core::keys::{KeyError, PrivateKey};

/// A private key made from the seed 32 × `0x42`.
pub const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIEJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJC
-----END PRIVATE KEY-----
";

/// The key.
///
/// # Errors
/// None: the text is a key.
pub fn private() -> Result<PrivateKey, KeyError> {
    PrivateKey::from_pem(PRIVATE)
}

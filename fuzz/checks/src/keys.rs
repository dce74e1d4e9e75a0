//! Key files.

use kubepkg_core::keys::{PrivateKey, PublicKey};

/// The passphrase of all seeds.
const PASSPHRASE: &str = "correct horse";

/// A PEM public key.
pub fn public(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(key) = PublicKey::from_pem(text) else {
        return;
    };
    let again = PublicKey::from_pem(&key.to_pem());
    assert_eq!(again.ok(), Some(key.clone()));
    assert!(!key.verifies(data, &[0; 64]), "nobody signed this");
    assert!(!key.verifies(data, &[]));
}

/// A PEM private key.
pub fn private(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(key) = PrivateKey::from_pem(text) else {
        return;
    };
    assert!(
        PublicKey::from_pem(text).is_err(),
        "a private key is no public one"
    );
    holds(&key);
    let again = key.to_pem().ok().map(|pem| PrivateKey::from_pem(&pem));
    let Some(Ok(again)) = again else {
        panic!("a key that was read is not read again");
    };
    assert_eq!(again.sign(data), key.sign(data));
}

/// A PEM private key under [`PASSPHRASE`].
pub fn encrypted(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(key) = PrivateKey::from_encrypted_pem(text, PASSPHRASE) else {
        return;
    };
    assert!(PrivateKey::is_encrypted(text));
    assert!(PrivateKey::from_pem(text).is_err(), "it takes a passphrase");
    assert!(PrivateKey::from_encrypted_pem(text, "another").is_err());
    holds(&key);
}

fn holds(key: &PrivateKey) {
    let signature = key.sign(b"text");
    let public = key.public().ok();
    assert!(public.is_some_and(|public| public.verifies(b"text", &signature)));
}

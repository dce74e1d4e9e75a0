//! Files of public and private keys.

use std::path::Path;

use kubepkg_core::keys::{KeyError, MAX_KEY_FILE, PublicKey};

use crate::error::CommandError;

/// Reads a public key.
pub fn read_public_key(file: &Path) -> Result<PublicKey, CommandError> {
    let text = read_key_file(file)?;
    PublicKey::from_pem(&text).map_err(|error| bad_key(file, error))
}

/// A key file that holds no usable key.
pub fn bad_key(file: &Path, error: KeyError) -> CommandError {
    CommandError::usage(error.to_string()).at(file.display())
}

/// The text of a key file, which is never large.
pub fn read_key_file(file: &Path) -> Result<String, CommandError> {
    use std::io::Read as _;
    let failed = |error| CommandError::io("cannot read the key", error).at(file.display());
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|f| f.take(MAX_KEY_FILE + 1).read_to_string(&mut text))
        .map_err(failed)?;
    if text.len() as u64 > MAX_KEY_FILE {
        return Err(CommandError::usage("this file is too large to be a key").at(file.display()));
    }
    Ok(text)
}

//! Making signatures: over an index, over one version of a package, of an approval.

use super::statement::Named;
use crate::index::signature::{self, Entry as Signature, SignatureError, Signatures};
use crate::keys::{KeyError, PrivateKey};
use crate::time::Time;

/// A signature and the key that made it, as files hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Id of the key.
    pub keyid: String,
    /// The signature, in base64.
    pub sig: String,
}

/// Why a signature cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The signature file that is there.
    #[error(transparent)]
    File(#[from] SignatureError),
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The signature file of `index` with the signature of `key` added to `file`, or in place of
/// the one it made before. In the list form, whatever form `file` has; a plain signature
/// becomes an entry that names no key.
///
/// # Errors
/// `file` is no signature file.
pub fn sign_index(
    file: Option<&[u8]>,
    index: &[u8],
    key: &PrivateKey,
) -> Result<String, SignError> {
    let public = key.public()?;
    let id = public.id().to_string();
    let mut entries = match file {
        Some(file) => Signatures::parse(file)?.entries().to_vec(),
        None => Vec::new(),
    };
    let own = |entry: &Signature| {
        entry.key_id == id || entry.key_id.is_empty() && public.verifies(index, &entry.signature)
    };
    let at = entries.iter().position(own).unwrap_or(entries.len());
    entries.retain(|entry| !own(entry));
    let made = Signature {
        signature: key.sign(index),
        key_id: id.clone(),
    };
    entries.insert(at.min(entries.len()), made);
    Ok(Signatures::write_entries(&entries))
}

/// The signature of `key` over one version, for a delegation.
pub fn sign_version(version: Named<'_>, key: &PrivateKey) -> Result<Made, KeyError> {
    made(&version.version_statement(), key)
}

/// The approval of one version by `key`, given at `time`.
pub fn sign_approval(version: Named<'_>, time: Time, key: &PrivateKey) -> Result<Made, KeyError> {
    made(&version.approval_statement(time), key)
}

fn made(message: &[u8], key: &PrivateKey) -> Result<Made, KeyError> {
    Ok(Made {
        keyid: key.public()?.id().to_string(),
        sig: signature::encode(&key.sign(message)),
    })
}

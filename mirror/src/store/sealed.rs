//! The store's own small files: one line of JSON, and the digest of that line as a JSON text
//! below it. A person or `jq` can read it; a cut or changed file is noticed.

use std::fs;
use std::io;
use std::path::Path;

use kubepkg_core::Digest;
use kubepkg_core::store::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::disk::failed;

/// The bytes of a file that says `value`.
pub(crate) fn encode<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = serde_json::to_vec(value)
        .map_err(io::Error::other)
        .map_err(failed("write", path))?;
    let seal = Digest::sha256(&bytes);
    bytes.extend_from_slice(format!("\n\"{seal}\"\n").as_bytes());
    Ok(bytes)
}

/// What the file at `path` says, `None` when there is no such file.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    Ok(read_measured(path)?.map(|(value, _)| value))
}

/// What the file at `path` says, and its length.
pub(super) fn read_measured<T: DeserializeOwned>(
    path: &Path,
) -> Result<Option<(T, u64)>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed("read", path)(e)),
    };
    match decode(&bytes) {
        Ok(value) => Ok(Some((value, bytes.len() as u64))),
        Err(why) => Err(damaged(path, why)),
    }
}

/// An error about the content of one of the store's own files.
pub(super) fn damaged(path: &Path, why: impl Into<String>) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        why: why.into(),
    }
}

/// What such a file says, from its bytes; or what is wrong with them.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let cut = || "it is cut short or was changed".to_owned();
    let body = bytes.strip_suffix(b"\n").ok_or_else(cut)?;
    let at = body.iter().rposition(|b| *b == b'\n').ok_or_else(cut)?;
    let (value, seal) = (&body[..at], &body[at + 1..]);
    if seal != format!("\"{}\"", Digest::sha256(value)).as_bytes() {
        return Err(cut());
    }
    serde_json::from_slice(value).map_err(|e| format!("it is not what this kubepkg writes: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_is_noticed() {
        let bytes = encode(Path::new("x"), &vec!["a", "b"]).unwrap();
        assert_eq!(decode::<Vec<String>>(&bytes).unwrap(), ["a", "b"]);
        for at in 0..bytes.len() {
            assert!(decode::<Vec<String>>(&bytes[..at]).is_err(), "cut at {at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(decode::<Vec<String>>(&flipped).is_err(), "changed at {at}");
        }
    }
}

//! Where the key of tokens comes from. It lies in a file, so that all mirrors of one store know
//! it and a restart does not send away who is in the middle of a push.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::error::AccessError;
use super::token::random_key;
use crate::changes::read_bounded;
use crate::owner;
use crate::told::told;

/// Longest file that is read: a secret has some dozen characters.
const MAX_FILE: u64 = 4096;

/// Fewer bytes could be guessed: 32 hexadecimal digits are 128 bits.
const MIN_SECRET: usize = 32;

/// Comes before the secret where the key is made of it, so that the same secret in another place
/// is another key.
const FORM: &str = "kubepkg mirror token key 1\n";

/// What is said to be in the file.
const WHAT: &str = "the key of the mirror's tokens";

/// A key as it is used.
pub(super) type Key = Zeroizing<[u8; 32]>;

/// Where the key of tokens comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TokenKey {
    /// From nowhere: tokens end with the process, and count for no other one.
    #[default]
    Memory,
    /// From a file that must be there.
    Given(PathBuf),
    /// From a file that is made where there is none.
    Made(PathBuf),
}

impl TokenKey {
    /// The file.
    pub(super) fn path(&self) -> Option<&PathBuf> {
        match self {
            TokenKey::Memory => None,
            TokenKey::Given(path) | TokenKey::Made(path) => Some(path),
        }
    }

    /// The key to begin with. Where no file can be made one is drawn, and the file is left alone
    /// from then on: a store that is only read is served all the same.
    pub(super) fn begin(&mut self) -> Result<Key, AccessError> {
        if let TokenKey::Made(path) = self {
            match read_or_make(path) {
                Ok(key) => return Ok(key),
                Err(error) => tracing::warn!(
                    error = %told(&error),
                    "tokens of this mirror end with its process and count for no other one"
                ),
            }
            *self = TokenKey::Memory;
        }
        match self.again()? {
            Some(key) => Ok(key),
            None => random_key(),
        }
    }

    /// The key as it is now; `None` where it lies in no file. A file that was removed is made
    /// anew, which is how a key is changed.
    pub(super) fn again(&self) -> Result<Option<Key>, AccessError> {
        match self {
            TokenKey::Memory => Ok(None),
            TokenKey::Given(path) => read(path).map(Some),
            TokenKey::Made(path) => read_or_make(path).map(Some),
        }
    }
}

fn read_or_make(path: &Path) -> Result<Key, AccessError> {
    match read(path) {
        Err(AccessError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            make(path)?;
            // another process may have been faster: then its key counts
            read(path)
        }
        read => read,
    }
}

fn read(path: &Path) -> Result<Key, AccessError> {
    let bytes = read_bounded(path, MAX_FILE).map_err(AccessError::read(WHAT, path))?;
    let bytes = Zeroizing::new(bytes);
    let secret = bytes.trim_ascii();
    if secret.len() < MIN_SECRET {
        return Err(AccessError::Key {
            path: path.to_owned(),
            why: format!("the secret in it is shorter than {MIN_SECRET} characters"),
        });
    }
    let mut all = Sha256::new();
    all.update(FORM);
    all.update(secret);
    Ok(Zeroizing::new(all.finalize().into()))
}

/// Makes the file in one step, unless there is one: its owner's alone, who is the owner of the
/// folder.
fn make(path: &Path) -> Result<(), AccessError> {
    let failed = || AccessError::write(WHAT, path);
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let text = Zeroizing::new(hex::encode(*random_key()?) + "\n");
    let mut made = tempfile::Builder::new()
        .prefix(".tmp-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .map_err(failed())?;
    made.write_all(text.as_bytes()).map_err(failed())?;
    let above = fs::metadata(folder).map_err(failed())?;
    owner::give(made.as_file(), above.uid(), above.gid()).map_err(failed())?;
    made.as_file().sync_all().map_err(failed())?;
    match made.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(failed()(error.error)),
    }
    let folder = fs::File::open(folder).map_err(failed())?;
    folder.sync_all().map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token-key");
        let mut place = TokenKey::Made(file.clone());
        let key = place.begin().unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(TokenKey::Made(file.clone()).begin().unwrap(), key);
        assert_eq!(TokenKey::Given(file.clone()).begin().unwrap(), key);
        // what is around the secret is none of it
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.trim_end()).unwrap();
        assert_eq!(place.again().unwrap(), Some(key.clone()));
        // a new one, once it is gone
        fs::remove_file(&file).unwrap();
        let changed = place.again().unwrap().unwrap();
        assert_ne!(changed, key);
        assert_eq!(place.again().unwrap(), Some(changed));
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_given_is_never_made_and_a_short_secret_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let mut given = TokenKey::Given(file.clone());
        assert!(given.begin().is_err() && !file.exists());
        fs::write(&file, "a".repeat(MIN_SECRET - 1) + "\n\n").unwrap();
        let error = given.begin().unwrap_err();
        assert!(error.to_string().contains("shorter than 32"), "{error}");
        fs::write(&file, "a".repeat(MIN_SECRET)).unwrap();
        assert!(given.begin().is_ok());
        fs::write(&file, vec![b'a'; 5000]).unwrap();
        assert!(given.begin().is_err());
    }

    #[test]
    fn where_no_file_can_be_made_there_is_a_key_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let mut nowhere = TokenKey::Made(folder.path().join("none/token-key"));
        nowhere.begin().unwrap();
        assert_eq!(nowhere, TokenKey::Memory);
        assert_eq!(nowhere.again().unwrap(), None);
    }
}

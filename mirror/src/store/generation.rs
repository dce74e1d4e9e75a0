//! The counter a server looks at before it answers for a name: the number of the newest commit
//! that names, sites and trust are brought up to.
//!
//! It is written over in place and not synced. After a power loss it may be too low, which
//! only means that records are looked at again; it is written after everything it stands for
//! is durable, so it is never too high.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use kubepkg_core::store::StoreError;

use super::disk::failed;
use super::layout::NUMBER_WIDTH;

/// No store comes to this number; a file that says more is damaged.
pub(super) const MOST: u64 = u64::MAX / 2;

/// The open counter.
#[derive(Debug)]
pub(super) struct Generation {
    path: PathBuf,
    file: File,
}

impl Generation {
    pub(super) fn new(path: &Path, file: File) -> Generation {
        Generation {
            path: path.to_owned(),
            file,
        }
    }

    /// The number, `None` when the file does not say one: then `commits/` has to be listed.
    pub(super) fn read(&self) -> Result<Option<u64>, StoreError> {
        let mut bytes = [0; NUMBER_WIDTH];
        let read = self
            .file
            .read_at(&mut bytes, 0)
            .map_err(failed("read", &self.path))?;
        if read != NUMBER_WIDTH || !bytes.iter().all(u8::is_ascii_digit) {
            return Ok(None);
        }
        let number = str::from_utf8(&bytes)
            .ok()
            .and_then(|text| text.parse().ok());
        Ok(number.filter(|number| *number < MOST))
    }

    pub(super) fn write(&self, number: u64) -> Result<(), StoreError> {
        self.file
            .write_all_at(format!("{number:0NUMBER_WIDTH$}\n").as_bytes(), 0)
            .map_err(failed("write", &self.path))
    }
}

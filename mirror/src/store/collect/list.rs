//! `condemned`: the ledger as a file of lines, each with a checksum. Rounds write it anew,
//! rescues and removals add to its end.
//!
//! A list that cannot be read whole counts as empty: then nothing is removed until it was
//! condemned again, which is always safe.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubepkg_core::Digest;
use kubepkg_core::store::StoreError;

use super::super::disk::failed;
use super::ledger::{Ledger, Line};

/// Hex digits of the checksum: what damages a file does not know sha256.
const CHECK: usize = 16;

/// The list as far as it was read. The open file is kept, so that its inode is no other's.
#[derive(Debug, Default)]
pub(in super::super) struct List {
    file: Option<File>,
    read: u64,
    /// Something follows what was read: a line being written, or one that was cut.
    rest: bool,
    /// A line before that is not what was written.
    damaged: bool,
    /// A sync of it failed. What was read may be on no disk, and syncing it again would succeed
    /// and prove nothing: it has to be written anew.
    pub(super) unsynced: bool,
    /// Whoever judges by it has it as it was, without a copy.
    pub(super) ledger: Arc<Ledger>,
}

impl List {
    /// Reads what was added, or all of it where the file is another one.
    pub(super) fn refresh(&mut self, path: &Path) -> Result<(), StoreError> {
        let found = match File::open(path) {
            Ok(file) => Some(file),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(failed("open", path)(e)),
        };
        let Some(mut file) = found else {
            *self = self.begun_anew();
            return Ok(());
        };
        let identity = |file: &File| file.metadata().map(|m| (m.dev(), m.ino(), m.len()));
        let (device, inode, length) = identity(&file).map_err(failed("look at", path))?;
        let same = match &self.file {
            Some(known) => {
                let (d, i, _) = identity(known).map_err(failed("look at", path))?;
                (d, i) == (device, inode) && length >= self.read
            }
            None => false,
        };
        if !same {
            *self = self.begun_anew();
        }
        let mut added = Vec::new();
        io::Seek::seek(&mut file, io::SeekFrom::Start(self.read))
            .and_then(|_| file.read_to_end(&mut added))
            .map_err(failed("read", path))?;
        self.file = Some(file);
        self.take(path, &added);
        Ok(())
    }

    fn take(&mut self, path: &Path, added: &[u8]) {
        let whole = added
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        self.rest = whole < added.len();
        for line in added[..whole].split_inclusive(|b| *b == b'\n') {
            match decode(line) {
                Some(line) => Arc::make_mut(&mut self.ledger).apply(&line),
                None => {
                    tracing::warn!(
                        path = %path.display(),
                        "the list of condemned content is damaged; it begins anew"
                    );
                    self.damaged = true;
                    break;
                }
            }
        }
        self.read += whole as u64;
        if self.damaged {
            // what is added to a damaged list does not count either
            self.ledger = Arc::default();
        }
    }

    /// Whether lines can be added to the file. Ask under the store's lock.
    pub(super) fn can_grow(&self) -> bool {
        self.file.is_some() && !self.rest && !self.damaged && !self.unsynced
    }

    /// With nothing read. That its file was not synced stays known.
    fn begun_anew(&self) -> List {
        List {
            unsynced: self.unsynced,
            ..List::default()
        }
    }

    /// Adds lines at the end of the file, which was refreshed under the lock that is held.
    pub(super) fn add(
        &mut self,
        path: &Path,
        file: &File,
        lines: &[Line],
    ) -> Result<(), StoreError> {
        let bytes = encode(path, lines)?;
        file.write_all_at(&bytes, self.read)
            .map_err(failed("write", path))?;
        self.read += bytes.len() as u64;
        for line in lines {
            Arc::make_mut(&mut self.ledger).apply(line);
        }
        Ok(())
    }
}

/// The bytes of some lines.
pub(super) fn encode<'a>(
    path: &Path,
    lines: impl IntoIterator<Item = &'a Line>,
) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    for line in lines {
        let json = serde_json::to_vec(line)
            .map_err(io::Error::other)
            .map_err(failed("write", path))?;
        bytes.extend_from_slice(check(&json).as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(&json);
        bytes.push(b'\n');
    }
    Ok(bytes)
}

fn decode(line: &[u8]) -> Option<Line> {
    let line = line.strip_suffix(b"\n")?;
    let (sum, json) = line.split_at_checked(CHECK)?;
    let json = json.strip_prefix(b" ")?;
    if check(json).as_bytes() != sum {
        return None;
    }
    serde_json::from_slice(json).ok()
}

fn check(json: &[u8]) -> String {
    let mut hex = Digest::sha256(json).hex();
    hex.truncate(CHECK);
    hex
}

/// Names in `quarantine/`: `<algorithm>-<hex>`.
pub(super) fn quarantined<'a>(
    folder: impl IntoIterator<Item = &'a PathBuf>,
) -> impl Iterator<Item = Digest> {
    folder.into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        name.replacen('-', ":", 1).parse().ok()
    })
}

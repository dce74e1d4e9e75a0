//! Tables of indexes that were read before, in `$XDG_CACHE_HOME/kubepkg/indexes/`, so that a
//! large index that has not changed is not parsed again.
//!
//! Nothing rests on what lies here: a table counts only when its digest is the one remembered
//! with the accepted index. So whatever goes wrong with it is left at that.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use kubepkg_bundler::repositories::Tables;
use kubepkg_core::digest::Digest;

use crate::output::Pending;
use crate::places;

/// Larger than the table of the largest index, in bytes: that of 200 000 versions has 11 MiB.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// An index with fewer bytes is read in less time than its table is found.
const MIN_TABLE: usize = 64 * 1024;

/// Tables nobody wrote anew for so long are taken away.
const MAX_AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// The folder of tables.
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The user's; none without a home directory.
    pub fn of_user() -> Option<Cache> {
        let folder = places::cache_folder()?.join("indexes");
        Some(Cache { folder })
    }

    fn file(&self, index: &Digest) -> PathBuf {
        self.folder.join(format!("{}.table", index.hex()))
    }

    /// Takes away what was not used for long.
    fn tidy(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return;
        };
        let oldest = SystemTime::now().checked_sub(MAX_AGE);
        for entry in entries.flatten() {
            let made = entry.metadata().and_then(|about| about.modified());
            if made.is_ok_and(|made| Some(made) < oldest) {
                // somebody else may have done it
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

impl Tables for Cache {
    fn get(&self, index: &Digest) -> Option<Vec<u8>> {
        let mut table = Vec::new();
        let file = self.file(index);
        // opening a pipe would wait for somebody to write into it
        file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let file = std::fs::File::open(file).ok()?;
        file.take(MAX_FILE + 1).read_to_end(&mut table).ok()?;
        (table.len() as u64 <= MAX_FILE).then_some(table)
    }

    fn put(&self, index: &Digest, table: &[u8]) {
        if table.len() < MIN_TABLE || std::fs::create_dir_all(&self.folder).is_err() {
            return;
        }
        // a full disk is no reason to fail, and the next run tries again
        let written = Pending::write(&self.file(index), table, 0o600);
        let _ = written.and_then(Pending::replace);
        self.tidy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_by_the_digest_of_its_index() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache {
            folder: folder.path().join("deep/indexes"),
        };
        let (one, other) = (Digest::sha256("one"), Digest::sha256("other"));
        assert_eq!(cache.get(&one), None);
        let table = vec![7; MIN_TABLE];
        cache.put(&one, &table);
        assert_eq!(cache.get(&one), Some(table));
        assert_eq!(cache.get(&other), None);
        cache.put(&other, b"small");
        assert_eq!(cache.get(&other), None);
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_no_error() {
        let cache = Cache {
            folder: "/dev/null/indexes".into(),
        };
        cache.put(&Digest::sha256("one"), &vec![7; MIN_TABLE]);
        assert_eq!(cache.get(&Digest::sha256("one")), None);
    }
}

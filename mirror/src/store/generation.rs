//! The two counters a server looks at before it answers: the number of the newest commit that
//! names, sites and trust are brought up to, and how often it changed which content is
//! condemned or quarantined.
//!
//! They are written over in place, under the store's lock, and not synced with each commit.
//! After a power loss the first may be too low, which only means that records are looked at
//! again; it is written after everything it stands for is durable, so it is never too high.
//! Who copies a store while it changes, or puts an old file back, can make it so low that
//! records after it are removed already; so each process compares it once with the records that
//! are there. The second is compared by processes that run, and none has outlived a power loss.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use kubepkg_core::store::StoreError;

use super::disk::failed;
use super::layout::NUMBER_WIDTH;

/// No store comes to this number; a file that says more is damaged.
pub(super) const MOST: u64 = u64::MAX / 2;

/// One number and the end of its line.
const LINE: usize = NUMBER_WIDTH + 1;

/// The open counters.
#[derive(Debug)]
pub(super) struct Generation {
    path: PathBuf,
    file: File,
    /// Whether this process has seen that no record lies beyond a gap after the counter.
    compared: AtomicBool,
}

/// Both counters, as of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counters {
    /// Number of the newest commit, `None` when the file does not say one: then `commits/` has
    /// to be listed.
    pub(super) sequence: Option<u64>,
    /// Changes of what is condemned or quarantined.
    pub(super) content: u64,
}

impl Generation {
    pub(super) fn new(path: &Path, file: File) -> Generation {
        Generation {
            path: path.to_owned(),
            file,
            compared: AtomicBool::new(false),
        }
    }

    /// Whether the first counter was compared with all records that are there.
    pub(super) fn was_compared(&self) -> bool {
        self.compared.load(Ordering::Relaxed)
    }

    /// Says that it was, and is right.
    pub(super) fn compared(&self) {
        self.compared.store(true, Ordering::Relaxed);
    }

    /// Says that there is a doubt: it is compared again.
    pub(super) fn doubt(&self) {
        self.compared.store(false, Ordering::Relaxed);
    }

    /// Makes the counters durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(failed("sync", &self.path))
    }

    /// Both counters. A file from before there was a second one says 0 for it.
    pub(super) fn counters(&self) -> Result<Counters, StoreError> {
        let mut bytes = [0; 2 * LINE];
        let read = self
            .file
            .read_at(&mut bytes, 0)
            .map_err(failed("read", &self.path))?;
        let bytes = &bytes[..read];
        Ok(Counters {
            sequence: number(bytes.get(..NUMBER_WIDTH)),
            content: number(bytes.get(LINE..LINE + NUMBER_WIDTH)).unwrap_or_default(),
        })
    }

    /// The number of the newest commit.
    pub(super) fn read(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.counters()?.sequence)
    }

    pub(super) fn write(&self, number: u64) -> Result<(), StoreError> {
        self.write_line(0, number)
    }

    /// Says that other content is condemned or quarantined now, and answers the new count.
    /// Call it under the store's lock.
    pub(super) fn content_changed(&self) -> Result<u64, StoreError> {
        let next = self.counters()?.content + 1;
        self.write_line(LINE as u64, next)?;
        Ok(next)
    }

    fn write_line(&self, at: u64, number: u64) -> Result<(), StoreError> {
        self.file
            .write_all_at(format!("{number:0NUMBER_WIDTH$}\n").as_bytes(), at)
            .map_err(failed("write", &self.path))
    }
}

fn number(digits: Option<&[u8]>) -> Option<u64> {
    let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let number = str::from_utf8(digits).ok()?.parse().ok()?;
    (number < MOST).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(content: &str) -> (tempfile::NamedTempFile, Generation) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        let open = File::options()
            .read(true)
            .write(true)
            .open(file.path())
            .unwrap();
        let generation = Generation::new(file.path(), open);
        (file, generation)
    }

    #[test]
    fn the_counters_leave_each_other_alone() {
        let (file, generation) = generation("");
        let counters = || generation.counters().unwrap();
        let expect = |sequence, content| Counters { sequence, content };
        assert_eq!(counters(), expect(None, 0));
        assert_eq!(generation.content_changed().unwrap(), 1);
        assert_eq!(counters(), expect(None, 1));
        generation.write(7).unwrap();
        assert_eq!(counters(), expect(Some(7), 1));
        assert_eq!(generation.content_changed().unwrap(), 2);
        assert_eq!(counters(), expect(Some(7), 2));
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, format!("{:020}\n{:020}\n", 7, 2));
    }

    #[test]
    fn a_file_with_one_number_says_that_no_content_was_ever_condemned() {
        let (_file, generation) = generation(&format!("{:020}\n", 12));
        let counters = generation.counters().unwrap();
        assert_eq!((counters.sequence, counters.content), (Some(12), 0));
    }
}

//! Reading a large file once, from its beginning to its end.
//!
//! What the system has in its page cache is copied from there. What it has not is read around
//! the cache: nobody reads it again soon, and giving each page to the cache and taking it back
//! costs several times what hashing it does. Where a file system cannot do that, and for small
//! reads, everything goes the usual way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Most bytes of one read: few enough to stay in the cache of a core, many enough that calls do
/// not count.
pub const PIECE: usize = 512 * 1024;

/// What memory, offset and length of a direct read must be a multiple of: the page size, which
/// no disk's block size exceeds. Copies are fastest, too, when both sides lie alike in a page.
const PAGE: usize = 4096;

/// Below this the usual way is better, which reads ahead.
const DIRECT: usize = 256 * 1024;

/// Reads pieces of one file.
#[derive(Debug)]
pub struct Reader<'f> {
    file: &'f File,
    around: Around,
    buffer: Vec<u8>,
    /// Where in the buffer a page begins.
    start: usize,
}

/// The way around the page cache.
#[derive(Debug)]
enum Around {
    Untried,
    Open(File),
    Closed,
}

impl<'f> Reader<'f> {
    /// For `file`, with a buffer for pieces of at most `largest` bytes, itself at most [`PIECE`].
    pub fn new(file: &'f File, largest: u64) -> Reader<'f> {
        let largest = usize::try_from(largest).unwrap_or(PIECE).min(PIECE);
        let buffer = vec![0; largest.next_multiple_of(PAGE) + 2 * PAGE];
        let start = buffer.as_ptr().align_offset(PAGE).min(PAGE);
        Reader {
            file,
            around: Around::Untried,
            buffer,
            start,
        }
    }

    /// The `length` bytes at `at`.
    ///
    /// # Errors
    /// What reading gives; also when there are fewer, or `length` is more than a piece.
    pub fn read(&mut self, at: u64, length: usize) -> io::Result<&[u8]> {
        let before = (at % PAGE as u64) as usize;
        let from = self.start + before;
        let to = from + length;
        if to > self.buffer.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if length < DIRECT || !self.read_cached_or_around(at, before, length) {
            self.file.read_exact_at(&mut self.buffer[from..to], at)?;
        }
        Ok(&self.buffer[from..to])
    }

    /// Whether the bytes are in the buffer. A failure is no error: the usual way tells it.
    #[cfg(target_os = "linux")]
    fn read_cached_or_around(&mut self, at: u64, before: usize, length: usize) -> bool {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        if matches!(self.around, Around::Closed) {
            return false;
        }
        let from = self.start + before;
        let piece = &mut self.buffer[from..from + length];
        let cached = preadv2(
            self.file,
            &mut [io::IoSliceMut::new(piece)],
            at,
            ReadWriteFlags::NOWAIT,
        );
        match cached {
            Ok(read) if read == length => return true,
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(_) => self.around = Around::Closed,
        }
        if matches!(self.around, Around::Untried) {
            self.around = open_around(self.file);
        }
        let Around::Open(file) = &self.around else {
            return false;
        };
        let whole = (before + length).next_multiple_of(PAGE);
        let pages = &mut self.buffer[self.start..self.start + whole];
        match file.read_at(pages, at - before as u64) {
            Ok(read) => read >= before + length,
            Err(_) => {
                self.around = Around::Closed;
                false
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn read_cached_or_around(&mut self, _at: u64, _before: usize, _length: usize) -> bool {
        self.around = Around::Closed;
        false
    }
}

/// The same file opened anew: the flag of a duplicate would hold for the original too.
#[cfg(target_os = "linux")]
fn open_around(file: &File) -> Around {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path);
    opened.map_or(Around::Closed, Around::Open)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cached or not, at every position in a page, up to the last byte.
    #[test]
    fn every_byte_is_read_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let content: Vec<u8> = (0..1_300_001usize)
            .map(|at| (at * 7 + at / 4096) as u8)
            .collect();
        std::fs::write(&path, &content).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        for cached in [false, true] {
            for at in [0, 512, 4095, 4096, 775_713] {
                #[cfg(target_os = "linux")]
                if !cached {
                    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                }
                let mut reader = Reader::new(&file, u64::MAX);
                for length in [PIECE, DIRECT, 1, 0] {
                    let found = reader.read(at as u64, length).unwrap();
                    assert!(found == &content[at..at + length], "{cached} {at} {length}");
                }
            }
        }
        let mut reader = Reader::new(&file, u64::MAX);
        assert!(reader.read(1_000_000, PIECE).is_err(), "beyond the end");
    }
}

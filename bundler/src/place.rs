//! A blob's place in the file, written around the page cache.
//!
//! Through the page cache every page is allocated, filled and given up again, which costs more
//! than receiving and hashing it. Whole pages of large blobs therefore go to the disk directly;
//! what shares a page with a neighbour, small blobs, and file systems that cannot do this are
//! written as usual.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubepkg_core::bundle::Extent;
use kubepkg_remote::registry::BlobSink;
use rustix::fs::OFlags;

/// What memory, offset and length of a direct write must be a multiple of: the page size, which
/// no disk's block size exceeds.
const PAGE: usize = 4096;

/// Bytes gathered for one write: few enough to stay in the cache of a core.
const GATHERED: usize = 512 * 1024;

/// Smaller blobs are mostly pages that are shared with neighbours.
const DIRECT: u64 = 256 * 1024;

/// The same file twice: as usual, and around the page cache where that is possible.
#[derive(Clone, Debug)]
pub struct Target {
    file: Arc<File>,
    direct: Option<Arc<File>>,
    path: PathBuf,
}

impl Target {
    /// For a file that is open for writing, with its name for messages.
    pub fn new(file: &Arc<File>, path: &Path) -> Target {
        // opened anew: the flag of a duplicate would hold for the original too
        let direct = OpenOptions::new()
            .write(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Target {
            file: Arc::clone(file),
            direct: direct.ok().map(Arc::new),
            path: path.to_owned(),
        }
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Takes the bytes of one blob. [`Place::finish`] writes the last of them.
pub struct Place {
    file: Arc<File>,
    direct: Option<Arc<File>>,
    extent: Extent,
    /// Empty where nothing is gathered.
    buffer: Vec<u8>,
    /// Where in the buffer memory is aligned.
    aligned: usize,
    /// The place in the file that the aligned part of the buffer stands for; a whole page.
    base: u64,
    /// The part of the buffer that is filled, counted from `aligned`.
    from: usize,
    to: usize,
}

impl Place {
    /// The place `extent` of `target`.
    pub fn new(target: &Target, extent: Extent) -> Place {
        let direct = target.direct.clone().filter(|_| extent.size >= DIRECT);
        let length = if direct.is_some() { GATHERED + PAGE } else { 0 };
        let buffer = vec![0; length];
        // where memory cannot be aligned, the system refuses direct writes and they are given up
        let aligned = buffer.as_ptr().align_offset(PAGE).min(PAGE);
        Place {
            file: Arc::clone(&target.file),
            direct,
            extent,
            buffer,
            aligned,
            base: 0,
            from: 0,
            to: 0,
        }
    }

    /// Whether nothing is gathered: everything is written as it comes.
    pub fn is_written(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Writes what is gathered.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_gathered()
    }

    fn gather(&mut self, at: u64, mut bytes: &[u8]) -> io::Result<()> {
        if at != self.base + self.to as u64 {
            // the first bytes, or the download starts over: what is gathered comes again
            let before = at % PAGE as u64;
            self.base = at - before;
            self.from = before as usize;
            self.to = self.from;
        }
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(GATHERED - self.to));
            let free = self.aligned + self.to;
            self.buffer[free..free + now.len()].copy_from_slice(now);
            self.to += now.len();
            bytes = rest;
            if self.to == GATHERED {
                self.write_gathered()?;
                self.base += GATHERED as u64;
                (self.from, self.to) = (0, 0);
            }
        }
        Ok(())
    }

    fn write_gathered(&mut self) -> io::Result<()> {
        let first = self.from.next_multiple_of(PAGE).min(self.to);
        let last = (self.to - self.to % PAGE).max(first);
        self.write(self.from, first, false)?;
        self.write(first, last, true)?;
        self.write(last, self.to, false)
    }

    /// Writes a part of what is gathered.
    fn write(&mut self, from: usize, to: usize, whole_pages: bool) -> io::Result<()> {
        if from == to {
            return Ok(());
        }
        let bytes = &self.buffer[self.aligned + from..self.aligned + to];
        let at = self.base + from as u64;
        if whole_pages && let Some(direct) = &self.direct {
            match direct.write_all_at(bytes, at) {
                Err(error) if error.kind() == ErrorKind::InvalidInput => self.direct = None,
                done => return done,
            }
        }
        self.file.write_all_at(bytes, at)
    }
}

impl BlobSink for Place {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // a server that sends more than it announced must not reach the next member
        if offset.saturating_add(bytes.len() as u64) > self.extent.size {
            return Err(io::Error::other("more bytes than announced"));
        }
        let at = self.extent.offset + offset;
        if self.buffer.is_empty() {
            return self.file.write_all_at(bytes, at);
        }
        self.gather(at, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(length: usize, seed: usize) -> Vec<u8> {
        (0..length)
            .map(|at| (at * 31 + at / 4096 + seed) as u8)
            .collect()
    }

    #[test]
    fn every_byte_arrives_and_no_other_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (offset, length) in [
            (0, 300_000),
            (512, 262_144),
            (3584, 524_288),
            (4096, 524_288),
            (5120, 1_500_001),
            (1024, 3),
        ] {
            std::fs::write(&path, vec![0xee; offset + length + 5000]).unwrap();
            let file = Arc::new(OpenOptions::new().write(true).open(&path).unwrap());
            let extent = Extent {
                offset: offset as u64,
                size: length as u64,
            };
            let mut place = Place::new(&Target::new(&file, &path), extent);
            // a first try that breaks off, then everything
            let wrong = content(length / 2, 1);
            place.write_at(0, &wrong).unwrap();
            let right = content(length, 0);
            let mut at = 0;
            for piece in right.chunks(70_001) {
                place.write_at(at, piece).unwrap();
                at += piece.len() as u64;
            }
            assert!(place.write_at(at, b"x").is_err());
            place.finish().unwrap();
            let found = std::fs::read(&path).unwrap();
            assert!(found[..offset].iter().all(|byte| *byte == 0xee));
            assert!(found[offset..offset + length] == right, "{offset} {length}");
            assert!(found[offset + length..].iter().all(|byte| *byte == 0xee));
        }
    }
}

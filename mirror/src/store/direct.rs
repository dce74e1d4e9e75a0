//! Writing around the page cache.
//!
//! A bundle of many GB is copied once and read later by others. Through the page cache each
//! page is allocated, copied and given up again: measured on one machine, 2.4 CPU seconds for
//! a GB, against 0.5 without. File systems that cannot do this are written to as usual.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::OFlags;

/// What memory, offset and length must be a multiple of: the page size, which no disk's block
/// size exceeds.
pub(super) const ALIGNMENT: usize = 4096;

/// A buffer direct writing accepts.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// `length` bytes.
    pub(super) fn new(length: usize) -> Buffer {
        let bytes = vec![0; length + ALIGNMENT];
        // where it cannot be aligned, direct writing is refused by the system and given up
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Buffer {
            bytes,
            start,
            length,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// Writes a file from its beginning, directly as long as that is possible.
pub(super) struct Writer {
    direct: bool,
}

impl Writer {
    /// For a file whose end, where writing goes on, is a multiple of [`ALIGNMENT`].
    pub(super) fn new(file: &File) -> Writer {
        Writer {
            direct: set_direct(file, true),
        }
    }

    /// Writes the next bytes: a multiple of [`ALIGNMENT`], or the last ones.
    pub(super) fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while self.direct {
            let whole = rest.len() - rest.len() % ALIGNMENT;
            if whole == 0 {
                break;
            }
            match file.write(&rest[..whole]) {
                Ok(written) if written > 0 && written % ALIGNMENT == 0 => rest = &rest[written..],
                Ok(written) => {
                    // not where a direct write could go on
                    rest = &rest[written..];
                    self.stop(file)?;
                }
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => self.stop(file)?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.stop(file)?;
        file.write_all(rest)
    }

    /// Whether it still goes around the page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Goes through the page cache from here on.
    pub(super) fn stop(&mut self, file: &File) -> io::Result<()> {
        if self.direct && !set_direct(file, false) {
            return Err(io::Error::other("direct writing cannot be switched off"));
        }
        self.direct = false;
        Ok(())
    }
}

fn set_direct(file: &File, on: bool) -> bool {
    let Ok(mut flags) = rustix::fs::fcntl_getfl(file) else {
        return false;
    };
    flags.set(OFlags::DIRECT, on);
    rustix::fs::fcntl_setfl(file, flags).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_arrives() {
        let folder = tempfile::tempdir().unwrap();
        for (at, last) in [0, 1, 4095, 4096, 4097, 8192, 20_000]
            .into_iter()
            .enumerate()
        {
            let path = folder.path().join(at.to_string());
            let mut file = File::create_new(&path).unwrap();
            let mut writer = Writer::new(&file);
            let mut buffer = Buffer::new(32 * 1024);
            let mut expected = Vec::new();
            for (round, length) in [32 * 1024, 8192, last].into_iter().enumerate() {
                let piece = &mut buffer.bytes_mut()[..length];
                for (at, byte) in piece.iter_mut().enumerate() {
                    *byte = (at * 7 + round) as u8;
                }
                writer.write(&mut file, piece).unwrap();
                expected.extend_from_slice(piece);
            }
            assert!(std::fs::read(&path).unwrap() == expected, "{last}");
        }
    }
}

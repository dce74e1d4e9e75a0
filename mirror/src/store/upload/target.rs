//! The file of an upload, written to from its end on.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::num::NonZeroU64;

use kubepkg_core::reader::{PIECE, Reader};
use kubepkg_core::{Algorithm, Digest, Hasher};
use rustix::fs::Advice;

use crate::store::direct::{ALIGNMENT, Writer};
use crate::store::intake::{DIRECT, WRITEBACK};

/// The open file.
pub(super) struct Target {
    file: File,
    /// The way around the page cache, once there was enough for it.
    around: Option<Writer>,
    length: u64,
    /// Up to where writing back was begun.
    begun: u64,
}

impl Target {
    /// For a file that is `length` bytes long.
    pub(super) fn new(mut file: File, length: u64) -> io::Result<Target> {
        file.seek(io::SeekFrom::Start(length))?;
        Ok(Target {
            file,
            around: None,
            length,
            begun: length,
        })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Adds bytes, which begin at a page of memory. After an error the file is as long as before.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let more = bytes.len() as u64;
        match self.add(bytes, more) {
            Ok(()) => {
                self.length += more;
                Ok(())
            }
            Err(error) => {
                let length = self.length;
                self.cut(length)?;
                Err(error)
            }
        }
    }

    /// Makes the file `length` bytes long again.
    pub(super) fn cut(&mut self, length: u64) -> io::Result<()> {
        if let Some(mut writer) = self.around.take() {
            writer.stop(&self.file)?;
        }
        self.file.set_len(length)?;
        self.file.seek(io::SeekFrom::Start(length))?;
        self.length = length;
        self.begun = self.begun.min(length);
        Ok(())
    }

    fn add(&mut self, bytes: &[u8], more: u64) -> io::Result<()> {
        let aligned = self.length.is_multiple_of(ALIGNMENT as u64);
        if self.around.is_none() && more >= DIRECT && aligned {
            self.around = Some(Writer::new(&self.file));
        }
        let direct = match &mut self.around {
            Some(writer) => {
                writer.write(&mut self.file, bytes)?;
                writer.is_direct()
            }
            None => {
                self.file.write_all(bytes)?;
                false
            }
        };
        if !direct {
            // the next one may lie where a direct write can begin again
            self.around = None;
            self.begin_writeback(more);
        }
        Ok(())
    }

    /// What is left to the page cache is brought to the disk from time to time: else the sync
    /// at the end waits for all of it.
    fn begin_writeback(&mut self, more: u64) {
        let written = self.length + more;
        if written - self.begun >= WRITEBACK {
            let length = NonZeroU64::new(written - self.begun);
            let _ = rustix::fs::fadvise(&self.file, self.begun, length, Advice::DontNeed);
            self.begun = written;
        }
    }

    /// The digest of what is in the file.
    pub(super) fn digest(&self, algorithm: Algorithm) -> io::Result<Digest> {
        let mut reader = Reader::new(&self.file, self.length);
        let mut hasher = Hasher::new(algorithm);
        let mut at = 0;
        while at < self.length {
            let most = PIECE.min(usize::try_from(self.length - at).unwrap_or(PIECE));
            hasher.update(reader.read(at, most)?);
            at += most as u64;
        }
        Ok(hasher.finish())
    }

    pub(super) fn into_file(self) -> File {
        self.file
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::gather::Pool;
    use super::*;

    #[test]
    fn bytes_of_every_length_arrive_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        let mut target = Target::new(file, 0).unwrap();
        let mut expected = Vec::new();
        let pool = Arc::new(Pool::default());
        let lengths = [4096, 1_048_576, 1, 0, 300_000, 7, 1_005_000, 1_048_576];
        for (round, length) in lengths.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 31 + round) as u8).collect();
            let mut gathered = pool.take(length);
            assert_eq!(gathered.add(&bytes), length);
            expected.extend_from_slice(&bytes);
            target.write(gathered.bytes()).unwrap();
            assert_eq!(target.length(), expected.len() as u64);
        }
        assert!(std::fs::read(&path).unwrap() == expected);
        let found = target.digest(Algorithm::Sha512).unwrap();
        assert_eq!(found, Digest::of(Algorithm::Sha512, &expected));
        target.cut(5).unwrap();
        target.write(b"xyz").unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[5..], *b"xyz");
    }
}

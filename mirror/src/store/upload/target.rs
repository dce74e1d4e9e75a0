//! The file of an upload, written to from its end on.

use std::fs::File;
use std::io::{self, IoSlice, Seek as _};
use std::num::NonZeroU64;

use bytes::Bytes;
use kubepkg_core::reader::{PIECE, Reader};
use kubepkg_core::{Algorithm, Digest, Hasher};
use rustix::fs::Advice;

use crate::store::direct::{ALIGNMENT, Buffer, Writer};
use crate::store::intake::{DIRECT, WRITEBACK, write_all};

/// The open file.
pub(super) struct Target {
    file: File,
    /// The way around the page cache, once there was enough for it.
    around: Option<(Writer, Buffer)>,
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

    /// Adds bytes. After an error the file is as long as before.
    pub(super) fn write(&mut self, pieces: &[Bytes]) -> io::Result<()> {
        let more: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        match self.add(pieces, more) {
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
        if let Some((mut writer, _)) = self.around.take() {
            writer.stop(&self.file)?;
        }
        self.file.set_len(length)?;
        self.file.seek(io::SeekFrom::Start(length))?;
        self.length = length;
        self.begun = self.begun.min(length);
        Ok(())
    }

    fn add(&mut self, pieces: &[Bytes], more: u64) -> io::Result<()> {
        let aligned = self.length.is_multiple_of(ALIGNMENT as u64);
        if self.around.is_none() && more >= DIRECT && aligned {
            self.around = Some((Writer::new(&self.file), Buffer::new(PIECE)));
        }
        let direct = match &mut self.around {
            Some((writer, buffer)) => {
                write_around(&mut self.file, writer, buffer, pieces)?;
                writer.is_direct()
            }
            None => {
                let mut slices: Vec<IoSlice<'_>> =
                    pieces.iter().map(|piece| IoSlice::new(piece)).collect();
                write_all(&mut self.file, &mut slices)?;
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

/// Copies the pieces into a buffer that direct writing accepts, and writes that when it is full.
fn write_around(
    file: &mut File,
    writer: &mut Writer,
    buffer: &mut Buffer,
    pieces: &[Bytes],
) -> io::Result<()> {
    let mut filled = 0;
    for piece in pieces {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let room = &mut buffer.bytes()[filled..];
            let n = room.len().min(rest.len());
            room[..n].copy_from_slice(&rest[..n]);
            filled += n;
            rest = &rest[n..];
            if filled == buffer.bytes().len() {
                writer.write(file, buffer.bytes())?;
                filled = 0;
            }
        }
    }
    match filled {
        0 => Ok(()),
        _ => writer.write(file, &buffer.bytes()[..filled]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_every_length_arrive_in_order() {
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
        for (round, lengths) in [
            &[4096usize, 600_000, 1][..],
            &[0, 300_000],
            &[7],
            &[1_000_000, 5000],
            &[],
            &[524_288, 524_288],
        ]
        .into_iter()
        .enumerate()
        {
            let pieces: Vec<Bytes> = lengths
                .iter()
                .map(|n| {
                    (0..*n)
                        .map(|at| (at * 31 + round) as u8)
                        .collect::<Vec<u8>>()
                        .into()
                })
                .collect();
            pieces
                .iter()
                .for_each(|piece| expected.extend_from_slice(piece));
            target.write(&pieces).unwrap();
            assert_eq!(target.length(), expected.len() as u64);
        }
        assert!(std::fs::read(&path).unwrap() == expected);
        let found = target.digest(Algorithm::Sha512).unwrap();
        assert_eq!(found, Digest::of(Algorithm::Sha512, &expected));
        target.cut(5).unwrap();
        target.write(&[Bytes::from_static(b"xyz")]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[5..], *b"xyz");
    }
}

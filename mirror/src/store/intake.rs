//! Taking bytes in: hashed while they are written, refused unless they are exactly what was
//! announced.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use kubepkg_core::reader::{PIECE, Reader};
use kubepkg_core::store::{FileRange, StoreError};
use kubepkg_core::{Digest, Hasher};
use rustix::fs::Advice;

use super::direct::{Buffer, Writer};
use super::work::{Temporary, Work};

/// Parts of files of this size and more are written around the page cache.
pub(super) const DIRECT: u64 = 256 * 1024;

/// How much is written before the kernel is asked to begin bringing it to the disk. Otherwise
/// it waits until there are gigabytes, and the sync at the end waits for all of them.
pub(super) const WRITEBACK: u64 = 32 * 1024 * 1024;

/// Content that was taken in and is what was announced; not readable yet. Dropping it removes
/// the bytes.
#[derive(Debug)]
pub struct Staged {
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) file: Temporary,
}

impl Staged {
    /// Digest of the content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// Content being taken in.
pub(super) struct Intake {
    digest: Digest,
    size: u64,
    hasher: Hasher,
    taken: u64,
    /// Up to where writing back was begun.
    begun: u64,
    file: Temporary,
}

impl Intake {
    pub(super) fn begin(work: &Arc<Work>, digest: Digest, size: u64) -> Result<Intake, StoreError> {
        Ok(Intake {
            digest,
            size,
            hasher: Hasher::new(digest.algorithm()),
            taken: 0,
            begun: 0,
            file: work.file()?,
        })
    }

    /// Takes the next bytes.
    pub(super) fn take(&mut self, pieces: &[Bytes]) -> Result<(), StoreError> {
        let length: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.count(length)?;
        for piece in pieces {
            self.hasher.update(piece);
        }
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        self.file.with(|file| write_all(file, &mut slices))?;
        self.begin_writeback()
    }

    /// Takes all of a file range, until `stop` says that nobody wants it any more.
    pub(super) fn take_range(
        &mut self,
        range: &FileRange,
        stop: &AtomicBool,
    ) -> Result<(), StoreError> {
        self.count(range.len)?;
        let mut reader = Reader::new(&range.file, range.len);
        let mut direct = None;
        if range.len >= DIRECT {
            self.file.with(|file| {
                direct = Some((Writer::new(file), Buffer::new(PIECE)));
                Ok(())
            })?;
        }
        let end = range.offset + range.len;
        let mut at = range.offset;
        while at < end {
            if stop.load(Ordering::Relaxed) {
                return Err(self.source(io::Error::other("it was given up")));
            }
            let most = PIECE.min(usize::try_from(end - at).unwrap_or(PIECE));
            let piece = reader.read(at, most).map_err(|e| self.source(e))?;
            self.hasher.update(piece);
            match &mut direct {
                Some((writer, buffer)) => {
                    // the piece lies in memory as it does in a page of its file, which is not
                    // as it will in this one
                    let aligned = &mut buffer.bytes_mut()[..most];
                    aligned.copy_from_slice(piece);
                    self.file.with(|file| writer.write(file, aligned))?;
                }
                None => self.file.write(piece)?,
            }
            at += most as u64;
        }
        Ok(())
    }

    /// All is there: is it what was announced?
    pub(super) fn finish(mut self) -> Result<Staged, StoreError> {
        if self.taken != self.size {
            return Err(self.mismatch(format!("{} bytes instead of {}", self.taken, self.size)));
        }
        let found = self.hasher.finish();
        if found != self.digest {
            return Err(StoreError::Mismatch {
                digest: self.digest,
                found: found.to_string(),
            });
        }
        self.file.written()?;
        Ok(Staged {
            digest: self.digest,
            size: self.size,
            file: self.file,
        })
    }

    /// An error of who gives the content.
    pub(super) fn source(&self, source: io::Error) -> StoreError {
        StoreError::Source {
            digest: self.digest,
            source,
        }
    }

    fn count(&mut self, more: u64) -> Result<(), StoreError> {
        self.taken = self.taken.saturating_add(more);
        if self.taken > self.size {
            return Err(self.mismatch(format!("more than {} bytes", self.size)));
        }
        Ok(())
    }

    fn mismatch(&self, found: String) -> StoreError {
        StoreError::Mismatch {
            digest: self.digest,
            found,
        }
    }

    fn begin_writeback(&mut self) -> Result<(), StoreError> {
        let begun = self.begun;
        let mut end = begun;
        self.file.with(|file| {
            let written = io::Seek::stream_position(file)?;
            if written - begun >= WRITEBACK {
                // pages that are dirty are not dropped by this, their writing begins
                let length = NonZeroU64::new(written - begun);
                let _ = rustix::fs::fadvise(&*file, begun, length, Advice::DontNeed);
                end = written;
            }
            Ok(())
        })?;
        self.begun = end;
        Ok(())
    }
}

/// Writes all the slices, in as few calls as the system allows.
pub(super) fn write_all(file: &mut File, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0); // empty ones at the front
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

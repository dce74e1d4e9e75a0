//! Hashing one file of content as it is on the disk.
//!
//! It is read around the page cache: what servers read often stays there, and what is looked
//! at is the disk, not a copy in memory that was right when it was written.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};

use kubepkg_core::{Digest, Hasher};
use rustix::fs::{Advice, OFlags};

use super::super::direct::Buffer;
use super::super::layout::Layout;
use super::pace::Pace;
use super::walk::{Blob, Stamp};

/// How much is read at once.
const PIECE: usize = 1024 * 1024;

/// What was found.
#[derive(Debug)]
pub(in super::super) enum Verdict {
    /// The bytes are those of the digest.
    Sound,
    /// They are others; and the file they were read from.
    Other(Digest, Stamp),
    /// Twice, the disk did not give them.
    Unreadable(io::Error),
    /// They could not be read for a reason that says nothing of the disk: too many open files,
    /// no memory, no permission.
    Failed(io::Error),
    /// Somebody removed or replaced the file.
    Gone,
    /// It was not hashed to its end.
    Stopped,
}

/// Hashes a file. What is not sound is read once more from the beginning: a cable that slipped
/// is no damage, nor is a file that somebody replaced meanwhile.
pub(in super::super) fn hash(
    layout: &Layout,
    blob: &Blob,
    pace: &Pace,
    stop: &AtomicBool,
    advance: &dyn Fn(u64),
) -> Verdict {
    let first = attempt(layout, blob, pace, stop, advance);
    if let Ok(verdict @ (Verdict::Sound | Verdict::Gone | Verdict::Stopped)) = first {
        return verdict;
    }
    match (first, attempt(layout, blob, pace, stop, &|_| {})) {
        (Err(first), Ok(Verdict::Sound)) => {
            tracing::warn!(digest = %blob.digest, error = %first, "read only the second time");
            Verdict::Sound
        }
        (Ok(_), Ok(Verdict::Sound)) => {
            tracing::warn!(digest = %blob.digest, "the disk gave other bytes the second time");
            Verdict::Sound
        }
        (_, Ok(verdict)) => verdict,
        (_, Err(error)) if of_the_disk(&error) => Verdict::Unreadable(error),
        (_, Err(error)) => Verdict::Failed(error),
    }
}

/// Whether the disk, or the file system on it, says that the bytes are lost. All else may pass
/// by itself, or is for people to mend; sound content is not set aside for it.
fn of_the_disk(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::IO | Errno::UCLEAN | Errno::BADMSG | Errno::NODATA | Errno::REMOTEIO)
    )
}

fn attempt(
    layout: &Layout,
    blob: &Blob,
    pace: &Pace,
    stop: &AtomicBool,
    advance: &dyn Fn(u64),
) -> io::Result<Verdict> {
    let path = layout.blob(&blob.digest);
    let mut source = match Source::open(&path) {
        Ok(source) => source,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Verdict::Gone),
        Err(e) => return Err(e),
    };
    let before = Stamp::of(&source.file.metadata()?);
    let mut hasher = Hasher::new(blob.digest.algorithm());
    let most = usize::try_from(blob.stamp.size)
        .unwrap_or(PIECE)
        .clamp(1, PIECE);
    let mut buffer = Buffer::new(most.next_multiple_of(PAGE));
    let mut at = 0;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(Verdict::Stopped);
        }
        let read = source.read(buffer.bytes_mut(), at)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer.bytes()[..read]);
        at += read as u64;
        advance(read as u64);
        pace.wait(read as u64, stop);
    }
    let found = hasher.finish();
    if found == blob.digest {
        return Ok(Verdict::Sound);
    }
    // is it still the file of this name, and as it was before it was read?
    let named = std::fs::symlink_metadata(&path).map(|m| Stamp::of(&m));
    Ok(match named {
        Ok(named) if named == before => Verdict::Other(found, before),
        _ => Verdict::Gone,
    })
}

/// What direct reads must be a multiple of.
const PAGE: usize = 4096;

/// A file read around the page cache where that can be done.
struct Source {
    file: File,
    direct: bool,
}

impl Source {
    fn open(path: &std::path::Path) -> io::Result<Source> {
        let flags = OFlags::DIRECT.bits().cast_signed();
        let direct = OpenOptions::new().read(true).custom_flags(flags).open(path);
        match direct {
            Ok(file) => Ok(Source { file, direct: true }),
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(Source {
                file: File::open(path)?,
                direct: false,
            }),
            Err(e) => Err(e),
        }
    }

    fn read(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, at) {
                Ok(read) => {
                    if !self.direct {
                        let length = NonZeroU64::new(read as u64);
                        // advice: what is not taken costs memory only
                        let _ = rustix::fs::fadvise(&self.file, at, length, Advice::DontNeed);
                    }
                    return Ok(read);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if self.direct && e.kind() == io::ErrorKind::InvalidInput => {
                    let flags = rustix::fs::fcntl_getfl(&self.file)?;
                    rustix::fs::fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
                    self.direct = false;
                }
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn only_what_the_disk_says_counts_as_damage() {
        for errno in [Errno::IO, Errno::UCLEAN, Errno::BADMSG, Errno::NODATA] {
            assert!(of_the_disk(&errno.into()), "{errno}");
        }
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::ACCESS] {
            assert!(!of_the_disk(&errno.into()), "{errno}");
        }
        assert!(!of_the_disk(&Errno::STALE.into()));
        assert!(!of_the_disk(&io::Error::other("no number")));
    }
}

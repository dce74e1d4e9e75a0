//! What of a file lies in the page cache, and bringing it there.
//!
//! Threads that talk to clients send a file only where they need not wait for a disk. Neither
//! may they begin reading it: that takes a place in the disk's queue, and when the queue is full
//! it waits too. So a file is opened for random access ([`expect_nothing`]), which keeps the
//! kernel from reading ahead in the course of a look or a `sendfile`; reading ahead is done by
//! [`bring`], on the blocking pool.

use std::fs::File;
use std::io;

use super::buffers::Buffer;

/// How much is brought at once. While it is sent, the next so many bytes are on their way from
/// the disk.
pub const WINDOW: u64 = 2 * 1024 * 1024;

/// How far apart [`is_cached`] looks. A look takes a byte of a page into the processor's cache,
/// where nobody else needs it: looking eight times as often took a third of the time of sending.
/// Files come into the page cache and leave it in long runs.
const FAR: usize = 512 * 1024;

/// How far apart [`bring`] looks, which is to be sure.
const NEAR: usize = 64 * 1024;

/// Whether `len` bytes from `offset` on lie in the page cache, as far as one can tell without
/// looking at every page.
pub fn is_cached(file: &File, offset: u64, len: u64) -> bool {
    is_cached_every(FAR, file, offset, len)
}

fn is_cached_every(stride: usize, file: &File, offset: u64, len: u64) -> bool {
    let Some(last) = len.checked_sub(1) else {
        return true;
    };
    let mut byte = [0];
    (0..last)
        .step_by(stride)
        .chain([last])
        .map(|at| sys::read_cached(file, &mut byte, offset + at))
        .all(|read| matches!(read, Ok(1)))
}

/// Reads at most as many bytes as fit, if that does not have to wait for a disk.
pub fn read_cached(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    sys::read_cached(file, bytes, offset)
}

/// Has the kernel read no more of this open file than it is asked for.
pub fn expect_nothing(file: &File) {
    sys::expect_nothing(file);
}

/// Has the kernel begin to read `len` bytes from `offset` on. May wait for a place in the disk's
/// queue.
pub fn begin(file: &File, offset: u64, len: u64) {
    sys::begin(file, offset, len);
}

/// Brings `len` bytes from `offset` on into the page cache and begins with as many after them.
/// `Ok(true)`: they lay there. May wait for a disk.
pub fn bring(file: &File, offset: u64, len: u64, scratch: &mut Buffer) -> io::Result<bool> {
    if is_cached_every(NEAR, file, offset, len) {
        return Ok(true);
    }
    begin(file, offset, 2 * len);
    if sys::wait(file, offset, len) {
        return Ok(false);
    }
    let end = offset + len;
    let mut at = offset;
    while at < end {
        scratch.read(file, at, end - at)?;
        match scratch.filled() {
            // who sends it will say that it ends early
            0 => break,
            n => at += n as u64,
        }
    }
    Ok(false)
}

#[cfg(target_os = "linux")]
mod sys {
    use std::fs::File;
    use std::io::{self, IoSliceMut};
    use std::num::NonZeroU64;
    use std::sync::LazyLock;

    use rustix::fs::{Advice, fadvise, sendfile};
    use rustix::io::{ReadWriteFlags, preadv2};

    /// The kernel cuts what is asked for at once, to this on disks with the usual settings.
    const AT_ONCE: u64 = 128 * 1024;

    pub(super) fn read_cached(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut slices = [IoSliceMut::new(buffer)];
        Ok(preadv2(file, &mut slices, offset, ReadWriteFlags::NOWAIT)?)
    }

    pub(super) fn expect_nothing(file: &File) {
        let _ = fadvise(file, 0, None, Advice::Random);
    }

    /// Waits for all of it without copying it: sends it nowhere. Answers whether that worked.
    pub(super) fn wait(file: &File, mut offset: u64, len: u64) -> bool {
        static NOWHERE: LazyLock<Option<File>> =
            LazyLock::new(|| File::options().write(true).open("/dev/null").ok());
        let Some(nowhere) = &*NOWHERE else {
            return false;
        };
        let end = offset + len;
        while offset < end {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            match sendfile(nowhere, file, Some(&mut offset), left) {
                Ok(0) | Err(_) => return false,
                Ok(_) => {}
            }
        }
        true
    }

    pub(super) fn begin(file: &File, offset: u64, len: u64) {
        for at in (offset..offset + len).step_by(AT_ONCE as usize) {
            let _ = fadvise(file, at, NonZeroU64::new(AT_ONCE), Advice::WillNeed);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::fs::File;
    use std::io;

    pub(super) fn read_cached(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn expect_nothing(_: &File) {}

    pub(super) fn wait(_: &File, _: u64, _: u64) -> bool {
        false
    }

    pub(super) fn begin(_: &File, _: u64, _: u64) {}
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use super::super::buffers::Pool;
    use super::*;

    #[test]
    fn what_was_brought_is_there() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 300_000]).unwrap();
        expect_nothing(&file);
        let mut scratch = Arc::new(Pool::default()).take(WINDOW);
        bring(&file, 1000, 250_000, &mut scratch).unwrap();
        // beyond the end: no error, and not there
        assert!(!bring(&file, 290_000, 250_000, &mut scratch).unwrap());
        if is_cached(&file, 0, 300_000) {
            assert!(bring(&file, 1000, 250_000, &mut scratch).unwrap());
        }
    }
}

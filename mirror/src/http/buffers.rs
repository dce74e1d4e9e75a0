//! Buffers for content on its way from a file to a socket, and reading into them.
//!
//! Large reads make few calls, and buffers that are used again stay in the processor's cache:
//! together that halves the processor time per byte. The number of large buffers is bounded,
//! so that a thousand stalled clients cost a thousand small ones.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::page_cache;

/// Size of a buffer as long as few are in use.
pub const LARGE: usize = 256 * 1024;

/// Size of a buffer when [`MANY`] large ones are in use.
pub const SMALL: usize = 16 * 1024;

/// Large buffers in use at once: 32 MiB.
pub const MANY: usize = 128;

/// Large buffers kept for later: 8 MiB.
const KEPT: usize = 32;

/// A pool of buffers.
#[derive(Debug, Default)]
pub struct Pool {
    free: Mutex<Vec<Box<[u8]>>>,
    large_in_use: AtomicUsize,
}

/// A buffer from a [`Pool`], to which it returns when dropped.
#[derive(Debug)]
pub struct Buffer {
    data: Box<[u8]>,
    filled: usize,
    pool: Arc<Pool>,
}

impl Pool {
    /// A buffer for at most `wanted` bytes.
    pub fn take(self: &Arc<Pool>, wanted: u64) -> Buffer {
        let large = wanted > SMALL as u64 && self.large_in_use.load(Ordering::Relaxed) < MANY;
        let data = if large {
            self.large_in_use.fetch_add(1, Ordering::Relaxed);
            let free = self
                .free
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            free.unwrap_or_else(|| vec![0; LARGE].into())
        } else {
            let size = usize::try_from(wanted).map_or(SMALL, |wanted| wanted.min(SMALL));
            vec![0; size].into()
        };
        Buffer {
            data,
            filled: 0,
            pool: Arc::clone(self),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.data.len() != LARGE {
            return;
        }
        self.pool.large_in_use.fetch_sub(1, Ordering::Relaxed);
        let mut free = self
            .pool
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(std::mem::take(&mut self.data));
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.data[..self.filled]
    }
}

impl Buffer {
    /// What was read, without copying it.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// Copies as many of `bytes` to the end as there is room for; answers how many.
    pub fn add(&mut self, bytes: &[u8]) -> usize {
        let room = &mut self.data[self.filled..];
        let n = room.len().min(bytes.len());
        room[..n].copy_from_slice(&bytes[..n]);
        self.filled += n;
        n
    }

    /// Number of bytes read.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Reads at most `want` bytes from `offset` if that does not have to wait for a disk.
    /// `false`: nothing was read. It would have to wait, or fails, or the file ends: only a read
    /// that waits knows.
    pub fn read_cached(&mut self, file: &File, offset: u64, want: u64) -> bool {
        let room = self.room(want);
        let read = page_cache::read_cached(file, &mut self.data[..room], offset);
        self.filled = read.unwrap_or(0);
        self.filled > 0
    }

    /// Reads at most `want` bytes from `offset`, waiting for the disk. 0 bytes: the file ends.
    pub fn read(&mut self, file: &File, offset: u64, want: u64) -> io::Result<()> {
        let room = self.room(want);
        let mut filled = 0;
        while filled < room {
            match read_at(file, &mut self.data[filled..room], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.filled = filled;
        Ok(())
    }

    fn room(&self, want: u64) -> usize {
        usize::try_from(want).map_or(self.data.len(), |want| want.min(self.data.len()))
    }
}

/// Reads at `offset` without moving the file's position, which many readers share.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pread(file, buffer, offset)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn large_buffers_are_bounded_and_used_again() {
        let pool = Arc::new(Pool::default());
        let held: Vec<Buffer> = (0..MANY + 10).map(|_| pool.take(1 << 30)).collect();
        let large = held.iter().filter(|b| b.data.len() == LARGE).count();
        assert_eq!(large, MANY);
        assert!(
            held.iter()
                .all(|b| b.data.len() == LARGE || b.data.len() == SMALL)
        );
        drop(held);
        assert_eq!(pool.large_in_use.load(Ordering::Relaxed), 0);
        assert_eq!(pool.free.lock().unwrap().len(), KEPT);
        assert_eq!(pool.take(1 << 30).data.len(), LARGE);
        assert_eq!(pool.take(10).data.len(), 10);
    }

    #[test]
    fn reads_the_asked_part_and_stops_at_the_end() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let pool = Arc::new(Pool::default());
        let mut buffer = pool.take(4);
        buffer.read(&file, 3, 4).unwrap();
        assert_eq!(buffer.as_ref(), b"3456");
        buffer.read(&file, 8, 4).unwrap();
        assert_eq!(buffer.as_ref(), b"89");
        buffer.read(&file, 10, 4).unwrap();
        assert_eq!(buffer.filled(), 0);
        assert_eq!(buffer.add(b"abcdef"), 4);
        assert_eq!((buffer.add(b"g"), buffer.as_ref()), (0, &b"abcd"[..]));
        if buffer.read_cached(&file, 0, 2) {
            assert_eq!(buffer.freeze().as_ref(), b"01");
        }
    }
}

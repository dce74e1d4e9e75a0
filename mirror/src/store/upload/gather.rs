//! Buffers in which arriving bytes are gathered until they are worth a hand-over to other threads.
//!
//! Copying into a buffer that is used again costs less than keeping what arrived: the socket's
//! own buffer is free again at once, so that neither is ever fresh memory, and the file is
//! written from here as it is.

use std::sync::{Arc, Mutex, PoisonError};

use crate::store::direct::{ALIGNMENT, Buffer};

/// Size of a buffer while few uploads are under way.
pub(super) const MOST: usize = 1024 * 1024;

/// Size at least: a thousand uploads at once wait in 128 MiB.
pub(super) const LEAST: usize = 64 * 1024;

/// Buffers of [`MOST`] kept for later: two uploads at full speed, more take turns.
const KEPT: usize = 4;

/// Buffers for all uploads.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Vec<Buffer>>);

impl Pool {
    /// An empty buffer for `size` bytes, in whole pages.
    pub(super) fn take(self: &Arc<Pool>, size: usize) -> Gathered {
        let size = size.clamp(LEAST, MOST).next_multiple_of(ALIGNMENT);
        let kept = (size == MOST).then(|| self.free().pop()).flatten();
        Gathered {
            buffer: kept.unwrap_or_else(|| Buffer::new(size)),
            filled: 0,
            pool: Arc::clone(self),
        }
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Buffer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of an upload that were not handed on yet, or are on their way to the file. Where they
/// begin in memory, direct writing can begin.
#[derive(Debug)]
pub(super) struct Gathered {
    buffer: Buffer,
    filled: usize,
    pool: Arc<Pool>,
}

impl Gathered {
    /// Takes as many of `bytes` as there is room for; answers how many.
    pub(super) fn add(&mut self, bytes: &[u8]) -> usize {
        let room = &mut self.buffer.bytes_mut()[self.filled..];
        let n = room.len().min(bytes.len());
        room[..n].copy_from_slice(&bytes[..n]);
        self.filled += n;
        n
    }

    /// What was taken.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[..self.filled]
    }

    /// Number of bytes taken.
    pub(super) fn len(&self) -> usize {
        self.filled
    }

    /// Whether there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.filled == self.buffer.bytes().len()
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        if self.buffer.bytes().len() != MOST {
            return;
        }
        let mut free = self.pool.free();
        if free.len() < KEPT {
            free.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_fill_up_and_are_used_again_within_a_bound() {
        let pool = Arc::new(Pool::default());
        let mut one = pool.take(1);
        assert_eq!(one.add(&[1; LEAST - 1]), LEAST - 1);
        assert!(!one.is_full());
        assert_eq!(one.add(&[2; 5]), 1);
        assert!(one.is_full());
        assert_eq!((one.bytes()[LEAST - 2], one.bytes()[LEAST - 1]), (1, 2));
        let held: Vec<Gathered> = (0..KEPT + 2).map(|_| pool.take(usize::MAX)).collect();
        assert!(held.iter().all(|one| one.buffer.bytes().len() == MOST));
        drop((one, held));
        assert_eq!(pool.free().len(), KEPT);
        let again = pool.take(MOST);
        assert_eq!((again.len(), pool.free().len()), (0, KEPT - 1));
    }
}

//! Parts of files on their way past the memory of this process.
//!
//! hyper takes a body as pieces of memory. So a body gives the part of a file to the socket
//! here, and yields in its place as many bytes of one static placeholder. Pieces keep their
//! order and are not copied on their way (hyper queues them), so the socket knows the placeholder by its address
//! and sends the file instead. Only one part is on its way at a time: whatever becomes of the
//! placeholder, there is no doubt which bytes it stands for.
//!
//! Nobody may see the placeholder's own bytes. The body only uses it where the connection has
//! put a [`Handoff`] among the extensions of the request and nothing in between copies; the
//! socket ends the connection when a part was handed over and its placeholder did not come.

use std::fs::File;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// Most bytes handed over at once. What is sent in one call is sent without looking after
/// other connections, and all of it must lie in the page cache.
pub(crate) const MOST: u64 = 512 * 1024;

/// Fewer bytes are cheaper to copy, together with the head of the answer in one call.
pub(crate) const LEAST: u64 = 32 * 1024;

/// Nothing is sent for longer without waiting.
const SLOW: Duration = Duration::from_millis(5);

/// Never read or written: it takes up addresses, not memory.
static PLACEHOLDER: LazyLock<&[u8]> = LazyLock::new(|| Box::leak(vec![0; MOST as usize].into()));

/// Whether these bytes stand for a part of a file.
pub(crate) fn is_placeholder(bytes: &[u8]) -> bool {
    let all = PLACEHOLDER.as_ptr_range();
    let these = bytes.as_ptr_range();
    !bytes.is_empty() && all.start <= these.start && these.end <= all.end
}

/// Part of a file, to be sent.
#[derive(Debug)]
pub(crate) struct Part {
    /// The file.
    pub(crate) file: Arc<File>,
    /// First byte not yet sent.
    pub(crate) offset: u64,
    /// Bytes not yet sent, at least 1.
    pub(crate) left: usize,
}

/// Where the bodies of a connection meet its socket. Clones are the same place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handoff(Arc<Mutex<Place>>);

#[derive(Debug, Default)]
struct Place {
    /// What is on its way.
    part: Option<Part>,
    /// Who waits until it is sent.
    waiting: Option<Waker>,
    /// Sending one took longer than it does without waiting for something.
    slow: bool,
}

impl Handoff {
    /// Hands over `len` bytes, at most [`MOST`]. Answers what to yield for them, or nothing
    /// while another part is on its way.
    pub(crate) fn give(&self, file: &Arc<File>, offset: u64, len: u64) -> Option<Bytes> {
        let placeholder: &'static [u8] = *PLACEHOLDER;
        let placeholder = placeholder.get(..usize::try_from(len).ok()?)?;
        let mut place = self.place();
        if place.part.is_some() || len == 0 {
            return None;
        }
        place.part = Some(Part {
            file: Arc::clone(file),
            offset,
            left: placeholder.len(),
        });
        Some(Bytes::from_static(placeholder))
    }

    /// Whether a part is on its way.
    pub(crate) fn is_taken(&self) -> bool {
        self.place().part.is_some()
    }

    /// Whether sending a part had to wait since this was asked last.
    pub(crate) fn was_slow(&self) -> bool {
        std::mem::take(&mut self.place().slow)
    }

    /// Waits until no part is on its way.
    pub(crate) fn poll_free(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut place = self.place();
        if place.part.is_none() {
            return Poll::Ready(());
        }
        match &mut place.waiting {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Lets `send` send of the part on its way, and accounts for what it says it sent.
    pub(crate) fn send<E>(
        &self,
        send: impl FnOnce(Option<&Part>) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let mut place = self.place();
        let began = Instant::now();
        let sent = send(place.part.as_ref())?;
        place.slow |= began.elapsed() > SLOW;
        place.part = place.part.take().and_then(|part| {
            let left = part.left.checked_sub(sent).filter(|left| *left > 0)?;
            let offset = part.offset + sent as u64;
            Some(Part {
                offset,
                left,
                ..part
            })
        });
        if place.part.is_none()
            && let Some(waker) = place.waiting.take()
        {
            waker.wake();
        }
        Ok(sent)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_placeholder_is_known_by_its_address_alone() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let bytes = Handoff::default().give(&file, 0, MOST).unwrap();
        assert_eq!(bytes.len() as u64, MOST);
        assert!(is_placeholder(&bytes) && is_placeholder(&bytes[17..]));
        assert!(!is_placeholder(&bytes[5..5]));
        assert!(!is_placeholder(&[0; 64]));
    }

    #[test]
    fn one_part_is_on_its_way_at_a_time() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let handoff = Handoff::default();
        assert_eq!(handoff.give(&file, 0, MOST + 1), None);
        assert_eq!(handoff.give(&file, 0, 0), None);
        assert!(handoff.give(&file, 100, 10).is_some());
        assert!(handoff.is_taken());
        assert_eq!(handoff.give(&file, 0, 10), None);
        let sent = |want: (u64, usize), n| {
            handoff.send(|part| {
                let part = part.unwrap();
                assert_eq!((part.offset, part.left), want);
                Ok::<_, ()>(n)
            })
        };
        assert_eq!(sent((100, 10), 4), Ok(4));
        assert_eq!(handoff.send(|_| Err::<usize, _>(())), Err(()));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        assert!(handoff.poll_free(&mut context).is_pending());
        assert_eq!(sent((104, 6), 2), Ok(2));
        assert!(!woken.0.load(Ordering::SeqCst), "some is left");
        assert_eq!(sent((106, 4), 4), Ok(4));
        assert!(woken.0.load(Ordering::SeqCst));
        assert!(handoff.poll_free(&mut context).is_ready());
        assert!(!handoff.is_taken());
    }
}

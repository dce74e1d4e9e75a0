//! Work at a limited rate, shared by threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long is slept at once: somebody may want it to stop.
const NAP: Duration = Duration::from_millis(100);

/// Spreads bytes over time.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Option<u64>,
    free_at: Mutex<Instant>,
}

impl Pace {
    /// At most so many bytes in a second.
    pub(crate) fn new(rate: Option<u64>) -> Pace {
        Pace {
            rate: rate.filter(|rate| *rate > 0),
            free_at: Mutex::new(Instant::now()),
        }
    }

    /// How long to wait for so many more bytes. They count as read.
    pub(crate) fn book(&self, bytes: u64) -> Duration {
        let Some(rate) = self.rate else {
            return Duration::ZERO;
        };
        let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        // time nobody used is not saved up
        let now = Instant::now();
        *free_at = (*free_at).max(now) + takes;
        free_at.saturating_duration_since(now)
    }

    /// Waits until so many more bytes may be read, or until `stop`.
    pub(in super::super) fn wait(&self, bytes: u64, stop: &AtomicBool) {
        let until = Instant::now() + self.book(bytes);
        while !stop.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

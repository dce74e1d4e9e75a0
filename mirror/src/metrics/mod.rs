//! What a server counts of itself, for Prometheus.
//!
//! Counting must not show in what a request costs: each serving thread has a part of its own
//! ([`Counters`]) that no other thread writes, and a scrape adds them up. There is nothing
//! global: two servers in one process count apart.

mod exposition;
mod kind;
mod text;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use kubepkg_core::time::Time;

pub(crate) use exposition::{Told, expose};
pub use kind::Kind;

/// Parts there are: as many as serving threads at most.
const PARTS: usize = 16;

/// Classes of status: 1xx to 5xx.
const CLASSES: usize = 5;

/// Everything a server counts.
#[derive(Debug)]
pub struct Metrics {
    parts: Vec<Arc<Counters>>,
    refused: AtomicU64,
    started: Time,
}

/// What one serving thread counts. Apart from others in memory, so that threads do not take
/// each other's cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    requests: [[AtomicU64; CLASSES]; Kind::ALL.len()],
    received: AtomicU64,
    sent: AtomicU64,
    opened: AtomicU64,
    closed: AtomicU64,
}

/// The sum over all threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Requests by kind and class of status.
    pub requests: [[u64; CLASSES]; Kind::ALL.len()],
    /// Bytes that came from clients.
    pub received: u64,
    /// Bytes that went to clients.
    pub sent: u64,
    /// Connections there were.
    pub opened: u64,
    /// Connections that have ended.
    pub closed: u64,
    /// Connections there was no room for.
    pub refused: u64,
    /// Since when it is counted.
    pub started: Time,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            parts: (0..PARTS).map(|_| Arc::default()).collect(),
            refused: AtomicU64::new(0),
            started: Time::now(),
        }
    }
}

impl Metrics {
    /// The part of a serving thread.
    pub(crate) fn part(&self, thread: usize) -> Arc<Counters> {
        Arc::clone(&self.parts[thread % PARTS])
    }

    /// A connection was turned away.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds up what all threads counted.
    pub(crate) fn sum(&self) -> Counted {
        let mut sum = Counted {
            requests: [[0; CLASSES]; Kind::ALL.len()],
            received: 0,
            sent: 0,
            opened: 0,
            closed: 0,
            refused: self.refused.load(Ordering::Relaxed),
            started: self.started,
        };
        for part in &self.parts {
            for (sums, counts) in sum.requests.iter_mut().zip(&part.requests) {
                for (sum, count) in sums.iter_mut().zip(counts) {
                    *sum += count.load(Ordering::Relaxed);
                }
            }
            sum.received += part.received.load(Ordering::Relaxed);
            sum.sent += part.sent.load(Ordering::Relaxed);
            // in this order: a connection that ends meanwhile was opened before
            sum.closed += part.closed.load(Ordering::Acquire);
            sum.opened += part.opened.load(Ordering::Acquire);
        }
        sum
    }
}

impl Counters {
    /// A request was answered.
    pub(crate) fn answered(&self, kind: Kind, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES) - 1;
        self.requests[kind as usize][class].fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes came from a client.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes went to a client.
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A connection was opened.
    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Ordering::Release);
    }

    /// A connection has ended.
    pub(crate) fn closed(&self) {
        self.closed.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_every_status_has_a_class() {
        let metrics = Metrics::default();
        for thread in 0..PARTS + 2 {
            let part = metrics.part(thread);
            part.answered(Kind::Manifest, StatusCode::OK);
            part.answered(Kind::Other, StatusCode::NOT_FOUND);
            part.opened();
            part.sent(3);
        }
        metrics.part(0).closed();
        metrics.part(1).received(5);
        for odd in [100, 999] {
            let status = StatusCode::from_u16(odd).unwrap();
            metrics.part(0).answered(Kind::Blob, status);
        }
        let sum = metrics.sum();
        assert_eq!(sum.requests[Kind::Manifest as usize], [0, 18, 0, 0, 0]);
        assert_eq!(sum.requests[Kind::Other as usize], [0, 0, 0, 18, 0]);
        assert_eq!(sum.requests[Kind::Blob as usize], [1, 0, 0, 0, 1]);
        assert_eq!((sum.opened, sum.closed), (18, 1));
        assert_eq!((sum.sent, sum.received), (54, 5));
    }
}

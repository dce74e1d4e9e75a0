//! Progress of long work: a bar on a terminal, else a line every ten seconds. It counts
//! bytes and never goes backwards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use kubepkg_core::progress::Progress;

use crate::printer::{Printer, Show};
use crate::units;

/// How often a line is written where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// Shows the progress that libraries report, one phase after the other.
pub struct Meter {
    printer: Printer,
    phase: Mutex<Option<Phase>>,
}

/// What runs now. Dropping it takes the bar away.
struct Phase {
    counter: Arc<Counter>,
    bar: Option<ProgressBar>,
    lines: Option<Lines>,
}

struct Counter {
    what: String,
    done: AtomicU64,
    total: u64,
    started: Instant,
}

/// The thread that writes lines; it ends when `stop` is dropped.
struct Lines {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Meter {
    /// A meter that shows nothing until a phase begins.
    pub fn new(printer: &Printer) -> Meter {
        Meter {
            printer: printer.clone(),
            phase: Mutex::new(None),
        }
    }

    fn replace(&self, phase: Option<Phase>) {
        // a panic while counting leaves numbers, and numbers are never wrong enough to matter
        let mut now = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *now, phase);
        drop(now);
        drop(before);
    }
}

impl Progress for Meter {
    fn begin(&self, what: &str, total: u64) {
        self.replace(None);
        self.replace(Some(Phase::start(&self.printer, what, total)));
    }

    fn advance(&self, bytes: u64) {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(phase) = &*phase {
            let done = phase.counter.advance(bytes);
            if let Some(bar) = &phase.bar {
                bar.set_position(done);
            }
        }
    }

    fn end(&self) {
        self.replace(None);
    }
}

impl Phase {
    fn start(printer: &Printer, what: &str, total: u64) -> Phase {
        let counter = Arc::new(Counter {
            what: what.to_owned(),
            done: AtomicU64::new(0),
            total,
            started: Instant::now(),
        });
        let show = printer.show();
        Phase {
            bar: (show == Show::Bar).then(|| bar(printer, what, total)),
            lines: (show == Show::Lines).then(|| Lines::start(printer, Arc::clone(&counter))),
            counter,
        }
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some(lines) = &mut self.lines {
            lines.stop = None;
            if let Some(thread) = lines.thread.take() {
                // it only prints; if it failed there is nothing left to do
                let _ = thread.join();
            }
        }
    }
}

impl Lines {
    fn start(printer: &Printer, counter: Arc<Counter>) -> Lines {
        let (stop, stopped) = mpsc::channel();
        let printer = printer.clone();
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                    printer.say(&counter.line(counter.started.elapsed()));
                }
            })
            // without a thread the work goes on, only silently
            .ok();
        Lines {
            stop: Some(stop),
            thread,
        }
    }
}

impl Counter {
    /// Counts `bytes` more, never past the total, and gives what is done now.
    fn advance(&self, bytes: u64) -> u64 {
        let before = self.done.fetch_add(bytes, Ordering::Relaxed);
        before.saturating_add(bytes).min(self.total)
    }

    fn line(&self, elapsed: Duration) -> String {
        let done = self.done.load(Ordering::Relaxed).min(self.total);
        line(&self.what, done, self.total, elapsed)
    }
}

/// `fetching: 1.5 GiB of 4.0 GiB, 102 MiB/s, 25 s left`.
fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let rate = u64::try_from(u128::from(done) * 1000 / elapsed.as_millis().max(1)).unwrap_or(0);
    let mut line = format!(
        "{what}: {} of {}, {}/s",
        units::size(done),
        units::size(total),
        units::size(rate)
    );
    if let Some(left) = total.saturating_sub(done).checked_div(rate) {
        line.push_str(&format!(
            ", {} left",
            units::span(Duration::from_secs(left))
        ));
    }
    line
}

fn bar(printer: &Printer, what: &str, total: u64) -> ProgressBar {
    let template = "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, \
                    {binary_bytes_per_sec}, {eta} left";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = printer
        .bars()
        .add(ProgressBar::new(total).with_style(style));
    bar.set_message(what.to_owned());
    // drawn even when no byte arrives, so that a stalled line is seen to be stalled
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn a_line_says_bytes_rate_and_time_left() {
        assert_eq!(
            line("fetching", 100 * MIB, 400 * MIB, Duration::from_secs(10)),
            "fetching: 100 MiB of 400 MiB, 10.0 MiB/s, 30 s left"
        );
        assert_eq!(
            line("fetching", 0, MIB, Duration::ZERO),
            "fetching: 0 B of 1.0 MiB, 0 B/s"
        );
    }

    #[test]
    fn progress_stops_at_the_total() {
        let counter = Counter {
            what: "x".to_owned(),
            done: AtomicU64::new(0),
            total: 10,
            started: Instant::now(),
        };
        assert_eq!(counter.advance(6), 6);
        assert_eq!(counter.advance(6), 10);
        assert_eq!(counter.advance(1), 10);
    }
}

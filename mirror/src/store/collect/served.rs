//! For how long a store has been served, in milliseconds. A grace is measured by it and not by
//! a clock: clocks of sites are set, and while nobody serves nobody can push.
//!
//! `served` holds the number, written over in place by the one process that has `keeper`
//! locked. It may lag behind by [`MARGIN`]; whoever reads it takes that into account.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kubepkg_core::store::StoreError;

use super::super::disk::{Disk, failed};
use super::super::layout::{Layout, NUMBER_WIDTH};
use super::super::work::is_abandoned;

/// How often the number is to be written.
pub(crate) const TICK: Duration = Duration::from_secs(10);

/// How much one writing adds at most, and by how much the file may lag behind.
pub(super) const MARGIN: u64 = 2 * TICK.as_millis() as u64;

/// A time in the clock's unit.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The clock of a store.
#[derive(Debug)]
pub(in super::super) struct Served {
    path: PathBuf,
    keeper: PathBuf,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    file: File,
    /// What the file says.
    base: u64,
    /// Since when.
    since: Instant,
    _keeper: File,
}

impl Running {
    fn now(&self) -> u64 {
        let since = milliseconds(self.since.elapsed());
        // a process that was stopped for longer than it may take to write served nobody
        self.base + since.min(MARGIN)
    }
}

impl Served {
    pub(in super::super) fn new(layout: &Layout) -> Served {
        Served {
            path: layout.served(),
            keeper: layout.keeper(),
            running: Mutex::default(),
        }
    }

    /// Begins to count, unless another process does: then `false`.
    pub(in super::super) fn start(&self, disk: &Disk) -> Result<bool, StoreError> {
        let mut running = self.running();
        if running.is_some() {
            return Ok(true);
        }
        let keeper = disk.open_or_create(&self.keeper)?;
        match keeper.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok(false),
            Err(std::fs::TryLockError::Error(e)) => return Err(failed("lock", &self.keeper)(e)),
        }
        *running = Some(Running {
            file: disk.open_or_create(&self.path)?,
            base: self.read()?,
            since: Instant::now(),
            _keeper: keeper,
        });
        Ok(true)
    }

    /// Writes how long it has been.
    pub(in super::super) fn tick(&self) -> Result<(), StoreError> {
        if let Some(running) = &mut *self.running() {
            let now = running.now();
            running
                .file
                .write_all_at(format!("{now:0NUMBER_WIDTH$}\n").as_bytes(), 0)
                .map_err(failed("write", &self.path))?;
            running.base = now;
            running.since = Instant::now();
        }
        Ok(())
    }

    /// Serving is over.
    pub(in super::super) fn stop(&self) -> Result<(), StoreError> {
        let ticked = self.tick();
        *self.running() = None;
        ticked
    }

    /// How long it has been: at least, and at most.
    pub(super) fn now(&self) -> Result<(u64, u64), StoreError> {
        if let Some(running) = &*self.running() {
            let now = running.now();
            return Ok((now, now));
        }
        let written = self.read()?;
        match is_abandoned(&self.keeper)? {
            true => Ok((written, written)),
            false => Ok((written, written + MARGIN)),
        }
    }

    fn read(&self) -> Result<u64, StoreError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(e) => return Err(failed("read", &self.path)(e)),
        };
        // a number that cannot be read makes every grace begin anew
        Ok(text.trim_end().parse().unwrap_or(0))
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

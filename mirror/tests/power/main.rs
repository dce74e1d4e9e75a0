//! Power loss, and processes killed at any moment.
//!
//! `kill -9` keeps the page cache, so what a process did is there whether it was synced or not.
//! Here the calls of processes that work on a store are recorded ([`recording`], [`trace`]), a
//! model of a file system ([`model`]) tells which of them a power loss may take back, and for
//! many moments such folders are made and opened ([`check`]): everything acknowledged is there,
//! nothing wrong is. The tests of the tests are in [`teeth`]: without any one kind of sync a
//! loss is found.
//!
//! The other half are random processes, killed at random ([`driver`], [`known`]).
//!
//! `KPTEST_SEED` repeats a run, `KPTEST_LONG=<minutes>` makes more of it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the helpers of tests are not marked as tests"
)]

mod check;
mod collecting;
mod driver;
mod known;
mod loss;
mod model;
mod oracle;
mod random;
mod recording;
mod steps;
#[path = "../store/support.rs"]
#[allow(dead_code, reason = "the tests of the store use the rest")]
mod support;
mod teeth;
mod trace;
mod tree;
mod worker;

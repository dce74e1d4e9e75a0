//! What the store promises, tested from outside.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the helpers of tests are not marked as tests"
)]

mod backup;
mod check;
mod collecting;
mod collection;
mod conformance;
mod crash;
mod damage;
mod file_store;
mod in_bucket;
mod large;
mod last_step;
mod manage;
mod processes;
mod properties;
mod pruning;
mod records;
mod scenario;
mod site;
mod speed;
mod support;
mod traced;
mod wanted;

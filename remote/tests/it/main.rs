//! The promises of this crate, held against real servers on loopback that misbehave on
//! purpose, and against a registry that others wrote.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod access;
mod auth;
mod certificates;
mod charts;
mod conformance;
mod download;
mod faults;
mod fetch;
mod pace;
mod peer;
mod proxies;
mod push;
mod referrers;
mod secrets;
mod server;
mod settings;
mod slowness;

//! Pushing to a mirror over HTTP: a server on a store in a folder, a client that speaks raw
//! HTTP/1.1 and sees every byte. Names of tests follow the endpoints of the OCI distribution
//! specification.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "tests that are left out say so")]

#[path = "../read/client.rs"]
#[allow(dead_code, reason = "tests of reading use more of it")]
mod client;

mod bounds;
mod chunks;
mod deletes;
mod disk;
mod errors;
mod fixture;
mod kinds;
mod lists;
mod logins;
mod manifests;
mod missing;
mod mounts;
mod referrers;
mod replicas;
mod resume;
mod shapes;
mod tags;
mod uploads;

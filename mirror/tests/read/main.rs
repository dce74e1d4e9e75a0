//! Reading from a mirror over HTTP: a server on a loopback port, a client that speaks raw
//! HTTP/1.1 and sees every byte.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod blobs;
mod charts;
mod client;
mod files;
mod fixture;
mod lists;
mod manifests;
mod places;
mod referrers;
mod secure;
mod sending;
mod serving;
mod sites;
mod stored;

//! The interoperability vectors in `tests/interop/` against this crate.
#![expect(clippy::unwrap_used, reason = "what cannot be read is a failed test")]

mod constraints;
mod digests;
mod gate;
mod index;
mod listed;
mod resolve;
mod select;
mod signed;
mod trust;
mod vectors;
mod versions;

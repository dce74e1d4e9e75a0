//! The interoperability vectors in `tests/interop/` against this crate.
#![expect(clippy::unwrap_used, reason = "what cannot be read is a failed test")]

mod bundle_cases;
mod constraints;
mod digests;
mod document;
mod gate;
mod index;
mod listed;
mod resolve;
mod select;
mod signed;
mod trust;
mod values;
mod vectors;
mod versions;

//! Plans, fetches and writes one bundle file.
//!
//! In this order: load and judge the repositories, choose the packages, look up every manifest
//! and chart (small), plan the file, then fetch all other content in parallel, each byte
//! straight to its place. Nothing is visible under the output's name until all of it is there
//! and the file was read back as a reader would.

mod assemble;
mod choose;
mod collect;
mod create;
mod error;
mod fill;
mod output;
mod place;
pub mod repositories;
mod tags;
mod unpackaged;

pub use choose::Chosen;
pub use create::{Created, Options, create};
pub use error::CreateError;
pub use unpackaged::{Chart, LooseFile, Unpackaged};

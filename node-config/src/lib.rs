//! Settings that make nodes pull from the mirror.
//!
//! An emitter ([`containerd`], [`talos`]) is a pure function from a [`Mirror`] and the
//! [`Hosts`] it stands for to files; [`files`] writes them without touching anything else.
//! Every emitter closes the way to the internet: what the mirror does not have fails, it does
//! not come from somewhere else.

pub mod containerd;
mod error;
pub mod files;
pub mod hosts;
mod mirror;
pub mod talos;

pub use error::Error;
pub use hosts::Hosts;
pub use mirror::Mirror;

/// A file to be written, by its path below the output folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutFile {
    /// Relative path with `/` between elements.
    pub path: String,
    /// What is in it.
    pub content: String,
}

//! The pure half of kubepkg: types, names, digests, versions, YAML, index, trust,
//! resolver and the bundle format.
//!
//! Nothing here opens a socket, prints, or reads the environment or the home directory,
//! and there is no async runtime. What decides whether bytes are accepted lives here
//! alone, so that it can be audited without the network code in mind.
//!
//! Specification: `kubepkg-design.md`; formats: [`bundle`], [`index`], [`store`].

pub mod api;
pub mod bundle;
mod by_text;
pub mod carried;
pub mod chart;
pub mod descriptor;
pub mod digest;
pub mod error;
pub mod file;
pub mod index;
pub mod keys;
pub mod location;
pub mod lock;
pub mod manifest;
pub mod name;
pub mod pins;
pub mod plan;
pub mod progress;
pub mod reader;
pub mod reference;
pub mod resolve;
pub mod select;
pub mod sparse;
pub mod store;
pub mod time;
pub mod tree;
pub mod trust;
pub mod units;
pub mod version;
pub mod yaml;

pub use descriptor::Descriptor;
pub use digest::{Algorithm, Digest, Hasher};
pub use error::Kind;
pub use reference::Reference;

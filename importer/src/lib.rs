//! Takes a bundle in: verifies all of it with keys held on this side, then fills a store.
//!
//! Nothing of the file is believed before it was checked, and nothing becomes visible before
//! everything holds: small content is verified before the first layer is stored, names, tags,
//! repository files and memory change in one commit at the end. This crate never talks to
//! another machine and never reads a key from the bundle.
//!
//! Order of verification: design page "bundle format", "Who is trusted".

mod carried;
mod check;
mod claims;
mod error;
mod fill;
mod import;
mod judge;
mod listed;
mod plan;
mod reset;
mod subjects;
mod tags;
mod upstream;
mod vouched;
mod wants;

pub use check::{Checked, Trusted, verify, verify_head};
pub use claims::{ClaimError, Problem};
pub use error::ImportError;
pub use import::{Imported, Options, import};
pub use judge::Judged;
pub use reset::reset;
pub use vouched::Vouched;
pub use wants::{Want, WantError};

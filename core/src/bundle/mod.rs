//! The bundle file: one plain tar that is at the same time an OCI image layout, with
//! kubepkg's head as its first member.
//!
//! [`mod@format`] is the specification. One planner ([`layout`]) computes every byte that is not
//! payload from the [`head`] alone; [`mod@write`] lays these bytes down, [`read`] computes them
//! again and compares, [`verify`] checks that what the head says and what the payload says
//! agree. So two readers can never see two things in one file.

mod error;
pub mod format;
mod grammar;
pub mod head;
mod json;
pub mod layout;
mod oci;
pub mod read;
pub mod slot;
mod tar;
pub mod verify;
pub mod write;

#[cfg(test)]
mod tests;

pub use error::{Damage, FormatError};
pub use head::{Head, bundle_id};
pub use layout::{Extent, Layout, Member, MemberKind};
pub use read::{Bundle, OpenedHead, open_head};
pub use slot::Signatures;

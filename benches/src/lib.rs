//! A signed index as large as that of a Linux distribution, always the same for the same
//! numbers and made without a network. `index-gen` writes it, `index-bench` measures on it.

mod catalogue;
mod dice;
pub mod key;
mod write;

pub use catalogue::{Catalogue, DISTRIBUTION, MEMBERS};
pub use dice::roll;
pub use write::write;

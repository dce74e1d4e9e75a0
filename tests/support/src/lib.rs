//! What tests need and nobody else: images, charts and packages made from a seed, and a server
//! on loopback that plays the upstream, faults included.
//!
//! Everything is deterministic and nothing reaches the internet.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot be built is a failed test"
)]

pub mod chart;
pub mod forge;
pub mod image;
pub mod layout;
pub mod noise;
pub mod package;
pub mod tracing;
pub mod upstream;

pub use chart::Chart;
pub use forge::Forge;
pub use image::{Content, Image, ImageBuilder};
pub use noise::noise;
pub use package::Package;
pub use tracing::can_trace;
pub use upstream::{Fault, Seen, Upstream};

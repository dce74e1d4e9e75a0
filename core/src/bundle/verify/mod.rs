//! Does the payload agree with the head? Pure checks for the writer's self-test and for the
//! reader: closure (manifests, configs, layers, referrers), placement in a mirror, digests.

mod charts;
mod closure;
mod fault;
mod hash;
mod node;
mod outside;
mod placement;

pub use charts::charts;
pub use closure::{Closure, closure};
pub use fault::{ClosureError, Fault};
pub use hash::{hash_all, hash_blob};
pub use outside::outside;
pub use placement::{Placement, PlacementError, Tagged, Upstream, placements};

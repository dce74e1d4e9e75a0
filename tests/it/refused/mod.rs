//! Bundles that must not come in: each is refused with a message that helps, and nothing
//! changes, neither in a new store nor in one that is filled and served.

mod damage;
mod lies;
mod site;
mod structure;
mod trust;

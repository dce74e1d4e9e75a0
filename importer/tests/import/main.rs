//! Imports of real bundle files into real stores: what one promises whatever came before it,
//! and whatever happens beside it.
#![expect(clippy::unwrap_used, reason = "what cannot be set up is a failed test")]

mod attacks;
mod beside;
mod change;
mod order;
mod provenance;
mod repeat;
mod roots;
mod signatures;
mod site;
mod stopped;
mod tags;
mod trust;
mod upstream;

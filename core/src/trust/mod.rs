//! Whether an index is accepted. All a site believes rests on this module: it is pure, takes
//! bytes and a time, and answers.
//!
//! * Signatures are over the raw bytes and are checked before the index is parsed, so nothing
//!   unsigned reaches the YAML reader.
//! * What was accepted before is remembered ([`Memory`]): an older index never replaces a
//!   newer one, and two different indexes of one time are a fork.
//! * What is remembered over all repositories ([`Known`]) keeps an old index from coming in as
//!   that of another URL.
//! * Every refusal says what was refused, for which repository, with the dates or key ids
//!   that matter, and what to do.

mod entry;
mod error;
mod find;
mod given;
mod judge;
mod key_ids;
mod known;
mod memory;

pub use entry::{Entry, entry_id, mark_shared_keys};
pub use error::{TrustError, Warning};
pub use find::find;
pub use given::{Given, GivenError};
pub use judge::{
    Clock, MAX_AHEAD, NEAR_EXPIRY, OLD_WITHOUT_EXPIRY, Offer, Standing, Verdict, judge, judge_at,
};
pub use known::{KNOWN_ID, Known};
pub use memory::{MAX_MEMORY, Memory, MemoryError};

#[cfg(test)]
mod tests;

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

mod chain;
mod entry;
mod error;
mod file;
mod find;
mod given;
mod judge;
mod key_ids;
mod keyset;
mod known;
mod memory;
mod pattern;
mod prefix;
mod quick;
mod remembered;
mod root;
mod sign;
mod signers;
mod statement;
mod withdrawn;

pub use chain::{Roots, first_root};
pub use entry::{Anchor, Difference, Entry, entry_id, mark_shared_keys};
pub use error::{TrustError, Warning};
pub use file::{TRUST_API_VERSION, TRUST_KIND, TrustFileError, parse_file};
pub use find::find;
pub use given::{Given, GivenError};
pub use judge::{
    Clock, MAX_AHEAD, NEAR_EXPIRY, OLD_WITHOUT_EXPIRY, Offer, Standing, Verdict, judge,
};
pub use keyset::{KeySet, KeySetError, MAX_SET};
pub use known::{KNOWN_ID, Known};
pub use memory::{Accepted, MAX_MEMORY, Memory, MemoryError, RootMemory};
pub use pattern::{Pattern, PatternError};
pub use prefix::{Prefix, PrefixError};
pub use remembered::Remembered;
pub use root::{
    CURRENT, Delegation, DelegationDraft, MAX_ROOT, MAX_ROOT_VERSION, RoleChange, Root, RootChange,
    RootDraft, RootError, numbered,
};
pub use sign::{Made, SignError, sign_approval, sign_index, sign_version};
pub use statement::Named;
pub use withdrawn::{MAX_WITHDRAWN, Seen};

#[cfg(test)]
mod tests;

//! What a store tells of itself besides its names, for people and for monitoring: room on its
//! disk, how scrub and collection go, imports with their receipts, what was asked for in vain.
//!
//! Everything here is a help and no promise: what cannot be read is left out, and `None` is what
//! nobody knows, as a store in a bucket is not scrubbed. It is not shown as nothing.

mod imports;

use kubepkg_core::time::Time;

pub use imports::{Import, Imports};

use crate::store::Scrubbed;
use crate::wanted::WantedTable;

/// What is known of a store.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The file system it lies on.
    pub disk: Option<DiskSpace>,
    /// Pieces of content that were set aside as damaged.
    pub quarantined: Option<u64>,
    /// How far the scrub came.
    pub scrub: Option<Scrubbed>,
    /// How often the scrub of this process failed.
    pub scrub_failures: u64,
    /// When the last collection ended well; `None` where there was none.
    pub collected: Option<Time>,
    /// Collections of this process.
    pub collections: Option<Collections>,
    /// Uploads under way.
    pub uploads: Option<u64>,
    /// Imports.
    pub imports: Imports,
    /// What was asked for in vain, as far as it is in the store.
    pub wanted: WantedTable,
}

/// Space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// What this process may still write.
    pub free: u64,
    /// All of it.
    pub size: u64,
}

/// Collections since this process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collections {
    /// That ended well.
    pub done: u64,
    /// That failed.
    pub failed: u64,
    /// Pieces of content they removed.
    pub contents: u64,
    /// Bytes they removed.
    pub bytes: u64,
}

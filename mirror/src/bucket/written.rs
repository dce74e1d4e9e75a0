//! An entry of the log as objects: `commits/<n>.json`, and what is too much for it in
//! `apart/<after>-<by>.json`.
//!
//! # What others may leave unread
//!
//! Replicas of different age share a bucket. An entry's `needs` names what a reader has to know to
//! do what the entry says; who does not know one of them stops there and says which kubepkg to
//! use, whatever else it could read. A member an entry has besides, and a reader does not know,
//! is passed over: leaving it out must cost nothing but time. Below that, in records and what they
//! change, nothing unknown is passed over, for it would be a name this one serves wrongly.
//!
//! # Apart
//!
//! Of several who write entries the server lets one through at a time, so a large one would come
//! too late for ever beside others that push small ones. Its text is written first, under a name of
//! its own, and the entry only says where that lies. One that no entry up to
//! [`Limits::stale`] commits after `after` names never will be: whoever wrote it is gone, and it is swept.

use std::time::Duration;

use bytes::Bytes;
use kubepkg_core::store::StoreError;
use serde::{Deserialize, Serialize};

use super::keys;
use super::objects::Bucket;
use super::state::Entry;
use crate::store::{decode_sealed, encode_sealed};

/// What an entry may need that this kubepkg knows.
const KNOWN: [&str; 1] = [APART];

/// The entry's text lies apart.
const APART: &str = "apart";

/// Bytes at most that are read in a moment, without another thread.
const QUICK: usize = 64 * 1024;

/// Changes at most that are written in a moment.
const FEW: usize = 100;

/// How large things get, and how long they hold. All replicas on a bucket use the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes at most of an entry whose text does not lie apart: written in a few milliseconds.
    pub(super) small: u64,
    /// Bytes at most of an entry in all: an import of 100 000 manifests has 60 MB.
    pub(super) entry: u64,
    /// Bytes at most of all names in one object: 300 for each manifest, so more than a million.
    pub(super) names: u64,
    /// So many commits after it was written, no entry may name a text any more.
    pub(super) stale: u64,
    /// How often a collection says that it goes on.
    pub(super) renewed: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            small: 256 * 1024,
            entry: 1024 * 1024 * 1024,
            names: 1024 * 1024 * 1024,
            stale: 10_000,
            renewed: Duration::from_secs(45),
        }
    }
}

/// What an entry says before everything else.
#[derive(Serialize, Deserialize)]
struct Head {
    by: String,
    #[serde(default)]
    needs: Vec<String>,
    /// The commit it was written after whose text lies apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
}

/// Reads an entry.
pub(super) async fn read(
    bucket: &Bucket,
    number: u64,
    limits: Limits,
) -> Result<Option<Entry>, StoreError> {
    let key = keys::commit(number);
    let Some(bytes) = bucket.get(&key, limits.entry).await? else {
        return Ok(None);
    };
    let head = head(&bucket.place_of(&key), &bytes)?;
    let (key, bytes) = match head.after {
        None => (key, bytes),
        Some(after) => {
            let apart = keys::apart(after, &head.by);
            match bucket.get(&apart, limits.entry).await? {
                Some(bytes) => (apart, bytes),
                None => {
                    let why = format!("it is not there, and commit {number} names it");
                    return Err(damaged(bucket.place_of(&apart), why));
                }
            }
        }
    };
    let place = bucket.place_of(&key);
    let entry: Result<Entry, String> = match bytes.len() <= QUICK {
        true => decode_sealed(&bytes),
        false => bucket.blocking(move || decode_sealed(&bytes)).await?,
    };
    let mut entry = entry.map_err(|why| damaged(place.clone(), why))?;
    if entry.by != head.by {
        return Err(damaged(place, "it is of another commit".to_owned()));
    }
    if head.after.is_some() {
        // it was written before its number was known
        entry.record.number = number;
        entry.after = head.after;
    }
    match entry.record.number == number {
        true => Ok(Some(entry)),
        false => {
            let why = format!("it says that it is commit {}", entry.record.number);
            Err(damaged(place, why))
        }
    }
}

fn head(place: &str, bytes: &[u8]) -> Result<Head, StoreError> {
    let head: Head = decode_sealed(bytes).map_err(|why| damaged(place.to_owned(), why))?;
    match head.needs.iter().find(|need| !KNOWN.contains(&&***need)) {
        None => Ok(head),
        Some(need) => Err(StoreError::Unusable {
            path: place.into(),
            why: format!(
                "a newer kubepkg wrote it, and this one does not know \"{need}\"; use the newer one \
                 for every mirror on this bucket"
            ),
        }),
    }
}

fn damaged(place: String, why: String) -> StoreError {
    let path = place.into();
    StoreError::Damaged { path, why }
}

/// The object `commits/<n>.json` of an entry.
pub(super) fn encode(entry: &Entry) -> Result<Bytes, StoreError> {
    let key = keys::commit(entry.record.number);
    let path = std::path::Path::new(&key);
    let bytes = match entry.after {
        None => encode_sealed(path, entry)?,
        after => encode_sealed(
            path,
            &Head {
                by: entry.by.clone(),
                needs: vec![APART.to_owned()],
                after,
            },
        )?,
    };
    Ok(bytes.into())
}

/// An entry that can be written in a moment. One that is large is written apart, now.
///
/// # Errors
/// One that is larger than what is read. Nothing was written then.
pub(super) async fn prepare(
    bucket: &Bucket,
    mut entry: Entry,
    limits: Limits,
) -> Result<Prepared, StoreError> {
    entry.after = None;
    let (entry, bytes) = match entry.weight() <= FEW {
        true => {
            let bytes = encode(&entry)?;
            (entry, bytes)
        }
        false => {
            let encoding = bucket.blocking(move || {
                let bytes = encode(&entry)?;
                Ok::<_, StoreError>((entry, bytes))
            });
            encoding.await??
        }
    };
    if bytes.len() as u64 > limits.entry {
        return Err(StoreError::Illegal {
            what: bucket.place().to_owned(),
            why: "its record would be larger than one that any mirror reads (1 GiB); bring it in \
                  several parts, e.g. as smaller bundles",
        });
    }
    let mut prepared = Prepared {
        bucket: bucket.clone(),
        stale: limits.stale,
        entry,
        apart: None,
    };
    if bytes.len() as u64 > limits.small {
        let after = prepared.entry.record.number.saturating_sub(1);
        let key = keys::apart(after, &prepared.entry.by);
        prepared.apart = Some(key.clone());
        prepared.entry.after = Some(after);
        bucket.put(&key, bytes).await?;
    }
    Ok(prepared)
}

/// An entry that can be written in a moment. What it wrote apart goes with it, unless it is said
/// that a commit may name it.
pub(super) struct Prepared {
    bucket: Bucket,
    stale: u64,
    pub(super) entry: Entry,
    apart: Option<String>,
}

impl Prepared {
    /// The same after commit `after`; what it says must hold there too. `false` when its text
    /// has to be written again.
    pub(super) fn follow(&mut self, after: u64) -> bool {
        self.entry.record.number = after + 1;
        self.entry
            .after
            .is_none_or(|written| after < written + self.stale)
    }

    /// A commit may name it: its text stays. Answers where that lies.
    pub(super) fn stays(&mut self) -> Option<String> {
        self.apart.take()
    }

    /// No commit names it yet: its text goes with it again.
    pub(super) fn goes(&mut self, apart: Option<String>) {
        self.apart = apart;
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(key) = self.apart.take() {
            let bucket = self.bucket.clone();
            // where that fails it is swept
            self.bucket
                .spawn(async move { bucket.delete(&key).await.is_ok() });
        }
    }
}

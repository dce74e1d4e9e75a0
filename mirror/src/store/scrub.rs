//! Looking at all content again and again, slowly, while a server works.
//!
//! Disks lose bits that nobody reads for months. The scrub goes through `blobs/` folder by
//! folder at a limited rate, around the page cache, remembers in the file `scrub` how far it
//! came, and sets damaged content aside ([`super::check`]). A round takes a week at least, so
//! that a small store is not read all the time.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kubepkg_core::store::StoreError;
use kubepkg_core::time::Time;
use serde::{Deserialize, Serialize};

use super::blocking::blocking;
use super::check::{Blob, Pace, Verdict, digests_in, hash};
use super::disk::failed;
use super::{FileStore, StopOnDrop, sealed, work};
use crate::told::told;

/// Shortest time from the beginning of one round to that of the next, in seconds.
const ROUND: i64 = 7 * 24 * 60 * 60;

/// How long is waited after something failed: the disk may come back.
const AFTER_FAILURE: Duration = Duration::from_secs(600);

/// Longest wait at once, after which the clock is looked at again.
const LOOK: i64 = 60 * 60;

/// The file `scrub`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scrubbed {
    /// The folder that was looked at last, below `blobs/`; empty at the beginning of a round.
    pub at: String,
    /// When this round began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When the last round came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
    /// Bytes looked at in this round.
    pub bytes: u64,
    /// Damaged content found in this round.
    pub damaged: u64,
}

impl FileStore {
    /// Scrubs for ever, at most `rate` bytes in a second; 0 does nothing. Dropping it ends the
    /// reading that is under way.
    pub async fn scrub(&self, rate: u64) {
        if rate == 0 {
            return std::future::pending().await;
        }
        let stop = StopOnDrop::default();
        let pace = Arc::new(Pace::new(Some(rate)));
        loop {
            let wait = match self.scrub_folder(&pace, &stop.0).await {
                Ok(None) => Duration::ZERO,
                Ok(Some(wait)) => wait,
                Err(error) => {
                    self.scrub_failures.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(error = %told(&error), "the scrub stands still for a while");
                    AFTER_FAILURE
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Looks at the next folder of content. Answers how long to wait where the round is over.
    async fn scrub_folder(
        &self,
        pace: &Arc<Pace>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<Duration>, StoreError> {
        let (store, pace, stop) = (self.clone(), Arc::clone(pace), Arc::clone(stop));
        blocking(self.root(), move || {
            store.scrub_next(&pace, &stop, Time::now())
        })
        .await
    }

    /// How far the scrub came.
    pub fn scrubbed(&self) -> Scrubbed {
        // what cannot be read costs a round that begins anew
        let read = sealed::read(&self.opened.layout.scrub());
        read.ok().flatten().unwrap_or_default()
    }

    fn scrub_next(
        &self,
        pace: &Pace,
        stop: &AtomicBool,
        now: Time,
    ) -> Result<Option<Duration>, StoreError> {
        let writable = self.opened.writable()?;
        let layout = &self.opened.layout;
        let mut state = self.scrubbed();
        if state.at.is_empty() {
            let since = state.started.map_or(ROUND, |started| now.since(started));
            // a clock that was set back is no reason to wait for years
            if (0..ROUND).contains(&since) && state.finished.is_some() {
                let left = (ROUND - since).min(LOOK);
                return Ok(Some(Duration::from_secs(left.unsigned_abs())));
            }
            state.started = Some(now);
            (state.bytes, state.damaged) = (0, 0);
        }
        match self.folder_after(&state.at)? {
            None => {
                tracing::info!(bytes = state.bytes, damaged = state.damaged, "scrubbed");
                state.at = String::new();
                state.finished = Some(now);
            }
            Some((at, folder)) => {
                for blob in digests_in(layout, &folder)? {
                    self.scrub_blob(&blob, pace, stop, &mut state)?;
                    if stop.load(Ordering::Relaxed) {
                        return Ok(None); // the folder is looked at again
                    }
                }
                state.at = at;
            }
        }
        // lost with the machine, it costs the look at some folders
        let path = layout.scrub();
        let file = writable.work.file_of(&sealed::encode(&path, &state)?)?;
        file.place(&path)?;
        Ok(None)
    }

    fn scrub_blob(
        &self,
        blob: &Blob,
        pace: &Pace,
        stop: &AtomicBool,
        state: &mut Scrubbed,
    ) -> Result<(), StoreError> {
        let stamp = match hash(&self.opened.layout, blob, pace, stop, &|_| {}) {
            Verdict::Sound => {
                state.bytes += blob.stamp.size;
                return Ok(());
            }
            Verdict::Gone | Verdict::Stopped => return Ok(()),
            Verdict::Other(_, stamp) => stamp,
            Verdict::Unreadable(error) => {
                tracing::warn!(digest = %blob.digest, %error, "twice unreadable");
                blob.stamp
            }
            // as with a restored file of another owner: it is for people to mend, and the others
            // are looked at meanwhile
            Verdict::Failed(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.scrub_failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(digest = %blob.digest, %error, "content cannot be looked at");
                return Ok(());
            }
            Verdict::Failed(error) => {
                return Err(failed("read", &self.opened.layout.blob(&blob.digest))(
                    error,
                ));
            }
        };
        if self.opened.writable()?.quarantine(&blob.digest, &stamp)? {
            state.damaged += 1;
        }
        Ok(())
    }

    /// The folder of content that comes after `at`, and what to remember of it.
    fn folder_after(&self, at: &str) -> Result<Option<(String, PathBuf)>, StoreError> {
        let blobs = self.opened.layout.blobs();
        for algorithm in work::entries(&blobs)? {
            if !algorithm.is_dir() {
                continue;
            }
            for folder in work::entries(&algorithm)? {
                let below = folder.strip_prefix(&blobs).unwrap_or(&folder);
                let name = below.to_string_lossy().into_owned();
                if *name > *at && folder.is_dir() {
                    return Ok(Some((name, folder)));
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpenMode;
    use kubepkg_core::Digest;
    use std::fs;

    fn write(store: &FileStore, bytes: &[u8]) -> Digest {
        let digest = Digest::sha256(bytes);
        let path = store.opened.layout.blob(&digest);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        digest
    }

    /// Goes on until the round is over.
    fn round(store: &FileStore, now: i64) -> Scrubbed {
        let (pace, stop) = (Pace::new(None), AtomicBool::new(false));
        for _ in 0..1000 {
            store
                .scrub_next(&pace, &stop, Time::from_unix(now))
                .unwrap();
            let state = store.scrubbed();
            if state.at.is_empty() {
                return state;
            }
        }
        panic!("no end");
    }

    #[test]
    fn a_round_finds_damage_and_the_next_one_waits_for_a_week() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        let sound = write(&store, b"sound");
        let damaged = write(&store, b"damaged");
        let layout = &store.opened.layout;
        fs::write(layout.blob(&damaged), b"dammaged").unwrap();

        let state = round(&store, 1000);
        assert_eq!((state.damaged, state.bytes), (1, 5));
        assert!(layout.blob(&sound).exists() && !layout.blob(&damaged).exists());
        assert!(layout.quarantined(&damaged).exists());

        let (pace, stop) = (Pace::new(None), AtomicBool::new(false));
        let wait = store
            .scrub_next(&pace, &stop, Time::from_unix(2000))
            .unwrap();
        assert!(wait.is_some());
        let again = store
            .scrub_next(&pace, &stop, Time::from_unix(1000 + ROUND))
            .unwrap();
        assert!(again.is_none());
    }

    #[test]
    fn a_round_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        let digests: Vec<Digest> = (0..20_u8).map(|n| write(&store, &[n])).collect();
        let (pace, stop) = (Pace::new(None), AtomicBool::new(false));
        let now = Time::from_unix(1);
        store.scrub_next(&pace, &stop, now).unwrap();
        let at = store.scrubbed().at;
        drop(store);
        let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        store.scrub_next(&pace, &stop, now).unwrap();
        assert!(store.scrubbed().at > at);
        assert_eq!(round(&store, 1).bytes, digests.len() as u64);
    }

    #[test]
    fn an_error_that_is_not_of_the_disk_ends_the_turn_and_sets_nothing_aside() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        let digest = Digest::sha256(b"content");
        let path = store.opened.layout.blob(&digest);
        // reading a folder fails, and not because of the disk
        fs::create_dir_all(&path).unwrap();
        let stamp = super::super::check::Stamp::of(&fs::symlink_metadata(&path).unwrap());
        let blob = Blob { digest, stamp };
        let (pace, stop) = (Pace::new(None), AtomicBool::new(false));
        let mut state = Scrubbed::default();
        assert!(store.scrub_blob(&blob, &pace, &stop, &mut state).is_err());
        assert!(path.exists());
        assert_eq!(state.damaged, 0);
    }

    #[tokio::test]
    async fn a_scrub_that_fails_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        fs::remove_dir_all(store.opened.layout.blobs()).unwrap();
        fs::write(store.opened.layout.blobs(), b"no folder").unwrap();
        let scrub = store.scrub(1024);
        let failed = async {
            while store.scrub_failures.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = scrub => panic!("it has no end"),
            () = failed => {}
        }
        let facts = store.facts(Arc::default(), 0).await;
        assert_eq!(facts.scrub_failures, 1);
    }

    #[test]
    fn what_was_replaced_meanwhile_is_not_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        let digest = write(&store, b"content");
        let layout = &store.opened.layout;
        let path = layout.blob(&digest);
        fs::write(&path, b"damaged").unwrap();
        let stamp = super::super::check::Stamp::of(&fs::metadata(&path).unwrap());
        let other = folder.path().join(".tmp-other");
        fs::write(&other, b"content").unwrap();
        fs::rename(&other, &path).unwrap();
        let writable = store.opened.writable().unwrap();
        assert!(!writable.quarantine(&digest, &stamp).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"content");
    }
}

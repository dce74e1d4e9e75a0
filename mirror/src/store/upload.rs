//! Uploads under way: `uploads/<id>` holds the bytes, `uploads/<id>.json` says whose they are.
//!
//! How much was received is the length of the file, so an upload survives the process. The
//! hash runs along in memory; after a restart, or for an algorithm nobody announced, the file
//! is read once at the end. Nothing here is synced before an upload is finished: what was
//! answered with 202 may be lost with the power, and a client that asks sees how much is left.

mod receive;
mod room;
mod session;
mod sink;
mod target;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kubepkg_core::Algorithm;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::StoreError;

use self::session::{About, Session};
use super::disk::failed;
use super::layout::Layout;
use super::lease::Lease;
use super::open::Writable;
use super::work::{entries, ignore_missing, random_name};

/// Uploads that may be open. A client that begins more pushes out the oldest that nobody is
/// working on; real ones have a handful per image.
const MAX_UPLOADS: usize = 4096;

/// Free space below which nothing is taken, where nobody says otherwise: 1 % of the disk.
const MIN_FREE_PER_MILLE: u32 = 10;

/// What this process knows of uploads.
#[derive(Debug)]
pub(super) struct Uploads {
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// How many are being received at this moment.
    receiving: AtomicUsize,
    min_free_per_mille: AtomicU32,
    /// The lease the newest pushes share.
    lease: Mutex<Option<(tokio::time::Instant, Weak<Lease>)>>,
}

impl Default for Uploads {
    fn default() -> Uploads {
        Uploads {
            sessions: Mutex::default(),
            receiving: AtomicUsize::new(0),
            min_free_per_mille: AtomicU32::new(MIN_FREE_PER_MILLE),
            lease: Mutex::default(),
        }
    }
}

/// An upload that lies there.
#[derive(Debug)]
struct Lying {
    id: String,
    idle: Duration,
    size: u64,
}

/// The names of uploads: those of UUIDs, for clients that look at them.
fn new_id(layout: &Layout) -> Result<String, StoreError> {
    let hex = random_name(&layout.uploads())?;
    let part = |from, to| hex.get(from..to).unwrap_or_default();
    Ok(format!(
        "{}-{}-4{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(13, 16),
        part(17, 20),
        part(20, 32)
    ))
}

/// Whether this can be the id of an upload: it becomes a file name.
fn is_id(text: &str) -> bool {
    text.len() == 36
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b) || b == b'-')
}

impl Writable {
    fn upload_data(&self, id: &str) -> PathBuf {
        self.layout.uploads().join(id)
    }

    fn upload_about(&self, id: &str) -> PathBuf {
        self.layout.uploads().join(format!("{id}.json"))
    }

    /// Begins an upload.
    pub(super) fn begin_upload(
        &self,
        uploads: &Uploads,
        repository: &RepositoryName,
        algorithm: Algorithm,
    ) -> Result<String, StoreError> {
        while uploads.sessions().len() >= MAX_UPLOADS {
            if !self.drop_oldest_upload(uploads)? {
                break;
            }
        }
        let id = new_id(&self.layout)?;
        let about = About::new(repository, algorithm);
        let path = self.upload_about(&id);
        let bytes = serde_json::to_vec(&about)
            .map_err(io::Error::other)
            .map_err(failed("write", &path))?;
        let data = self.upload_data(&id);
        self.disk.create(&data)?;
        let written = self.disk.create(&path).and_then(|mut file| {
            io::Write::write_all(&mut file, &bytes).map_err(failed("write", &path))
        });
        if let Err(error) = written {
            self.remove_upload(&id)?;
            return Err(error);
        }
        let session = Arc::new(Session::new(about, 0));
        uploads.sessions().insert(id.clone(), session);
        Ok(id)
    }

    /// An upload of this repository, from memory or, after a restart, from its files.
    fn upload(
        &self,
        uploads: &Uploads,
        repository: &RepositoryName,
        id: &str,
    ) -> Result<Option<Arc<Session>>, StoreError> {
        if !is_id(id) {
            return Ok(None);
        }
        let known = uploads.sessions().get(id).cloned();
        let session = match known {
            Some(session) => session,
            None => {
                let path = self.upload_about(id);
                let about: About = match fs::read(&path) {
                    Ok(bytes) => match serde_json::from_slice(&bytes) {
                        Ok(about) => about,
                        // cut short by the end of its process: it holds no bytes yet
                        Err(_) => return Ok(None),
                    },
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(e) => return Err(failed("read", &path)(e)),
                };
                let Some(size) = super::disk::length(&self.upload_data(id))? else {
                    return Ok(None);
                };
                let loaded = Arc::new(Session::new(about, size));
                // who loaded it at the same time has loaded the same
                let mut sessions = uploads.sessions();
                Arc::clone(sessions.entry(id.to_owned()).or_insert(loaded))
            }
        };
        Ok((session.about.repository == *repository).then_some(session))
    }

    /// Removes the files of an upload that has ended.
    fn remove_upload(&self, id: &str) -> Result<(), StoreError> {
        for path in [self.upload_about(id), self.upload_data(id)] {
            ignore_missing(fs::remove_file(&path)).map_err(failed("remove", &path))?;
        }
        Ok(())
    }

    /// All uploads, those without a byte for the longest time first.
    fn uploads_lying(&self, uploads: &Uploads) -> Result<Vec<Lying>, StoreError> {
        let mut found = Vec::new();
        for path in entries(&self.layout.uploads())? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let id = name.strip_suffix(".json").unwrap_or(&name);
            // the description alone is left by a process that ended between two steps
            let alone = id.len() < name.len() && !self.upload_data(id).exists();
            if !is_id(id) || (id.len() < name.len() && !alone) {
                continue;
            }
            let metadata = match fs::metadata(&path) {
                Ok(metadata) => metadata,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(failed("look at", &path)(e)),
            };
            let known = uploads.sessions().get(id).cloned();
            let idle = match known {
                Some(session) => session.idle(),
                None => metadata
                    .modified()
                    .ok()
                    .and_then(|at| at.elapsed().ok())
                    .unwrap_or_default(),
            };
            found.push(Lying {
                id: id.to_owned(),
                idle,
                size: if alone { 0 } else { metadata.len() },
            });
        }
        found.sort_by_key(|lying| std::cmp::Reverse(lying.idle));
        Ok(found)
    }

    /// Drops an upload that nobody is working on.
    fn drop_upload(&self, uploads: &Uploads, id: &str) -> Result<bool, StoreError> {
        let known = uploads.sessions().get(id).cloned();
        let _held = match &known {
            Some(session) => match session.end_if_idle() {
                Some(held) => Some(held),
                None => return Ok(false),
            },
            None => None,
        };
        if known.is_none() && self.upload_is_held_elsewhere(id)? {
            return Ok(false);
        }
        self.remove_upload(id)?;
        uploads.sessions().remove(id);
        Ok(true)
    }

    /// Whether another process is receiving it.
    fn upload_is_held_elsewhere(&self, id: &str) -> Result<bool, StoreError> {
        let path = self.upload_data(id);
        match fs::File::open(&path) {
            Ok(file) => Ok(matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(failed("open", &path)(e)),
        }
    }

    /// Drops the upload that has been idle for the longest time; `false` when there is none.
    fn drop_oldest_upload(&self, uploads: &Uploads) -> Result<bool, StoreError> {
        for lying in self.uploads_lying(uploads)? {
            if self.drop_upload(uploads, &lying.id)? {
                tracing::warn!(
                    id = lying.id,
                    bytes = lying.size,
                    "a partial upload made room for others"
                );
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops the uploads without a byte for `idle`; answers how many, and their bytes.
    pub(super) fn expire_uploads(
        &self,
        uploads: &Uploads,
        idle: Duration,
    ) -> Result<(usize, u64), StoreError> {
        let (mut count, mut bytes) = (0, 0);
        for lying in self.uploads_lying(uploads)? {
            if lying.idle < idle {
                break;
            }
            if self.drop_upload(uploads, &lying.id)? {
                count += 1;
                bytes += lying.size;
            }
        }
        Ok((count, bytes))
    }
}

impl Uploads {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the share of the disk that stays free.
    pub(super) fn set_min_free(&self, per_mille: u32) {
        self.min_free_per_mille.store(per_mille, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_look_like_uuids_and_never_leave_their_folder() {
        let layout = Layout::new(PathBuf::from("/s"));
        let id = new_id(&layout).unwrap();
        assert!(is_id(&id), "{id}");
        let dashes: Vec<usize> = id.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!(dashes, [8, 13, 18, 23]);
        for bad in ["", ".", "..", "../lock", "A", &id[1..], &id.to_uppercase()] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}

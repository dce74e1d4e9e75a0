//! Uploads under way: `uploads/<id>` holds the bytes, `uploads/<id>.json` says whose they are.
//!
//! How much was received is the length of the file, so an upload survives the process. The
//! hash runs along in memory; after a restart, or for an algorithm nobody announced, the file
//! is read once at the end. Nothing here is synced before an upload is finished: what was
//! answered with 202 may be lost with the power, and a client that asks sees how much is left.

mod finished;
mod gather;
mod lying;
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

use kubepkg_core::Algorithm;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::StoreError;

use self::finished::Finished;
use self::lying::Count;
pub(crate) use self::receive::Receiver;
use self::session::{About, Session};
use super::disk::failed;
use super::layout::Layout;
use super::lease::Lease;
use super::open::Writable;
use super::work::{ignore_missing, random_name};
use crate::access::Client;
use crate::sink::SinkError;

/// Free space below which nothing is taken, where nobody says otherwise: 1 % of the disk.
const MIN_FREE_PER_MILLE: u32 = 10;

/// What this process knows of uploads.
#[derive(Debug)]
pub(super) struct Uploads {
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// How many are being received at this moment.
    receiving: AtomicUsize,
    buffers: Arc<gather::Pool>,
    min_free_per_mille: AtomicU32,
    /// The lease the newest pushes share.
    lease: Mutex<Option<(tokio::time::Instant, Weak<Lease>)>>,
    count: Mutex<Count>,
    finished: Finished,
}

impl Default for Uploads {
    fn default() -> Uploads {
        Uploads {
            sessions: Mutex::default(),
            receiving: AtomicUsize::new(0),
            buffers: Arc::default(),
            min_free_per_mille: AtomicU32::new(MIN_FREE_PER_MILLE),
            lease: Mutex::default(),
            count: Mutex::default(),
            finished: Finished::default(),
        }
    }
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
        client: Client,
    ) -> Result<String, SinkError> {
        self.make_place(uploads)?;
        self.make_place_of(uploads, &client)?;
        let id = new_id(&self.layout)?;
        let about = About::new(repository, algorithm);
        let path = self.upload_about(&id);
        let bytes = serde_json::to_vec(&about)
            .map_err(io::Error::other)
            .map_err(failed("write", &path))?;
        let data = self.upload_data(&id);
        let errors = self.syncer.errors();
        self.disk.create(&data)?;
        let written = self.disk.create(&path).and_then(|mut file| {
            io::Write::write_all(&mut file, &bytes).map_err(failed("write", &path))
        });
        if let Err(error) = written {
            self.remove_upload(&id)?;
            return Err(error.into());
        }
        let session = Arc::new(Session::new(about, 0, errors, client));
        uploads.sessions().insert(id.clone(), session);
        uploads.begun();
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
                // whose it was is forgotten with the process
                let errors = self.syncer.errors();
                let loaded = Arc::new(Session::new(about, size, errors, Client::Unknown));
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

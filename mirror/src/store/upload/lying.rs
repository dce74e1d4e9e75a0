//! Uploads nobody goes on with: how many lie there, and which of them go.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kubepkg_core::store::StoreError;

use super::{Uploads, is_id};
use crate::access::Client;
use crate::sink::SinkError;
use crate::store::disk::failed;
use crate::store::open::Writable;
use crate::store::work::entries;

/// Uploads that may lie there, those of earlier processes included; real clients have a handful
/// per image. Who begins more pushes out old ones that nobody is working on.
const MAX_UPLOADS: usize = 4096;

/// Of how many a client may always have one more. Where half of all places are taken nobody gets
/// more than these: to keep everybody out takes many clients.
const SHARE: usize = MAX_UPLOADS / 8;

/// How many of those go at once, so that not every new one looks for the oldest.
const GO_AT_ONCE: usize = 64;

/// An upload that got bytes within this time has a client that will go on: it never makes room
/// for others. Longer than clients wait between two tries.
const YOUNG: Duration = Duration::from_secs(10 * 60);

/// When all of them are young, for how long nobody looks again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How many uploads lie on the disk, those of other processes as far as they were seen.
#[derive(Debug, Default)]
pub(super) struct Count {
    /// `None` before the folder was looked at.
    lying: Option<usize>,
    /// When there were too many, and none that could go.
    crowded: Option<Instant>,
}

/// An upload that lies there.
#[derive(Debug)]
pub(super) struct Lying {
    pub(super) id: String,
    pub(super) idle: Duration,
    pub(super) size: u64,
    /// What it takes of the disk.
    pub(super) taken: u64,
    /// A request of this process works on it.
    pub(super) busy: bool,
}

impl Writable {
    /// All uploads, those without a byte for the longest time first. What this process
    /// remembers of uploads whose files somebody else removed is forgotten.
    pub(super) fn uploads_lying(&self, uploads: &Uploads) -> Result<Vec<Lying>, StoreError> {
        // before the folder is read: an upload is remembered only once its files are there
        let remembered: Vec<String> = uploads.sessions().keys().cloned().collect();
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
            let idle = match &known {
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
                taken: metadata.blocks().saturating_mul(512),
                busy: known.is_some_and(|session| session.is_busy()),
            });
        }
        uploads.forget_ghosts(&remembered, &found);
        uploads.counted(found.len());
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
        uploads.ended();
        Ok(true)
    }

    /// Whether another process is receiving it.
    pub(super) fn upload_is_held_elsewhere(&self, id: &str) -> Result<bool, StoreError> {
        let path = self.upload_data(id);
        match fs::File::open(&path) {
            Ok(file) => Ok(matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(failed("open", &path)(e)),
        }
    }

    /// Drops an upload so that others have its place.
    pub(super) fn drop_for_others(
        &self,
        uploads: &Uploads,
        lying: &Lying,
    ) -> Result<bool, StoreError> {
        let dropped = self.drop_upload(uploads, &lying.id)?;
        if dropped {
            tracing::warn!(
                id = lying.id,
                bytes = lying.size,
                "a partial upload made room for others"
            );
        }
        Ok(dropped)
    }

    /// Makes sure that one more upload may be begun: old ones go, young ones never.
    pub(super) fn make_place(&self, uploads: &Uploads) -> Result<(), SinkError> {
        if let Some(answer) = uploads.has_place() {
            return answer;
        }
        let lying = self.uploads_lying(uploads)?;
        if lying.len() < MAX_UPLOADS {
            return Ok(());
        }
        let mut dropped = 0;
        for lying in lying.iter().filter(|lying| lying.may_go()) {
            if self.drop_for_others(uploads, lying)? {
                dropped += 1;
            }
            if dropped == GO_AT_ONCE {
                break;
            }
        }
        if dropped == 0 {
            tracing::warn!(uploads = lying.len(), "too many uploads at once");
            uploads.count().crowded = Some(Instant::now());
            return Err(SinkError::TooMany);
        }
        uploads.counted(lying.len() - dropped);
        Ok(())
    }

    /// Makes sure that this client may begin one more where many are open: its own old ones go.
    pub(super) fn make_place_of(
        &self,
        uploads: &Uploads,
        client: &Client,
    ) -> Result<(), SinkError> {
        if uploads
            .count()
            .lying
            .is_none_or(|lying| lying < MAX_UPLOADS / 2)
        {
            return Ok(());
        }
        let theirs: Vec<(String, Duration)> = uploads
            .sessions()
            .iter()
            .filter(|(_, session)| session.client == *client)
            .map(|(id, session)| (id.clone(), session.idle()))
            .collect();
        if theirs.len() < SHARE {
            return Ok(());
        }
        for (id, _) in theirs.iter().filter(|(_, idle)| *idle >= YOUNG) {
            if self.drop_upload(uploads, id)? {
                return Ok(());
            }
        }
        Err(SinkError::TooManyOfOne)
    }

    /// Drops the uploads without a byte for `idle`; answers how many, and their bytes.
    pub(in crate::store) fn expire_uploads(
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

impl Lying {
    /// Whether it may make room for others.
    pub(super) fn may_go(&self) -> bool {
        self.idle >= YOUNG && !self.busy
    }
}

impl Uploads {
    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more may be begun; `None` where that has to be looked up.
    fn has_place(&self) -> Option<Result<(), SinkError>> {
        let count = self.count();
        if count.lying.is_some_and(|lying| lying < MAX_UPLOADS) {
            return Some(Ok(()));
        }
        let lately = count
            .crowded
            .is_some_and(|at| at.elapsed() < LOOK_AGAIN_AFTER);
        lately.then_some(Err(SinkError::TooMany))
    }

    fn counted(&self, lying: usize) {
        self.count().lying = Some(lying);
    }

    pub(super) fn begun(&self) {
        let mut count = self.count();
        count.lying = count.lying.map(|lying| lying + 1);
    }

    pub(super) fn ended(&self) {
        let mut count = self.count();
        count.lying = count.lying.map(|lying| lying.saturating_sub(1));
    }

    /// Forgets those that were remembered and are not found, unless a request is just ending
    /// one of them.
    fn forget_ghosts(&self, remembered: &[String], found: &[Lying]) {
        let found: HashSet<&str> = found.iter().map(|lying| lying.id.as_str()).collect();
        let mut sessions = self.sessions();
        for id in remembered.iter().filter(|id| !found.contains(id.as_str())) {
            if sessions.get(id).is_some_and(|session| !session.is_busy()) {
                sessions.remove(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;
    use std::time::SystemTime;

    use kubepkg_core::Algorithm;

    use super::super::session::About;
    use super::*;
    use crate::store::{FileStore, OpenMode};

    fn store() -> (tempfile::TempDir, FileStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        (folder, store.min_free(0))
    }

    /// Files as an earlier process left them.
    fn lay(store: &FileStore, number: usize, idle: Duration) -> String {
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        let about = About::new(&"a/b".parse().unwrap(), Algorithm::Sha256);
        let writable = store.opened.writable().unwrap();
        let described = serde_json::to_vec(&about).unwrap();
        fs::write(writable.upload_about(&id), described).unwrap();
        fs::write(writable.upload_data(&id), b"bytes").unwrap();
        let data = writable.upload_data(&id);
        let file = fs::File::options().write(true).open(data).unwrap();
        let at = SystemTime::now() - idle;
        file.set_times(FileTimes::new().set_modified(at)).unwrap();
        id
    }

    fn begin(store: &FileStore) -> Result<String, SinkError> {
        begin_for(store, Client::Unknown)
    }

    fn begin_for(store: &FileStore, client: Client) -> Result<String, SinkError> {
        let writable = store.opened.writable().unwrap();
        let name = "a/b".parse().unwrap();
        writable.begin_upload(&store.uploads, &name, Algorithm::Sha256, client)
    }

    #[test]
    fn uploads_of_earlier_processes_are_counted_and_only_old_ones_go() {
        let (_folder, store) = store();
        for number in 0..MAX_UPLOADS {
            lay(&store, number, YOUNG / 2);
        }
        assert!(matches!(begin(&store), Err(SinkError::TooMany)));
        store.uploads.count().crowded = None;
        let old = lay(&store, 5, YOUNG * 2);
        begin(&store).unwrap();
        let writable = store.opened.writable().unwrap();
        assert!(!writable.upload_data(&old).exists());
        assert_eq!(
            writable.uploads_lying(&store.uploads).unwrap().len(),
            MAX_UPLOADS
        );
        assert!(matches!(begin(&store), Err(SinkError::TooMany)));
    }

    #[test]
    fn no_client_has_all_places() {
        let (_folder, store) = store();
        let user = |name: &str| Client::User(name.into());
        let mut last = String::new();
        for _ in 0..SHARE {
            last = begin_for(&store, user("busy")).unwrap();
        }
        // nobody else is held up by it as long as there are few
        let more = begin_for(&store, user("busy")).unwrap();
        let more = [last, more];
        for number in 0..MAX_UPLOADS / 2 {
            lay(&store, number, YOUNG / 2);
        }
        let writable = store.opened.writable().unwrap();
        writable.uploads_lying(&store.uploads).unwrap();
        for _ in 0..2 {
            let refused = begin_for(&store, user("busy"));
            assert!(matches!(refused, Err(SinkError::TooManyOfOne)));
            begin_for(&store, user("other")).unwrap();
        }
        // what it ends makes place for it
        for (id, place) in more.iter().zip([false, true]) {
            writable.drop_upload(&store.uploads, id).unwrap();
            assert_eq!(begin_for(&store, user("busy")).is_ok(), place);
        }
    }

    #[test]
    fn uploads_whose_files_somebody_else_removed_are_forgotten() {
        let (_folder, store) = store();
        let (gone, stays) = (begin(&store).unwrap(), begin(&store).unwrap());
        let writable = store.opened.writable().unwrap();
        writable.remove_upload(&gone).unwrap();
        assert_eq!(writable.uploads_lying(&store.uploads).unwrap().len(), 1);
        let sessions = store.uploads.sessions();
        assert!(!sessions.contains_key(&gone) && sessions.contains_key(&stays));
    }

    #[test]
    fn a_size_no_upload_could_make_room_for_ends_none() {
        let (_folder, store) = store();
        let old = lay(&store, 1, YOUNG * 2);
        let writable = store.opened.writable().unwrap();
        for more in [1 << 60, u64::MAX] {
            let room = writable.make_room(&store.uploads, more);
            assert!(matches!(room, Err(SinkError::Full)));
        }
        assert!(writable.upload_data(&old).exists());
    }
}

//! Receiving: what arrives is gathered, then hashed and written at the same time while more
//! is gathered.

use std::future::{Future, ready};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use kubepkg_core::store::{FileRange, Store as _, StoreError};
use kubepkg_core::{Algorithm, Digest, Hasher};
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;

use super::finished::Became;
use super::gather::{Gathered, LEAST, MOST};
use super::room::LOOK_AGAIN;
use super::session::{Progress, Session};
use super::target::Target;
use super::{Uploads, is_id};
use crate::sink::{SinkError, SinkFuture, Upload};
use crate::store::FileStore;
use crate::store::disk::failed;
use crate::store::intake::Staged;

/// What all uploads together may gather, as long as each gets [`LEAST`].
const TOGETHER: usize = 64 * 1024 * 1024;

/// One upload while a request adds to it.
pub(crate) struct Receiver {
    store: FileStore,
    id: String,
    path: PathBuf,
    session: Arc<Session>,
    /// Given up before `progress`: who waits for that opens and locks the file at once.
    target: Arc<Mutex<Target>>,
    progress: OwnedMutexGuard<Progress>,
    /// The hash of all that is kept; `None` when the file has to be read at the end.
    hasher: Option<Hasher>,
    /// Length and hash when this request began.
    began: (u64, Option<Hasher>),
    /// Bytes in the file.
    kept: u64,
    gathered: Option<Gathered>,
    under_way: Option<UnderWay>,
    /// When `kept` passes this the free space is looked at.
    look_at: u64,
    _counted: Counted,
}

struct UnderWay {
    bytes: u64,
    hashing: Option<JoinHandle<Hasher>>,
    writing: JoinHandle<Result<(), SinkError>>,
}

/// Counts the uploads that are being received.
struct Counted(Arc<Uploads>);

impl Counted {
    fn on(uploads: &Arc<Uploads>) -> Counted {
        uploads.receiving.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(uploads))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.receiving.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FileStore {
    /// Takes hold of an upload; see [`crate::sink::Sink::resume`].
    pub(crate) async fn receive(
        &self,
        repository: &kubepkg_core::name::RepositoryName,
        id: &str,
        expected: u64,
    ) -> Result<Option<Receiver>, SinkError> {
        if !is_id(id) {
            return Ok(None);
        }
        let uploads = Arc::clone(&self.uploads);
        let (name, wanted) = (repository.clone(), id.to_owned());
        let found = self
            .work(move |opened| opened.writable()?.upload(&uploads, &name, &wanted))
            .await?;
        let Some(session) = found else {
            return Ok(None);
        };
        let mut progress = session.hold().await;
        if progress.ended {
            return Ok(None);
        }
        let uploads = Arc::clone(&self.uploads);
        let wanted = id.to_owned();
        let opened = self.work(move |opened| {
            let writable = opened.writable()?;
            let path = writable.upload_data(&wanted);
            let opened = open_data(&path);
            // who brings nothing ends the upload, which is how space becomes free
            let room = match expected {
                0 => Ok(()),
                more => writable.make_room(&uploads, more),
            };
            Ok((path, opened, room))
        });
        let (path, target, room) = opened.await?;
        room?;
        let target = match target {
            Ok(target) => target,
            // removed by another process, for which it was too old
            Err(SinkError::Store(StoreError::Io { source, .. }))
                if source.kind() == io::ErrorKind::NotFound =>
            {
                progress.ended = true;
                self.uploads.sessions().remove(id);
                self.uploads.ended();
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let kept = target.length();
        let hasher = match progress.hasher.take() {
            Some(hasher) if progress.hashed == kept => Some(hasher),
            _ if kept == 0 => Some(Hasher::new(session.about.algorithm())),
            _ => None,
        };
        session.set_received(kept);
        Ok(Some(Receiver {
            store: self.clone(),
            id: id.to_owned(),
            path,
            progress,
            began: (kept, hasher.clone()),
            target: Arc::new(Mutex::new(target)),
            hasher,
            kept,
            gathered: None,
            under_way: None,
            // a stream did not say how much will come
            look_at: kept + if expected == 0 { 0 } else { LOOK_AGAIN },
            _counted: Counted::on(&self.uploads),
            session,
        }))
    }
}

/// How long a lock is waited for: who only looks whether somebody has it, or ended a moment ago,
/// lets go at once, and another process that receives does not.
const LETS_GO: Duration = Duration::from_millis(250);

/// Opens the file and locks it against other processes.
fn open_data(path: &std::path::Path) -> Result<Target, SinkError> {
    let io = |e| SinkError::from(failed("open", path)(e));
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(io)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(std::fs::TryLockError::WouldBlock) if begun.elapsed() < LETS_GO => {
                std::thread::sleep(LETS_GO / 50);
            }
            Err(std::fs::TryLockError::WouldBlock) => return Err(SinkError::Busy),
            Err(std::fs::TryLockError::Error(e)) => return Err(io(e)),
        }
    }
    let metadata = file.metadata().map_err(io)?;
    if metadata.nlink() > 1 {
        // where renaming had to be done with a second name, who did it was interrupted: these
        // bytes are content already, and must never be written to
        std::fs::remove_file(path).map_err(io)?;
        return Err(io(io::ErrorKind::NotFound.into()));
    }
    Target::new(file, metadata.len()).map_err(io)
}

impl Receiver {
    /// Gathers as much of `bytes` as fits; answers the rest.
    fn gather(&mut self, mut bytes: Bytes) -> Bytes {
        let uploads = &self.store.uploads;
        let gathered = self.gathered.get_or_insert_with(|| {
            let receiving = uploads.receiving.load(Ordering::Relaxed).max(1);
            uploads
                .buffers
                .take((TOGETHER / receiving).clamp(LEAST, MOST))
        });
        let taken = gathered.add(&bytes);
        bytes.advance(taken);
        bytes
    }

    /// Waits until what was handed on is in the file.
    async fn settle(&mut self) -> Result<(), SinkError> {
        let Some(under_way) = self.under_way.take() else {
            return Ok(());
        };
        let written = under_way.writing.await;
        if let Some(hashing) = under_way.hashing {
            self.hasher = hashing.await.ok();
        }
        let written = match written {
            Ok(written) => written,
            Err(error) => Err(failed("write", &self.path)(io::Error::other(error)).into()),
        };
        match written {
            Ok(()) => {
                self.kept += under_way.bytes;
                self.session.set_received(self.kept);
                Ok(())
            }
            Err(error) => {
                // the file ends where it did, the hash is further on
                self.hasher = None;
                self.gathered = None;
                Err(error)
            }
        }
    }

    /// Hands on what was gathered.
    async fn hand_on(&mut self) -> Result<(), SinkError> {
        self.settle().await?;
        let Some(gathered) = self.gathered.take() else {
            return Ok(());
        };
        let bytes = gathered.len() as u64;
        let gathered = Arc::new(gathered);
        let hashing = match self.hasher.take() {
            Some(mut hasher) => {
                // never closed
                let core = Arc::clone(&self.store.hashing).acquire_owned().await.ok();
                let gathered = Arc::clone(&gathered);
                Some(tokio::task::spawn_blocking(move || {
                    let _core = core;
                    hasher.update(gathered.bytes());
                    hasher
                }))
            }
            None => None,
        };
        let look = self.kept + bytes >= self.look_at;
        if look {
            self.look_at = self.kept + bytes + LOOK_AGAIN;
        }
        let (store, target, path) = (
            self.store.clone(),
            Arc::clone(&self.target),
            self.path.clone(),
        );
        let writing = tokio::task::spawn_blocking(move || {
            if look {
                let writable = store.opened.writable()?;
                writable.make_room(&store.uploads, bytes)?;
            }
            lock(&target)
                .write(gathered.bytes())
                .map_err(|e| failed("write", &path)(e).into())
        });
        self.under_way = Some(UnderWay {
            bytes,
            hashing,
            writing,
        });
        Ok(())
    }

    /// Writes everything, and answers the hash of it.
    async fn flush(&mut self) -> Result<(), SinkError> {
        self.settle().await?;
        let Some(gathered) = self.gathered.take() else {
            return Ok(());
        };
        let bytes = gathered.len() as u64;
        let (target, path) = (Arc::clone(&self.target), self.path.clone());
        let mut hasher = self.hasher.take();
        let written = self.store.hash(move |_| {
            if let Some(hasher) = &mut hasher {
                hasher.update(gathered.bytes());
            }
            lock(&target)
                .write(gathered.bytes())
                .map_err(failed("write", &path))?;
            Ok(hasher)
        });
        self.hasher = written.await?;
        self.kept += bytes;
        self.session.set_received(self.kept);
        Ok(())
    }

    /// Gives the upload back, to be resumed.
    fn give_back(mut self) -> u64 {
        self.progress.hasher = self.hasher.take();
        self.progress.hashed = self.kept;
        self.session.set_received(self.kept);
        self.kept
    }

    async fn pause(mut self) -> Result<u64, SinkError> {
        let flushed = self.flush().await;
        let kept = self.give_back();
        flushed.map(|()| kept)
    }

    async fn undo(mut self) -> Result<u64, SinkError> {
        self.gathered = None;
        // what failed is taken away with the rest
        let _ = self.settle().await;
        let (length, hasher) = (self.began.0, self.began.1.take());
        let (target, path) = (Arc::clone(&self.target), self.path.clone());
        let cut = self
            .store
            .work(move |_| lock(&target).cut(length).map_err(failed("write", &path)));
        cut.await?;
        self.hasher = hasher;
        self.kept = length;
        Ok(self.give_back())
    }

    /// Notes that it is over, and removes what is left of it.
    async fn end(mut self) -> Result<(), SinkError> {
        self.progress.ended = true;
        self.store.uploads.sessions().remove(&self.id);
        self.store.uploads.ended();
        let id = self.id.clone();
        let removed = self
            .store
            .work(move |opened| opened.writable()?.remove_upload(&id));
        removed.await.map_err(SinkError::from)
    }

    /// Writes everything, and ends the upload where it is not that of the digest.
    async fn verified(mut self, digest: Digest) -> Result<Receiver, SinkError> {
        if let Err(error) = self.flush().await {
            self.give_back();
            return Err(error);
        }
        let found = match self.hasher.take() {
            Some(hasher) if algorithm_of(&hasher) == digest.algorithm() => hasher.finish(),
            hasher => {
                let (target, path) = (Arc::clone(&self.target), self.path.clone());
                let read = self.store.hash(move |_| {
                    lock(&target)
                        .digest(digest.algorithm())
                        .map_err(failed("read", &path))
                });
                match read.await {
                    Ok(found) => found,
                    Err(error) => {
                        self.hasher = hasher;
                        self.give_back();
                        return Err(error.into());
                    }
                }
            }
        };
        if found != digest {
            self.end().await?;
            return Err(SinkError::Mismatch {
                announced: digest,
                found: Box::new(found),
            });
        }
        Ok(self)
    }

    /// Holds the upload for who keeps its content elsewhere, if it is that of the digest.
    pub(crate) async fn whole(self, digest: Digest) -> Result<Whole, SinkError> {
        let receiver = self.verified(digest).await?;
        let path = receiver.path.clone();
        let opened = receiver
            .store
            .work(move |_| std::fs::File::open(&path).map_err(failed("open", &path)));
        match opened.await {
            Ok(file) => Ok(Whole {
                receiver,
                digest,
                file: Arc::new(file),
            }),
            Err(error) => {
                receiver.undo().await?;
                Err(error.into())
            }
        }
    }

    /// Remembers that it ended well, before who waits for this request finds it ended.
    fn note(&self, digest: Digest) {
        let became = Became {
            repository: self.session.about.repository.clone(),
            digest,
            size: self.kept,
        };
        let finished = &self.store.uploads.finished;
        finished.note(&self.id, became, Instant::now());
    }

    async fn finish(self, digest: Digest) -> Result<u64, SinkError> {
        let this = self.verified(digest).await?;
        let size = this.kept;
        let (target, path) = (Arc::clone(&this.target), this.path.clone());
        let errors = this.session.errors;
        let staged = this.store.work(move |opened| {
            let file = match Arc::into_inner(target).map(Mutex::into_inner) {
                Some(target) => target.unwrap_or_else(PoisonError::into_inner).into_file(),
                // never: nobody else writes any more
                None => std::fs::File::open(&path).map_err(failed("open", &path))?,
            };
            let file = opened.writable()?.work.adopt(path, file, errors)?;
            Ok(Staged { digest, size, file })
        });
        // what cannot be made durable is not tried again: its pages may be lost
        let published = match staged.await {
            Ok(staged) => this.store.publish(vec![staged]).await,
            Err(error) => Err(error),
        };
        if published.is_ok() {
            this.note(digest);
        }
        this.end().await?;
        published?;
        Ok(size)
    }
}

/// An upload all of whose bytes are here and have its digest, while they are brought elsewhere.
/// As any other it is held, and not given back by dropping it.
pub(crate) struct Whole {
    receiver: Receiver,
    digest: Digest,
    file: Arc<std::fs::File>,
}

impl Whole {
    /// Its bytes. Nobody writes to them as long as this lives.
    pub(crate) fn range(&self) -> FileRange {
        FileRange {
            file: Arc::clone(&self.file),
            offset: 0,
            len: self.receiver.kept,
        }
    }

    /// Its bytes are elsewhere: it ends. Answers its size.
    pub(crate) async fn done(self) -> Result<u64, SinkError> {
        let size = self.receiver.kept;
        self.receiver.note(self.digest);
        self.receiver.end().await?;
        Ok(size)
    }

    /// They are not: it is as it was before this request.
    pub(crate) async fn undo(self) -> Result<u64, SinkError> {
        self.receiver.undo().await
    }
}

impl Upload for Receiver {
    fn received(&self) -> u64 {
        let under_way = self.under_way.as_ref().map_or(0, |u| u.bytes);
        let gathered = self.gathered.as_ref().map_or(0, Gathered::len);
        self.kept + under_way + gathered as u64
    }

    fn superseded(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Arc::clone(&self.session).wanted())
    }

    fn expect(&mut self, algorithm: Algorithm) {
        if self.received() == 0 {
            self.hasher = Some(Hasher::new(algorithm));
        }
    }

    fn write(&mut self, bytes: Bytes) -> SinkFuture<'_, ()> {
        let left = self.gather(bytes);
        if left.is_empty() && !self.gathered.as_ref().is_some_and(Gathered::is_full) {
            return Box::pin(ready(Ok(())));
        }
        Box::pin(async move {
            let mut left = left;
            loop {
                self.hand_on().await?;
                if left.is_empty() {
                    return Ok(());
                }
                left = self.gather(left);
                if !self.gathered.as_ref().is_some_and(Gathered::is_full) {
                    return Ok(());
                }
            }
        })
    }

    fn pause(self: Box<Self>) -> SinkFuture<'static, u64> {
        Box::pin(Receiver::pause(*self))
    }

    fn undo(self: Box<Self>) -> SinkFuture<'static, u64> {
        Box::pin(Receiver::undo(*self))
    }

    fn finish(self: Box<Self>, digest: Digest) -> SinkFuture<'static, u64> {
        Box::pin(Receiver::finish(*self, digest))
    }

    fn cancel(self: Box<Self>) -> SinkFuture<'static, ()> {
        Box::pin(async move {
            let mut this = self;
            this.gathered = None;
            let _ = this.settle().await;
            this.end().await
        })
    }
}

fn algorithm_of(hasher: &Hasher) -> Algorithm {
    match hasher {
        Hasher::Sha256(_) => Algorithm::Sha256,
        Hasher::Sha512(_) => Algorithm::Sha512,
    }
}

fn lock(target: &Mutex<Target>) -> std::sync::MutexGuard<'_, Target> {
    target.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Client;

    #[tokio::test]
    async fn an_upload_during_which_a_sync_failed_is_given_up() {
        let (_folder, store) = crate::store::testing::new_store();
        let store = store.min_free(0);
        let name = "a/b".parse().unwrap();
        for fails in [true, false] {
            let id = crate::sink::Sink::begin(&store, &name, Algorithm::Sha256, 0, Client::Unknown)
                .await;
            let id = id.unwrap();
            let mut first = store.receive(&name, &id, 0).await.unwrap().unwrap();
            first.write(Bytes::from_static(b"bytes")).await.unwrap();
            assert_eq!(first.pause().await.unwrap(), 5);
            if fails {
                store.opened.writable().unwrap().syncer.fail();
            }
            let last = store.receive(&name, &id, 0).await.unwrap().unwrap();
            let digest = Digest::sha256(b"bytes");
            assert_eq!(last.finish(digest).await.is_err(), fails);
            let there = store.blob_size(&digest).unwrap();
            assert_eq!(there.is_none(), fails, "acknowledged and not durable");
        }
    }

    #[test]
    fn a_lock_that_is_let_go_at_once_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("upload");
        std::fs::write(&path, "bytes").unwrap();
        let other = std::fs::File::open(&path).unwrap();
        other.lock().unwrap();
        assert!(matches!(open_data(&path), Err(SinkError::Busy)));
        let opened = std::thread::scope(|scope| {
            let opening = scope.spawn(|| open_data(&path));
            drop(other);
            opening.join().unwrap()
        });
        assert!(opened.is_ok());
    }

    #[test]
    fn an_upload_that_became_content_under_a_second_name_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (upload, content) = (folder.path().join("upload"), folder.path().join("content"));
        std::fs::write(&upload, "bytes").unwrap();
        assert!(open_data(&upload).is_ok());
        std::fs::hard_link(&upload, &content).unwrap();
        match open_data(&upload) {
            Err(SinkError::Store(StoreError::Io { source, .. })) => {
                assert_eq!(source.kind(), io::ErrorKind::NotFound);
            }
            _ => panic!("it can be written to"),
        }
        assert!(!upload.exists());
        assert_eq!(std::fs::read(&content).unwrap(), b"bytes");
    }
}

//! Content: taken in while it is hashed, and whole or not at all for who reads it.
//!
//! An object appears in one step, when a put or the last step of an upload in parts is done.
//! So nothing is written before its hash is known to be right but parts, which nobody can read.

use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use kubepkg_core::store::{Body, ByteStream, FileRange, StoreError};
use kubepkg_core::{Digest, Hasher};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::keys;
use super::objects::{Bucket, Parts};
use super::remembered::Remembered;
use super::state::State;

/// A part of large content has at least as much.
pub(super) const PART: u64 = 8 * 1024 * 1024;

/// Content up to this size waits in memory to be published, and is one request then. A fill
/// publishes up to 2000 at once.
const IN_ONE: u64 = 128 * 1024;

/// Servers take 10 000 parts of an object.
const MOST_PARTS: u64 = 9_000;

/// Bytes in memory at once of the parts of large content, and of small content that was pushed:
/// eight parts. What an import or a copy has taken in and not published yet (each up to [`IN_ONE`],
/// so 250 MB of a fill) comes on top, and so does what its caller had in memory anyway.
const IN_MEMORY: u32 = 64 * 1024 * 1024;

/// For how long what was pushed waits for others before it is sent away. As long as a request
/// is made again, so that it is not refused for those whose own requests fail.
const PATIENCE: Duration = Duration::from_secs(30);

/// Content remembered as being there, at least so much of the newest: 100 bytes each.
const REMEMBERED: usize = 100_000;

/// What is on its way into the bucket.
#[derive(Clone)]
pub(super) struct Contents {
    bucket: Bucket,
    /// Bytes that more content may take of the memory.
    room: Arc<Semaphore>,
    all_of_it: u32,
    seen: Arc<Mutex<Remembered<Digest, Seen>>>,
}

/// Content that was seen, and is there until a commit says that it was removed.
#[derive(Clone, Copy)]
struct Seen {
    removed: u64,
    size: u64,
}

/// Content that has its digest, and that nobody can read yet.
pub struct Staged {
    pub(super) digest: Digest,
    size: u64,
    /// The number in its key when it was taken in.
    removed: u64,
    held: Held,
}

enum Held {
    Bytes(Bytes),
    Parts(Option<Parts>, Bucket),
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Held::Parts(parts, bucket) = self
            && let Some(parts) = parts.take()
        {
            bucket.abort(parts);
        }
    }
}

impl Contents {
    pub(super) fn new(bucket: Bucket) -> Contents {
        Contents::within(bucket, IN_MEMORY)
    }

    /// Content that takes so many bytes of the memory while it is on its way.
    pub(super) fn within(bucket: Bucket, bytes: u32) -> Contents {
        Contents {
            bucket,
            room: Arc::new(Semaphore::new(bytes as usize)),
            all_of_it: bytes,
            seen: Arc::new(Mutex::new(Remembered::new(REMEMBERED))),
        }
    }

    /// Room in memory for so many bytes, as long as the answer lives. To be asked for before
    /// they are read, and once for all that somebody needs to go on: who waits for more while
    /// holding some may wait for one who does the same.
    async fn room(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        // what is larger than all of it has all of it for itself
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.all_of_it);
        // never closed
        Arc::clone(&self.room).acquire_many_owned(bytes).await.ok()
    }

    /// [`Contents::room`] for small content that was pushed.
    pub(super) async fn room_soon(
        &self,
        bytes: u64,
    ) -> Result<Option<OwnedSemaphorePermit>, StoreError> {
        let room = tokio::time::timeout(PATIENCE, self.room(bytes)).await;
        room.map_err(|_| StoreError::Bucket {
            action: "write",
            place: self.bucket.place().to_owned(),
            hint: Some("the bucket takes what is pushed too slowly, or not at all"),
            source: "others wait for it already".into(),
        })
    }

    /// Size of content that is here.
    pub(super) async fn size(
        &self,
        state: &State,
        digest: &Digest,
    ) -> Result<Option<u64>, StoreError> {
        let removed = state.removed(digest);
        let seen = self.seen().get(digest);
        if let Some(seen) = seen.filter(|seen| seen.removed == removed) {
            return Ok(Some(seen.size));
        }
        let size = self.bucket.size(&keys::blob(digest, removed)).await?;
        if let Some(size) = size {
            self.saw(*digest, Seen { removed, size });
        }
        Ok(size)
    }

    /// Forgets that content was seen: somebody did not find it.
    pub(super) fn doubt(&self, digest: &Digest) {
        self.seen().forget(digest);
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Remembered<Digest, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn saw(&self, digest: Digest, seen: Seen) {
        self.seen().note(digest, seen, 1);
    }

    /// Takes content in.
    pub(super) async fn stage(
        &self,
        state: &State,
        digest: Digest,
        size: u64,
        body: Body,
    ) -> Result<Staged, StoreError> {
        let removed = state.removed(&digest);
        let mut intake = Intake {
            bucket: &self.bucket,
            digest,
            size,
            came: 0,
            source: match body {
                Body::Bytes(bytes) => Source::Bytes(Some(bytes)),
                Body::Range(range) => Source::Range(range, 0),
                Body::Stream(stream) => Source::Stream(stream, Bytes::new()),
            },
            hasher: Some(Hasher::new(digest.algorithm())),
        };
        let staged = |held| Staged {
            digest,
            size,
            removed,
            held,
        };
        if size <= IN_ONE || matches!(intake.source, Source::Bytes(_)) {
            let bytes = intake.next(size).await?;
            intake.end().await?;
            return Ok(staged(Held::Bytes(bytes)));
        }
        let key = keys::blob(&digest, removed);
        let parts = self.bucket.begin(&key).await?;
        let mut held = Held::Parts(Some(parts), self.bucket.clone());
        let Held::Parts(Some(parts), _) = &mut held else {
            return Err(intake.wrong("nothing".to_owned()));
        };
        let part = PART.max(size.div_ceil(MOST_PARTS));
        let mut under_way: Vec<JoinHandle<Result<(), StoreError>>> = Vec::new();
        while intake.came < size {
            let room = self.room(part.min(size - intake.came)).await;
            let bytes = intake.next(part).await?;
            let put = self.bucket.part(&key, parts, bytes).await?;
            under_way.push(self.bucket.spawn(async move {
                let _room = room;
                put.await.unwrap_or_else(|error| {
                    Err(StoreError::Io {
                        action: "write a part of",
                        path: String::new().into(),
                        source: std::io::Error::other(error),
                    })
                })
            }));
            // two on their way, so that hashing never waits for an answer
            if under_way.len() > 2 {
                self.settle(under_way.remove(0)).await?;
            }
        }
        intake.end().await?;
        for put in under_way {
            self.settle(put).await?;
        }
        Ok(staged(held))
    }

    async fn settle(&self, put: JoinHandle<Result<(), StoreError>>) -> Result<(), StoreError> {
        put.await.unwrap_or_else(|error| {
            Err(StoreError::Io {
                action: "write a part of",
                path: self.bucket.place().into(),
                source: std::io::Error::other(error),
            })
        })
    }

    /// Makes content readable under its digest, unless it is already. `false` when it came under
    /// a key that is used no more: then it has to be brought again.
    pub(super) async fn place(
        &self,
        state: &State,
        staged: &mut Staged,
    ) -> Result<bool, StoreError> {
        let digest = staged.digest;
        let removed = state.removed(&digest);
        if self.size(state, &digest).await? == Some(staged.size) {
            return Ok(true);
        }
        let key = keys::blob(&digest, removed);
        match &mut staged.held {
            Held::Bytes(bytes) => self.bucket.put(&key, bytes.clone()).await?,
            Held::Parts(parts, _) => {
                if staged.removed != removed {
                    return Ok(false);
                }
                let Some(parts) = parts.take() else {
                    return Ok(false);
                };
                self.bucket.complete(&key, parts).await?;
            }
        }
        let size = staged.size;
        self.saw(digest, Seen { removed, size });
        Ok(true)
    }
}

/// Where content comes from.
enum Source {
    Bytes(Option<Bytes>),
    Range(FileRange, u64),
    Stream(ByteStream, Bytes),
}

/// Content that is being taken in.
struct Intake<'b> {
    bucket: &'b Bucket,
    digest: Digest,
    size: u64,
    came: u64,
    source: Source,
    hasher: Option<Hasher>,
}

impl Intake<'_> {
    fn wrong(&self, found: String) -> StoreError {
        StoreError::Mismatch {
            digest: self.digest,
            found,
        }
    }

    fn broken(&self, source: std::io::Error) -> StoreError {
        StoreError::Source {
            digest: self.digest,
            source,
        }
    }

    /// The next `most` bytes, or the rest; hashed.
    async fn next(&mut self, most: u64) -> Result<Bytes, StoreError> {
        let wanted = most.min(self.size - self.came);
        let room = usize::try_from(wanted)
            .map_err(|_| self.wrong("more than this machine can hold".to_owned()))?;
        let Some(mut hasher) = self.hasher.take() else {
            return Err(self.wrong("nothing".to_owned()));
        };
        let bytes = match &mut self.source {
            Source::Bytes(bytes) => {
                let bytes = bytes.take().unwrap_or_default();
                if bytes.len() as u64 != self.size {
                    return Err(self.wrong(format!("{} bytes", bytes.len())));
                }
                bytes
            }
            Source::Range(range, at) => {
                if range.len != self.size {
                    let len = range.len;
                    return Err(self.wrong(format!("{len} bytes")));
                }
                let (file, offset) = (Arc::clone(&range.file), range.offset + *at);
                *at += wanted;
                let read = self.bucket.blocking(move || {
                    let mut bytes = vec![0; room];
                    let read = file.read_exact_at(&mut bytes, offset);
                    hasher.update(&bytes);
                    read.map(|()| (Bytes::from(bytes), hasher))
                });
                let (bytes, hasher) = read.await?.map_err(|error| self.broken(error))?;
                self.hasher = Some(hasher);
                self.came += wanted;
                return Ok(bytes);
            }
            Source::Stream(stream, rest) => {
                let mut gathered = BytesMut::with_capacity(room);
                while gathered.len() < room {
                    if rest.is_empty() {
                        match stream.next().await {
                            None => {
                                let came = self.came + gathered.len() as u64;
                                return Err(self.wrong(format!("{came} bytes")));
                            }
                            Some(Ok(piece)) => *rest = piece,
                            Some(Err(error)) => return Err(self.broken(error)),
                        }
                    }
                    let taken = rest.split_to(rest.len().min(room - gathered.len()));
                    gathered.extend_from_slice(&taken);
                }
                gathered.freeze()
            }
        };
        self.came += bytes.len() as u64;
        let hashed = self.bucket.blocking({
            let bytes = bytes.clone();
            move || {
                hasher.update(&bytes);
                hasher
            }
        });
        self.hasher = Some(hashed.await?);
        Ok(bytes)
    }

    /// All came that was announced: nothing may follow, and it must have its digest.
    async fn end(&mut self) -> Result<(), StoreError> {
        if let Source::Stream(stream, rest) = &mut self.source {
            let mut more = !rest.is_empty();
            while !more {
                match stream.next().await {
                    None => break,
                    Some(Ok(piece)) => more = !piece.is_empty(),
                    Some(Err(error)) => return Err(self.broken(error)),
                }
            }
            if more {
                return Err(self.wrong(format!("more than {} bytes", self.size)));
            }
        }
        let found = self.hasher.take().map(Hasher::finish);
        match found {
            Some(found) if found == self.digest => Ok(()),
            Some(found) => Err(self.wrong(found.to_string())),
            None => Err(self.wrong("nothing".to_owned())),
        }
    }
}

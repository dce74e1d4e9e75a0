//! Every payload byte against its digest, as fast as the processors hash.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::bundle::error::{Damage, FormatError};
use crate::bundle::layout::{Extent, Member};
use crate::bundle::read::Bundle;
use crate::digest::{Digest, Hasher};
use crate::reader::{PIECE, Reader};

/// Most threads that are started, whatever is asked for.
const MAX_THREADS: usize = 256;

/// Hashes the bytes of `extent` with `wanted`'s algorithm and gives their digest. `progress` is
/// told of every piece, in bytes.
pub fn hash_blob(
    reader: &mut Reader<'_>,
    extent: Extent,
    wanted: &Digest,
    progress: &dyn Fn(u64),
) -> Result<Digest, FormatError> {
    let mut hasher = Hasher::new(wanted.algorithm());
    let mut at = extent.offset;
    let mut left = extent.size;
    while left > 0 {
        let piece = left.min(PIECE as u64);
        let bytes = reader
            .read(at, piece as usize)
            .map_err(FormatError::io("read the bundle", at))?;
        hasher.update(bytes);
        at += piece;
        left -= piece;
        progress(piece);
    }
    Ok(hasher.finish())
}

/// Hashes all payload with `threads` threads (at least one), large members first, and names
/// every damaged member. `progress` is called from all threads with the bytes just hashed.
pub fn hash_all(
    bundle: &Bundle,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), FormatError> {
    let mut work: Vec<(&Member, Digest)> = bundle
        .layout()
        .payload()
        .iter()
        .filter_map(|member| Some((member, member.digest?)))
        .collect();
    // large ones first, so that no thread begins the largest when the others are done
    work.sort_by_key(|(member, _)| std::cmp::Reverse(member.size));
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let damaged = Mutex::new(Vec::new());
    let error = Mutex::new(None);
    let file = bundle.file();
    let run = || {
        let mut reader = Reader::new(&file, PIECE as u64);
        while !failed.load(Ordering::Relaxed) {
            let Some((member, wanted)) = work.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            match hash_blob(&mut reader, member.extent(), wanted, &|n| progress(n)) {
                Ok(found) if found == *wanted => {}
                Ok(found) => keep(&damaged, |list: &mut Vec<Damage>| {
                    list.push(Damage {
                        member: member.path.clone(),
                        offset: member.data_at,
                        wanted: *wanted,
                        found,
                    });
                }),
                Err(first) => {
                    failed.store(true, Ordering::Relaxed);
                    keep(&error, |slot: &mut Option<FormatError>| {
                        slot.get_or_insert(first);
                    });
                }
            }
        }
    };
    let threads = threads.clamp(1, MAX_THREADS).min(work.len().max(1));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    if let Some(error) = into_inner(error) {
        return Err(bundle.named(error));
    }
    let mut damaged = into_inner(damaged);
    if damaged.is_empty() {
        return Ok(());
    }
    damaged.sort_by_key(|damage| damage.offset);
    Err(bundle.named(FormatError::Damaged(damaged)))
}

/// Changes what is behind the lock; a thread that panicked while holding it leaves it usable.
fn keep<T>(lock: &Mutex<T>, change: impl FnOnce(&mut T)) {
    change(
        &mut lock
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner),
    );
}

fn into_inner<T>(lock: Mutex<T>) -> T {
    lock.into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

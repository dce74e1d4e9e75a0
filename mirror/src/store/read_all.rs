//! Reading many small files: by several threads, since each waits for the disk and then parses.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Most threads: beyond that, disks and memory are what is waited for.
const MOST: usize = 8;

/// Files one thread takes at a time; fewer would have threads wait for each other.
const TAKEN: usize = 16;

/// What `read` makes of each of `files`, in their order. Of several errors the first is told.
pub(super) fn each<T: Send, E: Send>(
    files: &[PathBuf],
    read: impl Fn(&Path) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = cores.min(MOST).min(files.len().div_ceil(TAKEN));
    if threads <= 1 {
        return files.iter().map(|file| read(file)).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let from = next.fetch_add(TAKEN, Ordering::Relaxed);
            let Some(rest) = files.get(from..).filter(|rest| !rest.is_empty()) else {
                return done;
            };
            for (n, file) in rest.iter().take(TAKEN).enumerate() {
                let result = read(file);
                let failed = result.is_err();
                done.push((from + n, result));
                if failed {
                    // what comes after it is not needed; what was taken before is finished
                    next.store(files.len(), Ordering::Relaxed);
                    return done;
                }
            }
        }
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_back_in_order_and_the_first_error_is_told() {
        let files: Vec<PathBuf> = (0..1000).map(|n| PathBuf::from(n.to_string())).collect();
        let number = |path: &Path| path.to_str().unwrap().parse::<usize>().unwrap();
        let read = |path: &Path| Ok::<_, usize>(number(path));
        assert!(each(&files, read).unwrap().into_iter().eq(0..1000));
        let read = |path: &Path| match number(path) {
            n if n >= 500 => Err(n),
            n => Ok(n),
        };
        assert_eq!(each(&files, read).unwrap_err(), 500);
        assert!(each(&[], read).unwrap().is_empty());
    }
}

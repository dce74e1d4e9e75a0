//! Notices that files of settings were changed, without help of the system: a mounted secret
//! or a file on a network does not say so.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a file looks like from outside; `None` where there is none.
type Look = Option<(u64, u64, u64, i64, i64, i64, i64)>;

/// Files, and how they looked when they were read.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    paths: Vec<PathBuf>,
    read: Vec<Look>,
    /// How they looked last time.
    last: Vec<Look>,
    /// What was read could not be used, and is looked at again.
    again: bool,
}

impl Changes {
    /// To be made before the files are read, so that no change is missed.
    pub(crate) fn of(paths: Vec<PathBuf>) -> Changes {
        let read = look(&paths);
        Changes {
            last: read.clone(),
            read,
            paths,
            again: false,
        }
    }

    /// Whether they are not as they were read and have come to rest: who replaces two files that
    /// belong together is not caught between them.
    pub(crate) fn due(&mut self) -> bool {
        let now = look(&self.paths);
        let rests = now == self.last;
        self.last = now;
        if rests && self.last != self.read {
            self.read.clone_from(&self.last);
            self.again = false;
            return true;
        }
        rests && self.again
    }

    /// Says whether what changed could be used. As long as it could not it stays due: what was
    /// wrong may lie outside of what can be seen, and the old must not go on for ever.
    fn took(&mut self, used: bool) {
        self.again = !used;
    }

    /// Calls `changed` whenever they changed, for ever, and again with `true` while it answers
    /// `false`: they could not be used. It may read files.
    pub(crate) async fn each(
        mut self,
        every: Duration,
        changed: impl Fn(bool) -> bool + Clone + Send + 'static,
    ) {
        loop {
            tokio::time::sleep(every).await;
            let changed = changed.clone();
            let looking = tokio::task::spawn_blocking(move || {
                if self.due() {
                    let again = self.again;
                    self.took(changed(again));
                }
                self
            });
            match looking.await {
                Ok(looked) => self = looked,
                Err(error) => {
                    tracing::error!(%error, "changed settings are not noticed any more");
                    return std::future::pending().await;
                }
            }
        }
    }
}

fn look(paths: &[PathBuf]) -> Vec<Look> {
    let one = |path: &PathBuf| of(path.metadata().ok()?);
    paths.iter().map(one).collect()
}

fn of(m: Metadata) -> Look {
    let (changed, moved) = ((m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec()));
    let identity = (m.dev(), m.ino(), m.len());
    Some((
        identity.0, identity.1, identity.2, changed.0, changed.1, moved.0, moved.1,
    ))
}

/// Reads a file of settings as text, at most `limit` bytes of it.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let why = format!("it is longer than {limit} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_when_it_has_come_to_rest() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&a, "1").unwrap();
        let mut changes = Changes::of(vec![a.clone(), b.clone()]);
        assert!(!changes.due());
        std::fs::write(&a, "22").unwrap();
        assert!(!changes.due(), "its other half may follow");
        std::fs::write(&b, "1").unwrap();
        assert!(!changes.due());
        assert!(changes.due());
        assert!(!changes.due(), "it was said");
        std::fs::remove_file(&b).unwrap();
        assert!(!changes.due());
        assert!(changes.due(), "a file that is gone is a change");
    }

    #[test]
    fn what_could_not_be_used_stays_due() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let mut changes = Changes::of(vec![file.clone()]);
        std::fs::write(&file, "1").unwrap();
        assert!(!changes.due() && changes.due());
        changes.took(false);
        assert!(changes.due(), "nothing moved, and it is still broken");
        assert!(changes.again, "it was said");
        std::fs::write(&file, "333").unwrap();
        assert!(!changes.due() && changes.due());
        assert!(!changes.again, "this is another");
        changes.took(true);
        assert!(!changes.due());
    }

    #[test]
    fn a_file_without_end_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read_bounded(&file, 5).unwrap(), b"12345");
        assert!(read_bounded(&file, 4).is_err());
        assert!(read_bounded(&folder.path().join("b"), 4).is_err());
    }
}

//! How many files a process may have open, and how many connections that is enough for.

use rustix::process::{Resource, getrlimit, setrlimit};

use super::Limits;

/// Files a server has open besides those of its connections: locks, temporaries, what the
/// keeper reads, the runtime's own.
const OWN: u64 = 256;

/// Of one connection: its socket, and the file it sends or writes.
const OF_A_CONNECTION: u64 = 2;

/// However low the limit is, so many are tried.
const LEAST: u64 = 16;

/// Raises the limit of open files to what this process may ask for, and answers what it is
/// then; `None` where there is none. The usual 1024 are there for programs that use `select`.
pub fn raise_open_files() -> Option<u64> {
    let before = getrlimit(Resource::Nofile);
    let mut raised = before;
    raised.current = before.maximum;
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(error) => {
            tracing::warn!(%error, limit = before.current, "the limit of open files stays");
            before.current
        }
    }
}

impl Limits {
    /// With no more connections than so many open files are enough for.
    #[must_use]
    pub fn within(self, open_files: Option<u64>) -> Limits {
        let Some(files) = open_files else {
            return self;
        };
        let enough = (files.saturating_sub(OWN) / OF_A_CONNECTION).max(LEAST);
        if enough < self.connections as u64 {
            tracing::warn!(
                limit = files,
                connections = enough,
                "the limit of open files allows fewer connections than usual"
            );
        }
        Limits {
            connections: self
                .connections
                .min(usize::try_from(enough).unwrap_or(usize::MAX)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_store() {
        let with = |files| Limits::default().within(files).connections;
        assert_eq!(with(Some(1024)), 384);
        assert_eq!(with(Some(20)), 16);
        assert_eq!(with(Some(1 << 20)), Limits::default().connections);
        assert_eq!(with(None), Limits::default().connections);
    }

    #[test]
    fn the_limit_is_raised_to_what_may_be_asked_for() {
        let raised = raise_open_files();
        let now = getrlimit(Resource::Nofile);
        assert_eq!((raised, now.current), (now.maximum, now.maximum));
    }
}

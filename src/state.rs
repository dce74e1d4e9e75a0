//! What the command remembers of repositories: which root and index it accepted last, and what
//! it saw withdrawn. In `$XDG_STATE_HOME/kubepkg/trust/`, apart from the cache, because losing
//! it opens the way for old indexes.
//!
//! Several runs may work at once. None of them holds a lock while it talks to a server: it
//! notes what it judged by, and when another run has changed that meanwhile it judges again.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use kubepkg_core::time::Time;
use kubepkg_core::trust::{MAX_MEMORY, Memory, Remembered};
use serde_json::json;

use crate::error::CommandError;
use crate::output::Pending;
use crate::places;
use crate::printer::Printer;

/// How often a run judges again because another one has changed what is remembered.
pub const MAX_CONFLICTS: u32 = 8;

/// [`MAX_CONFLICTS`] were not enough.
pub fn busy() -> CommandError {
    CommandError::failed("other runs keep changing what is remembered of these repositories")
        .hint("run the same command again")
}

/// The record of all repositories.
const FILE: &str = "remembered.json";

/// Held while the record is changed.
const LOCK: &str = ".lock";

/// One line for each reset, for whoever asks later.
const RESETS: &str = "resets.jsonl";

/// Largest record that is read, in bytes.
const MAX_FILE: u64 = MAX_MEMORY as u64 * 16;

/// The folder the record lies in.
#[derive(Clone, Debug)]
pub struct State {
    /// None where there is no home directory.
    folder: Option<PathBuf>,
}

impl State {
    /// The user's. Without a home directory, as in some containers, nothing is remembered, and
    /// that is said.
    pub fn of_user(printer: &Printer) -> State {
        let folder = places::state_folder().map(|folder| folder.join("trust"));
        if folder.is_none() {
            printer.warn(
                "there is no home directory, so nothing is remembered of this: an older index \
                 will not be noticed (HOME or XDG_STATE_HOME names one)",
            );
        }
        State { folder }
    }

    /// The file with the record.
    pub fn file(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(FILE))
    }

    /// What is remembered; nothing before the first time.
    ///
    /// # Errors
    /// The record is damaged. That is never "nothing is remembered".
    pub fn read(&self) -> Result<Remembered, CommandError> {
        let Some(file) = self.file() else {
            return Ok(Remembered::default());
        };
        let failed = |error| {
            CommandError::io("cannot read what was accepted before", error).at(file.display())
        };
        let mut bytes = Vec::new();
        match File::open(&file) {
            Ok(open) => open
                .take(MAX_FILE + 1)
                .read_to_end(&mut bytes)
                .map_err(failed)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Remembered::default());
            }
            Err(error) => return Err(failed(error)),
        };
        Remembered::decode(&bytes).map_err(|error| {
            CommandError::refused(error.to_string())
                .at(file.display())
                .hint(format!(
                    "restore the file from a backup; only if there is none, remove it: then an \
                     old index can be taken for the current one once (rm {})",
                    file.display()
                ))
        })
    }

    /// Keeps what a run has accepted: it judged by `before`, and `after` came out. Gives
    /// `false`, and changes nothing, when another run has changed meanwhile what one of these
    /// repositories was judged by.
    pub fn save(&self, before: &Remembered, after: &Remembered) -> Result<bool, CommandError> {
        let changed: Vec<&Memory> = after
            .memories
            .iter()
            .filter(|(id, memory)| before.memory(id) != Some(memory))
            .map(|(_, memory)| memory)
            .collect();
        let Some(folder) = &self.folder else {
            return Ok(true);
        };
        if changed.is_empty() {
            return Ok(true);
        }
        let _lock = lock(folder)?;
        let mut now = self.read()?;
        if changed
            .iter()
            .any(|memory| now.of_url(&memory.url) != before.of_url(&memory.url))
        {
            return Ok(false);
        }
        for memory in changed {
            now.keep(memory.clone());
        }
        write(folder, &now)?;
        Ok(true)
    }

    /// Drops what was accepted under the entry `id`; who is trusted stays. Gives whether there
    /// was something.
    pub fn reset(&self, id: &str, at: Time) -> Result<bool, CommandError> {
        let Some(folder) = &self.folder else {
            return Ok(false);
        };
        let _lock = lock(folder)?;
        let mut now = self.read()?;
        if !now.reset(id) {
            return Ok(false);
        }
        // the line first: a reset that nobody can find again would be worse than none
        let file = folder.join(RESETS);
        let failed =
            |error| CommandError::write("cannot record the reset", error).at(file.display());
        let mut open = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&file)
            .map_err(failed)?;
        writeln!(open, "{}", json!({ "entry": id, "at": at })).map_err(failed)?;
        open.sync_all().map_err(failed)?;
        write(folder, &now)?;
        Ok(true)
    }
}

fn write(folder: &Path, now: &Remembered) -> Result<(), CommandError> {
    let file = folder.join(FILE);
    let text = now.encode();
    // a record that cannot be read again would be worse than the one that is there
    if text.len() as u64 > MAX_FILE {
        return Err(CommandError::failed(format!(
            "what is to be remembered is larger than {MAX_FILE} bytes"
        ))
        .at(file.display())
        .hint(
            "drop what was accepted of a repository you do not use any more: kubepkg trust reset",
        ));
    }
    Pending::write(&file, &text, 0o600)?.replace()
}

/// Waits for other runs; they hold it for an instant.
fn lock(folder: &Path) -> Result<File, CommandError> {
    let failed = |error| {
        CommandError::write("cannot keep what was accepted", error)
            .at(folder.display())
            .hint("the folder must be writable; XDG_STATE_HOME names another place")
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    restrict(folder).map_err(failed)?;
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(LOCK))
        .map_err(failed)?;
    lock.lock().map_err(failed)?;
    Ok(lock)
}

/// Whoever can write there decides what counts as old.
fn restrict(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = folder.metadata()?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::trust::{Anchor, Clock, Entry, Offer};

    const URL: &str = "https://packages.example.com/index.yaml";

    fn state(folder: &Path) -> State {
        State {
            folder: Some(folder.join("deep/trust")),
        }
    }

    /// What is remembered after an index of this day was accepted as well.
    fn accepted(before: &Remembered, day: u32) -> Remembered {
        let entry = Entry::new(URL.parse().unwrap(), Anchor::Unsigned);
        let text = format!(
            "kind: RepositoryIndex\ngenerated: \"2026-11-{day:02}T00:00:00Z\"\npackages: {{}}\n"
        );
        let index = text.into();
        let offer = Offer {
            index: &index,
            signature: None,
            roots: None,
            table: None,
        };
        let clock = Clock::at("2026-11-30T00:00:00Z".parse().unwrap());
        let verdict = before.judge(&entry, offer, clock).unwrap();
        let mut after = before.clone();
        after.accept(&entry, &verdict);
        after
    }

    #[test]
    fn of_two_runs_at_once_the_second_judges_again() {
        let folder = tempfile::tempdir().unwrap();
        let state = state(folder.path());
        let before = state.read().unwrap();
        assert!(before.memories.is_empty());
        let (one, two) = (accepted(&before, 10), accepted(&before, 11));
        assert!(state.save(&before, &two).unwrap());
        assert!(!state.save(&before, &one).unwrap(), "it would go back");
        assert_eq!(state.read().unwrap().memories, two.memories);
        // nothing new is nothing to write
        assert!(state.save(&one, &one).unwrap());
        use std::os::unix::fs::PermissionsExt as _;
        let mode = folder.path().join("deep/trust").metadata().unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_reset_is_recorded_before_it_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let state = state(folder.path());
        let before = state.read().unwrap();
        let after = accepted(&before, 10);
        state.save(&before, &after).unwrap();
        let id = after.memories.keys().next().unwrap();
        let at = "2026-11-30T00:00:00Z".parse().unwrap();
        assert!(!state.reset("other", at).unwrap());
        assert!(state.reset(id, at).unwrap());
        assert!(!state.reset(id, at).unwrap());
        let record = folder.path().join("deep/trust").join(RESETS);
        assert_eq!(std::fs::read_to_string(record).unwrap().lines().count(), 1);
        let left = state.read().unwrap();
        assert!(left.memories[id].accepted.is_none() && left.memories[id].trust.is_some());
    }
}

//! Files that appear whole under their name or not at all.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use kubepkg_core::time::Time;
use tempfile::NamedTempFile;

use crate::error::CommandError;
use crate::printer::Printer;
use crate::units::local_time;

/// A file that is written and synced, but not yet under its name.
pub struct Pending {
    temporary: NamedTempFile,
    target: PathBuf,
}

impl Pending {
    /// Writes `content` beside `target`, with these permissions (before the umask).
    pub fn write(target: &Path, content: &[u8], mode: u32) -> Result<Pending, CommandError> {
        use std::os::unix::fs::PermissionsExt as _;
        // the error of a temporary file names that file, of which nobody knows
        let failed = |error: io::Error| {
            let told = match (error.kind(), error.raw_os_error()) {
                (io::ErrorKind::NotFound, _) => io::Error::other("its folder does not exist"),
                (_, Some(_)) => error,
                (kind, None) => kind.into(),
            };
            CommandError::write("cannot write the file", told).at(target.display())
        };
        let mut temporary = tempfile::Builder::new()
            .prefix(".tmp-")
            .permissions(std::fs::Permissions::from_mode(mode))
            .tempfile_in(folder(target))
            .map_err(failed)?;
        temporary.write_all(content).map_err(failed)?;
        temporary.as_file().sync_all().map_err(failed)?;
        Ok(Pending {
            temporary,
            target: target.to_owned(),
        })
    }

    /// Gives the file its name, replacing what is there.
    pub fn replace(self) -> Result<(), CommandError> {
        let Pending { temporary, target } = self;
        temporary.persist(&target).map_err(|e| {
            CommandError::write("cannot put the file in place", e.error).at(target.display())
        })?;
        sync_folder(&target)
    }

    /// Gives the file its name; fails when something is there.
    pub fn create(self) -> Result<(), CommandError> {
        let Pending { temporary, target } = self;
        match temporary.persist_noclobber(&target) {
            Ok(_) => sync_folder(&target),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(CommandError::failed("a file of this name has appeared").at(target.display()))
            }
            Err(e) => {
                Err(CommandError::write("cannot put the file in place", e.error)
                    .at(target.display()))
            }
        }
    }
}

/// The time an index is made, when the one it follows was made `before`: always later, as one
/// of the same second would be a fork, and an earlier one old.
pub fn later_than(before: Option<Time>, printer: &Printer) -> Time {
    let now = Time::now();
    let least = before.map_or(now, |before| before.plus(1));
    if least.since(now) > 1 {
        printer.warn(&format!(
            "the clock of this machine is behind the published index, so this one is dated {}",
            local_time(least)
        ));
    }
    now.max(least)
}

/// Whether anything has this name, a dangling link included.
pub fn exists(path: &Path) -> Result<bool, CommandError> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CommandError::io("cannot look at the output", error).at(path.display())),
    }
}

/// Refuses to write to a name that is taken.
pub fn refuse_existing(path: &Path) -> Result<(), CommandError> {
    match exists(path)? {
        true => Err(CommandError::failed("the output exists already")
            .at(path.display())
            .hint("give another name with -o, or --force to replace it")),
        false => Ok(()),
    }
}

fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes a new name durable.
fn sync_folder(target: &Path) -> Result<(), CommandError> {
    File::open(folder(target))
        .and_then(|folder| folder.sync_all())
        .map_err(|e| CommandError::write("cannot make the file durable", e).at(target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_overwritten_by_accident() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let write = |text: &[u8]| Pending::write(&file, text, 0o644).unwrap();
        refuse_existing(&file).unwrap();
        let nowhere = file.join("none/b");
        let Err(error) = Pending::write(&nowhere, b"x", 0o644) else {
            panic!("written");
        };
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(!cause.contains(".tmp-"), "{cause}");
        write(b"x").create().unwrap();
        assert!(write(b"y").create().is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"x");
        assert!(refuse_existing(&file).is_err());
        write(b"y").replace().unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"y");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

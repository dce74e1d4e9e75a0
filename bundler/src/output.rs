//! The file under way: written under a name of its own beside the output, then renamed. The
//! output appears whole or not at all.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{OFlags, RenameFlags};
use rustix::io::Errno;

use crate::CreateError;

/// What stands behind the output's name while it is written.
const PARTIAL: &str = ".partial";

/// A bundle being written. Dropped before [`Output::finish`], it takes the partial file away.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    partial: PathBuf,
    file: Arc<File>,
    force: bool,
    done: bool,
}

impl Output {
    /// Begins to write `path`. An output that exists is refused now, before any work, unless
    /// `force`. A partial file that a killed run left is written anew.
    pub fn begin(path: &Path, force: bool) -> Result<Output, CreateError> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(PARTIAL);
        let partial = PathBuf::from(partial);
        let io = |action, source| CreateError::Io {
            action,
            path: partial.clone(),
            source,
        };
        // Whoever held the lock may have given the file its final name meanwhile. Then it is a
        // finished bundle that we hold, and everything begins anew.
        loop {
            refuse_existing(path, force)?;
            refuse_no_folder(path)?;
            let file = open(&partial).map_err(|source| io("create the file", source))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(CreateError::Locked(partial)),
                Err(TryLockError::Error(source)) => return Err(io("lock the file", source)),
            }
            let ours = is_at(&file, &partial).map_err(|source| io("look at the file", source))?;
            if !ours {
                continue;
            }
            file.set_len(0)
                .map_err(|source| io("empty the file", source))?;
            return Ok(Output {
                path: path.to_owned(),
                file: Arc::new(file),
                partial,
                force,
                done: false,
            });
        }
    }

    /// The name of the file until it is finished.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// The open file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Makes the file durable and gives it its name.
    pub fn finish(mut self) -> Result<(), CreateError> {
        let io = |action, path: &Path, source| CreateError::Io {
            action,
            path: path.to_owned(),
            source,
        };
        self.file
            .sync_all()
            .map_err(|source| io("make the file durable", &self.partial, source))?;
        self.rename()?;
        self.done = true;
        let folder = folder_of(&self.path);
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| io("make the new name durable", folder, source))
    }

    fn rename(&self) -> Result<(), CreateError> {
        let io = |source| CreateError::Io {
            action: "put the file in place",
            path: self.path.clone(),
            source,
        };
        if !self.force {
            // somebody may have made the file since it was looked for
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(
                rustix::fs::CWD,
                &self.partial,
                rustix::fs::CWD,
                &self.path,
                flags,
            ) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => return Err(CreateError::Exists(self.path.clone())),
                // not every file system knows the flag
                Err(Errno::INVAL | Errno::NOSYS) => refuse_existing(&self.path, false)?,
                Err(errno) => return Err(io(errno.into())),
            }
        }
        std::fs::rename(&self.partial, &self.path).map_err(io)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.done {
            // what cannot be removed is written over by the next run
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// Opens the partial file, never through a link: that would empty a file somewhere else.
fn open(partial: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(partial)
}

/// Whether `file` is what stands at `path`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match path.symlink_metadata() {
        Ok(found) => Ok((found.dev(), found.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The folder of a file, `.` where none is written.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn refuse_no_folder(path: &Path) -> Result<(), CreateError> {
    let folder = folder_of(path);
    match folder.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(CreateError::NoFolder(folder.to_owned()))
        }
        // whatever else is wrong is told by opening the file
        _ => Ok(()),
    }
}

fn refuse_existing(path: &Path, force: bool) -> Result<(), CreateError> {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => Err(CreateError::IsFolder(path.to_owned())),
        Ok(_) if !force => Err(CreateError::Exists(path.to_owned())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_overwritten_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.tar");
        drop(Output::begin(&path, false).unwrap());
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        Output::begin(&path, false).unwrap().finish().unwrap();
        assert!(matches!(
            Output::begin(&path, false),
            Err(CreateError::Exists(_))
        ));
        Output::begin(&path, true).unwrap().finish().unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_appeared_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.tar");
        let output = Output::begin(&path, false).unwrap();
        std::fs::write(&path, "other").unwrap();
        assert!(matches!(output.finish(), Err(CreateError::Exists(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"other");
    }

    #[test]
    fn two_at_once_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.tar");
        let _first = Output::begin(&path, false).unwrap();
        assert!(matches!(
            Output::begin(&path, false),
            Err(CreateError::Locked(_))
        ));
    }

    #[test]
    fn a_finished_bundle_is_not_taken_for_a_partial_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.tar");
        let output = Output::begin(&path, false).unwrap();
        // somebody who opened the partial file just before it got its name
        let late = open(output.partial()).unwrap();
        assert!(is_at(&late, output.partial()).unwrap());
        let partial = output.partial().to_owned();
        output.finish().unwrap();
        assert!(!is_at(&late, &partial).unwrap());
        File::create(&partial).unwrap();
        assert!(!is_at(&late, &partial).unwrap());
    }

    #[test]
    fn links_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "text").unwrap();
        let path = folder.path().join("site.tar");
        std::os::unix::fs::symlink(&precious, folder.path().join("site.tar.partial")).unwrap();
        assert!(matches!(
            Output::begin(&path, true),
            Err(CreateError::Io { .. })
        ));
        assert_eq!(std::fs::read(&precious).unwrap(), b"text");
    }
}

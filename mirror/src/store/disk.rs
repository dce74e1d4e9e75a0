//! The few things a store asks of its file system, with the owner and mode of the store's
//! root folder on everything that is made.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kubepkg_core::store::StoreError;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::owner;

/// Makes a [`StoreError::Io`] of a system error.
pub(super) fn failed(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io {
        action,
        path,
        source,
    }
}

/// Makes files and folders as the root folder is.
#[derive(Debug)]
pub(super) struct Disk {
    uid: u32,
    gid: u32,
    folder_mode: u32,
    file_mode: u32,
    /// Folders known to exist and to survive a power loss.
    settled: Mutex<BTreeSet<PathBuf>>,
}

/// Permission bits of a file that a folder of the same kind has: no execute, set-id or sticky.
const FILE_BITS: u32 = 0o666;

/// Permission bits of a folder, set-gid and sticky included.
const FOLDER_BITS: u32 = 0o7777;

/// What the owner of a file can always do.
const OWNER_BITS: u32 = 0o600;

impl Disk {
    /// After the example of `root`.
    pub(super) fn like(root: &Metadata) -> Disk {
        Disk {
            uid: root.uid(),
            gid: root.gid(),
            folder_mode: root.mode() & FOLDER_BITS,
            file_mode: root.mode() & FILE_BITS | OWNER_BITS,
            settled: Mutex::default(),
        }
    }

    /// User and group of everything that is made.
    pub(super) fn owner(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// Creates a file that was not there.
    pub(super) fn create(&self, path: &Path) -> Result<File, StoreError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(self.file_mode)
            .open(path)
            .map_err(failed("create", path))?;
        self.dress(&file, path, self.file_mode).inspect_err(|_| {
            let _ = fs::remove_file(path);
        })?;
        Ok(file)
    }

    /// Opens a file for writing, creating it where it is missing.
    pub(super) fn open_or_create(&self, path: &Path) -> Result<File, StoreError> {
        loop {
            match OpenOptions::new().read(true).write(true).open(path) {
                Ok(file) => return Ok(file),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(failed("open", path)(e)),
            }
            match self.create(path) {
                // somebody else was faster
                Err(StoreError::Io { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other,
            }
        }
    }

    /// Makes a folder that may be there already.
    pub(super) fn make_folder(&self, path: &Path) -> Result<(), StoreError> {
        match DirBuilder::new().mode(self.folder_mode).create(path) {
            Ok(()) => owner::open_folder(path)
                .map_err(failed("open", path))
                .and_then(|folder| self.dress(&folder, path, self.folder_mode))
                .inspect_err(|_| {
                    let _ = fs::remove_dir(path);
                }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) => Err(failed("create", path)(e)),
        }
    }

    /// Makes `path` and what is missing above it, below `top`. Answers the folders to sync so
    /// that it survives a power loss: none once that was done ([`Disk::settle`]). It does not
    /// count that the folder is there: who made it may not have come to its sync.
    pub(super) fn ensure_folder(
        &self,
        top: &Path,
        path: &Path,
    ) -> Result<Vec<PathBuf>, StoreError> {
        let mut parents = Vec::new();
        let mut missing = Vec::new();
        {
            let settled = self.settled();
            let mut at = path;
            while at != top && !settled.contains(at) {
                missing.push(at);
                match at.parent() {
                    Some(parent) => at = parent,
                    None => break,
                }
            }
        }
        for folder in missing.into_iter().rev() {
            self.make_folder(folder)?;
            parents.extend(folder.parent().map(Path::to_owned));
        }
        Ok(parents)
    }

    /// Notes that the entries of these folders and of those above them, below `top`, are
    /// durable.
    pub(super) fn settle<'a>(&self, top: &Path, folders: impl IntoIterator<Item = &'a PathBuf>) {
        let mut settled = self.settled();
        for folder in folders {
            let above = folder.ancestors().take_while(|above| *above != top);
            settled.extend(above.map(Path::to_owned));
        }
    }

    /// Gives what is no file, a socket, the root's owner and the mode of its files.
    pub(super) fn dress_path(&self, path: &Path) -> Result<(), StoreError> {
        owner::give_socket(path, self.uid, self.gid, self.file_mode)
            .map_err(failed("change the owner and mode of", path))
    }

    fn settled(&self) -> std::sync::MutexGuard<'_, BTreeSet<PathBuf>> {
        self.settled
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Gives what was just made the root's owner and mode.
    fn dress(&self, file: &File, path: &Path, mode: u32) -> Result<(), StoreError> {
        let now = file.metadata().map_err(failed("look at", path))?;
        let given = owner::give(file, self.uid, self.gid).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => StoreError::Unusable {
                path: path.to_owned(),
                why: format!(
                    "the store belongs to user {} and group {}, and this process cannot give \
                     files to them; run it as that user, or as root",
                    self.uid, self.gid
                ),
            },
            _ => failed("change the owner of", path)(e),
        })?;
        // chown takes set-id bits away, umask took others
        if given || now.mode() & FOLDER_BITS != mode {
            file.set_permissions(fs::Permissions::from_mode(mode))
                .map_err(failed("change the mode of", path))?;
        }
        Ok(())
    }
}

/// Renames, unless something is there already: then `false`.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // file systems without that flag, e.g. NFS: a hard link never replaces either
        Err(Errno::INVAL | Errno::NOSYS) => match fs::hard_link(from, to) {
            Ok(()) => {
                // it is there; a second name among the temporaries goes with them
                let _ = fs::remove_file(from);
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        },
        Err(e) => Err(e.into()),
    }
}

/// Length of the file at `path`, `None` when there is none.
pub(super) fn length(path: &Path) -> Result<Option<u64>, StoreError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed("look at", path)(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_has_the_mode_of_the_root() {
        let root = tempfile::tempdir().unwrap();
        for (folder_mode, file_mode) in [(0o2770, 0o660), (0o700, 0o600), (0o755, 0o644)] {
            let permissions = fs::Permissions::from_mode(folder_mode);
            fs::set_permissions(root.path(), permissions).unwrap();
            let disk = Disk::like(&root.path().metadata().unwrap());
            let folder = root.path().join(format!("{folder_mode}"));
            disk.make_folder(&folder).unwrap();
            disk.create(&folder.join("file")).unwrap();
            let mode = |path: &Path| path.metadata().unwrap().mode() & FOLDER_BITS;
            assert_eq!(mode(&folder), folder_mode);
            assert_eq!(mode(&folder.join("file")), file_mode);
        }
    }

    #[test]
    fn renaming_never_replaces() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (root.path().join("a"), root.path().join("b"));
        fs::write(&a, "1").unwrap();
        assert!(rename_new(&a, &b).unwrap());
        fs::write(&a, "2").unwrap();
        assert!(!rename_new(&a, &b).unwrap());
        assert_eq!(fs::read(&b).unwrap(), b"1");
    }
}

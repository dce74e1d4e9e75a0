//! What lies in a folder, read without following a single link, so that nothing outside of it
//! can come into a tree, even while somebody changes it.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, statat};

use super::tar::{EXECUTABLE, PLAIN};
use super::{MAX_DEPTH, MAX_FILES, MAX_PATH, TreeError};

/// A file, as it was when its folder was read.
#[derive(Debug)]
pub(super) struct Listed {
    /// Its path in the tree, elements joined by `/`.
    pub path: String,
    pub size: u64,
    /// The mode it has in the tree.
    pub mode: u32,
    seen: Seen,
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Seen {
    #[expect(clippy::unnecessary_cast, reason = "the types differ between systems")]
    fn of(stat: &Stat) -> Seen {
        Seen {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as i64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        }
    }
}

/// A folder that is to become a tree.
pub(super) struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Folder {
    /// Opens it. That it is itself behind a link is fine: whoever names it means it.
    pub fn open(path: &Path) -> Result<Folder, TreeError> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        match open(path, flags, Mode::empty()) {
            Ok(fd) => Ok(Folder {
                path: path.to_owned(),
                fd,
            }),
            Err(rustix::io::Errno::NOTDIR) => Err(TreeError::NoFolder(path.to_owned())),
            Err(error) => Err(TreeError::Read(path.to_owned(), error.into())),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    /// Opens what lies at `path`, folder by folder.
    fn beneath(&self, path: &str, last: OFlags) -> io::Result<OwnedFd> {
        let mut folder: Option<OwnedFd> = None;
        let mut rest = path;
        while let Some((element, further)) = rest.split_once('/') {
            let from = folder.as_ref().unwrap_or(&self.fd);
            folder = Some(openat(from, element, FOLDER, Mode::empty())?);
            rest = further;
        }
        let from = folder.as_ref().unwrap_or(&self.fd);
        // the folder itself
        let rest = if rest.is_empty() { "." } else { rest };
        Ok(openat(from, rest, last, Mode::empty())?)
    }

    /// All its files, in the order of their paths.
    pub fn list(&self) -> Result<Vec<Listed>, TreeError> {
        let mut files = Vec::new();
        let mut open = vec![(String::new(), 0)];
        while let Some((folder, depth)) = open.pop() {
            if depth > MAX_DEPTH {
                return Err(TreeError::TooLarge {
                    path: self.at(&folder),
                    why: format!("there are more than {MAX_DEPTH} folders below each other"),
                });
            }
            let failed = |error| TreeError::Read(self.at(&folder), error);
            let fd = self.beneath(&folder, FOLDER).map_err(failed)?;
            for entry in Dir::read_from(&fd).map_err(|error| failed(error.into()))? {
                let entry = entry.map_err(|error| failed(error.into()))?;
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                let path = self.path_of(&folder, name)?;
                let stat = statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                let stat = stat.map_err(|error| TreeError::Read(self.at(&path), error.into()))?;
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => files.push(listed(path, &stat)),
                    FileType::Directory => open.push((path, depth + 1)),
                    other => {
                        return Err(TreeError::Kind {
                            path: self.at(&path),
                            kind: word(other),
                        });
                    }
                }
                if files.len() + open.len() > MAX_FILES {
                    return Err(TreeError::TooLarge {
                        path: self.path.clone(),
                        why: format!("there are more than {MAX_FILES} files in it"),
                    });
                }
            }
        }
        if files.is_empty() {
            return Err(TreeError::Empty(self.path.clone()));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// The path of the entry `name` of `folder`.
    fn path_of(&self, folder: &str, name: &[u8]) -> Result<String, TreeError> {
        let here = || self.at(folder).join(std::ffi::OsStr::from_bytes(name));
        let wrong = |why| TreeError::Name { path: here(), why };
        let text = std::str::from_utf8(name).map_err(|_| wrong("its name is not UTF-8"))?;
        if text.chars().any(char::is_control) {
            return Err(wrong("its name has a control character in it"));
        }
        if text.contains('\\') {
            return Err(wrong(
                "its name has a '\\' in it, which parts folders for some",
            ));
        }
        let path = match folder {
            "" => text.to_owned(),
            folder => format!("{folder}/{text}"),
        };
        if path.len() > MAX_PATH {
            let why = format!("its path in the tree has more than {MAX_PATH} bytes");
            return Err(TreeError::TooLarge { path: here(), why });
        }
        Ok(path)
    }

    /// Hands the bytes of `file` to `take`. They are those of the file that was listed, or it is
    /// an error.
    pub fn read(
        &self,
        file: &Listed,
        mut take: impl FnMut(&[u8]) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        use std::io::Read as _;
        let changed = || TreeError::Changed(self.at(&file.path));
        let failed = |error| TreeError::Read(self.at(&file.path), error);
        // not blocking: a pipe may have taken the place of the file
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match self.beneath(&file.path, flags) {
            Ok(fd) => fd,
            // gone, or a link or file where a folder was
            Err(error) if is_other(&error) => return Err(changed()),
            Err(error) => return Err(failed(error)),
        };
        let unchanged = |fd: &OwnedFd| -> Result<bool, TreeError> {
            let stat = fstat(fd).map_err(|error| failed(error.into()))?;
            Ok(Seen::of(&stat) == file.seen)
        };
        if !unchanged(&fd)? {
            return Err(changed());
        }
        let mut reader = File::from(fd);
        let mut buffer = vec![0; 128 * 1024];
        let mut left = file.size;
        while left > 0 {
            let want = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
            match reader.read(&mut buffer[..want]) {
                Ok(0) => return Err(changed()),
                Ok(got) => {
                    take(&buffer[..got])?;
                    left -= got as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        match unchanged(&reader.into())? {
            true => Ok(()),
            false => Err(changed()),
        }
    }
}

fn is_other(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR))
}

fn listed(path: String, stat: &Stat) -> Listed {
    let seen = Seen::of(stat);
    let runs = Mode::from_raw_mode(stat.st_mode).contains(Mode::XUSR);
    Listed {
        path,
        size: u64::try_from(seen.size).unwrap_or(0),
        mode: if runs { EXECUTABLE } else { PLAIN },
        seen,
    }
}

fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "thing of an unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> (tempfile::TempDir, Folder) {
        let scratch = tempfile::tempdir().unwrap();
        for file in files {
            let path = scratch.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        let folder = Folder::open(scratch.path()).unwrap();
        (scratch, folder)
    }

    #[test]
    fn files_stand_in_the_order_of_their_paths() {
        let (scratch, folder) = folder(&["b", "a/z", "a.b", "a/b/c", "ä", ".hidden", "A"]);
        std::fs::create_dir(scratch.path().join("empty")).unwrap();
        let paths: Vec<String> = folder.list().unwrap().into_iter().map(|f| f.path).collect();
        assert_eq!(paths, [".hidden", "A", "a.b", "a/b/c", "a/z", "b", "ä"]);
    }

    #[test]
    fn what_is_neither_file_nor_folder_is_named() {
        let (scratch, folder) = folder(&["a"]);
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink("a", &link).unwrap();
        let error = folder.list().unwrap_err();
        assert!(
            matches!(&error, TreeError::Kind { path, kind: "symbolic link" } if *path == link),
            "{error}"
        );
        std::fs::remove_file(&link).unwrap();
        let socket = scratch.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(folder.list().unwrap_err().to_string().contains("a socket"));
    }

    #[test]
    fn names_that_not_everybody_reads_alike_are_refused() {
        for name in [&b"\xff"[..], b"a\nb", b"a\\b", b"\x7f"] {
            let (scratch, folder) = folder(&["a"]);
            let path = scratch.path().join(std::ffi::OsStr::from_bytes(name));
            std::fs::write(&path, "").unwrap();
            let error = folder.list().unwrap_err();
            assert!(matches!(error, TreeError::Name { path: of, .. } if of == path));
        }
    }

    #[test]
    fn limits_are_kept() {
        let long = vec!["x".repeat(200); 6].join("/");
        let (_scratch, deep) = folder(&[&long]);
        assert!(matches!(deep.list(), Err(TreeError::TooLarge { .. })));
        let deep = format!("{}f", "d/".repeat(MAX_DEPTH));
        let (_scratch, allowed) = folder(&[&deep]);
        assert_eq!(allowed.list().unwrap().len(), 1);
        let (_scratch, deeper) = folder(&[&format!("d/{deep}")]);
        assert!(matches!(deeper.list(), Err(TreeError::TooLarge { .. })));
    }

    #[test]
    fn nothing_there() {
        let (scratch, folder) = folder(&[]);
        assert!(matches!(folder.list(), Err(TreeError::Empty(_))));
        let none = scratch.path().join("none");
        let error = Folder::open(&none).map(|_| ()).unwrap_err();
        assert_eq!(crate::error::Classify::kind(&error), crate::Kind::NotFound);
        std::fs::write(&none, "").unwrap();
        assert!(matches!(Folder::open(&none), Err(TreeError::NoFolder(_))));
    }

    #[test]
    fn a_file_that_changes_is_noticed() {
        let read = |change: &dyn Fn(&Path), during: bool| {
            let (scratch, folder) = folder(&["d/file"]);
            let path = scratch.path().join("d/file");
            let files = folder.list().unwrap();
            if !during {
                change(&path);
            }
            folder.read(&files[0], |_| {
                if during {
                    change(&path);
                }
                Ok(())
            })
        };
        read(&|_| {}, false).unwrap();
        let grown = |path: &Path| std::fs::write(path, "longer than it was").unwrap();
        let cut = |path: &Path| std::fs::write(path, "").unwrap();
        let linked = |path: &Path| {
            std::fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
        };
        let gone = |path: &Path| std::fs::remove_file(path).unwrap();
        let folder_linked = |path: &Path| {
            let folder = path.parent().unwrap();
            let aside = folder.with_extension("aside");
            std::fs::rename(folder, &aside).unwrap();
            std::os::unix::fs::symlink(aside, folder).unwrap();
        };
        let before: [&dyn Fn(&Path); 5] = [&grown, &cut, &linked, &gone, &folder_linked];
        for change in before {
            let error = read(change, false).unwrap_err();
            assert!(matches!(error, TreeError::Changed(_)), "{error}");
        }
        let meanwhile: [&dyn Fn(&Path); 2] = [&grown, &cut];
        for change in meanwhile {
            let error = read(change, true).unwrap_err();
            assert!(matches!(error, TreeError::Changed(_)), "{error}");
        }
    }
}

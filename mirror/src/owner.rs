//! Giving what was made to its owner: root may set up a mirror that runs as somebody else. Who owns
//! the folder it is made in could put a link in its place meanwhile, so owner and mode are changed
//! of what is open, or of the entry itself, and never of what a path leads to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

/// Gives an open file or folder to this user and group; answers whether it had others.
pub(crate) fn give(file: &File, uid: u32, gid: u32) -> io::Result<bool> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) == (uid, gid) {
        return Ok(false);
    }
    // who is not root may change the group alone
    let uid = (now.uid() != uid).then_some(uid);
    let gid = (now.gid() != gid).then_some(gid);
    std::os::unix::fs::fchown(file, uid, gid)?;
    Ok(true)
}

/// Gives what stands at this path, a link itself and not what it leads to.
pub(crate) fn give_entry(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(uid), Some(gid))
}

/// Gives what cannot be opened, a socket, with this mode. A link is refused.
pub(crate) fn give_socket(path: &Path, uid: u32, gid: u32, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let entry = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let now = entry.metadata()?;
    if now.file_type().is_symlink() {
        return Err(Errno::LOOP.into());
    }
    if (now.uid(), now.gid()) != (uid, gid) {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(&entry, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    }
    // fchmod takes nothing that is only looked at; this is the same entry
    let same = format!("/proc/self/fd/{}", entry.as_raw_fd());
    fs::set_permissions(same, fs::Permissions::from_mode(mode))
}

/// Opens a folder, and no link to one.
pub(crate) fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_a_link_leads_to_keeps_owner_and_mode() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        for name in ["file", "folder", "socket"] {
            symlink(name, at(&format!("to-{name}"))).unwrap();
        }
        let now = at("file").metadata().unwrap();
        let (uid, gid) = (now.uid(), now.gid());
        give_socket(&at("socket"), uid, gid, 0o640).unwrap();
        assert_eq!(at("socket").metadata().unwrap().mode() & 0o777, 0o640);
        for name in ["to-file", "to-folder", "to-socket"] {
            assert!(give_socket(&at(name), uid, gid, 0o666).is_err(), "{name}");
            assert!(open_folder(&at(name)).is_err(), "{name}");
        }
        assert_eq!(at("file").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(at("socket").metadata().unwrap().mode() & 0o777, 0o640);
        assert!(!give(&open_folder(&at("folder")).unwrap(), uid, gid).unwrap());
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let owner = |name: &str| at(name).symlink_metadata().unwrap().uid();
        give_entry(&at("to-file"), 4711, 4711).unwrap();
        assert_eq!((owner("file"), owner("to-file")), (uid, 4711));
        give_socket(&at("socket"), 4711, 4711, 0o600).unwrap();
        assert!(give(&File::open(at("file")).unwrap(), 4711, gid).unwrap());
        assert_eq!((owner("file"), owner("socket")), (4711, 4711));
    }
}

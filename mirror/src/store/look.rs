//! What opening a store would do, without doing it.

use std::io;
use std::path::Path;

use kubepkg_core::store::StoreError;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::disk::failed;
use super::layout::Layout;
use super::open::{
    OpenMode, can_read, explain, is_store, may_become_store, not_a_folder, unusable,
};

/// What opening would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Make a store.
    Make,
    /// Use the one that is there.
    Use,
}

pub(super) fn look(root: &Path, mode: OpenMode) -> Result<Looked, StoreError> {
    looked(root, mode).map_err(|error| explain(root, error))
}

fn looked(root: &Path, mode: OpenMode) -> Result<Looked, StoreError> {
    let layout = Layout::new(root.to_owned());
    if is_store(root)? {
        can_read(&layout)?;
        if mode != OpenMode::ReadOnly {
            may_write_store(&layout)?;
        }
        return Ok(Looked::Use);
    }
    if mode != OpenMode::OpenOrCreate {
        return Err(unusable(root, "there is no store in it"));
    }
    if root.exists() {
        may_become_store(&layout)?;
    }
    // what would be made lies in the nearest folder that is there
    let mut above = root;
    while !above.exists() {
        match above.parent() {
            Some(next) if next != Path::new("") => above = next,
            _ => above = Path::new("."),
        }
    }
    match above.is_dir() {
        true => may_write(above, "create a folder in")?,
        false => return Err(not_a_folder(above)),
    }
    Ok(Looked::Make)
}

/// All that is written when a store is opened and changed.
fn may_write_store(layout: &Layout) -> Result<(), StoreError> {
    may_write(layout.root(), "write to")?;
    let files = [layout.lock(), layout.generation(), layout.reserve()];
    for path in layout.folders().iter().chain(&files) {
        match may_write(path, "write to") {
            // it would be made
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            may => may?,
        }
    }
    Ok(())
}

fn may_write(path: &Path, action: &'static str) -> Result<(), StoreError> {
    let wanted = match path.is_dir() {
        true => Access::WRITE_OK | Access::EXEC_OK,
        false => Access::WRITE_OK,
    };
    accessat(CWD, path, wanted, AtFlags::EACCESS).map_err(|e| failed(action, path)(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FileStore;

    #[test]
    fn a_look_says_what_opening_does_and_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/b");
        assert_eq!(look(&root, OpenMode::OpenOrCreate).unwrap(), Looked::Make);
        for mode in [OpenMode::Writable, OpenMode::ReadOnly] {
            assert!(look(&root, mode).is_err());
        }
        assert!(!folder.path().join("a").exists());
        FileStore::open(&root, OpenMode::OpenOrCreate).unwrap();
        for mode in [
            OpenMode::OpenOrCreate,
            OpenMode::Writable,
            OpenMode::ReadOnly,
        ] {
            assert_eq!(look(&root, mode).unwrap(), Looked::Use);
        }
        // other people's files, a file in the way, and a store of another version
        let parent = look(folder.path(), OpenMode::OpenOrCreate).unwrap_err();
        assert!(
            parent.to_string().contains("name an empty folder"),
            "{parent}"
        );
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("below")] {
            assert!(look(&path, OpenMode::OpenOrCreate).is_err(), "{path:?}");
        }
        let marker = root.join("kubepkg-store.json");
        let text = std::fs::read_to_string(&marker).unwrap();
        std::fs::write(&marker, text.replace("\"version\":1", "\"version\":2")).unwrap();
        let newer = look(&root, OpenMode::ReadOnly).unwrap_err();
        assert!(
            newer.to_string().contains("a newer kubepkg made it"),
            "{newer}"
        );
    }
}

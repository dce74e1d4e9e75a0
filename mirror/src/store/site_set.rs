//! Sets of repository files: second names of content, in a folder that is placed whole.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kubepkg_core::store::{SiteEntry, StoreError, Unit};

use super::disk::failed;
use super::open::Writable;
use super::part::Part;
use super::work::TemporaryFolder;

/// The repository files of one index.
pub(super) struct PreparedSet {
    pub(super) set: TemporaryFolder,
    /// The set's own folders.
    pub(super) folders: BTreeSet<PathBuf>,
    /// Where it will lie.
    pub(super) path: PathBuf,
}

impl Writable {
    /// Number of the set of repository files that is current. Call it under the lock, after
    /// [`Writable::redo`].
    pub(super) fn current_set(&self, folder: &str) -> Result<Option<u64>, StoreError> {
        let part = Part::load(&self.layout, [Unit::Site(folder.to_owned())])?;
        Ok(part.names.sites.get(folder).map(|entry| entry.set))
    }

    /// The files of a site in a folder that can become `place`.
    pub(super) fn site_set(
        &self,
        entry: &SiteEntry,
        place: PathBuf,
    ) -> Result<PreparedSet, StoreError> {
        let set = self.work.folder()?;
        let mut folders = BTreeSet::from([set.path().to_owned()]);
        for (path, file) in &entry.files {
            let to = set.path().join(path);
            for folder in Path::new(path).ancestors().skip(1) {
                folders.insert(set.path().join(folder));
            }
            for folder in folders.iter().filter(|folder| to.starts_with(folder)) {
                self.disk.make_folder(folder)?;
            }
            self.link(&self.layout.blob(&file.digest), &to)?;
        }
        Ok(PreparedSet {
            set,
            folders,
            path: place,
        })
    }

    /// A second name for content, or a copy where there are no second names. Content that has
    /// gone since the commit is left out: it is not found, as if it were asked for by digest.
    fn link(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        match fs::hard_link(from, to) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                tracing::warn!(path = %from.display(), "content of a repository file is missing");
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::StorageFull => Err(failed("create", to)(e)),
            Err(_) => {
                let mut source = fs::File::open(from).map_err(failed("open", from))?;
                let mut copy = self.disk.create(to)?;
                io::copy(&mut source, &mut copy)
                    .and_then(|_| copy.sync_all())
                    .map_err(failed("write", to))
            }
        }
    }
}

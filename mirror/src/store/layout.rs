//! Where things lie in a store. Pure: paths in, paths out.
//!
//! No name on disk depends on letter case: repositories are filed under a hash of their name,
//! digests and numbers have one spelling, site folders are lower case by grammar.

use std::path::{Path, PathBuf};

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;

/// Begins the name of everything that is being made and not to be read.
pub(super) const TEMPORARY: &str = ".tmp-";

/// Digits of a generation number: all of `u64`, so that it is written over in place.
pub(super) const NUMBER_WIDTH: usize = 20;

/// Everything that may lie in a store's root, temporaries left aside.
const ROOT: [&str; 25] = [
    "kubepkg-store.json",
    "blobs",
    "names",
    "sites",
    "commits",
    "trust",
    "uploads",
    "leases",
    "attached",
    "condemned",
    "quarantine",
    "reserve",
    "lock",
    "generation",
    "wanted",
    "scrub",
    "collector",
    "keeper",
    "served",
    "gc.sock",
    "pins",
    "users",
    "tls",
    "token-key",
    "lost+found",
];

/// The paths of one store.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(super) fn new(root: PathBuf) -> Layout {
        Layout { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Says that this folder is a store, and of which version.
    pub(super) fn marker(&self) -> PathBuf {
        self.root.join("kubepkg-store.json")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(super) fn generation(&self) -> PathBuf {
        self.root.join("generation")
    }

    pub(super) fn reserve(&self) -> PathBuf {
        self.root.join("reserve")
    }

    /// What clients asked for and did not get.
    pub(super) fn wanted(&self) -> PathBuf {
        self.root.join("wanted")
    }

    /// How far the scrub came.
    pub(super) fn scrub(&self) -> PathBuf {
        self.root.join("scrub")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    pub(super) fn names(&self) -> PathBuf {
        self.root.join("names")
    }

    pub(super) fn sites(&self) -> PathBuf {
        self.root.join("sites")
    }

    pub(super) fn commits(&self) -> PathBuf {
        self.root.join("commits")
    }

    pub(super) fn trust(&self) -> PathBuf {
        self.root.join("trust")
    }

    pub(super) fn uploads(&self) -> PathBuf {
        self.root.join("uploads")
    }

    pub(super) fn leases(&self) -> PathBuf {
        self.root.join("leases")
    }

    /// What collection may remove.
    pub(super) fn condemned(&self) -> PathBuf {
        self.root.join("condemned")
    }

    /// For how long the store has been served.
    pub(super) fn served(&self) -> PathBuf {
        self.root.join("served")
    }

    /// Locked by the process that serves the store and looks after it.
    pub(super) fn keeper(&self) -> PathBuf {
        self.root.join("keeper")
    }

    /// Locked by who collects.
    pub(super) fn collector(&self) -> PathBuf {
        self.root.join("collector")
    }

    /// Damaged content, kept aside for people to look at.
    pub(super) fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    /// Where content lies once it was found to be damaged.
    pub(super) fn quarantined(&self, digest: &Digest) -> PathBuf {
        let name = format!("{}-{}", digest.algorithm().as_str(), digest.hex());
        self.quarantine().join(name)
    }

    /// The folders every store has.
    pub(super) fn folders(&self) -> [PathBuf; 8] {
        [
            self.blobs(),
            self.names(),
            self.sites(),
            self.commits(),
            self.trust(),
            self.uploads(),
            self.leases(),
            self.quarantine(),
        ]
    }

    /// Whether something of this name may lie in a folder that is not a store yet: what an
    /// interrupted creation left, or what a new file system comes with.
    pub(super) fn may_precede(&self, name: &str) -> bool {
        let ours = |path: &PathBuf| path.file_name().is_some_and(|n| n == name);
        name.starts_with(TEMPORARY)
            || name == "lost+found"
            || self.folders().iter().any(ours)
            || [self.lock(), self.generation(), self.reserve()]
                .iter()
                .any(ours)
    }

    /// Whether something of this name belongs into a store's root.
    pub(super) fn knows(name: &str) -> bool {
        name.starts_with(TEMPORARY) || ROOT.contains(&name)
    }

    pub(super) fn blob(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.blob_folder(digest).join(&hex)
    }

    /// The folder a digest's content lies in.
    pub(super) fn blob_folder(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.blobs()
            .join(digest.algorithm().as_str())
            .join(&hex[..2])
    }

    pub(super) fn repository(&self, name: &RepositoryName) -> PathBuf {
        let hex = Digest::sha256(name.as_str()).hex();
        self.names().join(&hex[..2]).join(format!("{hex}.json"))
    }

    /// What was changed in a large repository since its file was written.
    pub(super) fn log(&self, name: &RepositoryName) -> PathBuf {
        self.log_beside(&self.repository(name))
    }

    /// The log that belongs to a repository's file. By its name it comes before that file: who
    /// copies a running store in order of names gets a log that is not newer than its base.
    pub(super) fn log_beside(&self, file: &Path) -> PathBuf {
        let hash = file.file_stem().unwrap_or_default().to_string_lossy();
        file.with_file_name(format!("{hash}-log.jsonl"))
    }

    /// What is current of a site.
    pub(super) fn site(&self, folder: &str) -> PathBuf {
        self.sites().join(folder).join("current.json")
    }

    /// The files a commit brought for a site.
    pub(super) fn site_set(&self, folder: &str, set: u64) -> PathBuf {
        self.sites().join(folder).join(set.to_string())
    }

    pub(super) fn record(&self, number: u64) -> PathBuf {
        self.commits().join(format!("{number}.json"))
    }

    /// An id that could mean something to a file system is replaced by its hash; the file says
    /// the id.
    pub(super) fn trust_entry(&self, entry: &str) -> PathBuf {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
        let file = if entry.len() <= 100
            && entry.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && entry.bytes().all(plain)
        {
            format!("{entry}.json")
        } else {
            // '_' is not in a plain id, so the two kinds never meet
            format!("_{}.json", Digest::sha256(entry).hex())
        };
        self.trust().join(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_files_never_leave_their_folder_or_meet() {
        let layout = Layout::new(PathBuf::from("/s"));
        assert_eq!(
            layout.trust_entry("packages"),
            Path::new("/s/trust/packages.json")
        );
        let odd = ["..", "../x", "a/b", "A", "a", ".tmp-1", "_a", "a b"];
        let paths: std::collections::BTreeSet<_> = odd
            .iter()
            .map(|entry| layout.trust_entry(entry))
            .inspect(|path| {
                assert_eq!(path.parent(), Some(Path::new("/s/trust")));
                assert!(!path.to_string_lossy().contains("trust/."));
            })
            .collect();
        assert_eq!(paths.len(), odd.len());
    }
}

//! Opening and creating a store.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use kubepkg_core::store::StoreError;
use serde::{Deserialize, Serialize};

use super::collect::{Served, Standings};
use super::content::Content;
use super::disk::{Disk, failed};
use super::forms::Forms;
use super::generation::Generation;
use super::layout::Layout;
use super::lock::StoreLock;
use super::snapshot::Snapshot;
use super::sync::{Syncer, sync_folder};
use super::work::{self, Work};
use crate::told::told;

/// The version of the layout this code reads and writes.
const VERSION: u32 = 1;

/// What the marker calls itself.
const FORMAT: &str = "kubepkg store";

/// Room that is given back when the disk is full, for what frees space: collecting, pruning
/// and deleting have to write too.
pub(super) const RESERVE: u64 = 8 * 1024 * 1024;

/// By what it is divided where there is no room for all of it: an eighth is enough for a removal
/// and a collection of some thousand names.
const RESERVE_PARTS: [u64; 4] = [1, 2, 4, 8];

/// Why a store is not written to where locks hold nobody back, and what to do.
const NO_LOCK: &str = "its file system does not keep locks between processes, so two of them \
    could change it at once; mount it with locking (NFS: without nolock) or keep the store on a \
    local disk";

/// How to open a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading and writing; an empty or missing folder becomes a store.
    OpenOrCreate,
    /// For reading and writing a store that is there; where there is none, none is made.
    Writable,
    /// For reading only; nothing on disk is touched.
    ReadOnly,
}

/// `kubepkg-store.json`
#[derive(Serialize, Deserialize)]
struct Marker {
    format: String,
    version: u32,
}

/// What reading and writing share.
pub(super) struct Opened {
    pub(super) layout: Layout,
    pub(super) generation: Arc<Generation>,
    pub(super) content: Arc<Content>,
    pub(super) standings: Arc<Standings>,
    pub(super) snapshot: Arc<Snapshot>,
    /// Whether trust was seen to be as new as the records: once is enough.
    pub(super) trust_compared: AtomicBool,
    pub(super) writable: Option<Writable>,
}

/// What only a process that may write has.
pub(super) struct Writable {
    pub(super) layout: Layout,
    pub(super) generation: Arc<Generation>,
    pub(super) content: Arc<Content>,
    pub(super) standings: Arc<Standings>,
    pub(super) served: Served,
    pub(super) disk: Arc<Disk>,
    pub(super) syncer: Arc<Syncer>,
    pub(super) work: Arc<Work>,
    pub(super) lock: StoreLock,
    pub(super) snapshot: Arc<Snapshot>,
    /// Used under the lock only.
    pub(super) forms: Mutex<Forms>,
}

impl Opened {
    /// The means to write, or why there are none.
    pub(super) fn writable(&self) -> Result<&Writable, StoreError> {
        self.writable.as_ref().ok_or_else(|| {
            let why = "it was opened for reading only; open it for writing to change it";
            unusable(self.layout.root(), why)
        })
    }
}

/// Opens the store at `root`.
pub(super) fn open(root: &Path, mode: OpenMode) -> Result<Opened, StoreError> {
    let opened = match mode {
        OpenMode::OpenOrCreate => open_or_create(root),
        OpenMode::Writable => open_writable(root),
        OpenMode::ReadOnly => open_read_only(root),
    };
    opened.map_err(|e| explain(root, e))
}

/// Whether there is a store at `root`.
pub(super) fn is_store(root: &Path) -> Result<bool, StoreError> {
    let found = match root.metadata() {
        Ok(metadata) if !metadata.is_dir() => Err(not_a_folder(root)),
        Ok(_) => has_marker(&Layout::new(root.to_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(failed("look at", root)(e)),
    };
    found.map_err(|e| explain(root, e))
}

fn open_read_only(root: &Path) -> Result<Opened, StoreError> {
    let layout = Layout::new(root.to_owned());
    if !has_marker(&layout)? {
        return Err(unusable(root, "there is no store in it"));
    }
    let path = layout.generation();
    let file = File::open(&path).map_err(failed("open", &path))?;
    can_read(&layout)?;
    Ok(Opened {
        generation: Arc::new(Generation::new(&path, file)),
        content: Arc::new(Content::new(layout.clone())),
        standings: Arc::new(Standings::new()),
        snapshot: Arc::default(),
        trust_compared: AtomicBool::new(false),
        writable: None,
        layout,
    })
}

fn open_writable(root: &Path) -> Result<Opened, StoreError> {
    if !has_marker(&Layout::new(root.to_owned()))? {
        return Err(unusable(root, "there is no store in it"));
    }
    open_or_create(root)
}

/// Opens the store. Who comes to free space on a full disk needs some for coming in: then the
/// reserve is given back first, and taken again as far as there is room.
fn open_or_create(root: &Path) -> Result<Opened, StoreError> {
    match open_now(root) {
        Err(error)
            if error.is_no_room()
                && fs::remove_file(Layout::new(root.to_owned()).reserve()).is_ok() =>
        {
            tracing::warn!("the disk is full; the reserve is given back to open the store");
            open_now(root)
        }
        done => done,
    }
}

fn open_now(root: &Path) -> Result<Opened, StoreError> {
    let layout = Layout::new(root.to_owned());
    make_root(root)?;
    if !has_marker(&layout)? {
        let fit = may_become_store(&layout);
        // another process may have made the store between the two looks
        if fit.is_err() && !has_marker(&layout)? {
            fit?;
        }
    }
    let metadata = root.metadata().map_err(failed("look at", root))?;
    let disk = Arc::new(Disk::like(&metadata));
    let folder = File::open(root).map_err(failed("open", root))?;
    let syncer = Arc::new(Syncer::new(root, folder));

    let path = layout.lock();
    let lock = StoreLock::new(&path, disk.open_or_create(&path)?);
    let held = lock.hold()?;
    if !held.excludes(&disk.open_or_create(&path)?)? {
        return Err(unusable(root, NO_LOCK));
    }
    for folder in layout.folders() {
        disk.make_folder(&folder)?;
    }
    can_read(&layout)?;
    let path = layout.generation();
    let generation = Arc::new(Generation::new(&path, disk.open_or_create(&path)?));
    work::sweep(&layout, &syncer)?;
    let work = Arc::new(Work::create(
        &layout,
        Arc::clone(&disk),
        Arc::clone(&syncer),
    )?);
    if !has_marker(&layout)? {
        write_marker(&layout, &work, &syncer)?;
    }
    let content = Arc::new(Content::new(layout.clone()));
    let standings = Arc::new(Standings::new());
    let snapshot = Arc::<Snapshot>::default();
    drop(held);
    let writable = Writable {
        layout: layout.clone(),
        generation: Arc::clone(&generation),
        content: Arc::clone(&content),
        standings: Arc::clone(&standings),
        served: Served::new(&layout),
        disk,
        syncer,
        work,
        lock,
        snapshot: Arc::clone(&snapshot),
        forms: Mutex::default(),
    };
    let held = writable.lock.hold()?;
    writable.redo()?;
    if let Err(e) = make_reserve(&layout, &writable.disk) {
        tracing::warn!(error = %told(&e), "no reserve for a full disk could be made");
    }
    drop(held);
    Ok(Opened {
        layout,
        generation,
        content,
        standings,
        snapshot,
        trust_compared: AtomicBool::new(false),
        writable: Some(writable),
    })
}

/// Makes the root folder and what is missing above it.
fn make_root(root: &Path) -> Result<(), StoreError> {
    if root.exists() && !root.is_dir() {
        return Err(not_a_folder(root));
    }
    fs::create_dir_all(root).map_err(failed("create", root))
}

/// Whether there is a store of a version this code knows.
fn has_marker(layout: &Layout) -> Result<bool, StoreError> {
    let path = layout.marker();
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(failed("read", &path)(e)),
    };
    let marker: Marker = serde_json::from_slice(&bytes)
        .map_err(|e| super::sealed::damaged(&path, format!("it says no version: {e}")))?;
    if marker.format != FORMAT {
        return Err(unusable(layout.root(), "its marker is not that of a store"));
    }
    if marker.version > VERSION {
        let why = format!(
            "a newer kubepkg made it (store version {}, this one knows {VERSION}); use that one",
            marker.version
        );
        return Err(unusable(layout.root(), why));
    }
    Ok(true)
}

/// Says that this is a store, once all that a store has is durable: who finds the marker relies
/// on the rest.
fn write_marker(layout: &Layout, work: &Arc<Work>, syncer: &Syncer) -> Result<(), StoreError> {
    let marker = Marker {
        format: FORMAT.to_owned(),
        version: VERSION,
    };
    let path = layout.marker();
    let mut bytes = serde_json::to_vec(&marker)
        .map_err(io::Error::other)
        .map_err(failed("write", &path))?;
    bytes.push(b'\n');
    let errors = syncer.errors();
    let temporary = work.file_of(&bytes)?;
    // who made the folders above, and whether it came to their sync, nobody can tell
    syncer.everything(errors)?;
    temporary.place(&path)?;
    sync_folder(layout.root())
}

/// A folder with other people's files in it is no place for a store.
pub(super) fn may_become_store(layout: &Layout) -> Result<(), StoreError> {
    for path in work::entries(layout.root())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !layout.may_precede(&name) {
            let why = format!(
                "there is no store in it, but \"{}\"; name an empty folder, a new one or a store",
                kubepkg_core::error::shown(&name)
            );
            return Err(unusable(layout.root(), why));
        }
    }
    Ok(())
}

pub(super) fn can_read(layout: &Layout) -> Result<(), StoreError> {
    for folder in layout.folders() {
        match fs::read_dir(&folder) {
            Ok(_) => {}
            // copies and archives often leave out empty folders
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed("list", &folder)(e)),
        }
    }
    Ok(())
}

/// Takes the reserve, or, where there is less room, a part of it.
pub(super) fn make_reserve(layout: &Layout, disk: &Disk) -> Result<(), StoreError> {
    let path = layout.reserve();
    let file = disk.open_or_create(&path)?;
    let length = file.metadata().map_err(failed("look at", &path))?.len();
    let mut made = Ok(());
    for part in RESERVE_PARTS {
        let size = RESERVE / part;
        if length >= size {
            return Ok(());
        }
        made = reserve(&file, size);
        if made.is_ok() {
            if size < RESERVE {
                tracing::warn!(
                    bytes = size,
                    "the reserve for a full disk is smaller than it should be"
                );
            }
            return Ok(());
        }
        // what there was before stays
        file.set_len(length).map_err(failed("cut", &path))?;
    }
    if length == 0 {
        let _ = fs::remove_file(&path);
    }
    made.map_err(failed("reserve room in", &path))
}

fn reserve(mut file: &File, size: u64) -> io::Result<()> {
    let none = rustix::fs::FallocateFlags::empty();
    match rustix::fs::fallocate(file, none, 0, size) {
        // a file system without that: write it
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => io::Seek::rewind(&mut file)
            .and_then(|()| io::copy(&mut io::Read::take(io::repeat(0), size), &mut file))
            .map(|_| ()),
        other => other.map_err(io::Error::from),
    }
}

/// Says who would be allowed, where this process is not.
pub(super) fn explain(root: &Path, error: StoreError) -> StoreError {
    let StoreError::Io {
        action,
        path,
        source,
    } = error
    else {
        return error;
    };
    let me = rustix::process::geteuid().as_raw();
    let why = match source.kind() {
        io::ErrorKind::PermissionDenied => match root.metadata() {
            Ok(metadata) if metadata.uid() != me => format!(
                "user {me} may not {action} {}; it belongs to user {}, run this as that user",
                path.display(),
                metadata.uid()
            ),
            _ => format!(
                "user {me} may not {action} {}; give that user the right to read and write it",
                path.display()
            ),
        },
        io::ErrorKind::ReadOnlyFilesystem => format!(
            "it cannot {action} {}: the file system is mounted for reading only",
            path.display()
        ),
        _ => {
            return StoreError::Io {
                action,
                path,
                source,
            };
        }
    };
    unusable(root, why)
}

pub(super) fn not_a_folder(root: &Path) -> StoreError {
    unusable(root, "it is not a folder; name a folder")
}

pub(super) fn unusable(path: &Path, why: impl Into<String>) -> StoreError {
    StoreError::Unusable {
        path: path.to_owned(),
        why: why.into(),
    }
}

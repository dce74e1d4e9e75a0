//! The file `wanted`: what clients of all processes asked for and did not get.
//!
//! It is a help, not a promise: it is replaced whole and not synced, and one that cannot be
//! read is begun anew.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use kubepkg_core::store::{Names, StoreError};

use super::collect::Standings;
use super::disk::failed;
use super::layout::Layout;
use super::open::Writable;
use super::{FileStore, sealed};
use crate::source::Standing;
use crate::told::told;
use crate::wanted::{Reference, WantedTable, manifest_of};

/// Longest file that is read: the longest names and all clients of 10 000 references take less.
const MAX_FILE: u64 = 16 * 1024 * 1024;

impl FileStore {
    /// The misses that are in the store's file and not among its names.
    pub async fn wanted(&self) -> Result<WantedTable, StoreError> {
        let names = self.names().await?;
        self.work(move |opened| {
            let mut table = read(&opened.layout);
            table.forget(|reference| is_here(&names, &opened.standings, reference));
            Ok(table)
        })
        .await
    }

    /// Adds misses to the store's file and takes out what is among `names`.
    pub(crate) async fn add_wanted(
        &self,
        counted: WantedTable,
        names: Arc<Names>,
    ) -> Result<(), StoreError> {
        self.work(move |opened| opened.writable()?.add_wanted(counted, &names))
            .await
    }
}

impl Writable {
    fn add_wanted(&self, counted: WantedTable, names: &Names) -> Result<(), StoreError> {
        let path = self.layout.wanted();
        // others do the same: who holds the lock of the file that has the name is alone
        let _held = loop {
            if counted.is_empty() && !path.exists() {
                return Ok(());
            }
            let file = self.disk.open_or_create(&path)?;
            file.lock().map_err(failed("lock", &path))?;
            if is_still(&file, &path)? {
                break file;
            }
        };
        let mut table = read(&self.layout);
        let nothing_new = counted.is_empty();
        table.merge(counted);
        let gone = table.forget(|reference| is_here(names, &self.standings, reference));
        if nothing_new && !gone {
            return Ok(());
        }
        self.work
            .file_of(&sealed::encode(&path, &table)?)?
            .place(&path)
    }
}

/// Whether clients get it: what was set aside as damaged is still to be brought.
fn is_here(names: &Names, standings: &Standings, reference: &Reference) -> bool {
    manifest_of(names, reference)
        .is_some_and(|digest| standings.of(&digest) != Standing::Quarantined)
}

/// Whether the file still has this name.
fn is_still(file: &File, path: &std::path::Path) -> Result<bool, StoreError> {
    let looked = failed("look at", path);
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match fs::metadata(path) {
        Ok(named) => Ok(id(named) == id(file.metadata().map_err(looked)?)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(looked(e)),
    }
}

fn read(layout: &Layout) -> WantedTable {
    let path = layout.wanted();
    match fs::metadata(&path) {
        // just made by who is about to fill it
        Ok(metadata) if metadata.len() == 0 => return WantedTable::default(),
        Ok(metadata) if metadata.len() > MAX_FILE => {
            tracing::warn!(path = %path.display(), "the list of misses is too long and begun anew");
            return WantedTable::default();
        }
        _ => {}
    }
    match sealed::read(&path) {
        Ok(table) => table.unwrap_or_default(),
        Err(e) => {
            tracing::warn!(error = %told(&e), "the list of misses is begun anew");
            WantedTable::default()
        }
    }
}

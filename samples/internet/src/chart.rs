//! Chart folders as archives.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use walkdir::WalkDir;

use crate::archive::{Entry, tar_gz};

/// The archive of the chart in `folder`; its files lie under the folder's name in it.
pub fn pack(folder: &Path) -> Result<Vec<u8>> {
    let parent = folder.parent().context("a chart lies in a folder")?;
    let mut entries = BTreeMap::new();
    for found in WalkDir::new(folder) {
        let found = found?;
        if found.file_type().is_file() {
            let name = found
                .path()
                .strip_prefix(parent)?
                .to_string_lossy()
                .into_owned();
            let content =
                std::fs::read(found.path()).with_context(|| found.path().display().to_string())?;
            entries.insert(name, Entry::File(0o644, content));
        }
    }
    Ok(tar_gz(&entries, 0)?.0)
}

//! Archives whose bytes follow from their content alone.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Result;

/// One entry of an archive.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A file: mode and content.
    File(u32, Vec<u8>),
    /// A folder: mode.
    Folder(u32),
}

/// A tar.gz of `entries` by path, sorted, all owned by `owner` (user and group id), no times.
pub fn tar_gz(entries: &BTreeMap<String, Entry>, owner: u64) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, entry) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_mtime(0);
        match entry {
            Entry::File(mode, content) => {
                header.set_entry_type(tar::EntryType::Regular);
                header.set_mode(*mode);
                header.set_size(content.len() as u64);
                tar.append_data(&mut header, path, content.as_slice())?;
            }
            Entry::Folder(mode) => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(*mode);
                header.set_size(0);
                tar.append_data(&mut header, format!("{path}/"), &[][..])?;
            }
        }
    }
    let tar = tar.into_inner()?;
    let mut gz = flate2::GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), flate2::Compression::fast());
    gz.write_all(&tar)?;
    Ok((gz.finish()?, tar))
}

//! The package files of a folder.

use std::io::Read as _;
use std::path::Path;

use kubepkg_core::index::build::{self, Draft, MAX_SOURCE_FILE};
use walkdir::{DirEntry, WalkDir};

use crate::error::CommandError;

/// Reads every package file below `folder`, in the order of their paths.
pub fn collect(folder: &Path) -> anyhow::Result<Draft> {
    let mut found = Vec::new();
    let walk = WalkDir::new(folder)
        // packages mounted from a ConfigMap are links
        .follow_links(true)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| entry.depth() == 0 || !is_hidden(entry));
    for entry in walk {
        let entry = entry.map_err(|error| cannot_walk(folder, error))?;
        if entry.file_type().is_file() && is_yaml(entry.path()) {
            let name = entry.path().display().to_string();
            found.extend(build::read_file(&name, &read(entry.path())?)?);
        }
    }
    if found.is_empty() {
        return Err(
            CommandError::failed("there is no PackageSource in this folder")
                .at(folder.display())
                .hint("a package file is YAML with kind: PackageSource and ends in .yaml or .yml")
                .into(),
        );
    }
    Ok(build::collect(found)?)
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

fn is_yaml(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending == "yaml" || ending == "yml")
}

fn read(path: &Path) -> Result<String, CommandError> {
    let failed = |error| CommandError::io("cannot read the file", error).at(path.display());
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| {
            let limit = MAX_SOURCE_FILE as u64 + 1; // one more, to see that there is more
            file.take(limit).read_to_string(&mut text)
        })
        .map_err(failed)?;
    Ok(text)
}

fn cannot_walk(folder: &Path, error: walkdir::Error) -> CommandError {
    let place = error.path().unwrap_or(folder).display().to_string();
    if error.loop_ancestor().is_some() {
        return CommandError::failed("a link leads back to a folder it lies in").at(place);
    }
    let source = error
        .into_io_error()
        .unwrap_or_else(|| std::io::Error::other("the folder cannot be listed"));
    CommandError::io("cannot read the folder", source).at(place)
}

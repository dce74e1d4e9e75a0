//! A root of trust as files: `root.yaml` and, byte for byte the same, `root/<N>.yaml`.
//!
//! Both are published beside the index. Who reads a repository compares them, so they are
//! always written together.

use std::path::{Path, PathBuf};

use kubepkg_core::error::Classify as _;
use kubepkg_core::time::Time;
use kubepkg_core::trust::{CURRENT, MAX_ROOT, Root, numbered};

use crate::error::CommandError;
use crate::output::{Pending, exists};
use crate::printer::Printer;
use crate::signing::Signers;

/// A root and where it was read.
#[derive(Debug)]
pub struct RootFile {
    /// The root.
    pub root: Root,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// Reads a root.
pub fn read(file: &Path) -> Result<RootFile, CommandError> {
    use std::io::Read as _;
    let failed = |error| CommandError::io("cannot read the root", error).at(file.display());
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(MAX_ROOT as u64 + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    let root = parse(&bytes, file)?;
    Ok(RootFile { root, bytes })
}

/// The root these bytes of `file` are.
pub fn parse(bytes: &[u8], file: &Path) -> Result<Root, CommandError> {
    Root::read(bytes).map_err(|error| {
        let told = CommandError::refused(error.to_string()).at(file.display());
        match error.hint() {
            Some(hint) => told.hint(hint),
            None => told,
        }
    })
}

/// The other file that holds the same root: `root/<N>.yaml` of a `root.yaml`, and `root.yaml`
/// of a `root/<N>.yaml` while that is the current one. A file of another name has none.
pub fn twin(file: &Path, version: u32) -> Result<Option<PathBuf>, CommandError> {
    let name = file.file_name().and_then(|name| name.to_str());
    let folder = file.parent().unwrap_or(Path::new(""));
    if name == Some(CURRENT) {
        return Ok(Some(folder.join(numbered(version))));
    }
    let in_chain = folder.file_name().is_some_and(|name| name == "root");
    if !in_chain || name != Some(&format!("{version}.yaml")) {
        return Ok(None);
    }
    let current = folder.parent().unwrap_or(Path::new("")).join(CURRENT);
    if !exists(&current)? {
        return Ok(None);
    }
    Ok((read(&current)?.root.version == version).then_some(current))
}

/// Version `number` of the root that `file` holds a version of, where it lies beside it.
pub fn version_beside(file: &Path, number: u32) -> Result<Option<RootFile>, CommandError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let in_chain = folder.file_name().is_some_and(|name| name == "root");
    let path = if in_chain {
        folder.join(format!("{number}.yaml"))
    } else {
        folder.join(numbered(number))
    };
    match exists(&path)? {
        true => read(&path).map(Some),
        false => Ok(None),
    }
}

/// Writes `root` as `file` and its twin; gives the twin.
pub fn write(file: &Path, root: &Root) -> Result<Option<PathBuf>, CommandError> {
    let text = root.to_yaml();
    let twin = twin(file, root.version)?;
    let pending = Pending::write(file, text.as_bytes(), 0o644)?;
    if let Some(twin) = &twin {
        make_folder(twin)?;
        // the numbered one first: who sees the new root.yaml finds its twin
        Pending::write(twin, text.as_bytes(), 0o644)?.replace()?;
    }
    pending.replace()?;
    Ok(twin)
}

/// Writes the version that the one in `file` follows, byte for byte, under its number; gives
/// the file. A chain is only looked for beside a `root.yaml`.
pub fn keep(file: &Path, of: &RootFile) -> Result<Option<PathBuf>, CommandError> {
    if file.file_name().is_none_or(|name| name != CURRENT) {
        return Ok(None);
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let kept = folder.join(numbered(of.root.version));
    make_folder(&kept)?;
    Pending::write(&kept, &of.bytes, 0o644)?.replace()?;
    Ok(Some(kept))
}

fn make_folder(of: &Path) -> Result<(), CommandError> {
    let folder = of.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Some(folder) = folder else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .map_err(|error| CommandError::write("cannot make the folder", error).at(folder.display()))
}

/// `root.yaml and root/1.yaml (the same bytes)`.
pub fn told(file: &Path, twin: Option<&Path>) -> String {
    match twin {
        Some(twin) => format!(
            "{} and {} (the same bytes; publish both)",
            file.display(),
            twin.display()
        ),
        None => format!("{}", file.display()),
    }
}

/// Says what the root beside the index `file` would object to in it.
pub fn check_signers(
    file: &Path,
    expires: Option<Time>,
    signers: &Signers,
    printer: &Printer,
) -> Result<(), CommandError> {
    let current = file.with_file_name(CURRENT);
    if !exists(&current)? {
        return Ok(());
    }
    let root = read(&current)?.root;
    for (id, _) in signers.keys() {
        if !root.index.ids().contains(id) {
            printer.warn(&format!(
                "key {id} is no index key of {} version {}: its signature counts for nothing \
                 there",
                current.display(),
                root.version
            ));
        }
    }
    if expires.is_none() {
        printer.warn(
            "under a root of trust an index must expire, and this one does not: make it with \
             --expires 90d",
        );
    }
    Ok(())
}

/// What signatures `root` still needs to be accepted after `before`, one line each.
pub fn missing(root: &Root, before: Option<&Root>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut check = |of: String, set: &kubepkg_core::trust::KeySet| {
        let have = root.signed_by(set);
        if !set.met_by(have.len()) {
            let others = set.ids().into_iter().filter(|id| !have.contains(id));
            let others: Vec<String> = others.map(|id| id.to_string()).collect();
            lines.push(format!(
                "{} of {} signatures by {of}; still to sign: {}",
                have.len(),
                set.threshold(),
                others.join(", ")
            ));
        }
    };
    check(
        format!("the root keys of version {}", root.version),
        &root.root,
    );
    if let Some(before) = before {
        check(
            format!("the root keys of version {}", before.version),
            &before.root,
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::keys::PrivateKey;
    use kubepkg_core::trust::{RootChange, RootDraft};

    fn root() -> (PrivateKey, Root) {
        let key = PrivateKey::generate().unwrap();
        let public = key.public().unwrap();
        let root = Root::first(&RootDraft {
            expires: Time::from_unix(4_000_000_000),
            root: (vec![public.clone()], 1),
            index: (vec![public], 1),
            approvals: None,
            delegations: Vec::new(),
        });
        (key, root.unwrap())
    }

    #[test]
    fn both_files_hold_the_same_bytes_whichever_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let current = folder.path().join("root.yaml");
        let (key, mut root) = root();
        let twin = write(&current, &root).unwrap().unwrap();
        assert_eq!(twin, folder.path().join("root/1.yaml"));
        assert_eq!(missing(&root, None).len(), 1);
        root.sign(&key).unwrap();
        assert!(missing(&root, None).is_empty());
        assert_eq!(write(&twin, &root).unwrap().unwrap(), current);
        let bytes = std::fs::read(&twin).unwrap();
        assert_eq!(bytes, std::fs::read(&current).unwrap());
        // an older version of the chain has no twin any more
        let next = root.next(&RootChange::renewed(root.expires)).unwrap();
        write(&current, &next).unwrap();
        assert_eq!(write(&twin, &root).unwrap(), None);
        assert_eq!(read(&current).unwrap().root.version, 2);
        assert_eq!(missing(&next, Some(&root)).len(), 2);
        let other = folder.path().join("other.yaml");
        assert_eq!(write(&other, &next).unwrap(), None);
        assert_eq!(version_beside(&current, 1).unwrap().unwrap().bytes, bytes);
        assert!(version_beside(&current, 9).unwrap().is_none());
    }
}

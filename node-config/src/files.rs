//! Writing files without touching anything else.
//!
//! What is the same stays as it is, to the inode; what would be overwritten with other content
//! is asked about first, and then nothing is written at all; files that are not wanted are not
//! even looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::{Error, OutFile};

/// Settings are a few KiB. Of an existing file that is longer no more is read than shows that
/// it is another one.
const MAX_EXISTING: u64 = 1024 * 1024;

/// What a run does, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// New, or to be overwritten.
    pub write: Vec<OutFile>,
    /// There already, with the same content.
    pub same: Vec<String>,
    /// There, with other content that may not be overwritten.
    pub conflicts: Vec<String>,
}

/// Compares what is wanted with what exists. Of several wanted files with one path the last
/// counts; `force` turns conflicts into writes.
pub fn plan(existing: &BTreeMap<String, Vec<u8>>, wanted: &[OutFile], force: bool) -> Plan {
    let wanted: BTreeMap<&str, &OutFile> = wanted.iter().map(|f| (f.path.as_str(), f)).collect();
    let mut plan = Plan::default();
    for (path, file) in wanted {
        match existing.get(path) {
            Some(content) if content == file.content.as_bytes() => plan.same.push(path.to_owned()),
            Some(_) if !force => plan.conflicts.push(path.to_owned()),
            _ => plan.write.push(file.clone()),
        }
    }
    plan
}

/// Compares `wanted` with the files below `root`, which need not exist.
pub fn look(root: &Path, wanted: &[OutFile], force: bool) -> Result<Plan, Error> {
    let mut existing = BTreeMap::new();
    for file in wanted {
        let path = root.join(&file.path);
        match read(&path) {
            Ok(content) => {
                existing.insert(file.path.clone(), content);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(Error::Io {
                    action: "read",
                    path,
                    source,
                });
            }
        }
    }
    Ok(plan(&existing, wanted, force))
}

/// Writes `wanted` below `root`, each file whole or not at all, and says what was done. Where
/// files with other content exist and `force` is not set, nothing is written.
pub fn apply(root: &Path, wanted: &[OutFile], force: bool) -> Result<Plan, Error> {
    let plan = look(root, wanted, force)?;
    if !plan.conflicts.is_empty() {
        let paths = plan.conflicts.iter().map(|path| root.join(path));
        return Err(Error::Conflict {
            paths: paths.collect(),
        });
    }
    let mut folders = BTreeSet::new();
    for file in &plan.write {
        let path = root.join(&file.path);
        let folder = path.parent().unwrap_or(root).to_owned();
        write(&folder, &path, &file.content)?;
        folders.insert(folder);
    }
    for folder in folders {
        sync(&folder)?;
    }
    Ok(plan)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = fs::File::open(path)?;
    file.take(MAX_EXISTING).read_to_end(&mut content)?;
    Ok(content)
}

fn write(folder: &Path, path: &Path, content: &str) -> Result<(), Error> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io {
            action,
            path,
            source,
        }
    };
    fs::create_dir_all(folder).map_err(failed("create", folder))?;
    let mut temporary = temporary(folder).map_err(failed("write in", folder))?;
    temporary
        .write_all(content.as_bytes())
        .and_then(|()| temporary.as_file().sync_all())
        .map_err(failed("write", path))?;
    temporary
        .persist(path)
        .map_err(|error| failed("write", path)(error.error))?;
    Ok(())
}

/// A file beside the one it becomes, readable by all as far as the umask lets it: settings
/// hold no secrets, and not every reader is root.
fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".kubepkg-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o644));
    }
    builder.tempfile_in(folder)
}

/// Makes the names in a folder last.
fn sync(folder: &Path) -> Result<(), Error> {
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| Error::Io {
        action: "sync",
        path: PathBuf::from(folder),
        source,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str, content: &str) -> OutFile {
        OutFile {
            path: path.to_owned(),
            content: content.to_owned(),
        }
    }

    /// Every file below `root` with its content.
    fn tree(root: &Path) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for folder in fs::read_dir(root).unwrap().map(|e| e.unwrap().path()) {
            for path in fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()) {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(path).unwrap());
            }
        }
        found
    }

    #[test]
    fn a_first_run_writes_and_a_second_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("certs.d");
        let wanted = [file("a/hosts.toml", "1"), file("b/hosts.toml", "2")];
        let first = apply(&root, &wanted, false).unwrap();
        assert_eq!((first.write.len(), first.same.len()), (2, 0));
        let before = fs::metadata(root.join("a/hosts.toml")).unwrap();
        let second = apply(&root, &wanted, true).unwrap();
        assert_eq!((second.write.len(), second.same.len()), (0, 2));
        let after = fs::metadata(root.join("a/hosts.toml")).unwrap();
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        let want = [("a/hosts.toml", "1"), ("b/hosts.toml", "2")];
        assert!(
            tree(&root)
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .eq(want)
        );
    }

    #[test]
    fn other_content_is_asked_about_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        apply(root, &[file("a/hosts.toml", "somebody's")], false).unwrap();
        let wanted = [file("A/hosts.toml", "new"), file("a/hosts.toml", "ours")];
        let before = tree(root);
        let error = apply(root, &wanted, false).unwrap_err();
        let Error::Conflict { paths } = &error else {
            panic!("{error}");
        };
        assert_eq!(paths, &[root.join("a/hosts.toml")]);
        assert!(error.to_string().contains("a/hosts.toml"));
        assert_eq!(tree(root), before);
        let forced = apply(root, &wanted, true).unwrap();
        assert_eq!(forced.write.len(), 2);
        assert_eq!(tree(root)["a/hosts.toml"], "ours");
    }

    #[test]
    fn other_files_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["other/hosts.toml", "a/ca.crt"] {
            apply(root, &[file(path, "theirs")], false).unwrap();
        }
        apply(root, &[file("a/hosts.toml", "ours")], true).unwrap();
        let want = [
            ("a/ca.crt", "theirs"),
            ("a/hosts.toml", "ours"),
            ("other/hosts.toml", "theirs"),
        ];
        assert!(
            tree(root)
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .eq(want)
        );
    }

    #[test]
    fn a_folder_where_a_file_should_be_is_said_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/hosts.toml")).unwrap();
        let error = apply(folder.path(), &[file("a/hosts.toml", "x")], true).unwrap_err();
        assert!(error.to_string().contains("a/hosts.toml"), "{error}");
    }

    proptest! {
        #[test]
        fn every_wanted_path_is_in_exactly_one_list(
            existing in proptest::collection::btree_map("[a-c]", "[x-z]{0,2}", 0..4),
            wanted in proptest::collection::vec(("[a-d]", "[x-z]{0,2}"), 0..5),
            force in any::<bool>(),
        ) {
            let existing = existing.into_iter().map(|(k, v)| (k, v.into_bytes())).collect();
            let wanted: Vec<OutFile> = wanted.iter().map(|(p, c)| file(p, c)).collect();
            let plan = plan(&existing, &wanted, force);
            let mut all: Vec<&str> = plan.write.iter().map(|f| f.path.as_str()).collect();
            all.extend(plan.same.iter().chain(&plan.conflicts).map(String::as_str));
            all.sort_unstable();
            let paths: BTreeSet<&str> = wanted.iter().map(|f| f.path.as_str()).collect();
            prop_assert!(all.iter().copied().eq(paths));
            prop_assert!(!force || plan.conflicts.is_empty());
        }
    }
}

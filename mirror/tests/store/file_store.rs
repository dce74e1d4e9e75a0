//! What the file store promises beyond the trait.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use kubepkg_core::store::{Change, Store, StoreError};
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::scenario::{URL, check_done, import};
use crate::support::{batch, commit, manifest, noise, now, put, read_range, site, tag};

fn open(root: &Path) -> FileStore {
    FileStore::open(root, OpenMode::OpenOrCreate).unwrap()
}

#[test]
fn names_are_shared_until_somebody_commits() {
    let root = tempfile::tempdir().unwrap();
    let (server, importer) = (open(root.path()), open(root.path()));
    let digest = now(put(&importer, &noise(1, 10))).unwrap();
    now(commit(&importer, vec![manifest("a", digest, 10)])).unwrap();
    let before = now(server.names()).unwrap();
    assert!(Arc::ptr_eq(&before, &now(server.names()).unwrap()));

    let changes = vec![tag("a", "1", digest), manifest("b", digest, 10)];
    now(commit(&importer, changes)).unwrap();
    let after = now(server.names()).unwrap();
    assert_eq!((before.sequence, after.sequence), (1, 2));
    assert_eq!(
        before.repositories.len(),
        1,
        "who holds the old sees the old"
    );
    assert_eq!(after.repositories.len(), 2);
    assert_eq!(after.repositories["a"].tags.len(), 1);
}

#[test]
fn site_files_come_in_sets() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let (old, new) = (noise(1, 100), noise(2, 100));
    now(put(&store, &old)).unwrap();
    now(put(&store, &new)).unwrap();
    let change = site(URL, &[("index.yaml", &old), ("root/1.yaml", &old)]);
    let Change::Site { folder, .. } = change.clone() else {
        unreachable!()
    };
    now(commit(&store, vec![change])).unwrap();
    let first = now(store.site(&folder)).unwrap().unwrap();
    now(commit(&store, vec![site(URL, &[("index.yaml", &new)])])).unwrap();
    let second = now(store.site(&folder)).unwrap().unwrap();
    let file = |entry, path| {
        let range = store.site_file(&folder, entry, path).unwrap();
        range.map(|range| read_range(&range))
    };
    assert_eq!(file(&first, "index.yaml").as_deref(), Some(&old[..]));
    assert_eq!(file(&second, "index.yaml").as_deref(), Some(&new[..]));
    assert_eq!(file(&first, "root/1.yaml").as_deref(), Some(&old[..]));
    // as if the process had been killed between the record and the set
    std::fs::remove_dir_all(root.path().join("sites").join(&folder).join("2")).unwrap();
    assert_eq!(file(&second, "index.yaml").as_deref(), Some(&new[..]));
    for outside in [
        "root/2.yaml",
        "root",
        "../current.json",
        "/etc/passwd",
        "",
        "x/../y",
    ] {
        assert_eq!(file(&first, outside), None, "{outside}");
    }
    assert!(
        store
            .site_file("../sites", &first, "index.yaml")
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_store_can_be_read_without_touching_it() {
    let root = tempfile::tempdir().unwrap();
    import(root.path()).unwrap();
    let reading = FileStore::open(root.path(), OpenMode::ReadOnly).unwrap();
    check_done(&reading);
    let names = now(reading.names()).unwrap();
    let refused = now(reading.commit(names.sequence, batch(Vec::new()))).unwrap_err();
    assert!(matches!(refused, StoreError::Unusable { .. }));
    assert!(refused.to_string().contains("reading only"), "{refused}");
}

#[test]
fn looking_for_a_store_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    assert!(!FileStore::is_at(&root).unwrap());
    assert!(!root.exists());
    assert!(!FileStore::is_at(folder.path()).unwrap());
    import(&root).unwrap();
    assert!(FileStore::is_at(&root).unwrap());
    let file = root.join("kubepkg-store.json");
    let error = FileStore::is_at(file).unwrap_err();
    assert!(error.to_string().contains("not a folder"), "{error}");
}

#[test]
fn a_reader_sees_a_commit_that_was_not_finished() {
    let root = tempfile::tempdir().unwrap();
    import(root.path()).unwrap();
    // as if the process had been killed right after its last record appeared
    std::fs::write(root.path().join("generation"), format!("{:020}\n", 1)).unwrap();
    let folder = root.path().join("names");
    for entry in walk(&folder).into_iter().filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(&entry).unwrap();
        if text.contains("latest") {
            std::fs::remove_file(&entry).unwrap();
        }
    }
    // the first record is done again too where the file does not say it was
    std::fs::write(root.path().join("generation"), format!("{:020}\n", 0)).unwrap();
    check_done(&FileStore::open(root.path(), OpenMode::ReadOnly).unwrap());
    check_done(&open(root.path()));
}

#[test]
fn everything_has_the_owner_and_mode_of_the_root() {
    let root = tempfile::tempdir().unwrap();
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o2750)).unwrap();
    let owner = if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(root.path(), Some(4321), Some(4322)).unwrap();
        (4321, 4322)
    } else {
        let metadata = root.path().metadata().unwrap();
        (metadata.uid(), metadata.gid())
    };
    import(root.path()).unwrap();
    for path in walk(root.path()) {
        let metadata = path.metadata().unwrap();
        let mode = if metadata.is_dir() { 0o2750 } else { 0o640 };
        assert_eq!(metadata.mode() & 0o7777, mode, "{}", path.display());
        assert_eq!(
            (metadata.uid(), metadata.gid()),
            owner,
            "{}",
            path.display()
        );
    }
}

#[test]
#[ignore = "run by the test below, as another user"]
fn opening_process_of_another_user() {
    let root = crate::traced::given_root().unwrap();
    let error = FileStore::open(&root, OpenMode::OpenOrCreate).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    assert!(
        error.to_string().contains("run this as that user"),
        "{error}"
    );
}

#[test]
fn a_store_of_somebody_else_says_who_may_use_it() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        println!("left out: only root can become another user");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    import(root.path()).unwrap();
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // the program as everybody may run it
    let program = tempfile::tempdir().unwrap();
    std::fs::set_permissions(program.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = program.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let test = "file_store::opening_process_of_another_user";
    let status = std::process::Command::new(copy)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(crate::traced::ROOT, root.path())
        .current_dir("/")
        .stdout(std::process::Stdio::null())
        .uid(65534)
        .gid(65534)
        .status()
        .unwrap();
    assert!(status.success());
}

/// Everything below a folder.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path));
        }
        found.push(path);
    }
    found
}

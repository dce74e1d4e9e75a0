//! Damage of every kind is found and told with who suffers; what can be mended is; and a server
//! that works beside it is no damage.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use kubepkg_core::progress::Silent;
use kubepkg_core::store::{Batch, Cause, Store, StoreError};
use kubepkg_mirror::source::Standing;
use kubepkg_mirror::store::check::{CheckSettings, Checked, Fault};
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::site::{APP, Site, WEB, bring};
use crate::support::{batch, commit, content, noise, now, put, tag};

fn check(root: &Path) -> Checked {
    let store = FileStore::open(root, OpenMode::ReadOnly).unwrap();
    check_with(&store)
}

fn check_with(store: &FileStore) -> Checked {
    let stop = AtomicBool::new(false);
    store
        .check(&CheckSettings::default(), &Silent, &stop)
        .unwrap()
}

fn repair(root: &Path) -> Checked {
    let store = FileStore::open(root, OpenMode::OpenOrCreate).unwrap();
    let mut checked = check_with(&store);
    store.repair(&mut checked).unwrap();
    checked
}

fn seen(checked: &Checked) -> Vec<(Fault, String)> {
    let line = |f: &kubepkg_mirror::store::check::Finding| (f.fault, f.path.display().to_string());
    checked.findings.iter().map(line).collect()
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // in place, as a disk does it: links to the file change too
    fs::write(path, bytes).unwrap();
}

fn below(site: &Site, path: &Path) -> String {
    path.strip_prefix(site.root())
        .unwrap()
        .display()
        .to_string()
}

#[test]
fn a_sound_store_has_no_findings() {
    let site = Site::new();
    now(put(&site.store, &noise(9, 700))).unwrap();
    let checked = check(site.root());
    assert_eq!(seen(&checked), []);
    assert_eq!(
        (checked.sequence, checked.repositories, checked.manifests),
        (3, 2, 4)
    );
    // what nobody names yet, and a platform that was not carried, are told and no fault
    assert_eq!(
        (checked.unreferenced.files, checked.unreferenced.bytes),
        (1, 700)
    );
    assert_eq!(checked.sparse, 1);
    assert_eq!(checked.content.files, 9);
}

#[test]
fn a_check_touches_nothing() {
    let site = Site::new();
    flip(&site.blob(&site.layer));
    flip(&site.names(WEB));
    let state = || {
        let mut open = vec![site.root().to_owned()];
        let mut found = Vec::new();
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let m = path.symlink_metadata().unwrap();
                found.push((
                    path.clone(),
                    m.ino(),
                    m.len(),
                    m.mtime_nsec(),
                    m.ctime_nsec(),
                ));
                if path.is_dir() {
                    open.push(path);
                }
            }
        }
        found.sort();
        found
    };
    let before = state();
    assert_eq!(check(site.root()).findings.len(), 2);
    assert_eq!(state(), before);
}

#[test]
fn damage_of_every_kind_of_file_is_found() {
    type Harm = (&'static str, Fault, fn(&Site) -> PathBuf);
    let harms: [Harm; 17] = [
        ("a layer changes", Fault::Damaged, |s| {
            done(s.blob(&s.layer), flip)
        }),
        ("a layer is cut", Fault::Cut, |s| {
            done(s.blob(&s.layer), cut)
        }),
        ("a layer grows", Fault::Damaged, |s| {
            done(s.blob(&s.layer), grow)
        }),
        ("a layer is gone", Fault::Missing, |s| {
            done(s.blob(&s.layer), remove)
        }),
        ("a manifest changes", Fault::Damaged, |s| {
            done(s.blob(&s.manifest), flip)
        }),
        ("a manifest is empty", Fault::Cut, |s| {
            done(s.blob(&s.index), |p| fs::write(p, "").unwrap())
        }),
        ("names change", Fault::Damaged, |s| done(s.names(WEB), flip)),
        ("names are cut", Fault::Damaged, |s| done(s.names(WEB), cut)),
        ("a site changes", Fault::Damaged, |s| {
            done(s.only("current.json"), flip)
        }),
        ("trust changes", Fault::Damaged, |s| {
            done(s.root().join("trust/packages.example.com.json"), flip)
        }),
        ("a record changes", Fault::Damaged, |s| {
            done(s.root().join("commits/2.json"), flip)
        }),
        ("a record is gone", Fault::Missing, |s| {
            done(s.root().join("commits/2.json"), remove)
        }),
        ("the counter is nonsense", Fault::Damaged, |s| {
            done(s.root().join("generation"), |p| fs::write(p, "x").unwrap())
        }),
        ("a repository file is replaced", Fault::Damaged, |s| {
            done(s.only("index.yaml"), |p| {
                fs::remove_file(p).unwrap();
                fs::write(p, "index: 2\n").unwrap();
            })
        }),
        ("a repository file is gone", Fault::Missing, |s| {
            done(s.only("index.yaml"), remove)
        }),
        ("a file of others lies among content", Fault::Strange, |s| {
            done(s.root().join("blobs/sha256/notes.txt"), |p| {
                fs::write(p, "x").unwrap()
            })
        }),
        ("a file of others lies in the root", Fault::Strange, |s| {
            done(s.root().join("notes.txt"), |p| fs::write(p, "x").unwrap())
        }),
    ];
    for (what, fault, harm) in harms {
        let site = Site::new();
        let path = harm(&site);
        let checked = check(site.root());
        let expected = (fault, below(&site, &path));
        assert_eq!(seen(&checked), [expected], "{what}");
        assert!(!checked.findings[0].advice.is_empty(), "{what}");
    }
}

fn done(path: PathBuf, harm: fn(&Path)) -> PathBuf {
    harm(&path);
    path
}

fn cut(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() - 3]).unwrap();
}

fn grow(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes.push(0);
    fs::write(path, bytes).unwrap();
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

#[test]
fn a_finding_names_the_repositories_and_tags_that_suffer() {
    let site = Site::new();
    flip(&site.blob(&site.layer));
    let checked = check(site.root());
    let suffers: Vec<_> = checked.findings[0]
        .suffers
        .iter()
        .map(|s| (s.name.as_str(), s.tags.join(",")))
        .collect();
    // through an index, and directly
    assert_eq!(suffers, [(WEB, "1".to_owned()), (APP, "2".to_owned())]);
    assert!(checked.findings[0].advice.contains("check --repair"));

    let site = Site::new();
    flip(&site.blob(&site.signature));
    let checked = check(site.root());
    assert_eq!(checked.findings[0].suffers.len(), 1);
    assert!(checked.findings[0].suffers[0].tags.is_empty());
}

#[test]
fn a_manifest_whose_layer_is_not_in_its_repository_is_told() {
    let site = Site::new();
    let (config, layer) = (Bytes::from_static(b"{}"), noise(5, 100));
    let (digest, mut changes) = bring(&site.store, "a.example/x", &config, &[&layer]);
    changes.remove(1); // the layer is published and no member
    changes.push(tag("a.example/x", "1", digest));
    now(commit(&site.store, changes)).unwrap();
    let checked = check(site.root());
    assert_eq!(
        seen(&checked),
        [(Fault::Incomplete, below(&site, &site.blob(&digest)))]
    );
    assert_eq!(checked.findings[0].suffers[0].tags, ["1"]);
}

#[test]
fn repair_sets_damaged_content_aside_and_a_push_heals_it() {
    let site = Site::new();
    let whole = now(content(&site.store, &site.layer)).unwrap();
    flip(&site.blob(&site.layer));
    cut(&site.blob(&site.other));
    let checked = repair(site.root());
    assert_eq!(checked.findings.len(), 2);
    assert!(checked.findings.iter().all(|f| f.repaired.is_some()));
    // gone for everybody, and kept to be looked at
    assert_eq!(now(site.store.stat(&site.layer)).unwrap(), None);
    now(site.store.names()).unwrap();
    assert_eq!(site.store.standing(&site.layer), Standing::Quarantined);
    let aside = site
        .root()
        .join(format!("quarantine/sha256-{}", site.layer.hex()));
    assert!(aside.exists());
    let faults: Vec<Fault> = check(site.root())
        .findings
        .iter()
        .map(|f| f.fault)
        .collect();
    assert_eq!(faults, [Fault::Quarantined, Fault::Quarantined]);

    assert_eq!(
        now(put(&site.store, &Bytes::from(whole))).unwrap(),
        site.layer
    );
    let manifest = crate::site::image(
        &Bytes::from_static(b"{}"),
        &[&noise(1, 300_000), &noise(2, 5000)],
        None,
    );
    assert_eq!(now(put(&site.store, &manifest)).unwrap(), site.other);
    assert_eq!(seen(&check(site.root())), []);
}

#[test]
fn missing_content_is_not_here_for_anybody_after_repair() {
    let site = Site::new();
    let whole = now(content(&site.store, &site.manifest)).unwrap();
    remove(&site.blob(&site.manifest));
    let checked = repair(site.root());
    assert!(checked.findings[0].repaired.is_some());
    let store = FileStore::open(site.root(), OpenMode::ReadOnly).unwrap();
    now(store.names()).unwrap();
    assert_eq!(store.standing(&site.manifest), Standing::Quarantined);
    assert_eq!(check(site.root()).findings[0].fault, Fault::Quarantined);
    now(put(&site.store, &Bytes::from(whole))).unwrap();
    now(store.names()).unwrap();
    assert_eq!(store.standing(&site.manifest), Standing::Sound);
    assert_eq!(seen(&check(site.root())), []);
}

#[test]
fn repair_makes_names_anew_from_the_records() {
    for harm in [flip, cut] {
        let site = Site::new();
        let before = now(site.store.names()).unwrap();
        let trust = site.root().join("trust/packages.example.com.json");
        for path in [
            site.names(WEB),
            site.names(APP),
            site.only("current.json"),
            trust,
        ] {
            harm(&path);
        }
        let checked = repair(site.root());
        assert_eq!(checked.findings.len(), 4);
        assert!(checked.findings.iter().all(|f| f.repaired.is_some()));
        assert_eq!(seen(&check(site.root())), []);
        let store = FileStore::open(site.root(), OpenMode::ReadOnly).unwrap();
        assert_eq!(*now(store.names()).unwrap(), *before);
        // the damaged ones are kept
        let kept = fs::read_dir(site.root().join("quarantine"))
            .unwrap()
            .count();
        assert_eq!(kept, 4);
    }
}

#[test]
fn a_damaged_log_of_a_large_repository_is_found_and_made_anew() {
    for harm in [flip, cut] {
        let site = Site::new();
        let digest = site.other;
        let tags = (0..1500).map(|n| tag(APP, &format!("t{n}"), digest));
        now(commit(&site.store, tags.collect())).unwrap();
        for n in 0..3 {
            now(commit(
                &site.store,
                vec![tag(APP, &format!("u{n}"), digest)],
            ))
            .unwrap();
        }
        let before = now(site.store.names()).unwrap();
        let names = site.names(APP);
        let stem = names.file_stem().unwrap().to_str().unwrap();
        let log = names.with_file_name(format!("{stem}-log.jsonl"));
        harm(&log);
        let checked = repair(site.root());
        assert_eq!(checked.findings.len(), 1, "{:?}", checked.findings);
        assert!(
            checked.findings[0].repaired.is_some(),
            "{:?}",
            checked.findings
        );
        assert_eq!(seen(&check(site.root())), []);
        let store = FileStore::open(site.root(), OpenMode::ReadOnly).unwrap();
        assert_eq!(*now(store.names()).unwrap(), *before);
    }
}

#[test]
fn names_are_not_made_up_where_records_are_lost() {
    let site = Site::new();
    flip(&site.names(WEB));
    remove(&site.root().join("commits/1.json"));
    let checked = repair(site.root());
    let names = checked
        .findings
        .iter()
        .find(|f| f.path.starts_with("names"))
        .unwrap();
    assert!(names.repaired.is_none());
    assert!(names.advice.contains("backup"), "{}", names.advice);
    assert!(site.names(WEB).exists());
}

#[test]
fn trust_that_is_older_than_the_records_is_told_and_brought_up() {
    let site = Site::new();
    let path = site.root().join("trust/packages.example.com.json");
    let old = fs::read(&path).unwrap();
    let newer = crate::support::trust("packages.example.com", serde_json::json!({"seen": 2}));
    // only imports, and who resets it, change trust
    let import = Batch {
        cause: Cause::Import(Box::default()),
        ..batch(vec![newer])
    };
    let newest = now(site.store.sequence()).unwrap();
    now(site.store.commit(newest, import)).unwrap();
    now(commit(&site.store, vec![tag(APP, "later", site.other)])).unwrap();
    let new = fs::read(&path).unwrap();
    fs::write(&path, old).unwrap();
    // nobody is told the old one
    let store = FileStore::open(site.root(), OpenMode::Writable).unwrap();
    for refused in [
        now(store.trust_is_current()).unwrap_err(),
        now(store.trust("packages.example.com")).unwrap_err(),
    ] {
        assert!(matches!(refused, StoreError::Mixed { .. }), "{refused}");
    }
    drop(store);
    let checked = check(site.root());
    assert_eq!(
        seen(&checked),
        [(Fault::Stale, "trust/packages.example.com.json".to_owned())]
    );
    assert_eq!(checked.findings[0].suffers[0].name, "packages.example.com");
    repair(site.root());
    assert_eq!(seen(&check(site.root())), []);
    assert_eq!(fs::read(&path).unwrap(), new);
    let store = FileStore::open(site.root(), OpenMode::Writable).unwrap();
    now(store.trust_is_current()).unwrap();
    assert!(now(store.trust("packages.example.com")).unwrap().is_some());
}

#[test]
fn names_younger_than_the_records_take_the_next_commit_after_repair() {
    let site = Site::new();
    now(commit(&site.store, vec![tag(APP, "3", site.other)])).unwrap();
    // as a copy of a running store has it whose records were copied first
    remove(&site.root().join("commits/4.json"));
    fs::write(site.root().join("generation"), format!("{:020}\n", 3)).unwrap();
    let checked = check(site.root());
    assert_eq!(
        seen(&checked),
        [(Fault::Stale, below(&site, &site.names(APP)))]
    );
    repair(site.root());
    assert_eq!(seen(&check(site.root())), []);
    let store = FileStore::open(site.root(), OpenMode::OpenOrCreate).unwrap();
    now(commit(&store, vec![tag(APP, "4", site.other)])).unwrap();
    let app = now(store.repository(&APP.parse().unwrap()))
        .unwrap()
        .unwrap();
    assert_eq!(app.tags.len(), 3);
}

#[test]
fn repository_files_are_made_anew_from_content() {
    let site = Site::new();
    let path = site.only("index.yaml");
    remove(&path);
    repair(site.root());
    assert_eq!(fs::read(&path).unwrap(), b"index: 1\n");
    assert_eq!(seen(&check(site.root())), []);
}

#[test]
fn repository_files_are_what_was_healed_and_not_what_was_damaged() {
    let site = Site::new();
    let bytes = Bytes::from_static(b"index: 1\n");
    let digest = kubepkg_core::Digest::sha256(&bytes);
    // the set has a second name of the same file
    flip(&site.blob(&digest));
    repair(site.root());
    let served = || {
        let names = now(site.store.names()).unwrap();
        let (folder, entry) = names.sites.iter().next().unwrap();
        let range = site.store.site_file(folder, entry, "index.yaml").unwrap();
        range.map(|range| crate::support::read_range(&range))
    };
    assert_eq!(served(), None, "damaged bytes are served");
    now(put(&site.store, &bytes)).unwrap();
    assert_eq!(served().as_deref(), Some(&bytes[..]));
}

#[test]
fn a_file_of_another_owner_is_told_and_given_back() {
    if !rustix_is_root() {
        println!("not run: only root can give files to others");
        return;
    }
    let site = Site::new();
    let path = site.blob(&site.layer);
    std::os::unix::fs::chown(&path, Some(12345), Some(12345)).unwrap();
    let checked = check(site.root());
    assert_eq!(seen(&checked), [(Fault::Owner, below(&site, &path))]);
    repair(site.root());
    assert_eq!(seen(&check(site.root())), []);
}

fn rustix_is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

#[test]
fn what_is_wrong_stands_until_it_is_mended_and_no_longer() {
    let site = Site::new();
    remove(&site.blob(&site.layer));
    assert_eq!(check(site.root()).findings.len(), 1);
    now(put(&site.store, &noise(1, 300_000))).unwrap();
    assert_eq!(seen(&check(site.root())), []);
}

#[test]
fn checking_beside_running_pushes_gives_no_false_alarm() {
    let site = Site::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for pusher in 0..2_u64 {
            let (store, stop) = (&site.store, &stop);
            scope.spawn(move || {
                let name = format!("a.example/pushed-{pusher}");
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (config, layer) = (noise(n * 2 + pusher, 40), noise(n * 7 + pusher, 9000));
                    let (digest, mut changes) = bring(store, &name, &config, &[&layer]);
                    changes.push(tag(&name, "latest", digest));
                    now(commit(store, changes)).unwrap();
                }
            });
        }
        let first = check(site.root()).sequence;
        let mut last = first;
        for _ in 0..1000 {
            let checked = check(site.root());
            assert_eq!(seen(&checked), []);
            last = checked.sequence;
            if last > first + 30 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(last > first + 30, "nothing was pushed meanwhile");
    });
}

#[test]
fn a_check_that_is_stopped_says_so() {
    let site = Site::new();
    let stopped = AtomicBool::new(true);
    assert!(
        site.store
            .check(&CheckSettings::default(), &Silent, &stopped)
            .is_err()
    );
}

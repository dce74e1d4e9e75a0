//! What collection takes and what it leaves, rule by rule.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::store::{Batch, Cause, Change, Committed, ManifestEntry, Store, StoreError};
use kubepkg_core::time::Time;
use kubepkg_mirror::source::Standing;
use kubepkg_mirror::store::{Collected, Collecting, FileStore, OpenMode, Reason};

use crate::support::{blob, commit, content, manifest, noise, now, put, site, tag};

pub fn open(root: &Path) -> FileStore {
    FileStore::open(root, OpenMode::OpenOrCreate).unwrap()
}

fn store() -> (tempfile::TempDir, FileStore) {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    (root, store)
}

/// Without a grace: what one collection condemns the next one removes.
pub fn at_once() -> Collecting {
    Collecting {
        grace: Duration::ZERO,
        ..Collecting::new(Time::from_unix(1_796_000_000))
    }
}

fn untagged() -> Collecting {
    Collecting {
        untagged: true,
        ..at_once()
    }
}

pub fn collect(store: &FileStore, collecting: &Collecting) -> Collected {
    now(store.collect(collecting.clone())).unwrap()
}

/// As many collections as anything could need to go.
pub fn collect_all(store: &FileStore, collecting: &Collecting) {
    for _ in 0..4 {
        collect(store, collecting);
    }
}

fn is_here(store: &FileStore, digest: &Digest) -> bool {
    now(content(store, digest)).is_some()
}

/// An image of two blobs: its manifest, and the blobs.
pub struct Image {
    pub manifest: Bytes,
    pub digest: Digest,
    pub blobs: Vec<Digest>,
}

fn descriptor(bytes: &Bytes, kind: &str) -> serde_json::Value {
    serde_json::json!({
        "mediaType": format!("application/vnd.oci.image.{kind}"),
        "digest": Digest::sha256(bytes).to_string(),
        "size": bytes.len(),
    })
}

pub fn image(store: &FileStore, seed: u64) -> Image {
    let (config, layer) = (noise(seed, 100), noise(seed + 1_000_000, 500));
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor(&config, "config.v1+json"),
        "layers": [descriptor(&layer, "layer.v1.tar")],
    });
    let manifest = Bytes::from(manifest.to_string());
    let blobs = vec![
        now(put(store, &config)).unwrap(),
        now(put(store, &layer)).unwrap(),
    ];
    let digest = now(put(store, &manifest)).unwrap();
    Image {
        manifest,
        digest,
        blobs,
    }
}

impl Image {
    /// The names of it in a repository.
    pub fn names(&self, repository: &str) -> Vec<Change> {
        vec![
            manifest(repository, self.digest, self.manifest.len()),
            blob(repository, self.blobs[0], 100),
            blob(repository, self.blobs[1], 500),
        ]
    }

    pub fn tagged(&self, repository: &str, name: &str) -> Vec<Change> {
        let mut changes = self.names(repository);
        changes.push(tag(repository, name, self.digest));
        changes
    }

    pub fn all(&self) -> Vec<Digest> {
        let mut all = self.blobs.clone();
        all.push(self.digest);
        all
    }

    fn check(&self, store: &FileStore, here: bool, what: &str) {
        for digest in self.all() {
            assert_eq!(is_here(store, &digest), here, "{what}: {digest}");
        }
    }
}

/// A manifest that is about another one.
fn about(store: &FileStore, subject: Digest, seed: u64) -> (Digest, Vec<Change>) {
    let bytes = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor(&Bytes::from("{}"), "empty.v1+json"),
        "layers": [],
        "subject": {"mediaType": "x", "digest": subject.to_string(), "size": 1},
        "annotations": {"seed": seed.to_string()},
    });
    let bytes = Bytes::from(bytes.to_string());
    let config = now(put(store, &Bytes::from("{}"))).unwrap();
    let digest = now(put(store, &bytes)).unwrap();
    let entry = ManifestEntry {
        media_type: "application/vnd.oci.image.manifest.v1+json".into(),
        size: bytes.len() as u64,
        subject: Some(Box::new(subject)),
        artifact_type: None,
        annotations: Default::default(),
    };
    let changes = vec![
        blob("r", config, 2),
        Change::Manifest {
            repository: "r".parse().unwrap(),
            digest,
            new: Some(entry),
        },
    ];
    (digest, changes)
}

pub fn untag(repository: &str, name: &str) -> Change {
    Change::Tag {
        repository: repository.parse().unwrap(),
        tag: name.parse().unwrap(),
        new: None,
    }
}

fn import(store: &FileStore, changes: Vec<Change>) {
    let batch = Batch {
        at: Time::from_unix(1_796_000_000),
        cause: Cause::Import(Box::default()),
        changes,
    };
    let done = now(store.commit(now(store.sequence()).unwrap(), batch)).unwrap();
    assert!(matches!(done, Committed::Done(_)));
}

#[test]
fn bytes_nobody_names_go_with_the_second_collection() {
    let (_root, store) = store();
    let digest = now(put(&store, &noise(1, 700))).unwrap();
    let first = collect(&store, &at_once());
    assert_eq!((first.condemned.contents, first.condemned.bytes), (1, 700));
    assert_eq!(first.removed.contents, 0);
    assert!(is_here(&store, &digest));
    let second = collect(&store, &at_once());
    assert_eq!((second.removed.contents, second.removed.bytes), (1, 700));
    assert_eq!(second.condemned.contents, 0);
    assert!(!is_here(&store, &digest));
}

#[test]
fn what_a_tag_reaches_stays() {
    let (_root, store) = store();
    let image = image(&store, 1);
    now(commit(&store, image.tagged("r", "1"))).unwrap();
    collect_all(&store, &untagged());
    image.check(&store, true, "tagged");
}

#[test]
fn children_of_an_index_stay() {
    let (_root, store) = store();
    let (a, b) = (image(&store, 1), image(&store, 2));
    let index = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            descriptor(&a.manifest, "manifest.v1+json"),
            descriptor(&b.manifest, "manifest.v1+json"),
        ],
    });
    let index = Bytes::from(index.to_string());
    let digest = now(put(&store, &index)).unwrap();
    let mut changes = [a.names("r"), b.names("r")].concat();
    changes.push(manifest("r", digest, index.len()));
    changes.push(tag("r", "1", digest));
    now(commit(&store, changes)).unwrap();
    collect_all(&store, &untagged());
    a.check(&store, true, "child");
    b.check(&store, true, "child");
    now(commit(&store, vec![untag("r", "1")])).unwrap();
    collect_all(&store, &untagged());
    a.check(&store, false, "child of what is gone");
    assert!(!is_here(&store, &digest));
}

#[test]
fn a_manifest_nobody_tagged_stays_unless_it_is_asked_for() {
    let (_root, store) = store();
    let image = image(&store, 1);
    now(commit(&store, image.names("r"))).unwrap();
    collect_all(&store, &at_once());
    image.check(&store, true, "pushed by digest");
    let first = collect(&store, &untagged());
    assert_eq!(first.condemned.names, 3);
    assert_eq!(first.condemned.contents, 3);
    // what was asked for once is done by any later collection
    let second = collect(&store, &at_once());
    assert_eq!((second.removed.names, second.removed.contents), (3, 3));
    image.check(&store, false, "asked for");
    let names = now(store.names()).unwrap();
    assert!(names.repositories["r"].manifests.is_empty());
    assert!(names.repositories["r"].blobs.is_empty());
}

#[test]
fn a_manifest_somebody_asked_for_keeps_all_it_is_made_of() {
    let (_root, store) = store();
    let image = image(&store, 1);
    now(commit(&store, image.names("r"))).unwrap();
    collect(&store, &untagged());
    // as for a HEAD that is answered with 200
    now(store.rescue(vec![image.digest])).unwrap();
    let second = collect(&store, &untagged());
    assert_eq!((second.removed.names, second.removed.contents), (0, 0));
    image.check(&store, true, "confirmed, and its grace begins anew");
    let names = now(store.names()).unwrap();
    assert_eq!(names.repositories["r"].blobs.iter().count(), 2);
    let third = collect(&store, &untagged());
    assert_eq!((third.removed.names, third.removed.contents), (3, 3));
}

#[test]
fn referrers_stay_at_any_depth_and_no_longer_than_what_they_are_about() {
    let (_root, store) = store();
    let image = image(&store, 1);
    now(commit(&store, image.tagged("r", "1"))).unwrap();
    let (signature, changes) = about(&store, image.digest, 1);
    now(commit(&store, changes)).unwrap();
    let (upon, changes) = about(&store, signature, 2);
    now(commit(&store, changes)).unwrap();
    collect_all(&store, &untagged());
    assert!(is_here(&store, &signature) && is_here(&store, &upon));
    now(commit(&store, vec![untag("r", "1")])).unwrap();
    collect_all(&store, &untagged());
    image.check(&store, false, "untagged");
    assert!(!is_here(&store, &signature) && !is_here(&store, &upon));
}

#[test]
fn tags_for_a_digest_live_as_long_as_it_does() {
    for suffix in ["", ".sig", ".att", ".sbom"] {
        let (_root, store) = store();
        let (subject, signature) = (image(&store, 1), image(&store, 2));
        let name = format!("sha256-{}{suffix}", subject.digest.hex());
        now(commit(&store, subject.tagged("r", "1"))).unwrap();
        now(commit(&store, signature.tagged("r", &name))).unwrap();
        collect_all(&store, &untagged());
        signature.check(&store, true, &name);
        now(commit(&store, vec![untag("r", "1")])).unwrap();
        collect_all(&store, &at_once());
        signature.check(&store, true, "nobody asked");
        collect_all(&store, &untagged());
        signature.check(&store, false, &name);
        let names = now(store.names()).unwrap();
        assert!(names.repositories["r"].tags.is_empty(), "{name}");
    }
}

#[test]
fn tags_for_a_digest_that_was_never_here_stay() {
    let (_root, store) = store();
    let signature = image(&store, 2);
    let name = format!("sha256-{}.sig", Digest::sha256("elsewhere").hex());
    now(commit(&store, signature.tagged("r", &name))).unwrap();
    collect_all(&store, &untagged());
    signature.check(&store, true, &name);
}

#[test]
fn a_blob_shared_by_repositories_stays_until_the_last_one_lets_go() {
    let (_root, store) = store();
    let image = image(&store, 1);
    now(commit(&store, image.tagged("a", "1"))).unwrap();
    now(commit(&store, image.tagged("b", "1"))).unwrap();
    now(commit(&store, vec![untag("a", "1")])).unwrap();
    collect_all(&store, &untagged());
    image.check(&store, true, "named in b");
    let names = now(store.names()).unwrap();
    assert!(names.repositories["a"].blobs.is_empty());
    assert_eq!(names.repositories["b"].blobs.len(), 2);
}

#[test]
fn a_blob_uploaded_and_never_named_goes() {
    let (_root, store) = store();
    let bytes = noise(1, 300);
    let digest = now(put(&store, &bytes)).unwrap();
    now(commit(&store, vec![blob("r", digest, 300)])).unwrap();
    let first = collect(&store, &at_once());
    assert_eq!((first.condemned.names, first.condemned.contents), (1, 1));
    let second = collect(&store, &at_once());
    assert_eq!((second.removed.names, second.removed.contents), (1, 1));
    let names = now(store.names()).unwrap();
    assert!(names.repositories["r"].blobs.is_empty());
}

#[test]
fn what_the_last_imports_left_can_be_gone_back_to() {
    let (_root, store) = store();
    let images: Vec<Image> = (0..5).map(|seed| image(&store, seed)).collect();
    for image in &images {
        import(&store, image.tagged("r", "latest"));
        let before: Vec<Change> = [untag("r", "latest")].into();
        // a push in between takes the names away altogether
        now(commit(&store, before)).unwrap();
        let taken = image.names("r").into_iter().map(|change| match change {
            Change::Manifest {
                repository, digest, ..
            } => Change::Manifest {
                repository,
                digest,
                new: None,
            },
            Change::Blob {
                repository, digest, ..
            } => Change::Blob {
                repository,
                digest,
                new: None,
            },
            other => other,
        });
        now(commit(&store, taken.collect())).unwrap();
    }
    collect_all(&store, &untagged());
    for (number, image) in images.iter().enumerate() {
        image.check(&store, number >= 2, &format!("import {number} of 5"));
    }
}

#[test]
fn repository_files_of_old_sets_go() {
    let (root, store) = store();
    let files: Vec<Bytes> = (0..6).map(|seed| noise(seed, 100)).collect();
    let url = "https://packages.example/index.yaml";
    for bytes in &files {
        now(put(&store, bytes)).unwrap();
        import(&store, vec![site(url, &[("index.yaml", bytes)])]);
    }
    collect_all(&store, &at_once());
    let names = now(store.names()).unwrap();
    let (folder, entry) = names.sites.iter().next().unwrap();
    let sets: Vec<u64> = std::fs::read_dir(root.path().join("sites").join(folder))
        .unwrap()
        .filter_map(|path| path.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    assert_eq!(sets.len(), 3, "{sets:?}");
    assert!(
        store
            .site_file(folder, entry, "index.yaml")
            .unwrap()
            .is_some()
    );
    for (number, bytes) in files.iter().enumerate() {
        let here = is_here(&store, &Digest::sha256(bytes));
        assert_eq!(here, number >= 3, "{number}");
    }
}

#[test]
fn a_manifest_that_cannot_be_read_keeps_its_repository() {
    let (root, store) = store();
    let image = image(&store, 1);
    now(commit(&store, image.tagged("r", "1"))).unwrap();
    let hex = image.digest.hex();
    let path = root.path().join("blobs/sha256").join(&hex[..2]).join(&hex);
    std::fs::write(path, "x".repeat(image.manifest.len())).unwrap();
    let orphan = now(put(&store, &noise(9, 10))).unwrap();
    now(commit(&store, vec![blob("r", orphan, 10)])).unwrap();
    for _ in 0..3 {
        let collected = collect(&store, &untagged());
        assert_eq!(collected.unreadable.len(), 1);
    }
    assert!(is_here(&store, &image.blobs[0]) && is_here(&store, &orphan));
}

#[test]
fn condemned_content_is_rescued_by_everybody_who_wants_it() {
    let wants: [fn(&FileStore, &Bytes); 4] = [
        |store, bytes| now(store.rescue(vec![Digest::sha256(bytes)])).unwrap(),
        |store, bytes| {
            now(store.stat(&Digest::sha256(bytes))).unwrap().unwrap();
        },
        |store, bytes| {
            now(put(store, bytes)).unwrap();
        },
        |store, bytes| {
            let digest = Digest::sha256(bytes);
            now(commit(store, vec![blob("r", digest, bytes.len())])).unwrap();
        },
    ];
    for (way, want) in wants.into_iter().enumerate() {
        let (root, store) = store();
        let other = open(root.path());
        let bytes = noise(1, 100);
        let digest = now(put(&store, &bytes)).unwrap();
        collect(&store, &at_once());
        for store in [&store, &other] {
            now(store.names()).unwrap();
            assert_eq!(store.standing(&digest), Standing::Condemned);
        }
        want(&other, &bytes);
        for store in [&store, &other] {
            now(store.names()).unwrap();
            assert_eq!(store.standing(&digest), Standing::Sound, "way {way}");
        }
        let collected = collect(&store, &at_once());
        assert_eq!(collected.removed.contents, 0, "way {way}");
        assert!(is_here(&store, &digest));
        // and nobody is told that it is there who comes too late
        collect_all(&store, &at_once());
        if way != 3 {
            let late = now(other.rescue(vec![digest]));
            assert!(matches!(late, Err(StoreError::Missing { .. })));
        }
    }
}

#[test]
fn a_grace_is_measured_in_the_time_the_store_is_served() {
    let (root, store) = store();
    let digest = now(put(&store, &noise(1, 100))).unwrap();
    let served = |seconds: u64| {
        let text = format!("{:020}\n", seconds * 1000);
        std::fs::write(root.path().join("served"), text).unwrap();
    };
    let hour = Collecting {
        grace: Duration::from_secs(3600),
        ..at_once()
    };
    served(10);
    collect(&store, &hour);
    let waits = collect(&store, &hour).waiting;
    let waiting = waits[&Reason::Grace];
    assert_eq!((waiting.amount.bytes, waiting.seconds), (100, 3600));
    served(3609);
    assert_eq!(collect(&store, &hour).waiting[&Reason::Grace].seconds, 1);
    assert!(is_here(&store, &digest));
    served(3610);
    assert_eq!(collect(&store, &hour).removed.bytes, 100);
}

#[test]
fn content_published_under_a_lease_stays_as_long_as_it_lives() {
    let (_root, store) = store();
    let old = now(put(&store, &noise(1, 100))).unwrap();
    collect(&store, &at_once());
    let lease = now(store.lease()).unwrap();
    let new = now(put(&store, &noise(2, 100))).unwrap();
    for _ in 0..3 {
        collect(&store, &at_once());
    }
    assert!(
        !is_here(&store, &old),
        "condemned before the lease was taken"
    );
    assert!(is_here(&store, &new));
    let waits = collect(&store, &at_once()).waiting;
    assert_eq!(waits[&Reason::Lease].amount.contents, 1);
    drop(lease);
    collect(&store, &at_once());
    assert!(!is_here(&store, &new));
}

#[test]
fn a_lease_ends_with_its_process() {
    let (root, store) = store();
    let digest = now(put(&store, &noise(1, 100))).unwrap();
    std::fs::write(root.path().join("leases/dead"), format!("{:020}\n", 0)).unwrap();
    collect_all(&store, &at_once());
    assert!(!is_here(&store, &digest));
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let (_root, store) = store();
    let digest = now(put(&store, &noise(1, 100))).unwrap();
    let dry = Collecting {
        dry_run: true,
        ..at_once()
    };
    for _ in 0..3 {
        let said = collect(&store, &dry);
        assert_eq!((said.condemned.bytes, said.removed.bytes), (100, 0));
    }
    collect(&store, &at_once());
    let said = collect(&store, &dry);
    assert_eq!((said.condemned.bytes, said.removed.bytes), (0, 100));
    assert!(is_here(&store, &digest));
    assert_eq!(collect(&store, &at_once()).removed, said.removed);
}

#[test]
fn a_damaged_list_only_delays() {
    let (root, store) = store();
    let digest = now(put(&store, &noise(1, 100))).unwrap();
    collect(&store, &at_once());
    let path = root.path().join("condemned");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let again = open(root.path());
    assert_eq!(collect(&again, &at_once()).removed.contents, 0);
    assert!(is_here(&again, &digest));
    assert_eq!(collect(&again, &at_once()).removed.contents, 1);
}

#[test]
fn the_reserve_is_there_again_after_a_collection() {
    let (root, store) = store();
    let reserve = || root.path().join("reserve").metadata().unwrap().len();
    let before = reserve();
    collect_all(&store, &at_once());
    assert_eq!(reserve(), before);
}

#[test]
fn a_damaged_record_keeps_what_was_imported_before_and_no_more() {
    let (root, store) = store();
    let images: Vec<Image> = (0..2).map(|n| image(&store, 900 + n)).collect();
    let pushed = image(&store, 950);
    now(commit(&store, pushed.tagged("a", "pushed"))).unwrap();
    import(&store, images[0].tagged("a", "1"));
    // 3: takes away what the import before it left
    let taken = [untag("a", "pushed"), untag("a", "1")].into_iter();
    let gone = taken.chain(take(&images[0], "a")).chain(take(&pushed, "a"));
    now(commit(&store, gone.collect())).unwrap();
    import(&store, images[1].tagged("a", "1"));
    let never = now(put(&store, &noise(960, 10))).unwrap();
    std::fs::write(root.path().join("commits/3.json"), "{").unwrap();

    collect_all(&store, &at_once());
    let collected = collect(&store, &at_once());
    assert_eq!(collected.damaged_records, [3].into());
    assert!(!is_here(&store, &never), "nothing is collected any more");
    images[0].check(&store, true, "an import before the damaged record");
    pushed.check(&store, true, "what was there when that import came");

    // three newer imports, and nobody asks for what was before
    for n in 0..3 {
        import(
            &store,
            image(&store, 910 + n).tagged("a", &format!("later-{n}")),
        );
    }
    collect_all(&store, &at_once());
    assert_eq!(collect(&store, &at_once()).damaged_records, [].into());
    images[0].check(&store, false, "no import to go back to needs it");
}

/// The changes that take an image out of a repository.
fn take(image: &Image, repository: &str) -> Vec<Change> {
    let gone = image.names(repository).into_iter().map(|mut change| {
        match &mut change {
            Change::Manifest { new, .. } => *new = None,
            Change::Blob { new, .. } => *new = None,
            _ => unreachable!("an image is manifests and blobs"),
        }
        change
    });
    gone.collect()
}

#[test]
fn what_was_set_aside_goes_when_nobody_wants_it_any_more() {
    let (root, store) = store();
    let image = image(&store, 970);
    now(commit(&store, image.tagged("a", "1"))).unwrap();
    let layer = image.blobs[1];
    let hex = layer.hex();
    let path = root.path().join("blobs/sha256").join(&hex[..2]).join(&hex);
    std::fs::write(path, "damaged").unwrap();
    let checking = kubepkg_mirror::store::check::CheckSettings::default();
    let silent = kubepkg_core::progress::Silent;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut checked = store.check(&checking, &silent, &stop).unwrap();
    store.repair(&mut checked).unwrap();
    let aside = || {
        std::fs::read_dir(root.path().join("quarantine"))
            .unwrap()
            .count()
    };
    assert_eq!(aside(), 1);
    collect_all(&store, &at_once());
    assert_eq!(aside(), 1, "a name promises it");

    let gone = std::iter::once(untag("a", "1")).chain(take(&image, "a"));
    now(commit(&store, gone.collect())).unwrap();
    collect(&store, &at_once());
    assert_eq!(aside(), 1, "condemned first");
    let collected = collect(&store, &at_once());
    assert_eq!((aside(), collected.removed.contents), (0, 3));
    now(store.names()).unwrap();
    assert_eq!(store.standing(&layer), Standing::Sound);
}

#[test]
fn what_is_kept_to_go_back_to_an_import_is_told() {
    let (_root, store) = store();
    let image = image(&store, 980);
    import(&store, image.tagged("a", "1"));
    assert_eq!(collect(&store, &at_once()).kept_for_imports.contents, 0);
    let gone = std::iter::once(untag("a", "1")).chain(take(&image, "a"));
    now(commit(&store, gone.collect())).unwrap();
    let told = collect(&store, &at_once()).kept_for_imports;
    assert_eq!(told.contents, 3);
    assert_eq!(told.bytes, 600 + image.manifest.len() as u64);
    let kept = now(store.kept_for_imports(1)).unwrap();
    assert!(image.all().iter().all(|digest| kept.contains(digest)));
}

//! For any sequence of commits: memory, disk and records say the same.

use kubepkg_core::store::{Change, Names, Store};
use kubepkg_mirror::store::{FileStore, OpenMode};
use proptest::prelude::*;

use crate::support::{blob, commit, manifest, noise, now, put, site, tag, trust};

const CONTENTS: usize = 3;

/// A change among few names, so that changes meet.
#[derive(Clone, Debug)]
struct Pick {
    what: u8,
    name: u8,
    content: usize,
    away: bool,
}

fn pick() -> impl Strategy<Value = Pick> {
    (0..6u8, 0..3u8, 0..CONTENTS, prop::bool::weighted(0.3)).prop_map(
        |(what, name, content, away)| Pick {
            what,
            name,
            content,
            away,
        },
    )
}

impl Pick {
    fn changes(&self) -> Vec<Change> {
        let bytes = noise(self.content as u64, 10);
        let digest = kubepkg_core::Digest::sha256(&bytes);
        let repository = format!("r{}", self.name);
        let mut changes = match self.what {
            0 => vec![manifest(&repository, digest, 10)],
            1 => vec![blob(&repository, digest, 10)],
            2 => vec![
                manifest(&repository, digest, 10),
                tag(&repository, "latest", digest),
            ],
            3 => vec![site(
                &format!("https://s{}.example/index.yaml", self.name),
                &[("index.yaml", &bytes)],
            )],
            4 => vec![Change::Upstream {
                repository: repository.parse().unwrap(),
                new: Some(format!("oci://u{}.example/x", self.content)),
            }],
            _ => vec![trust(&repository, serde_json::json!({ "n": self.content }))],
        };
        if let (true, Some(change)) = (self.away, changes.last_mut()) {
            match change {
                Change::Manifest { new, .. } => *new = None,
                Change::Blob { new, .. } => *new = None,
                Change::Tag { new, .. } => *new = None,
                Change::Upstream { new, .. } => *new = None,
                Change::Site { new, .. } => *new = None,
                Change::Trust { new, .. } => *new = None,
            }
        }
        changes
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn memory_disk_and_records_agree(
        batches in prop::collection::vec(prop::collection::vec(pick(), 1..6), 1..8),
        lost in any::<bool>(),
    ) {
        let root = tempfile::tempdir().unwrap();
        let store = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
        for seed in 0..CONTENTS {
            now(put(&store, &noise(seed as u64, 10))).unwrap();
        }
        now(store.names()).unwrap(); // from here on it follows the records
        for batch in &batches {
            let changes = batch.iter().flat_map(Pick::changes).collect();
            // a tag whose manifest is taken away by the same batch is refused
            let _ = now(commit(&store, changes));
            now(store.names()).unwrap();
        }
        let followed = now(store.names()).unwrap();

        let mut replayed = Names::default();
        for number in 1..=now(store.sequence()).unwrap() {
            replayed.apply_record(&now(store.record(number)).unwrap().unwrap());
        }
        prop_assert_eq!(&*followed, &replayed);

        if lost {
            // redoing everything changes nothing
            std::fs::write(root.path().join("generation"), "").unwrap();
        }
        let again = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
        prop_assert_eq!(&*now(again.names()).unwrap(), &replayed);
        for (name, repository) in &replayed.repositories {
            let found = now(again.repository(name)).unwrap();
            prop_assert_eq!(found.as_ref(), Some(&**repository));
        }
        for (folder, entry) in &replayed.sites {
            let found = now(again.site(folder)).unwrap();
            prop_assert_eq!(found.as_ref(), Some(entry));
        }
        for (entry, memory) in &replayed.trust {
            let found = now(again.trust(entry)).unwrap();
            prop_assert_eq!(found.as_ref(), Some(memory));
        }
    }
}

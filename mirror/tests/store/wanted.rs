//! The list of what was asked for in vain, shared by processes.

use std::net::IpAddr;

use kubepkg_core::time::Time;
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_mirror::wanted::{Miss, Reference, Wanted};

use crate::site::{APP, Site};
use crate::support::{commit, now, tag};

fn miss(wanted: &Wanted, reference: &str, client: u8, at: i64) {
    let reference: Reference = reference.parse().unwrap();
    let peer = IpAddr::from([10, 0, 0, client]);
    let what = Miss::Manifest(reference.repository, reference.target);
    wanted.miss_at(what, Some(peer), Time::from_unix(at));
}

fn listed(store: &FileStore) -> Vec<(String, u64, usize)> {
    let table = now(store.wanted()).unwrap();
    let line =
        |m: &kubepkg_mirror::wanted::Misses| (m.reference.to_string(), m.count, m.clients.len());
    table.references().map(line).collect()
}

#[test]
fn what_several_processes_missed_is_added_up() {
    let site = Site::new();
    let other = FileStore::open(site.root(), OpenMode::OpenOrCreate).unwrap();
    let (one, two) = (Wanted::default(), Wanted::default());
    miss(&one, "docker.io/library/x:1", 1, 100);
    miss(&two, "docker.io/library/x:1", 2, 200);
    miss(&two, "quay.io/y:2", 2, 300);
    now(one.flush(&site.store)).unwrap();
    now(two.flush(&other)).unwrap();
    let x = ("docker.io/library/x:1".to_owned(), 2, 2);
    assert_eq!(listed(&site.store), [x, ("quay.io/y:2".to_owned(), 1, 1)]);
    assert!(one.pending().is_empty() && two.pending().is_empty());
    // nothing new leaves the file alone
    let path = site.root().join("wanted");
    let before = path.metadata().unwrap().modified().unwrap();
    now(one.flush(&site.store)).unwrap();
    assert_eq!(path.metadata().unwrap().modified().unwrap(), before);
}

#[test]
fn what_is_here_by_now_leaves_the_list() {
    let site = Site::new();
    let wanted = Wanted::default();
    miss(&wanted, &format!("{APP}:new"), 1, 1);
    miss(&wanted, &format!("{APP}:other"), 1, 1);
    now(wanted.flush(&site.store)).unwrap();
    assert_eq!(listed(&site.store).len(), 2);
    now(commit(&site.store, vec![tag(APP, "new", site.other)])).unwrap();
    // who lists sees it at once, the file follows with the next flush
    assert_eq!(listed(&site.store), [(format!("{APP}:other"), 1, 1)]);
    now(wanted.flush(&site.store)).unwrap();
    let text = std::fs::read_to_string(site.root().join("wanted")).unwrap();
    assert!(text.contains(":other") && !text.contains(":new"), "{text}");
}

#[test]
fn a_damaged_list_is_begun_anew() {
    let site = Site::new();
    let path = site.root().join("wanted");
    for harm in ["", "x", "{\"references\":[]"] {
        std::fs::write(&path, harm).unwrap();
        assert_eq!(listed(&site.store), []);
        let wanted = Wanted::default();
        miss(&wanted, "quay.io/y:2", 2, 300);
        now(wanted.flush(&site.store)).unwrap();
        assert_eq!(listed(&site.store).len(), 1);
    }
}

#[test]
fn a_store_that_is_only_read_keeps_its_counts_in_memory() {
    let site = Site::new();
    let store = FileStore::open(site.root(), OpenMode::ReadOnly).unwrap();
    let wanted = Wanted::default();
    miss(&wanted, "quay.io/y:2", 2, 300);
    assert!(now(wanted.flush(&store)).is_err());
    assert_eq!(wanted.pending().references().count(), 1);
}

#[test]
fn flushes_of_many_lose_nothing() {
    let site = Site::new();
    std::thread::scope(|scope| {
        for client in 0..4 {
            let root = site.root();
            scope.spawn(move || {
                let store = FileStore::open(root, OpenMode::OpenOrCreate).unwrap();
                let wanted = Wanted::default();
                for n in 0..25 {
                    miss(&wanted, "quay.io/y:2", client, n);
                    now(wanted.flush(&store)).unwrap();
                }
            });
        }
    });
    assert_eq!(listed(&site.store), [("quay.io/y:2".to_owned(), 100, 4)]);
}

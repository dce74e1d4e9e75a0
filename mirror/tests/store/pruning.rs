//! What a prune takes, what a collection makes of that, and that one can go back behind it.

use kubepkg_core::store::{Batch, Cause, Change, Committed, Origin, Receipt, Store, TagEntry};
use kubepkg_core::store::{ReceiptIndex, ReceiptPackage};
use kubepkg_core::time::Time;
use kubepkg_core::{Digest, manifest::Manifest};
use kubepkg_mirror::manage::{Fate, Stays, prune, prune_plan};
use kubepkg_mirror::store::{Collecting, FileStore, OpenMode};

use crate::collection::{Image, at_once, collect_all, image};
use crate::support::{commit, content, manifest, now, tag};

/// A package of one repository, named as the tag it brings.
pub async fn import<S: Store>(store: &S, package: &str, image: &Image) -> u64 {
    let origin = Origin {
        entry: "packages".to_owned(),
        package: package.to_owned(),
        version: "1.0.0".to_owned(),
        build: 0,
    };
    let mut changes = image.names("r");
    changes.push(Change::Tag {
        repository: "r".parse().unwrap(),
        tag: package.parse().unwrap(),
        new: Some(TagEntry {
            digest: image.digest,
            origin: Some(Box::new(origin)),
        }),
    });
    let receipt = Receipt {
        bundle: package.to_owned(),
        repositories: vec![ReceiptIndex {
            entry: "packages".to_owned(),
            url: "https://packages.example/index.yaml".to_owned(),
            digest: Digest::sha256("index"),
            generated: None,
            signed_by: Vec::new(),
            root: None,
            acceptable_until: None,
            left_out: 0,
        }],
        packages: vec![ReceiptPackage {
            name: package.to_owned(),
            version: "1.0.0".to_owned(),
            build: 0,
            digest: Digest::sha256(package),
        }],
        ..Receipt::default()
    };
    let batch = Batch {
        at: Time::from_unix(1_796_000_000),
        cause: Cause::Import(Box::new(receipt)),
        changes,
    };
    let expected = store.sequence().await.unwrap();
    match store.commit(expected, batch).await.unwrap() {
        Committed::Done(number) => number,
        conflict => panic!("{conflict:?}"),
    }
}

fn is_here(store: &FileStore, image: &Image) -> bool {
    now(content(store, &image.digest)).is_some()
}

#[test]
fn a_collection_frees_what_was_pruned_and_one_can_go_back_before() {
    let root = tempfile::tempdir().unwrap();
    let store = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
    let images = [1, 2, 3].map(|seed| image(&store, seed));
    let pushed = image(&store, 4);
    now(import(&store, "a", &images[0]));
    let mut changes = pushed.names("r");
    changes.push(tag("r", "mine", pushed.digest));
    now(commit(&store, changes)).unwrap();
    now(import(&store, "b", &images[1]));
    let last = now(import(&store, "c", &images[2]));

    let before = now(store.names()).unwrap();
    let plan = now(prune_plan(&store, 1)).unwrap();
    let fates: Vec<_> = (plan.names.iter())
        .map(|name| (name.tag.as_ref().unwrap().as_str(), &name.fate))
        .collect();
    assert!(matches!(fates[0], ("a", Fate::Goes(weight)) if weight.own > 600));
    assert!(matches!(fates[1], ("b", Fate::Goes(weight)) if weight.shared == 0));
    assert!(
        matches!(fates[2], ("c", Fate::Stays(Stays::Package { import, .. })) if *import == last)
    );
    assert!(matches!(fates[3], ("mine", Fate::Stays(Stays::Pushed))));
    assert_eq!((plan.totals.tags, plan.totals.blobs), (2, 4));
    assert_eq!(now(store.names()).unwrap().sequence, before.sequence);

    let (number, pruning) = now(prune(&store, 1)).unwrap();
    assert_eq!(number, Some(last + 1));
    assert_eq!(pruning.totals, plan.totals);
    assert!(now(prune(&store, 1)).unwrap().1.is_empty());
    // the record leads back
    let mut names = (*now(store.names()).unwrap()).clone();
    let record = store.records_back().unwrap().next().unwrap().unwrap();
    assert_eq!(record.cause, Cause::Prune);
    names.undo_record(&record).unwrap();
    assert!(names == *before);

    // nothing went yet; within the grace an import finds all of it
    let usual = Collecting::new(Time::from_unix(1_796_000_000));
    collect_all(&store, &usual);
    assert!(images.iter().all(|image| is_here(&store, image)));
    now(import(&store, "a", &images[0]));
    collect_all(&store, &at_once());
    let here = images.each_ref().map(|image| is_here(&store, image));
    assert_eq!(here, [true, false, true]);
    assert!(is_here(&store, &pushed));
}

#[test]
fn what_cannot_be_read_takes_nothing_along() {
    let root = tempfile::tempdir().unwrap();
    let store = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
    let (old, new) = (image(&store, 1), image(&store, 2));
    now(import(&store, "a", &old));
    now(import(&store, "b", &new));
    let text = Digest::sha256("no manifest");
    let bytes = bytes::Bytes::from_static(b"no manifest");
    now(crate::support::put(&store, &bytes)).unwrap();
    assert!(Manifest::parse(&bytes, None).is_err());
    let changes = vec![manifest("r", text, bytes.len()), tag("r", "odd", text)];
    now(commit(&store, changes)).unwrap();
    let plan = now(prune_plan(&store, 1)).unwrap();
    assert!(plan.is_empty());
    let unreadable = |fate: &Fate| matches!(fate, Fate::Stays(Stays::Unreadable(_)));
    assert!(plan.names.iter().any(|name| unreadable(&name.fate)));
}

//! What operators do by hand is the same in a bucket as in a folder.

use std::future::Future;

use kubepkg_core::store::Store as _;
use kubepkg_mirror::bucket::{Bucket, BucketMode, BucketStore, move_in};
use kubepkg_mirror::manage::{
    Closure, copy, prune_in_bucket, removal, remove, stat, stat_store, tag,
};
use kubepkg_mirror::route::Target;
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::collection::{Image, image};
use crate::pruning::import;
use crate::site::{Site, WEB};

async fn new_bucket() -> BucketStore {
    let bucket = Bucket::in_memory().unwrap();
    let opened = BucketStore::open(bucket, BucketMode::OpenOrCreate).await;
    opened.unwrap()
}

fn by_tag(text: &str) -> Target {
    Target::Tag(text.parse().unwrap())
}

/// Waits for it in a runtime: what a folder needs is made before, without one.
fn wait<F: Future>(work: F) -> F::Output {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

#[test]
fn a_store_that_moved_is_told_and_changed_as_before() {
    let site = Site::new();
    wait(told_and_changed(&site));
}

async fn told_and_changed(site: &Site) {
    let store = new_bucket().await;
    move_in(&site.store, &store, &|_| {}).await.unwrap();
    let (web, other) = (WEB.parse().unwrap(), "other".parse().unwrap());

    let (before, after) = (stat_store(&site.store).await, stat_store(&store).await);
    let (before, after) = (before.unwrap(), after.unwrap());
    assert_eq!(
        (after.repositories, after.tags),
        (before.repositories, before.tags)
    );
    assert_eq!(
        (after.manifests, after.blobs),
        (before.manifests, before.blobs)
    );
    assert_eq!(after.bytes, before.bytes);
    let before = stat(&site.store, &web, &by_tag("1")).await.unwrap();
    let after = stat(&store, &web, &by_tag("1")).await.unwrap();
    assert_eq!((after.own, after.shared), (before.own, before.shared));
    assert_eq!(after.children, before.children);
    assert_eq!(after.brought.unwrap().commit, 1);

    let new = "2".parse().unwrap();
    let tagged = tag(&store, &web, &by_tag("1"), &new, false).await.unwrap();
    assert_eq!((tagged.commit, tagged.digest), (Some(2), site.index));
    let copied = copy(&store, (&web, &by_tag("1")), (&other, Some(&new)), false).await;
    assert_eq!(copied.unwrap().manifests, 3);

    let (number, removed) = remove(&store, &other, &by_tag("2"), false).await.unwrap();
    assert_eq!((number, removed.manifests.len()), (4, 3));
    assert!(removed.garbage.is_empty(), "the other repository needs it");
    let names = store.names().await.unwrap();
    let plan = removal(&mut Closure::new(&store), &names, &web, &by_tag("1"), false);
    assert!(plan.unwrap().manifests.is_empty(), "the other tag needs it");
}

#[test]
fn a_prune_takes_what_only_old_imports_brought() {
    let folder = tempfile::tempdir().unwrap();
    let files = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
    let images = [1, 2].map(|seed| image(&files, seed));
    wait(pruned(&files, &images));
}

async fn pruned(files: &FileStore, images: &[Image]) {
    let store = new_bucket().await;
    for (package, image) in ["a", "b"].iter().zip(images) {
        for digest in image.blobs.iter().chain([&image.digest]) {
            let size = files.blob_size(digest).unwrap().unwrap();
            let body = files.read(digest).await.unwrap().unwrap();
            let staged = store.stage(*digest, size, body).await.unwrap();
            store.publish(vec![staged]).await.unwrap();
        }
        import(&store, package, image).await;
    }
    let (number, pruning) = prune_in_bucket(&store, 1).await.unwrap();
    assert_eq!((number, pruning.totals.tags), (Some(3), 1));
    let r = "r".parse().unwrap();
    let left = store.repository(&r).await.unwrap().unwrap();
    assert_eq!(
        left.tags.keys().map(|tag| tag.as_str()).collect::<Vec<_>>(),
        ["b"]
    );
    assert!(prune_in_bucket(&store, 1).await.unwrap().1.is_empty());
}

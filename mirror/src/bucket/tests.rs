//! Replicas that meet in one bucket.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use kubepkg_core::Digest;
use kubepkg_core::store::{
    Batch, Body, Cause, Change, Claim, Collect as _, Committed, Garbage, ManifestEntry, Receipt,
    Store, StoreError, TagEntry,
};
use kubepkg_core::time::Time;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use super::Spool;
use super::objects::Bucket;
use super::{BucketMode, BucketStore, keys};
use crate::store::{Collecting, FileStore, OpenMode};

/// A bucket in memory whose answers can be lost.
#[derive(Debug, Default)]
struct Faulty {
    inside: InMemory,
    /// The answer of the next write of a record is lost; what it wrote is there.
    lose: AtomicBool,
    /// Records are not written, and nobody says why.
    refuse: AtomicBool,
    reads: AtomicUsize,
    /// What is there is overwritten, whatever was asked for.
    deaf: AtomicBool,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

fn lost() -> Error {
    Error::Generic {
        store: "faulty",
        source: "the answer was lost".into(),
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> object_store::Result<PutResult> {
        if self.deaf.load(Ordering::SeqCst) {
            options.mode = PutMode::Overwrite;
        }
        let record = location.as_ref().starts_with(keys::COMMITS);
        if record && self.refuse.load(Ordering::SeqCst) {
            return Err(lost());
        }
        let put = self.inside.put_opts(location, payload, options).await?;
        match record && self.lose.swap(false, Ordering::SeqCst) {
            true => Err(lost()),
            false => Ok(put),
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inside.put_multipart_opts(location, options).await
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        if location.as_ref().starts_with(keys::COMMITS) {
            self.reads.fetch_add(1, Ordering::SeqCst);
        }
        self.inside.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inside.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inside.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inside.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inside.copy_opts(from, to, options).await
    }
}

fn faulty() -> (Arc<Faulty>, Bucket) {
    let faulty = Arc::new(Faulty::default());
    let bucket = Bucket::of(Arc::clone(&faulty) as _, "faulty://x".to_owned()).unwrap();
    (faulty, bucket)
}

async fn open(bucket: &Bucket) -> BucketStore {
    let mode = BucketMode::OpenOrCreate;
    BucketStore::open(bucket.clone(), mode).await.unwrap()
}

#[tokio::test]
async fn a_server_that_overwrites_is_refused() {
    let (faulty, bucket) = faulty();
    open(&bucket).await;
    faulty.deaf.store(true, Ordering::SeqCst);
    let opened = BucketStore::open(bucket.clone(), BucketMode::Open).await;
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("If-None-Match"), "{error}");
}

#[tokio::test]
async fn uploads_never_lie_in_a_store_that_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
    Spool::open(folder.path(), 0).await.unwrap();
    let change = Change::Blob {
        repository: "a/b".parse().unwrap(),
        digest: Digest::sha256("x"),
        new: None,
    };
    let tag = Change::Upstream {
        repository: "a/b".parse().unwrap(),
        new: Some("oci://a/b".to_owned()),
    };
    store.commit(0, batch(vec![change, tag])).await.unwrap();
    let error = Spool::open(folder.path(), 0).await.unwrap_err().to_string();
    assert!(error.contains("a store of its own"), "{error}");
}

async fn put(store: &BucketStore, text: &str) -> Digest {
    let digest = Digest::sha256(text);
    let body = Body::Bytes(Bytes::copy_from_slice(text.as_bytes()));
    let staged = store.stage(digest, text.len() as u64, body).await.unwrap();
    store.publish(vec![staged]).await.unwrap();
    digest
}

fn batch(changes: Vec<Change>) -> Batch {
    Batch {
        at: Time::from_unix(1_796_000_000),
        cause: Cause::Push,
        changes,
    }
}

fn manifest(text: &str) -> Change {
    Change::Manifest {
        repository: "a".parse().unwrap(),
        digest: Digest::sha256(text),
        new: Some(ManifestEntry {
            media_type: "application/vnd.oci.image.manifest.v1+json".into(),
            size: text.len() as u64,
            subject: None,
            artifact_type: None,
            annotations: std::collections::BTreeMap::new(),
        }),
    }
}

fn blob(text: &str) -> Change {
    Change::Blob {
        repository: "a".parse().unwrap(),
        digest: Digest::sha256(text),
        new: Some(text.len() as u64),
    }
}

fn tag(tag: &str, text: &str) -> Change {
    Change::Tag {
        repository: "a".parse().unwrap(),
        tag: tag.parse().unwrap(),
        new: Some(TagEntry {
            digest: Digest::sha256(text),
            origin: None,
        }),
    }
}

async fn commit(store: &BucketStore, changes: Vec<Change>) -> u64 {
    loop {
        let expected = store.sequence().await.unwrap();
        let done = store
            .commit(expected, batch(changes.clone()))
            .await
            .unwrap();
        if let Committed::Done(number) = done {
            return number;
        }
    }
}

fn bytes_of(text: &str) -> Garbage {
    Garbage {
        digest: Digest::sha256(text),
        claim: Claim::Bytes,
    }
}

async fn text_of(store: &BucketStore, digest: &Digest) -> Option<String> {
    use futures_util::TryStreamExt as _;
    let Some(Body::Stream(stream)) = store.read(digest).await.unwrap() else {
        return None;
    };
    let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
    Some(String::from_utf8(pieces.concat()).unwrap())
}

const NOW: Duration = Duration::ZERO;

#[tokio::test]
async fn a_tag_moved_through_both_at_once_is_moved_once_and_both_agree() {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    for text in ["one", "two"] {
        put(&one, text).await;
    }
    let mut expected = commit(&one, vec![manifest("one"), manifest("two")]).await;
    for _ in 0..20 {
        assert_eq!(two.sequence().await.unwrap(), expected);
        let (first, second) = tokio::join!(
            one.commit(expected, batch(vec![tag("t", "one")])),
            two.commit(expected, batch(vec![tag("t", "two")])),
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        expected += 1;
        let winner = match (first, second) {
            (Committed::Done(n), Committed::Conflict { newest }) => {
                assert_eq!((n, newest), (expected, expected));
                "one"
            }
            (Committed::Conflict { newest }, Committed::Done(n)) => {
                assert_eq!((n, newest), (expected, expected));
                "two"
            }
            other => panic!("{other:?}"),
        };
        for replica in [&one, &two] {
            replica.sequence().await.unwrap();
            let names = replica.names().await.unwrap();
            let repository =
                &names.repositories[&"a".parse::<kubepkg_core::name::RepositoryName>().unwrap()];
            let t: kubepkg_core::name::Tag = "t".parse().unwrap();
            assert_eq!(repository.tags[&t].digest, Digest::sha256(winner));
        }
    }
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_made_once() {
    let (faulty, bucket) = faulty();
    let store = open(&bucket).await;
    put(&store, "x").await;
    faulty.lose.store(true, Ordering::SeqCst);
    let done = store.commit(0, batch(vec![blob("x")])).await.unwrap();
    assert_eq!(done, Committed::Done(1));
    assert!(!faulty.lose.load(Ordering::SeqCst));
    assert_eq!(store.sequence().await.unwrap(), 1);

    faulty.refuse.store(true, Ordering::SeqCst);
    let doubt = store.commit(1, batch(vec![blob("x")])).await;
    assert!(
        matches!(doubt, Err(StoreError::Unsettled { number: 2, .. })),
        "{doubt:?}"
    );
    faulty.refuse.store(false, Ordering::SeqCst);
    assert_eq!(open(&bucket).await.sequence().await.unwrap(), 1);
}

#[tokio::test]
async fn who_starts_reads_the_newest_names_and_few_records() {
    let (faulty, bucket) = faulty();
    let store = open(&bucket).await;
    put(&store, "x").await;
    commit(&store, vec![manifest("x")]).await;
    for n in 0..3 * super::log::KEPT_EVERY {
        commit(&store, vec![tag(&format!("t{n}"), "x")]).await;
    }
    let names = store.names().await.unwrap();
    // the newest objects are written in the background
    super::snapshot::write(&bucket, store.log.known())
        .await
        .unwrap();
    faulty.reads.store(0, Ordering::SeqCst);
    let again = open(&bucket).await;
    assert_eq!(*again.names().await.unwrap(), *names);
    assert!(faulty.reads.load(Ordering::SeqCst) <= 2);
    let kept = bucket.list(keys::NAMES).await.unwrap();
    assert!((1..=4).contains(&kept.len()), "{kept:?}");

    // such an object may be damaged, or all of them gone
    for (key, _) in &kept {
        bucket.put(key, Bytes::from_static(b"{}")).await.unwrap();
    }
    assert_eq!(*open(&bucket).await.names().await.unwrap(), *names);
    for (key, _) in &kept {
        bucket.delete(key).await.unwrap();
    }
    assert_eq!(*open(&bucket).await.names().await.unwrap(), *names);
}

#[tokio::test]
async fn what_is_named_through_one_is_not_removed_through_the_other() {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    let digest = put(&one, "x").await;
    let judged = one.sequence().await.unwrap();
    one.condemn([bytes_of("x")].into()).await.unwrap();
    // named after it was judged, through a replica that has not heard of it
    commit(&two, vec![blob("x")]).await;
    let garbage = [bytes_of("x")].into();
    let at = Time::from_unix(1_796_000_000);
    let swept = one.sweep(judged, garbage, NOW, at).await.unwrap();
    assert!(swept.contents.is_empty(), "{swept:?}");
    assert_eq!(text_of(&two, &digest).await.as_deref(), Some("x"));

    // judged wrongly, and condemned all the same
    one.condemn([bytes_of("x")].into()).await.unwrap();
    let judged = one.sequence().await.unwrap();
    let swept = one
        .sweep(judged, [bytes_of("x")].into(), NOW, at)
        .await
        .unwrap();
    assert!(swept.contents.is_empty(), "{swept:?}");
    assert_eq!(text_of(&two, &digest).await.as_deref(), Some("x"));
}

#[tokio::test]
async fn a_removal_that_comes_late_removes_only_what_was_given_up() {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    let digest = put(&one, "x").await;
    let old = keys::blob(&digest, 0);
    let was = bucket.get(&old, 100).await.unwrap().unwrap();
    one.condemn([bytes_of("x")].into()).await.unwrap();
    let (judged, at) = (
        one.sequence().await.unwrap(),
        Time::from_unix(1_796_000_000),
    );
    let swept = one
        .sweep(judged, [bytes_of("x")].into(), NOW, at)
        .await
        .unwrap();
    assert_eq!(swept.contents, [(digest, 1)]);
    // as if the replica that collects had not come to the removal yet
    bucket.put(&old, was).await.unwrap();

    // it is not here, whatever lies there, and a name needs it brought again
    two.sequence().await.unwrap();
    assert_eq!(two.stat(&digest).await.unwrap(), None);
    let expected = two.sequence().await.unwrap();
    let named = two.commit(expected, batch(vec![blob("x")])).await;
    assert!(
        matches!(named, Err(StoreError::Missing { .. })),
        "{named:?}"
    );
    assert_eq!(put(&two, "x").await, digest);
    commit(&two, vec![blob("x")]).await;
    bucket.delete(&old).await.unwrap();
    for replica in [&one, &two] {
        assert_eq!(text_of(replica, &digest).await.as_deref(), Some("x"));
    }
}

#[tokio::test]
async fn what_one_saw_before_the_other_removed_it_has_to_be_brought_again() {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    let digest = put(&two, "x").await;
    one.condemn([bytes_of("x")].into()).await.unwrap();
    let (judged, at) = (
        one.sequence().await.unwrap(),
        Time::from_unix(1_796_000_000),
    );
    one.sweep(judged, [bytes_of("x")].into(), NOW, at)
        .await
        .unwrap();
    // the second one remembers that it is there, and knows no newer commit
    let conflict = two.commit(0, batch(vec![blob("x")])).await.unwrap();
    assert!(matches!(conflict, Committed::Conflict { .. }));
    let expected = two.sequence().await.unwrap();
    let named = two.commit(expected, batch(vec![blob("x")])).await;
    assert!(
        matches!(named, Err(StoreError::Missing { .. })),
        "{named:?}"
    );
    assert_eq!(put(&two, "x").await, digest);
    commit(&two, vec![blob("x")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collection_on_one_while_the_other_pushes_loses_nothing() {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    let removed = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let collecting = tokio::spawn({
        let (over, removed) = (Arc::clone(&over), Arc::clone(&removed));
        async move {
            while !over.load(Ordering::SeqCst) {
                let collecting = Collecting {
                    grace: NOW,
                    ..Collecting::new(Time::now())
                };
                let collected = one.collect(collecting).await.unwrap();
                let contents = collected.map_or(0, |collected| collected.removed.contents);
                removed.fetch_add(usize::try_from(contents).unwrap(), Ordering::SeqCst);
            }
        }
    });
    let (mut round, mut again) = (0, 0);
    while removed.load(Ordering::SeqCst) < 300 {
        assert!(round < 1_000_000, "nothing is collected");
        // the same contents come and go
        let text = format!("{{\"n\":{}}}", round % 200);
        let digest = Digest::sha256(&text);
        round += 1;
        loop {
            put(&two, &text).await;
            let expected = two.sequence().await.unwrap();
            let changes = batch(vec![manifest(&text), tag("t", &text)]);
            match two.commit(expected, changes).await {
                Ok(Committed::Done(_)) => break,
                Ok(Committed::Conflict { .. }) => {}
                // without a grace it may have to be brought again
                Err(StoreError::Missing { .. }) => again += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(text_of(&two, &digest).await, Some(text.clone()));
        let gone = Change::Manifest {
            repository: "a".parse().unwrap(),
            digest,
            new: None,
        };
        let untagged = Change::Tag {
            repository: "a".parse().unwrap(),
            tag: "t".parse().unwrap(),
            new: None,
        };
        commit(&two, vec![untagged, gone]).await;
    }
    over.store(true, Ordering::SeqCst);
    collecting.await.unwrap();
    println!("{round} pushes, {again} contents brought again");
}

#[tokio::test]
async fn a_collection_takes_what_nothing_reaches_and_keeps_what_imports_left() {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    for text in ["{\"a\":1}", "{\"b\":1}", "loose"] {
        put(&one, text).await;
    }
    let import = Batch {
        cause: Cause::Import(Box::<Receipt>::default()),
        ..batch(vec![manifest("{\"a\":1}"), tag("t", "{\"a\":1}")])
    };
    one.commit(0, import).await.unwrap();
    // what the import brought is taken away again
    let gone = Change::Manifest {
        repository: "a".parse().unwrap(),
        digest: Digest::sha256("{\"a\":1}"),
        new: None,
    };
    let changes = vec![manifest("{\"b\":1}"), tag("t", "{\"b\":1}"), gone];
    commit(&one, changes).await;
    let collecting = |keep_imports| Collecting {
        grace: NOW,
        keep_imports,
        ..Collecting::new(Time::now())
    };
    let first = two.collect(collecting(3)).await.unwrap().unwrap();
    assert_eq!((first.condemned.contents, first.removed.contents), (1, 0));
    assert!(one.last_collected().is_none());
    let second = one.collect(collecting(3)).await.unwrap().unwrap();
    assert_eq!((second.removed.contents, second.removed.bytes), (1, 5));
    assert!(text_of(&two, &Digest::sha256("loose")).await.is_none());
    assert!(text_of(&two, &Digest::sha256("{\"a\":1}")).await.is_some());
    assert!(one.last_collected().is_some());

    // nobody wants to go back to it any more
    for _ in 0..2 {
        two.collect(collecting(0)).await.unwrap().unwrap();
    }
    assert!(text_of(&two, &Digest::sha256("{\"a\":1}")).await.is_none());
    assert!(text_of(&two, &Digest::sha256("{\"b\":1}")).await.is_some());
}

#[tokio::test]
async fn a_store_of_a_newer_kubepkg_is_left_alone() {
    let bucket = Bucket::in_memory().unwrap();
    let none = BucketStore::open(bucket.clone(), BucketMode::Open).await;
    assert!(matches!(none, Err(StoreError::Unusable { .. })));
    open(&bucket).await;
    let mark = serde_json::json!({"format": super::FORMAT, "version": 2});
    let bytes = crate::store::encode_sealed(std::path::Path::new("x"), &mark).unwrap();
    bucket.put(keys::MARK, bytes.into()).await.unwrap();
    let newer = BucketStore::open(bucket, BucketMode::OpenOrCreate).await;
    assert!(newer.unwrap_err().to_string().contains("newer"));
}

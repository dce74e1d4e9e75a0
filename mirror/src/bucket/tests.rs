//! Replicas that meet in one bucket.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use kubepkg_core::Digest;
use kubepkg_core::progress::Silent;
use kubepkg_core::store::{
    Batch, Body, Cause, Change, Claim, Collect as _, Committed, Garbage, ManifestEntry, Receipt,
    SiteEntry, SiteFile, Store, StoreError, TagEntry, Unit,
};
use kubepkg_core::time::Time;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use super::Spool;
use super::objects::Bucket;
use super::state::Collector;
use super::written::Limits;
use super::{BucketMode, BucketStore, keys};
use crate::facts::Facts;
use crate::source::{Age, Source};
use crate::store::check::{CheckSettings, Fault};
use crate::store::{Collecting, FileStore, OpenMode};

/// A bucket in memory whose answers can be lost.
#[derive(Debug, Default)]
struct Faulty {
    inside: InMemory,
    /// The answer of the next write of a record is lost; what it wrote is there.
    lose: AtomicBool,
    /// Records are not written, and nobody says why.
    refuse: AtomicBool,
    /// So many of the next reads of records fail.
    mute: AtomicUsize,
    reads: AtomicUsize,
    /// Reads of content: all, those under way, and the most there were at once.
    blobs: [AtomicUsize; 3],
    /// Content cannot be read.
    sick: AtomicBool,
    /// Content breaks off in the middle; nothing is said of it where this is 2.
    cuts: AtomicUsize,
    /// Objects with all names that were sent.
    names: AtomicUsize,
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
        if location.as_ref().starts_with(keys::NAMES) {
            self.names.fetch_add(1, Ordering::SeqCst);
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
            let order = Ordering::SeqCst;
            let left = |left: usize| left.checked_sub(1);
            if self.mute.fetch_update(order, order, left).is_ok() {
                return Err(lost());
            }
        }
        if location.as_ref().starts_with(keys::BLOBS) && !options.head {
            let [all, under_way, most] = &self.blobs;
            all.fetch_add(1, Ordering::SeqCst);
            most.fetch_max(
                under_way.fetch_add(1, Ordering::SeqCst) + 1,
                Ordering::SeqCst,
            );
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            under_way.fetch_sub(1, Ordering::SeqCst);
            if self.sick.load(Ordering::SeqCst) {
                return Err(lost());
            }
        }
        let got = self.inside.get_opts(location, options).await?;
        let cuts = self.cuts.load(Ordering::SeqCst);
        if cuts == 0 || !location.as_ref().starts_with(keys::BLOBS) {
            return Ok(got);
        }
        let (meta, range) = (got.meta.clone(), got.range.clone());
        let attributes = got.attributes.clone();
        let extensions = got.extensions.clone();
        let bytes = got.bytes().await?;
        let mut pieces = vec![Ok(bytes.slice(..bytes.len() / 2))];
        pieces.extend((cuts == 1).then(|| Err(lost())));
        Ok(GetResult {
            payload: GetResultPayload::Stream(futures_util::stream::iter(pieces).boxed()),
            meta,
            range,
            attributes,
            extensions,
        })
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
    open_within(bucket, Limits::default()).await
}

async fn open_within(bucket: &Bucket, limits: Limits) -> BucketStore {
    let mode = BucketMode::OpenOrCreate;
    let opened = BucketStore::open_within(bucket.clone(), mode, limits);
    opened.await.unwrap()
}

/// Limits that a test reaches.
fn narrow() -> Limits {
    Limits {
        small: 2000,
        stale: 50,
        ..Limits::default()
    }
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
    tag_in("a", tag, text)
}

fn tag_in(repository: &str, tag: &str, text: &str) -> Change {
    Change::Tag {
        repository: repository.parse().unwrap(),
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
async fn a_commit_that_may_have_been_made_keeps_its_text_and_is_no_plain_error() {
    let (faulty, bucket) = faulty();
    let store = open_within(&bucket, narrow()).await;
    let changes = |repository| (0..100).map(move |n| upstream(repository, n)).collect();
    for (number, changes) in [(1, changes("a")), (2, vec![upstream("b", 1)])] {
        // it is there, its answer is lost, and what is there cannot be read
        faulty.lose.store(true, Ordering::SeqCst);
        faulty.mute.store(2, Ordering::SeqCst);
        let doubt = store.commit(number - 1, batch(changes)).await;
        let Err(StoreError::Unsettled { number: of, .. }) = doubt else {
            panic!("{doubt:?}");
        };
        assert_eq!(of, number);
        assert_eq!(faulty.mute.load(Ordering::SeqCst), 0);
        assert_eq!(store.sequence().await.unwrap(), number);
    }
    let other = open_within(&bucket, narrow()).await;
    assert_eq!(other.sequence().await.unwrap(), 2);
    assert_eq!(other.record(1).await.unwrap().unwrap().changes.len(), 100);
    assert_eq!(bucket.list(keys::APART).await.unwrap().len(), 1);
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
    store.log.keep(store.log.known()).await.unwrap();
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
async fn a_bucket_tells_its_imports_and_collections_and_nothing_it_does_not_know() {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    put(&one, "{\"a\":1}").await;
    let told = async |store: &BucketStore, before: Arc<Facts>| {
        let sequence = store.names().await.unwrap().sequence;
        Arc::new(store.facts(before, sequence).await)
    };
    let before = told(&two, Arc::default()).await;
    assert_eq!((before.imports.count(), before.collected), (0, None));
    for n in 0..3 {
        let receipt = Receipt {
            bundle: format!("bundle {n}"),
            ..Receipt::default()
        };
        let import = Batch {
            cause: Cause::Import(Box::new(receipt)),
            ..batch(vec![
                manifest("{\"a\":1}"),
                tag(&format!("t{n}"), "{\"a\":1}"),
            ])
        };
        let sequence = one.names().await.unwrap().sequence;
        one.commit(sequence, import).await.unwrap();
        commit(&one, vec![tag("t", "{\"a\":1}")]).await;
    }
    Source::names(&two, Age::Now).await.unwrap();
    let facts = told(&two, before).await;
    assert_eq!(facts.imports.count(), 3);
    let bundles: Vec<&str> = facts
        .imports
        .newest()
        .map(|import| &*import.receipt.bundle)
        .collect();
    assert_eq!(bundles, ["bundle 2", "bundle 1", "bundle 0"]);
    // read once
    let again = told(&two, Arc::clone(&facts)).await;
    assert_eq!(again.imports, facts.imports);
    assert_eq!((facts.quarantined, facts.uploads), (None, None));
    assert!(facts.scrub.is_none() && facts.disk.is_none() && facts.collections.is_none());

    two.collect(Collecting::new(Time::now())).await.unwrap();
    assert!(told(&two, facts).await.collected.is_some());
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

/// A change that needs no content.
fn upstream(repository: &str, n: u64) -> Change {
    Change::Upstream {
        repository: repository.parse().unwrap(),
        new: Some(format!("oci://{repository}/{n}")),
    }
}

async fn put_many(store: &BucketStore, count: usize) -> Vec<Change> {
    let texts: Vec<String> = (0..count).map(|n| format!("{{\"n\":{n}}}")).collect();
    let mut staged = Vec::new();
    for text in &texts {
        let body = Body::Bytes(Bytes::copy_from_slice(text.as_bytes()));
        let digest = Digest::sha256(text);
        staged.push(store.stage(digest, text.len() as u64, body).await.unwrap());
    }
    store.publish(staged).await.unwrap();
    texts.iter().map(|text| blob(text)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_commit_comes_through_beside_one_that_pushes_all_the_time() {
    large_beside_pushes(3000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: more content than is remembered"]
async fn a_commit_of_more_than_is_remembered_comes_through_too() {
    large_beside_pushes(120_000).await;
}

async fn large_beside_pushes(count: usize) {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (
        open_within(&bucket, narrow()).await,
        open_within(&bucket, narrow()).await,
    );
    let changes = put_many(&one, count).await;
    let over = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(AtomicUsize::new(0));
    let pushing = tokio::spawn({
        let (over, begun) = (Arc::clone(&over), Arc::clone(&begun));
        async move {
            let mut n = 0;
            while !over.load(Ordering::SeqCst) {
                n += 1;
                commit(&two, vec![upstream("b", n)]).await;
                begun.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    // all that it is made of has to be looked for again
    let one = open_within(&bucket, narrow()).await;
    let expected = one.sequence().await.unwrap();
    while begun.load(Ordering::SeqCst) < 100 {
        tokio::task::yield_now().await;
    }
    let nothing = |_: &_| false;
    let began = std::time::Instant::now();
    let done = one
        .commit_beside(expected, batch(changes.clone()), &nothing)
        .await
        .unwrap();
    over.store(true, Ordering::SeqCst);
    pushing.await.unwrap();
    let Committed::Done(number) = done else {
        panic!("{done:?}");
    };
    println!(
        "{count} names after {} others in {:?}",
        number - expected,
        began.elapsed()
    );
    assert!(number > expected + 50, "nobody pushed meanwhile");

    // its text lies apart, and all read it
    let apart = bucket.list(keys::APART).await.unwrap();
    assert_eq!(apart.len(), 1, "{apart:?}");
    let record = bucket.get(&keys::commit(number), 2000).await.unwrap();
    assert!(record.is_some());
    let other = open_within(&bucket, narrow()).await;
    let a: kubepkg_core::name::RepositoryName = "a".parse().unwrap();
    assert_eq!(
        other.names().await.unwrap().repositories[&a].blobs.len(),
        count
    );
    let record = other.record(number).await.unwrap().unwrap();
    assert_eq!((record.number, record.changes.len()), (number, count));
    one.sequence().await.unwrap();
    assert_eq!(other.log.known(), one.log.known());
}

#[tokio::test]
async fn what_touches_what_a_commit_was_judged_by_is_a_conflict() {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (
        open_within(&bucket, narrow()).await,
        open_within(&bucket, narrow()).await,
    );
    let large = || batch((0..100).map(|n| upstream("a", n)).collect());
    let b: kubepkg_core::name::RepositoryName = "b".parse().unwrap();
    let by_b = |unit: &Unit| *unit == Unit::Repository(b.clone());
    let nothing = |_: &Unit| false;
    commit(&two, vec![upstream("b", 1)]).await;
    let conflict = one.commit_beside(0, large(), &by_b).await.unwrap();
    assert_eq!(conflict, Committed::Conflict { newest: 1 });
    let conflict = one.commit(0, large()).await.unwrap();
    assert_eq!(conflict, Committed::Conflict { newest: 1 });
    let done = one.commit_beside(0, large(), &nothing).await.unwrap();
    assert_eq!(done, Committed::Done(2));
    // what it changes itself always counts
    let conflict = two.commit_beside(1, large(), &nothing).await.unwrap();
    assert_eq!(conflict, Committed::Conflict { newest: 2 });
}

#[tokio::test]
async fn the_text_of_a_commit_that_never_came_to_be_is_swept() {
    let (faulty, bucket) = faulty();
    let store = open_within(&bucket, narrow()).await;
    let large = || batch((0..100).map(|n| upstream("a", n)).collect());
    store.commit(0, large()).await.unwrap();
    let named = bucket.list(keys::APART).await.unwrap();
    // nobody knows whether it was written: its text stays, for a commit may name it
    faulty.refuse.store(true, Ordering::SeqCst);
    let doubt = store.commit(1, large()).await;
    assert!(
        matches!(doubt, Err(StoreError::Unsettled { .. })),
        "{doubt:?}"
    );
    faulty.refuse.store(false, Ordering::SeqCst);
    assert_eq!(bucket.list(keys::APART).await.unwrap().len(), 2);

    let collect = async || {
        let collecting = Collecting::new(Time::now());
        store.collect(collecting).await.unwrap().unwrap();
        bucket.list(keys::APART).await.unwrap()
    };
    assert_eq!(collect().await.len(), 2, "it may still be named");
    for n in 0..60 {
        commit(&store, vec![upstream("b", n)]).await;
    }
    assert_eq!(collect().await, named);
    let other = open_within(&bucket, narrow()).await;
    assert_eq!(other.record(1).await.unwrap().unwrap().changes.len(), 100);
}

#[tokio::test]
async fn nothing_is_written_that_nobody_reads() {
    let bucket = Bucket::in_memory().unwrap();
    let limits = Limits {
        entry: 10_000,
        names: 3000,
        ..narrow()
    };
    let store = open_within(&bucket, limits).await;
    let many = |count| batch((0..count).map(|n| upstream(&format!("a{n}"), n)).collect());
    let refused = store.commit(0, many(1000)).await;
    assert!(
        matches!(refused, Err(StoreError::Illegal { .. })),
        "{refused:?}"
    );
    assert!(bucket.list(keys::COMMITS).await.unwrap().is_empty());
    assert!(bucket.list(keys::APART).await.unwrap().is_empty());

    store.commit(0, many(50)).await.unwrap();
    store.log.keep(store.log.known()).await.unwrap();
    assert!(bucket.list(keys::NAMES).await.unwrap().is_empty());
    // nor is one read that is larger, whoever wrote it
    let large = Bytes::from(vec![b'x'; 3001]);
    bucket.put(&keys::names(1), large).await.unwrap();
    let other = open_within(&bucket, limits).await;
    assert_eq!(other.names().await.unwrap().repositories.len(), 50);
}

#[tokio::test]
async fn a_large_index_is_read_and_other_large_content_is_not_called_damaged() {
    let store = open(&Bucket::in_memory().unwrap()).await;
    let bytes = Bytes::from(vec![b'x'; 16 * 1024 * 1024 + 1]);
    let (digest, size) = (Digest::sha256(&bytes), bytes.len() as u64);
    let staged = store.stage(digest, size, Body::Bytes(bytes)).await.unwrap();
    store.publish(vec![staged]).await.unwrap();
    let site = |size| SiteEntry {
        url: "https://packages.example/index.yaml".parse().unwrap(),
        set: 0,
        files: [("index.yaml".to_owned(), SiteFile { digest, size })].into(),
    };
    let file = |size| store.site_file("packages.example", &site(size), "index.yaml");
    assert_eq!(file(size).unwrap().unwrap().len, size);
    let damaged = file(size - 1);
    assert!(
        matches!(damaged, Err(StoreError::Damaged { .. })),
        "{damaged:?}"
    );
    for error in [file(1 << 30), Source::blob(&store, &digest)] {
        assert!(
            matches!(error, Err(StoreError::Illegal { .. })),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn the_names_of_an_old_import_take_none_of_newer_ones_away() {
    let bucket = Bucket::in_memory().unwrap();
    let store = open(&bucket).await;
    for n in 0..6 {
        let import = Batch {
            cause: Cause::Import(Box::<Receipt>::default()),
            ..batch(vec![upstream("a", n)])
        };
        store.commit(n, import).await.unwrap();
    }
    let kept = async || {
        let kept = bucket.list(keys::NAMES).await.unwrap();
        let numbers = kept.iter().filter_map(|(key, _)| keys::number_of(key));
        numbers.collect::<Vec<_>>()
    };
    assert_eq!(kept().await, [1, 2, 3, 4, 5, 6]);
    bucket.delete(&keys::names(1)).await.unwrap();
    store.log.at(1).await.unwrap();
    assert_eq!(kept().await, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn one_replica_keeps_the_names_and_another_where_that_one_did_not() {
    let (faulty, bucket) = faulty();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    let every = super::log::KEPT_EVERY;
    for n in 1..=every {
        commit(if n % 2 == 0 { &one } else { &two }, vec![upstream("a", n)]).await;
        two.sequence().await.unwrap();
    }
    kept(&bucket, every).await;
    for n in 1..every {
        commit(if n % 2 == 0 { &one } else { &two }, vec![upstream("a", n)]).await;
        one.sequence().await.unwrap();
        // who comes to see whether it is there finds it
        let state = one.log.known();
        let late = super::snapshot::write_if_late(&bucket, state, Limits::default());
        late.await.unwrap();
    }
    assert_eq!(faulty.names.load(Ordering::SeqCst), 1);

    // its writer dies before it kept anything
    commit(&one, vec![upstream("a", 0)]).await;
    kept(&bucket, 2 * every).await;
    bucket.delete(&keys::names(2 * every)).await.unwrap();
    for n in 1..=every / 2 {
        commit(&two, vec![upstream("a", n)]).await;
    }
    kept(&bucket, 2 * every + every / 2).await;
}

/// Waits until the names as of this commit are kept: that is done in the background.
async fn kept(bucket: &Bucket, number: u64) {
    let key = keys::names(number);
    while bucket.size(&key).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
}

/// Manifests, each with a tag.
async fn push_many(store: &BucketStore, count: usize) {
    let mut changes = Vec::new();
    let mut staged = Vec::new();
    for n in 0..count {
        let text = format!("{{\"n\":{n}}}");
        let body = Body::Bytes(Bytes::copy_from_slice(text.as_bytes()));
        let digest = Digest::sha256(&text);
        staged.push(store.stage(digest, text.len() as u64, body).await.unwrap());
        changes.extend([manifest(&text), tag(&format!("t{n}"), &text)]);
    }
    store.publish(staged).await.unwrap();
    commit(store, changes).await;
}

#[tokio::test]
async fn a_collection_reads_many_manifests_at_once_and_each_only_once() {
    let (faulty, bucket) = faulty();
    let store = open(&bucket).await;
    push_many(&store, 200).await;
    let read = || faulty.blobs[0].swap(0, Ordering::SeqCst);
    store.collect(Collecting::new(Time::now())).await.unwrap();
    assert_eq!(read(), 200);
    let most = faulty.blobs[2].load(Ordering::SeqCst);
    assert!((2..=super::AT_ONCE).contains(&most), "{most}");
    store.collect(Collecting::new(Time::now())).await.unwrap();
    assert_eq!(read(), 0);
}

#[tokio::test]
async fn a_collection_that_failed_does_not_count_and_holds_nobody_up() {
    let (faulty, bucket) = faulty();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    push_many(&one, 3).await;
    put(&one, "loose").await;
    faulty.sick.store(true, Ordering::SeqCst);
    let failed = one.collect(Collecting::new(Time::now())).await;
    assert!(
        matches!(failed, Err(StoreError::Bucket { .. })),
        "{failed:?}"
    );
    assert!(one.last_collected().is_none());
    assert!(!one.log.known().is_condemned(&Digest::sha256("loose")));

    faulty.sick.store(false, Ordering::SeqCst);
    let collected = two.collect(Collecting::new(Time::now())).await.unwrap();
    assert_eq!(collected.unwrap().condemned.contents, 1);
    assert!(two.last_collected().is_some());
}

#[tokio::test]
async fn a_collection_says_again_and_again_that_it_goes_on() {
    let bucket = Bucket::in_memory().unwrap();
    let often = Limits {
        renewed: NOW,
        ..Limits::default()
    };
    let store = open_within(&bucket, often).await;
    push_many(&store, 300).await;
    let before = store.sequence().await.unwrap();
    store.collect(Collecting::new(Time::now())).await.unwrap();
    let mut claims = Vec::new();
    for number in before + 1..=store.sequence().await.unwrap() {
        let entry = store.log.require(number).await.unwrap();
        claims.extend(entry.collector);
    }
    assert!(claims.len() > 2, "{claims:?}");
    assert!(claims.iter().all(|claim| claim.by == claims[0].by));
    assert!(store.last_collected().is_some());
}

#[tokio::test]
async fn a_clock_far_ahead_stops_no_collection() {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    put(&one, "loose").await;
    let ahead = Time::now().plus(10 * 365 * 24 * 3600);
    // a replica of another time began to collect, condemned, and was killed
    let state = one.log.known();
    let mut entry = one.log.empty(&state, Cause::Collect, ahead).unwrap();
    entry.condemned = vec![bytes_of("loose")];
    entry.collector = Some(Collector {
        by: "killed".to_owned(),
        until: ahead.plus(super::claim::ALONE),
        gave_up: false,
    });
    one.log.append(&state, entry).await.unwrap();

    let collecting = || Collecting {
        grace: NOW,
        ..Collecting::new(Time::now())
    };
    two.collect(collecting()).await.unwrap().unwrap();
    // its grace begins anew, and is over now
    two.collect(collecting()).await.unwrap().unwrap();
    assert!(text_of(&one, &Digest::sha256("loose")).await.is_none());

    // one whose clock is right holds others up
    let state = one.log.read_on(NOW).await.unwrap();
    let mut entry = one.log.empty(&state, Cause::Collect, Time::now()).unwrap();
    entry.collector = Some(Collector {
        by: "other".to_owned(),
        until: Time::now().plus(super::claim::ALONE),
        gave_up: false,
    });
    one.log.append(&state, entry).await.unwrap();
    assert!(two.collect(collecting()).await.unwrap().is_none());
}

#[tokio::test]
async fn more_is_condemned_than_one_entry_holds() {
    let bucket = Bucket::in_memory().unwrap();
    let store = open(&bucket).await;
    let garbage: std::collections::BTreeSet<Garbage> =
        (0..5000).map(|n| bytes_of(&n.to_string())).collect();
    store.condemn(garbage.clone()).await.unwrap();
    let listed = |store: &BucketStore| -> std::collections::BTreeSet<Garbage> {
        store.log.known().condemned.keys().cloned().collect()
    };
    assert_eq!(listed(&store), garbage);
    assert_eq!(store.sequence().await.unwrap(), 3);
    let fewer = [bytes_of("1"), bytes_of("new")].into();
    store.condemn(fewer).await.unwrap();
    assert_eq!(listed(&store), [bytes_of("1"), bytes_of("new")].into());
}

#[tokio::test]
async fn a_collection_keeps_what_imports_left_but_not_what_a_prune_took() {
    let bucket = Bucket::in_memory().unwrap();
    let store = open(&bucket).await;
    let texts = ["{\"a\":1}", "{\"b\":1}"];
    for text in texts {
        put(&store, text).await;
    }
    let import = Batch {
        cause: Cause::Import(Box::<Receipt>::default()),
        ..batch(texts.iter().map(|text| manifest(text)).collect())
    };
    store.commit(0, import).await.unwrap();
    let gone = |text: &str| Change::Manifest {
        repository: "a".parse().unwrap(),
        digest: Digest::sha256(text),
        new: None,
    };
    commit(&store, vec![gone(texts[0])]).await;
    let prune = Batch {
        cause: Cause::Prune,
        ..batch(vec![gone(texts[1])])
    };
    store.commit(2, prune).await.unwrap();
    let dry_run = Collecting {
        dry_run: true,
        ..Collecting::new(Time::now())
    };
    let would = store.collect(dry_run).await.unwrap().unwrap();
    assert_eq!(
        (would.condemned.contents, would.kept_for_imports.contents),
        (1, 1)
    );
    assert_eq!(store.sequence().await.unwrap(), 3, "nothing was done");
    for _ in 0..2 {
        let collecting = Collecting {
            grace: NOW,
            ..Collecting::new(Time::now())
        };
        store.collect(collecting).await.unwrap().unwrap();
    }
    assert!(text_of(&store, &Digest::sha256(texts[0])).await.is_some());
    assert!(text_of(&store, &Digest::sha256(texts[1])).await.is_none());
}

/// Golden: what entries of other versions look like, and what becomes of them.
#[tokio::test]
async fn entries_of_older_and_newer_kubepkgs() {
    let golden = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/v1/bucket/");
        Bytes::from(std::fs::read(format!("{folder}{name}")).unwrap())
    };
    let a: kubepkg_core::name::RepositoryName = "a".parse().unwrap();
    for name in ["plain.json", "optional.json"] {
        let bucket = Bucket::in_memory().unwrap();
        bucket.put(&keys::commit(1), golden(name)).await.unwrap();
        let store = open(&bucket).await;
        let names = store.names().await.unwrap();
        let upstream = names.repositories[&a].upstream.clone();
        assert_eq!(upstream.as_deref(), Some("oci://a/1"), "{name}");
        assert_eq!(store.log.known().collector.as_ref().unwrap().by, "word");
        commit(&store, vec![self::upstream("a", 2)]).await;
    }
    let bucket = Bucket::in_memory().unwrap();
    bucket
        .put(&keys::commit(1), golden("apart.json"))
        .await
        .unwrap();
    bucket
        .put(&keys::apart(0, "word"), golden("text.json"))
        .await
        .unwrap();
    let store = open(&bucket).await;
    assert!(store.names().await.unwrap().repositories.contains_key(&a));

    for (name, says) in [
        ("needed.json", "newer kubepkg"),
        ("needed-apart.json", "newer kubepkg"),
        // what changes names is never half understood
        ("change.json", "not what this kubepkg writes"),
    ] {
        let bucket = Bucket::in_memory().unwrap();
        open(&bucket).await;
        bucket.put(&keys::commit(1), golden(name)).await.unwrap();
        let opened = BucketStore::open(bucket, BucketMode::Open).await;
        let error = opened.unwrap_err().to_string();
        assert!(error.contains(says), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_check_finds_damage_and_gives_it_up_for_all() {
    let bucket = Bucket::in_memory().unwrap();
    let (one, two) = (open(&bucket).await, open(&bucket).await);
    let index = "{\"layers\":[{\"digest\":\"LAYER\"}]}";
    let layer = put(&one, "layer").await;
    let index = index.replace("LAYER", &layer.to_string());
    for text in [&index, "lost", "loose", "sound"] {
        put(&one, text).await;
    }
    let changes = vec![manifest(&index), blob("layer"), blob("lost"), blob("sound")];
    commit(
        &one,
        changes.into_iter().chain([tag("t", &index)]).collect(),
    )
    .await;
    let settings = CheckSettings::default();
    let checked = two.check(&settings, &Silent).await.unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
    assert_eq!((checked.content.files, checked.unreferenced.files), (5, 1));

    let key = |digest: &Digest| keys::blob(digest, 0);
    bucket
        .put(&key(&layer), Bytes::from_static(b"laier"))
        .await
        .unwrap();
    bucket.delete(&key(&Digest::sha256("lost"))).await.unwrap();
    let mut checked = two.check(&settings, &Silent).await.unwrap();
    let found: Vec<(Fault, Option<Digest>)> = (checked.findings.iter())
        .map(|finding| (finding.fault, finding.digest))
        .collect();
    let damaged = (Fault::Damaged, Some(layer));
    let missing = (Fault::Missing, Some(Digest::sha256("lost")));
    assert!(found.len() == 2 && found.contains(&damaged) && found.contains(&missing));
    let damaged = checked.findings.iter().find(|f| f.digest == Some(layer));
    assert_eq!(damaged.unwrap().suffers[0].tags, ["t"]);

    two.give_up_found(&mut checked).await.unwrap();
    one.sequence().await.unwrap();
    assert!(text_of(&one, &layer).await.is_none());
    assert_eq!(one.stat(&layer).await.unwrap(), None);
    // brought again it is here again
    put(&one, "layer").await;
    assert_eq!(text_of(&two, &layer).await.as_deref(), Some("layer"));
    put(&one, "lost").await;
    let checked = two.check(&settings, &Silent).await.unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
}

#[tokio::test]
async fn what_cannot_be_read_in_full_is_told_and_never_given_up() {
    let (faulty, bucket) = faulty();
    let store = open(&bucket).await;
    let digest = put(&store, "sound").await;
    commit(&store, vec![blob("sound")]).await;
    let settings = CheckSettings::default();
    for cuts in [1, 2] {
        faulty.cuts.store(cuts, Ordering::SeqCst);
        let mut checked = store.check(&settings, &Silent).await.unwrap();
        let found: Vec<_> = (checked.findings.iter())
            .map(|finding| (finding.fault, finding.digest))
            .collect();
        assert_eq!(found, [(Fault::Unreadable, Some(digest))]);
        // whether it can be read then or not
        store.give_up_found(&mut checked).await.unwrap();
        faulty.cuts.store(0, Ordering::SeqCst);
        store.give_up_found(&mut checked).await.unwrap();
        assert!(checked.findings[0].is_open());
        assert_eq!(store.sequence().await.unwrap(), 1);
        assert_eq!(text_of(&store, &digest).await.as_deref(), Some("sound"));
    }
    let checked = store.check(&settings, &Silent).await.unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
}

#[tokio::test]
async fn a_check_reads_all_records_and_compares_names_with_them() {
    let bucket = Bucket::in_memory().unwrap();
    let store = open(&bucket).await;
    commit(&store, vec![upstream("a", 1)]).await;
    commit(&store, vec![upstream("b", 1)]).await;
    let found = async || {
        // from an object with all names, as who starts does
        let checked = open(&bucket).await;
        let checked = checked.check(&CheckSettings::default(), &Silent).await;
        let findings = checked.unwrap().findings;
        let found = findings
            .iter()
            .map(|f| (f.fault, f.path.display().to_string()));
        found.collect::<Vec<_>>()
    };
    assert_eq!(found().await, []);
    let other = Arc::new(super::state::State {
        names: store.names().await.unwrap(),
        apart: Arc::new(["x".to_owned()].into()),
        ..super::state::State::default()
    });
    store.log.keep(other).await.unwrap();
    assert_eq!(found().await, [(Fault::Damaged, "names".to_owned())]);
    bucket
        .put(&keys::commit(1), Bytes::from_static(b"{}"))
        .await
        .unwrap();
    assert_eq!(found().await, [(Fault::Damaged, keys::commit(1))]);
    bucket.delete(&keys::commit(1)).await.unwrap();
    assert_eq!(found().await, [(Fault::Missing, keys::commit(1))]);
}

//! The promises of `Store`, for any store. A new kind of store runs the same list.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kubepkg_core::store::{
    Body, Change, Claim, Collect, Committed, FileRange, Garbage, Store, StoreError, Swept, Unit,
    Wait,
};
use kubepkg_core::time::Time;
use kubepkg_core::{Algorithm, Digest};
use kubepkg_mirror::bucket::{Bucket, BucketMode, BucketStore, S3};
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::support::{
    batch, blob, commit, content, manifest, noise, put, range_of, site, stream_of, tag, trust,
};

/// Makes a test of each promise, marked with `$marks`, for one kind of store. `$make` gives an empty store and
/// something that keeps it alive.
macro_rules! conformance {
    ($marks:tt, $make:expr, $($promise:ident),+ $(,)?) => {
        $(conformance!(@ $marks $make, $promise);)+
    };
    (@ [$($mark:tt)*] $make:expr, $promise:ident) => {
        $($mark)*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            let (_keep, store) = $make;
            super::$promise(store).await;
        }
    };
}

/// All promises.
macro_rules! all_promises {
    ($make:expr) => {
        all_promises!(@ [] $make);
    };
    (@ $marks:tt $make:expr) => {
        conformance!(
            $marks,
            $make,
            content_comes_in_by_every_way,
            content_that_is_not_what_was_announced_is_refused,
            a_source_that_fails_leaves_nothing,
            staged_content_is_not_readable,
            content_can_be_brought_again,
            many_contents_in_one_group,
            a_commit_changes_all_its_names,
            a_commit_on_an_old_state_changes_nothing,
            what_others_change_beside_a_commit_is_no_conflict,
            a_commit_needs_its_content,
            names_no_store_may_take_are_refused,
            names_can_be_taken_away,
            records_say_what_stood_before,
            nothing_is_lost_when_many_commit,
            leases_can_be_taken_together,
            content_is_listed_by_its_first_byte,
            only_what_is_condemned_is_swept_and_only_after_its_grace,
            who_wants_something_has_it_off_the_list,
            a_lease_protects_what_was_condemned_under_it,
            names_are_swept_unless_their_repository_changed,
        );
    };
}

mod file_store {
    use super::*;

    fn make() -> (tempfile::TempDir, FileStore) {
        let root = tempfile::tempdir().unwrap();
        let store = FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap();
        (root, store)
    }

    all_promises!(make());
}

mod bucket_in_memory {
    use super::*;

    all_promises!(((), bucket(Bucket::in_memory().unwrap()).await));
}

mod bucket_in_a_folder {
    use super::*;

    all_promises!({
        let root = tempfile::tempdir().unwrap();
        let store = bucket(Bucket::in_folder(root.path()).unwrap()).await;
        (root, store)
    });
}

/// The bucket `KPTEST_S3` names; the usual variables say where it is and who asks.
mod real_bucket {
    use super::*;

    all_promises!(@ [#[ignore = "needs a real bucket"]]
        ((), bucket(real().open().unwrap()).await)
    );
}

/// A prefix of the real bucket that is used for nothing else.
fn real() -> S3 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    let settings = std::env::vars().collect();
    S3 {
        bucket: std::env::var("KPTEST_S3").unwrap(),
        prefix: format!("try-{:x}", u64::from_le_bytes(bytes)),
        settings,
    }
}

/// What the layout asks of a server: of several that create one key, one comes through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real bucket"]
async fn a_real_server_lets_one_of_several_writers_through() {
    let place = real();
    let mut replicas = Vec::new();
    for _ in 0..4 {
        replicas.push(bucket(place.open().unwrap()).await);
    }
    for expected in 0..100 {
        let committing = replicas.iter().enumerate().map(|(n, replica)| async move {
            let memory = serde_json::json!({"round": expected, "by": n});
            replica
                .commit(expected, batch(vec![trust("t", memory)]))
                .await
        });
        let done = futures_util::future::join_all(committing).await;
        let done: Vec<Committed> = done.into_iter().map(Result::unwrap).collect();
        let newest = expected + 1;
        let won = done
            .iter()
            .position(|d| *d == Committed::Done(newest))
            .unwrap();
        for (n, other) in done.iter().enumerate() {
            assert!(
                n == won || *other == Committed::Conflict { newest },
                "{done:?}"
            );
            replicas[n].sequence().await.unwrap();
            let there = replicas[n].trust("t").await.unwrap().unwrap();
            assert_eq!(there["by"], won);
        }
    }
}

async fn bucket(bucket: Bucket) -> BucketStore {
    let opened = BucketStore::open(bucket, BucketMode::OpenOrCreate).await;
    opened.unwrap()
}

fn is_mismatch<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Mismatch { .. }))
}

async fn content_comes_in_by_every_way<S: Store>(store: S) {
    let sizes = [0, 1, 4095, 512 * 1024, 3 * 1024 * 1024 + 17];
    for (seed, size) in sizes.into_iter().enumerate() {
        let bodies: [fn(&Bytes) -> Body; 4] = [
            |bytes| Body::Bytes(bytes.clone()),
            |bytes| Body::Range(range_of(bytes)),
            |bytes| stream_of(bytes, 1000),
            |bytes| stream_of(bytes, 1024 * 1024),
        ];
        for (way, body) in bodies.into_iter().enumerate() {
            for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
                let bytes = noise((seed * 10 + way) as u64, size);
                let digest = Digest::of(algorithm, &bytes);
                let staged = store
                    .stage(digest, size as u64, body(&bytes))
                    .await
                    .unwrap();
                store.publish(vec![staged]).await.unwrap();
                assert_eq!(store.stat(&digest).await.unwrap(), Some(size as u64));
                assert!(content(&store, &digest).await.as_deref() == Some(&bytes[..]));
            }
        }
    }
}

async fn content_that_is_not_what_was_announced_is_refused<S: Store>(store: S) {
    let bytes = noise(1, 700_000);
    let digest = Digest::sha256(&bytes);
    let other = Digest::sha256(b"other");
    let size = bytes.len() as u64;
    for body in [
        || Body::Bytes(noise(1, 700_000)),
        || Body::Range(range_of(&noise(1, 700_000))),
        || stream_of(&noise(1, 700_000), 64 * 1024),
    ] {
        assert!(is_mismatch(&store.stage(other, size, body()).await));
        assert!(is_mismatch(&store.stage(digest, size - 1, body()).await));
        assert!(is_mismatch(&store.stage(digest, size + 1, body()).await));
    }
    for absent in [digest, other] {
        assert_eq!(store.stat(&absent).await.unwrap(), None);
        assert!(content(&store, &absent).await.is_none());
    }
}

async fn a_source_that_fails_leaves_nothing<S: Store>(store: S) {
    let bytes = noise(2, 1000);
    let digest = Digest::sha256(&bytes);
    let pieces = vec![Ok(bytes.slice(..500)), Err(std::io::Error::other("gone"))];
    let broken = Body::Stream(Box::pin(futures_util::stream::iter(pieces)));
    let result = store.stage(digest, 1000, broken).await;
    assert!(matches!(result, Err(StoreError::Source { .. })));

    let FileRange { file, offset, .. } = range_of(&bytes);
    let beyond = Body::Range(FileRange {
        file,
        offset,
        len: 2000,
    });
    let result = store.stage(digest, 2000, beyond).await;
    assert!(matches!(result, Err(StoreError::Source { .. })));
    assert_eq!(store.stat(&digest).await.unwrap(), None);
}

async fn staged_content_is_not_readable<S: Store>(store: S) {
    let bytes = noise(3, 1000);
    let digest = Digest::sha256(&bytes);
    let staged = store.stage(digest, 1000, Body::Bytes(bytes)).await.unwrap();
    assert_eq!(store.stat(&digest).await.unwrap(), None);
    drop(staged);
    assert_eq!(store.stat(&digest).await.unwrap(), None);
    let change = blob("a", digest, 1000);
    let result = store.commit(0, batch(vec![change])).await;
    assert!(matches!(result, Err(StoreError::Missing { .. })));
}

async fn content_can_be_brought_again<S: Store>(store: S) {
    let bytes = noise(4, 1000);
    let digest = put(&store, &bytes).await.unwrap();
    assert_eq!(put(&store, &bytes).await.unwrap(), digest);
    // twice in one group, too
    let mut group = Vec::new();
    for _ in 0..2 {
        let body = Body::Bytes(bytes.clone());
        group.push(store.stage(digest, 1000, body).await.unwrap());
    }
    store.publish(group).await.unwrap();
    assert!(content(&store, &digest).await.as_deref() == Some(&bytes[..]));
    store.publish(Vec::new()).await.unwrap();
}

async fn many_contents_in_one_group<S: Store>(store: S) {
    let store = Arc::new(store);
    let all: Vec<Bytes> = (0..500).map(|seed| noise(seed, 300)).collect();
    let staged = futures_util::future::try_join_all(all.iter().map(|bytes| {
        let body = Body::Bytes(bytes.clone());
        store.stage(Digest::sha256(bytes), 300, body)
    }));
    store.publish(staged.await.unwrap()).await.unwrap();
    for bytes in &all {
        let found = content(&*store, &Digest::sha256(bytes)).await;
        assert!(found.as_deref() == Some(&bytes[..]));
    }
}

async fn a_commit_changes_all_its_names<S: Store>(store: S) {
    let (bytes, index) = (noise(5, 400), noise(6, 100));
    let digest = put(&store, &bytes).await.unwrap();
    put(&store, &index).await.unwrap();
    let url = "https://packages.example/v1/index.yaml";
    let site = site(url, &[("index.yaml", &index), ("root/1.yaml", &bytes)]);
    let Change::Site { folder, .. } = site.clone() else {
        unreachable!()
    };
    let memory = serde_json::json!({"index": "x"});
    let changes = vec![
        manifest("docker.io/library/a", digest, 400),
        blob("docker.io/library/b", digest, 400),
        tag("docker.io/library/a", "1.0", digest),
        site,
        trust("packages", memory.clone()),
    ];
    assert_eq!(store.sequence().await.unwrap(), 0);
    let committed = store.commit(0, batch(changes)).await.unwrap();
    assert_eq!(committed, Committed::Done(1));
    assert_eq!(store.sequence().await.unwrap(), 1);

    let name = "docker.io/library/a".parse().unwrap();
    let a = store.repository(&name).await.unwrap().unwrap();
    assert_eq!(a.manifests[&digest].size, 400);
    assert_eq!(a.tags["1.0"].digest, digest);
    let name = "docker.io/library/b".parse().unwrap();
    let b = store.repository(&name).await.unwrap().unwrap();
    assert_eq!(b.blobs[&digest], 400);
    let entry = store.site(&folder).await.unwrap().unwrap();
    assert_eq!((entry.url.as_str(), entry.set), (url, 1));
    assert_eq!(entry.files.len(), 2);
    assert_eq!(store.trust("packages").await.unwrap(), Some(memory));

    let nobody = "docker.io/library/c".parse().unwrap();
    assert!(store.repository(&nobody).await.unwrap().is_none());
    assert!(store.site("nobody-000000000000").await.unwrap().is_none());
    assert!(store.trust("nobody").await.unwrap().is_none());
    assert!(store.record(2).await.unwrap().is_none());
}

async fn a_commit_on_an_old_state_changes_nothing<S: Store>(store: S) {
    let digest = put(&store, &noise(7, 10)).await.unwrap();
    commit(&store, vec![blob("a", digest, 10)]).await.unwrap();
    for wrong in [0, 2] {
        let result = store
            .commit(wrong, batch(vec![blob("b", digest, 10)]))
            .await;
        assert_eq!(result.unwrap(), Committed::Conflict { newest: 1 });
    }
    let name = "b".parse().unwrap();
    assert!(store.repository(&name).await.unwrap().is_none());
    assert_eq!(store.sequence().await.unwrap(), 1);
}

async fn what_others_change_beside_a_commit_is_no_conflict<S: Store>(store: S) {
    let memory = |n: u64| vec![trust("mine", serde_json::json!({ "n": n }))];
    let other = |n: u64| vec![trust("other", serde_json::json!({ "n": n }))];
    for n in 0..3 {
        commit(&store, other(n)).await.unwrap();
    }
    let by_other = |unit: &Unit| *unit == Unit::Trust("other".to_owned());
    let conflict = store.commit_beside(2, batch(memory(1)), &by_other).await;
    assert_eq!(conflict.unwrap(), Committed::Conflict { newest: 3 });
    let done = store.commit_beside(0, batch(memory(1)), &|_| false).await;
    assert_eq!(done.unwrap(), Committed::Done(4));
    let record = store.record(4).await.unwrap().unwrap();
    assert_eq!(record.changes[0].old, serde_json::Value::Null);
    // what it changes itself always counts
    let conflict = store.commit_beside(3, batch(memory(2)), &|_| false).await;
    assert_eq!(conflict.unwrap(), Committed::Conflict { newest: 4 });
    // and so does a commit nobody knows of yet
    let conflict = store.commit_beside(9, batch(memory(2)), &|_| false).await;
    assert!(matches!(conflict.unwrap(), Committed::Conflict { .. }));
}

async fn a_commit_needs_its_content<S: Store>(store: S) {
    let here = put(&store, &noise(8, 10)).await.unwrap();
    let absent = noise(9, 10);
    let digest = Digest::sha256(&absent);
    let missing = [
        manifest("a", digest, 10),
        blob("a", digest, 10),
        site("https://x.example/index.yaml", &[("index.yaml", &absent)]),
        // a tag also needs its manifest to be one of the repository
        tag("a", "1", here),
    ];
    for change in missing {
        let changes = vec![blob("a", here, 10), change];
        let result = store.commit(0, batch(changes)).await;
        assert!(matches!(result, Err(StoreError::Missing { .. })));
    }
    let result = store.commit(0, batch(vec![blob("a", here, 11)])).await;
    assert!(is_mismatch(&result), "the size is part of it");
    assert_eq!(store.sequence().await.unwrap(), 0);
    assert!(
        store
            .repository(&"a".parse().unwrap())
            .await
            .unwrap()
            .is_none()
    );
}

async fn names_no_store_may_take_are_refused<S: Store>(store: S) {
    let bytes = noise(10, 10);
    put(&store, &bytes).await.unwrap();
    let url = "https://x.example/index.yaml";
    for change in [
        site(url, &[("../../trust/x.json", &bytes)]),
        site(url, &[("/etc/passwd", &bytes)]),
        site(url, &[("a", &bytes), ("A", &bytes)]),
        Change::Site {
            folder: "../blobs".to_owned(),
            new: None,
        },
        trust("", serde_json::Value::Null),
    ] {
        let result = store.commit(0, batch(vec![change])).await;
        assert!(
            matches!(result, Err(StoreError::Illegal { .. })),
            "{result:?}"
        );
    }
    // odd, and the store's own business
    for entry in ["../x", "A", "a", "ä/ö", &"long".repeat(60)] {
        let memory = serde_json::json!({ "entry": entry });
        commit(&store, vec![trust(entry, memory.clone())])
            .await
            .unwrap();
        assert_eq!(store.trust(entry).await.unwrap(), Some(memory));
    }
}

async fn names_can_be_taken_away<S: Store>(store: S) {
    let bytes = noise(11, 10);
    let digest = put(&store, &bytes).await.unwrap();
    let site = site("https://x.example/index.yaml", &[("index.yaml", &bytes)]);
    let Change::Site { folder, .. } = site.clone() else {
        unreachable!()
    };
    let added = vec![
        manifest("a", digest, 10),
        tag("a", "1", digest),
        blob("a", digest, 10),
        site,
        trust("x", serde_json::json!(1)),
    ];
    commit(&store, added).await.unwrap();
    let repository: kubepkg_core::name::RepositoryName = "a".parse().unwrap();
    let taken = vec![
        Change::Tag {
            repository: repository.clone(),
            tag: "1".parse().unwrap(),
            new: None,
        },
        Change::Manifest {
            repository: repository.clone(),
            digest,
            new: None,
        },
        Change::Blob {
            repository: repository.clone(),
            digest,
            new: None,
        },
        Change::Site {
            folder: folder.clone(),
            new: None,
        },
        Change::Trust {
            entry: "x".to_owned(),
            new: None,
        },
    ];
    commit(&store, taken).await.unwrap();
    let left = store.repository(&repository).await.unwrap().unwrap();
    assert_eq!(left, kubepkg_core::store::Repository::default());
    assert!(store.site(&folder).await.unwrap().is_none());
    assert!(store.trust("x").await.unwrap().is_none());
    assert!(content(&store, &digest).await.is_some(), "names only");
}

async fn records_say_what_stood_before<S: Store>(store: S) {
    let (old, new) = (noise(12, 10), noise(13, 10));
    let old = put(&store, &old).await.unwrap();
    let new = put(&store, &new).await.unwrap();
    let first = vec![manifest("a", old, 10), tag("a", "1", old)];
    commit(&store, first).await.unwrap();
    let second = vec![manifest("a", new, 10), tag("a", "1", new)];
    commit(&store, second.clone()).await.unwrap();
    let record = store.record(2).await.unwrap().unwrap();
    assert_eq!((record.number, record.changes.len()), (2, 2));
    assert_eq!(record.changes[0].change, second[0]);
    assert_eq!(record.changes[0].old, serde_json::Value::Null);
    assert_eq!(record.changes[1].change, second[1]);
    let before = serde_json::json!({"digest": old.to_string()});
    assert_eq!(record.changes[1].old, before);
}

async fn nothing_is_lost_when_many_commit<S: Store>(store: S) {
    let digest = put(&store, &noise(14, 10)).await.unwrap();
    commit(&store, vec![manifest("a", digest, 10)])
        .await
        .unwrap();
    let store = &store;
    futures_util::future::join_all((0..20).map(|number| async move {
        let change = tag("a", &format!("t{number}"), digest);
        commit(store, vec![change]).await.unwrap();
    }))
    .await;
    let a = store
        .repository(&"a".parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(a.tags.len(), 20);
    assert_eq!(store.sequence().await.unwrap(), 21);
}

async fn leases_can_be_taken_together<S: Store>(store: S) {
    let one = store.lease().await.unwrap();
    let two = store.lease().await.unwrap();
    drop((one, two));
}

/// Its bytes are garbage.
fn bytes_of(digest: Digest) -> BTreeSet<Garbage> {
    let claim = Claim::Bytes;
    BTreeSet::from([Garbage { digest, claim }])
}

async fn sweep<S: Collect>(store: &S, garbage: &BTreeSet<Garbage>, grace: Duration) -> Swept {
    let sequence = store.sequence().await.unwrap();
    let at = Time::from_unix(1_796_000_000);
    store
        .sweep(sequence, garbage.clone(), grace, at)
        .await
        .unwrap()
}

/// Nothing was swept, for this one reason.
#[track_caller]
fn waits(swept: &Swept, why: fn(&Wait) -> bool) {
    assert!(swept.names.is_empty() && swept.contents.is_empty());
    let all = swept.waiting.iter().all(|(_, wait)| why(wait));
    assert!(all && !swept.waiting.is_empty(), "{swept:?}");
}

async fn content_is_listed_by_its_first_byte<S: Collect>(store: S) {
    let mut expected = BTreeSet::new();
    for seed in 0..20 {
        expected.insert(put(&store, &noise(seed, 100)).await.unwrap());
    }
    let mut found = BTreeSet::new();
    for first in 0..=u8::MAX {
        for digest in store.list(Algorithm::Sha256, first).await.unwrap() {
            assert!(digest.hex().starts_with(&format!("{first:02x}")));
            assert!(found.insert(digest), "{digest} twice");
        }
        let other = store.list(Algorithm::Sha512, first).await.unwrap();
        assert!(other.is_empty());
    }
    assert_eq!(found, expected);
}

async fn only_what_is_condemned_is_swept_and_only_after_its_grace<S: Collect>(store: S) {
    let digest = put(&store, &noise(1, 500)).await.unwrap();
    let garbage = bytes_of(digest);
    let swept = sweep(&store, &garbage, Duration::ZERO).await;
    waits(&swept, |wait| *wait == Wait::Uncondemned);
    store.condemn(garbage.clone()).await.unwrap();
    let swept = sweep(&store, &garbage, Duration::from_secs(3600)).await;
    waits(&swept, |wait| matches!(wait, Wait::Grace(_)));
    assert!(content(&store, &digest).await.is_some());
    // what is found again keeps since when
    store.condemn(garbage.clone()).await.unwrap();
    let swept = sweep(&store, &garbage, Duration::ZERO).await;
    assert_eq!(swept.contents, [(digest, 500)]);
    assert_eq!(store.stat(&digest).await.unwrap(), None);
    let swept = sweep(&store, &garbage, Duration::ZERO).await;
    assert!(swept.contents.is_empty());
}

async fn who_wants_something_has_it_off_the_list<S: Collect>(store: S) {
    let bytes = noise(1, 500);
    let digest = put(&store, &bytes).await.unwrap();
    let garbage = bytes_of(digest);
    for way in 0..5 {
        store.condemn(garbage.clone()).await.unwrap();
        match way {
            0 => store.rescue(vec![digest]).await.unwrap(),
            1 => drop(store.stat(&digest).await.unwrap()),
            2 => drop(put(&store, &bytes).await.unwrap()),
            3 => drop(commit(&store, vec![blob("a", digest, 500)]).await.unwrap()),
            // a list without it
            _ => store.condemn(BTreeSet::new()).await.unwrap(),
        }
        let swept = sweep(&store, &garbage, Duration::ZERO).await;
        waits(&swept, |wait| *wait == Wait::Uncondemned);
    }
    let gone = Digest::sha256(b"never here");
    let result = store.rescue(vec![gone]).await;
    assert!(matches!(result, Err(StoreError::Missing { .. })));
}

async fn a_lease_protects_what_was_condemned_under_it<S: Collect>(store: S) {
    let digest = put(&store, &noise(1, 500)).await.unwrap();
    let garbage = bytes_of(digest);
    let lease = store.lease().await.unwrap();
    store.condemn(garbage.clone()).await.unwrap();
    let swept = sweep(&store, &garbage, Duration::ZERO).await;
    waits(&swept, |wait| *wait == Wait::Lease);
    drop(lease);
    let swept = sweep(&store, &garbage, Duration::ZERO).await;
    assert_eq!(swept.contents, [(digest, 500)]);
}

async fn names_are_swept_unless_their_repository_changed<S: Collect>(store: S) {
    let bytes = noise(1, 500);
    let digest = put(&store, &bytes).await.unwrap();
    let changes = vec![manifest("a", digest, 500), tag("a", "1", digest)];
    let first = commit(&store, changes).await.unwrap();
    let name = "a".parse().unwrap();
    let claim = Claim::Manifest("a".parse().unwrap());
    let garbage = BTreeSet::from([Garbage { digest, claim }]);
    store.condemn(garbage.clone()).await.unwrap();
    let other = put(&store, &noise(2, 100)).await.unwrap();
    let changes = vec![blob("a", other, 100)];
    commit(&store, changes).await.unwrap();
    let at = Time::from_unix(1_796_000_000);
    // decided before that
    let swept = store.sweep(first, garbage.clone(), Duration::ZERO, at);
    waits(&swept.await.unwrap(), |wait| *wait == Wait::Changed);
    let swept = sweep(&store, &garbage, Duration::ZERO).await;
    assert_eq!(swept.names, Vec::from_iter(garbage));
    let repository = store.repository(&name).await.unwrap().unwrap();
    assert!(repository.manifests.is_empty() && repository.tags.is_empty());
    assert!(content(&store, &digest).await.is_some());
}

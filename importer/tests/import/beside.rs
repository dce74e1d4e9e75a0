//! What happens beside an import: other imports, other changes, a disk that is nearly full.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use kubepkg_core::Digest;
use kubepkg_core::error::Classify as _;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{
    Batch, Body, Cause, Change, Committed, Record, Repository, SiteEntry, Store, StoreError,
};
use kubepkg_importer::ImportError;
use kubepkg_mirror::store::FileStore;

use super::site::{App, Publisher, Site, URL, app, hours_ago, into, now};

type Done<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A file store beside which something happens each time an import wants to commit, and with
/// as much room as it is told to have.
struct Beside<F> {
    inner: FileStore,
    room: Option<u64>,
    commits: AtomicU32,
    happens: F,
}

impl<'a, F: Fn(u32) -> Done<'a> + Send + Sync> Beside<F> {
    fn new(inner: FileStore, happens: F) -> Beside<F> {
        Beside {
            inner,
            room: None,
            commits: AtomicU32::new(0),
            happens,
        }
    }
}

fn nothing(_: u32) -> Done<'static> {
    Box::pin(async {})
}

impl<'a, F: Fn(u32) -> Done<'a> + Send + Sync> Store for Beside<F> {
    type Staged = <FileStore as Store>::Staged;
    type Lease = <FileStore as Store>::Lease;

    async fn lease(&self) -> Result<Self::Lease, StoreError> {
        self.inner.lease().await
    }

    async fn sequence(&self) -> Result<u64, StoreError> {
        self.inner.sequence().await
    }

    async fn stat(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        self.inner.stat(digest).await
    }

    async fn read(&self, digest: &Digest) -> Result<Option<Body>, StoreError> {
        self.inner.read(digest).await
    }

    async fn room(&self) -> Result<Option<u64>, StoreError> {
        match self.room {
            Some(room) => Ok(Some(room)),
            None => self.inner.room().await,
        }
    }

    async fn stage(
        &self,
        digest: Digest,
        size: u64,
        body: Body,
    ) -> Result<Self::Staged, StoreError> {
        self.inner.stage(digest, size, body).await
    }

    async fn publish(&self, staged: Vec<Self::Staged>) -> Result<(), StoreError> {
        self.inner.publish(staged).await
    }

    async fn repository(&self, name: &RepositoryName) -> Result<Option<Repository>, StoreError> {
        self.inner.repository(name).await
    }

    async fn site(&self, folder: &str) -> Result<Option<SiteEntry>, StoreError> {
        self.inner.site(folder).await
    }

    async fn trust(&self, entry: &str) -> Result<Option<serde_json::Value>, StoreError> {
        self.inner.trust(entry).await
    }

    async fn record(&self, number: u64) -> Result<Option<Record>, StoreError> {
        self.inner.record(number).await
    }

    async fn commit(&self, expected: u64, batch: Batch) -> Result<Committed, StoreError> {
        (self.happens)(self.commits.fetch_add(1, Ordering::SeqCst)).await;
        self.inner.commit(expected, batch).await
    }
}

fn web() -> App {
    app("web", "1.0.0", "registry.example.com/web:1")
}

fn db() -> App {
    app("db", "1.0.0", "registry.example.com/db:1")
}

#[tokio::test]
async fn an_import_that_others_overtook_looks_again_and_commits() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let (web, db) = (web(), db());
    let ours = site.carry(&publisher.bundle(hours_ago(2), &[&web, &db], &[&web]));
    let theirs = publisher.bundle(hours_ago(1), &[&web, &db], &[&db]);
    let store = Beside::new(site.store(), |n| -> Done<'_> {
        Box::pin({
            let (site, publisher, theirs) = (&site, &publisher, &theirs);
            async move {
                if n == 0 {
                    let imported = site.import(publisher, theirs).await.unwrap();
                    assert_eq!(imported.commit, Some(1));
                }
            }
        })
    });
    let imported = into(&store, &ours, &publisher.trusted()).await.unwrap();
    assert_eq!(imported.commit, Some(2));
    assert_eq!(store.commits.load(Ordering::SeqCst), 2);
    // what came first is still there, and its index, the newer one, is the accepted one
    assert_eq!(site.carried(URL).await, ["db 1.0.0", "web 1.0.0"]);
    let index = site.published(URL, "index.yaml").await.unwrap();
    assert_eq!(
        Digest::sha256(&index),
        theirs.head.repositories[0].files[0].digest
    );
    let said = imported.receipt.warnings.join("\n");
    assert!(
        said.contains("older than the one accepted before"),
        "{said}"
    );
}

#[tokio::test]
async fn what_was_withdrawn_meanwhile_stays_out() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let (web, db) = (web(), db());
    let ours = site.carry(&publisher.bundle(hours_ago(2), &[&web, &db], &[&web]));
    let theirs = publisher.bundle(hours_ago(1), &[&db], &[&db]);
    let store = Beside::new(site.store(), |n| -> Done<'_> {
        Box::pin({
            let (site, publisher, theirs) = (&site, &publisher, &theirs);
            async move {
                if n == 0 {
                    site.import(publisher, theirs).await.unwrap();
                }
            }
        })
    });
    let error = into(&store, &ours, &publisher.trusted()).await.unwrap_err();
    assert!(matches!(error, ImportError::Trust { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("web 1.0.0 is not in the signed index")
    );
    assert_eq!(site.carried(URL).await, ["db 1.0.0"]);
    assert_eq!(site.names().await.sequence, 1);
}

#[tokio::test]
async fn a_store_that_never_rests_is_given_up_with_a_hint() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web();
    let ours = site.carry(&publisher.bundle(hours_ago(2), &[&web], &[&web]));
    let other = site.store();
    let store = Beside::new(site.store(), |n| -> Done<'_> {
        Box::pin({
            let other = &other;
            async move {
                let batch = Batch {
                    at: now(),
                    cause: Cause::Push,
                    changes: vec![Change::Trust {
                        entry: format!("entry-{n}"),
                        new: Some(serde_json::json!({"n": n})),
                    }],
                };
                let expected = other.sequence().await.unwrap();
                let done = other.commit(expected, batch).await.unwrap();
                assert!(matches!(done, Committed::Done(_)));
            }
        })
    });
    let error = into(&store, &ours, &publisher.trusted()).await.unwrap_err();
    assert!(matches!(error, ImportError::Busy(_)), "{error}");
    assert!(error.retry() && error.hint().is_some());
    assert!(site.names().await.repositories.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_imports_at_once_both_come_in() {
    let publisher = Publisher::new(URL);
    for _ in 0..4 {
        let site = Site::new();
        let (web, db) = (web(), db());
        let listed = [&web, &db];
        let bundles = [
            site.carry(&publisher.bundle(hours_ago(2), &listed, &[&web])),
            site.carry(&publisher.bundle(hours_ago(1), &listed, &[&db])),
        ];
        // each opens the store for itself, as two processes would
        let tasks = bundles.map(|bundle| {
            let (store, trusted) = (site.store(), publisher.trusted());
            tokio::spawn(async move { into(&store, &bundle, &trusted).await })
        });
        let mut commits = Vec::new();
        for task in tasks {
            commits.extend(task.await.unwrap().unwrap().commit);
        }
        commits.sort_unstable();
        assert_eq!(commits, [1, 2]);
        assert_eq!(site.carried(URL).await, ["db 1.0.0", "web 1.0.0"]);
        let newest = publisher.bundle(hours_ago(1), &listed, &[&db]);
        let index = site.published(URL, "index.yaml").await.unwrap();
        assert_eq!(
            Digest::sha256(&index),
            newest.head.repositories[0].files[0].digest
        );
    }
}

#[tokio::test]
async fn two_imports_of_one_file_at_once_are_one() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web();
    let bundle = site.carry(&publisher.bundle(hours_ago(1), &[&web], &[&web]));
    let (one, two) = (site.store(), site.store());
    let trusted = publisher.trusted();
    let (one, two) = tokio::join!(into(&one, &bundle, &trusted), into(&two, &bundle, &trusted));
    let mut commits = [one.unwrap().commit, two.unwrap().commit];
    commits.sort_unstable();
    assert_eq!(commits, [None, Some(1)]);
}

#[tokio::test]
async fn too_little_room_is_said_before_anything_is_stored() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web();
    let bundle = site.carry(&publisher.bundle(hours_ago(1), &[&web], &[&web]));
    let payload: u64 = bundle.layout().payload().iter().map(|m| m.size).sum();
    let mut store = Beside::new(site.store(), nothing);
    store.room = Some(payload - 1);
    let error = into(&store, &bundle, &publisher.trusted())
        .await
        .unwrap_err();
    assert!(
        matches!(error, ImportError::NoRoom { needed, free } if (needed, free) == (payload, payload - 1)),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("free some space"));
    assert!(site.content(&web.digest()).await.is_none());
    assert!(site.files().is_empty());
    // what is there already needs no room
    store.room = Some(payload);
    into(&store, &bundle, &publisher.trusted()).await.unwrap();
    store.room = Some(0);
    let again = into(&store, &bundle, &publisher.trusted()).await.unwrap();
    assert_eq!(again.commit, None);
}

//! How a replica answers while its bucket is slow, full of requests, or away.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{Method, Request, StatusCode};
use kubepkg_core::Digest;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::file::{self, FileName};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::store::{
    Batch, Cause, Change, FileRange, Names, SiteEntry, SiteFile, Store as _, StoreError,
};
use kubepkg_core::time::Time;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use serde_json::json;
use tokio::sync::{Semaphore, watch};

use super::content::Contents;
use super::log::Log;
use super::objects::Bucket;
use super::written::Limits;
use super::{BucketMode, BucketStore, Replica, Spool, keys};
use crate::http::{Answers, PushSettings, Server};
use crate::sink::Sink as _;
use crate::source::{Age, NamesFuture, Remote, SizesFuture, Source};

/// A bucket in memory whose server is not well.
#[derive(Clone, Debug)]
struct Sick(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    inside: InMemory,
    /// Requests for keys that begin so are not answered.
    held: watch::Sender<Option<&'static str>>,
    /// Requests for keys that begin so fail.
    down: watch::Sender<Option<&'static str>>,
    /// How many do not get an answer at this moment.
    waiting: watch::Sender<usize>,
    /// Commit records that were asked for.
    asked: AtomicUsize,
    /// Bytes of content that are being written, and how many there were at most.
    written: AtomicU64,
    most: AtomicU64,
    /// Each write of content waits for one of these.
    turns: Option<Semaphore>,
}

impl Default for Sick {
    fn default() -> Sick {
        Sick::with(None)
    }
}

impl Sick {
    fn with(turns: Option<Semaphore>) -> Sick {
        Sick(Arc::new(Inner {
            turns,
            inside: InMemory::new(),
            held: watch::Sender::new(None),
            down: watch::Sender::new(None),
            waiting: watch::Sender::new(0),
            asked: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            most: AtomicU64::new(0),
        }))
    }
}

impl fmt::Display for Sick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sick")
    }
}

impl Sick {
    async fn waiting<T>(&self, until: impl Future<Output = T>) {
        self.0.waiting.send_modify(|waiting| *waiting += 1);
        until.await;
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
    }

    async fn meet(&self, location: &Path) -> object_store::Result<()> {
        let about =
            |keys: &Option<&str>| keys.is_some_and(|keys| location.as_ref().starts_with(keys));
        if location.as_ref().starts_with(keys::COMMITS) {
            self.0.asked.fetch_add(1, Ordering::SeqCst);
        }
        let mut held = self.0.held.subscribe();
        if about(&held.borrow_and_update()) {
            self.waiting(held.wait_for(|keys| !about(keys))).await;
        }
        match about(&self.0.down.borrow()) {
            true => Err(Error::Generic {
                store: "sick",
                source: "nobody is there".into(),
            }),
            false => Ok(()),
        }
    }

    fn hold(&self, keys: Option<&'static str>) {
        self.0.held.send_replace(keys);
    }

    fn down(&self, keys: Option<&'static str>) {
        self.0.down.send_replace(keys);
    }

    /// Done when so many requests wait for an answer.
    async fn waits(&self, wanted: usize) {
        let mut waiting = self.0.waiting.subscribe();
        waiting
            .wait_for(|waiting| *waiting >= wanted)
            .await
            .unwrap();
    }

    async fn writes<T>(
        &self,
        location: &Path,
        bytes: usize,
        put: impl Future<Output = object_store::Result<T>>,
    ) -> object_store::Result<T> {
        let content = location.as_ref().starts_with(keys::BLOBS);
        let bytes = if content { bytes as u64 } else { 0 };
        let now = self.0.written.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        if let Some(turns) = self.0.turns.as_ref().filter(|_| content) {
            self.waiting(async { turns.acquire().await.unwrap().forget() })
                .await;
        }
        let done = match self.meet(location).await {
            Ok(()) => put.await,
            Err(error) => Err(error),
        };
        self.0.written.fetch_sub(bytes, Ordering::SeqCst);
        done
    }
}

#[async_trait::async_trait]
impl ObjectStore for Sick {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let bytes = payload.content_length();
        let put = self.0.inside.put_opts(location, payload, options);
        self.writes(location, bytes, put).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.meet(location).await?;
        let inside = self.0.inside.put_multipart_opts(location, options).await?;
        Ok(Box::new(Parts {
            sick: self.clone(),
            location: location.clone(),
            inside,
        }))
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        self.meet(location).await?;
        self.0.inside.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.0.inside.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.0.inside.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.0.inside.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.0.inside.copy_opts(from, to, options).await
    }
}

/// An object in parts on its way into a [`Sick`] bucket.
#[derive(Debug)]
struct Parts {
    sick: Sick,
    location: Path,
    inside: Box<dyn MultipartUpload>,
}

#[async_trait::async_trait]
impl MultipartUpload for Parts {
    fn put_part(&mut self, data: PutPayload) -> object_store::UploadPart {
        let (sick, location) = (self.sick.clone(), self.location.clone());
        let bytes = data.content_length();
        let put = self.inside.put_part(data);
        Box::pin(async move { sick.writes(&location, bytes, put).await })
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        self.sick.meet(&self.location).await?;
        self.inside.complete().await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.inside.abort().await
    }
}

/// A mirror on a sick bucket.
struct Site {
    answers: Answers,
    store: BucketStore,
    spool: Spool,
    folder: tempfile::TempDir,
}

async fn site(sick: &Sick) -> Site {
    let bucket = Bucket::of(Arc::new(sick.clone()), "sick://x".to_owned()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mode = BucketMode::OpenOrCreate;
    serve(BucketStore::open(bucket, mode).await.unwrap(), folder).await
}

async fn serve(store: BucketStore, folder: tempfile::TempDir) -> Site {
    let spool = Spool::open(folder.path(), 0).await.unwrap();
    let server = Server::new(store.clone());
    let replica = Replica::new(store.clone(), spool.clone());
    let server = server.accept_pushes(replica, PushSettings::default());
    Site {
        answers: server.into_answers(),
        store,
        spool,
        folder,
    }
}

/// The same mirror long after it asked its bucket last; it waits for that only a moment.
async fn old(site: Site) -> Site {
    let Site {
        answers,
        mut store,
        spool,
        folder,
    } = site;
    drop((answers, spool));
    let log = Log::open(store.bucket.clone(), Limits::default())
        .await
        .unwrap();
    let mut log = Arc::new(log);
    Arc::get_mut(&mut log)
        .unwrap()
        .grow_old(Duration::from_millis(50));
    store.log = log;
    serve(store, folder).await
}

/// An answer, read to its end.
struct Answer {
    status: StatusCode,
    headers: http::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn location(&self) -> String {
        self.headers[http::header::LOCATION]
            .to_str()
            .unwrap()
            .to_owned()
    }
}

impl Site {
    async fn send(&self, method: Method, target: &str, body: impl Into<Body>) -> Answer {
        let body: Body = body.into();
        let mut request = Request::builder().method(method).uri(target);
        if target.contains("/manifests/") {
            request = request.header("Content-Type", MANIFEST);
        }
        let (response, _) = self.answers.answer(request.body(body).unwrap()).await;
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX)
            .await
            .unwrap_or_default();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.to_vec(),
        }
    }

    async fn get(&self, target: &str) -> Answer {
        self.send(Method::GET, target, Body::empty()).await
    }

    async fn push_blob(&self, repository: &str, bytes: &[u8]) -> Answer {
        let digest = Digest::sha256(bytes);
        let target = format!("/v2/{repository}/blobs/uploads/?digest={digest}");
        self.send(Method::POST, &target, bytes.to_vec()).await
    }

    /// Pushes blobs, and a manifest of them under a tag.
    async fn push(&self, repository: &str, tag: &str, parts: Content<'_>) -> Digest {
        let mut described = Vec::new();
        for (kind, bytes) in [&[parts.config], parts.layers].concat() {
            let pushed = self.push_blob(repository, bytes).await;
            assert_eq!(pushed.status, StatusCode::CREATED, "{}", pushed.text());
            let (digest, size) = (Digest::sha256(bytes), bytes.len());
            described.push(json!({"mediaType": kind, "digest": digest, "size": size}));
        }
        let mut manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": described[0], "layers": described[1..],
        });
        if let Some(subject) = parts.subject {
            manifest["subject"] = json!({"mediaType": MANIFEST, "digest": subject, "size": 1});
        }
        self.push_manifest(repository, tag, manifest.to_string())
            .await
    }

    async fn push_manifest(&self, repository: &str, tag: &str, bytes: String) -> Digest {
        let target = format!("/v2/{repository}/manifests/{tag}");
        let put = self.send(Method::PUT, &target, bytes.clone()).await;
        assert_eq!(put.status, StatusCode::CREATED, "{}", put.text());
        Digest::sha256(bytes)
    }

    /// Pushes an image without layers.
    async fn push_image(&self, repository: &str, tag: &str) -> Digest {
        let config = format!("{{\"tag\":\"{tag}\"}}");
        let parts = Content {
            config: (CONFIG, config.as_bytes()),
            layers: &[],
            subject: None,
        };
        self.push(repository, tag, parts).await
    }

    /// Reads on in the log, however it went before.
    async fn read_on(&self) {
        self.store.log.read_on(Duration::ZERO).await.unwrap();
    }

    /// Files of uploads.
    fn uploads(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("uploads"))
            .unwrap()
            .count()
    }
}

/// What a manifest is made of.
#[derive(Clone, Copy)]
struct Content<'c> {
    config: (&'c str, &'c [u8]),
    layers: &'c [(&'c str, &'c [u8])],
    subject: Option<Digest>,
}

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// Names as they were, for what may be old.
struct Stale(Arc<Names>, BucketStore);

impl Source for Stale {
    fn names(&self, age: Age) -> NamesFuture<'_> {
        match age {
            Age::Now => Source::names(&self.1, age),
            Age::Known | Age::Moment => Box::pin(std::future::ready(Ok(Arc::clone(&self.0)))),
        }
    }

    fn blob(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError> {
        self.1.blob(digest)
    }

    fn sizes(&self, digests: Vec<Digest>) -> SizesFuture<'_> {
        self.1.sizes(digests)
    }

    fn site_file(
        &self,
        folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError> {
        self.1.site_file(folder, site, path)
    }

    fn remote(&self) -> Option<Arc<dyn Remote>> {
        self.1.remote()
    }
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

// One thread, as each of those that talk to clients: what waits on it would hold up all of them.
#[tokio::test]
async fn a_look_for_absent_content_holds_up_nobody_else() {
    let sick = Sick::default();
    let site = site(&sick).await;
    let (gone, there) = (b"gone".as_slice(), b"there".as_slice());
    for bytes in [gone, there] {
        assert_eq!(site.push_blob("a", bytes).await.status, StatusCode::CREATED);
    }
    let target = |bytes: &[u8]| format!("/v2/a/blobs/{}", Digest::sha256(bytes));
    let key = keys::blob(&Digest::sha256(gone), 0);
    site.store.bucket.delete(&key).await.unwrap();
    assert_eq!(site.get(&target(gone)).await.status, StatusCode::NOT_FOUND);
    // it is looked for again, and the server does not answer
    sick.hold(Some(keys::BLOBS));
    let (gone, there) = (target(gone), target(there));
    let looking = site.send(Method::HEAD, &gone, Body::empty());
    let others = async {
        sick.waits(1).await;
        let other = site.send(Method::HEAD, &there, Body::empty()).await;
        assert_eq!(other.status, StatusCode::OK);
        sick.hold(None);
    };
    let (looked, ()) = tokio::join!(looking, others);
    assert_eq!(looked.status, StatusCode::NOT_FOUND);
    // somebody brought it back
    assert_eq!(
        site.push_blob("b", b"gone").await.status,
        StatusCode::CREATED
    );
    let back = site.send(Method::HEAD, &gone, Body::empty()).await;
    assert_eq!(back.status, StatusCode::OK);
}

#[tokio::test]
async fn what_many_push_at_once_does_not_take_the_memory() {
    let sick = Sick::with(Some(Semaphore::new(0)));
    let turns = || sick.0.turns.as_ref().unwrap();
    let mut site = site(&sick).await;
    let room = 256 * 1024;
    site.store.contents = Contents::within(site.store.bucket.clone(), room);
    let replica = Replica::new(site.store.clone(), site.spool.clone());
    let put = |bytes: &Vec<u8>| {
        let (digest, bytes) = (Digest::sha256(bytes), Bytes::from(bytes.clone()));
        let replica = replica.clone();
        async move { replica.put(digest, bytes).await.map(drop) }
    };
    // sixteen of 100 000 bytes: two at once have room
    let contents: Vec<Vec<u8>> = (0..16).map(|n| vec![n; 100_000]).collect();
    let pushing = futures_util::future::join_all(contents.iter().map(put));
    let letting = async {
        for done in 0..contents.len() {
            sick.waits(2.min(contents.len() - done)).await;
            turns().add_permits(1);
            let mut waiting = sick.0.waiting.subscribe();
            let _ = waiting.wait_for(|_| turns().available_permits() == 0).await;
        }
    };
    let (pushed, ()) = tokio::join!(pushing, letting);
    assert!(pushed.iter().all(Result::is_ok));
    assert_eq!(sick.0.most.load(Ordering::SeqCst), 200_000);
    // what is larger than all of it comes through in its turn
    turns().add_permits(100);
    put(&vec![9; 300_000]).await.unwrap();
    // content that failed gives its room back
    sick.down(Some(keys::BLOBS));
    let failed: Vec<Vec<u8>> = (100..104).map(|n| vec![n; 100_000]).collect();
    let failing = futures_util::future::join_all(failed.iter().map(put)).await;
    assert!(failing.iter().all(Result::is_err));
    sick.down(None);
    for bytes in &failed {
        put(bytes).await.unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_known_is_never_said_to_be_missing() {
    let sick = Sick::default();
    let site = site(&sick).await;
    let digest = site.push_image("a", "v1").await;
    let (site, _) = (old(site).await, sick.down(Some(keys::COMMITS)));
    let unknown = Digest::sha256(b"unknown");
    for target in [
        "/v2/a/manifests/v2".to_owned(),
        "/v2/b/manifests/v1".to_owned(),
        format!("/v2/a/manifests/{unknown}"),
        format!("/v2/a/blobs/{unknown}"),
        "/v2/a/tags/list".to_owned(),
        "/v2/b/tags/list".to_owned(),
        format!("/v2/a/referrers/{digest}"),
        "/v2/_catalog".to_owned(),
        "/charts/a/index.yaml".to_owned(),
        "/files/".to_owned(),
        "/files/x".to_owned(),
        "/repositories/a/index.yaml".to_owned(),
    ] {
        let answer = site.get(&target).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{target}");
        assert!(answer.headers.contains_key("retry-after"), "{target}");
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["errors"][0]["code"], "UNAVAILABLE", "{target}");
        let message = body["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains("does not answer"), "{message}");
    }
    // pushes are refused before their bytes are taken
    let pushed = site.push_blob("a", b"more").await;
    assert_eq!(pushed.status, StatusCode::SERVICE_UNAVAILABLE);
    // what is known by its digest goes its own way
    let manifest = site.get(&format!("/v2/a/manifests/{digest}")).await;
    assert_eq!(manifest.status, StatusCode::OK);
    assert!(digest.matches(&manifest.body));
    let config = Digest::sha256(b"{\"tag\":\"v1\"}");
    let blob = site.get(&format!("/v2/a/blobs/{config}")).await;
    assert_eq!(
        (blob.status, &*blob.text()),
        (StatusCode::OK, "{\"tag\":\"v1\"}")
    );
    // content itself cannot be had
    sick.down(Some(keys::BLOBS));
    site.read_on().await;
    let blob = site.get(&format!("/v2/a/blobs/{config}")).await;
    assert_eq!(blob.status, StatusCode::SERVICE_UNAVAILABLE);
    sick.down(None);
    let blob = site.get(&format!("/v2/a/blobs/{config}")).await;
    assert_eq!(blob.status, StatusCode::OK);
    let answer = site.get("/v2/a/manifests/v2").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn everything_shows_what_another_replica_committed_before() {
    let sick = Sick::default();
    let (one, two) = (site(&sick).await, site(&sick).await);
    let subject = one.push_image("a", "v0").await;
    let folder: CanonicalUrl = "https://h.example/x/index.yaml".parse().unwrap();
    for n in 1..4 {
        let (tag, text) = (format!("v{n}"), format!("text {n}"));
        let name: FileName = format!("file{n}").parse().unwrap();
        let chart = json!({"apiVersion": "v2", "name": format!("chart{n}"), "version": "1.0.0"});
        let chart = chart.to_string();
        let shows = [
            ("/v2/a/tags/list".to_owned(), tag.clone()),
            ("/v2/_catalog".to_owned(), format!("new{n}")),
            (format!("/v2/a/referrers/{subject}"), format!("sha256.{n}")),
            (
                "/charts/charts.example/index.yaml".to_owned(),
                format!("chart{n}"),
            ),
            (
                format!("/charts/charts.example/chart{n}-1.0.0.tgz"),
                text.clone(),
            ),
            ("/files/".to_owned(), format!("file{n}")),
            (format!("/files/file{n}"), text.clone()),
            (
                "/repositories/h.example/x/index.yaml".to_owned(),
                text.clone(),
            ),
        ];
        // the other one has just read the names
        for (target, text) in &shows {
            assert!(!two.get(target).await.text().contains(text), "{target}");
        }
        let content = |config, layer| Content {
            config,
            layers: layer,
            subject: None,
        };
        one.push_image("a", &tag).await;
        one.push_image(&format!("new{n}"), "v1").await;
        let of = format!("sha256.{n}");
        let signature = Content {
            config: (&of, b"{}"),
            layers: &[],
            subject: Some(subject),
        };
        one.push("a", &format!("signature{n}"), signature).await;
        let archive = [(media_type::HELM_CHART, text.as_bytes())];
        let config = (media_type::HELM_CONFIG, chart.as_bytes());
        let repository = format!("charts.example/chart{n}");
        one.push(&repository, "1.0.0", content(config, &archive))
            .await;
        let digest = Digest::sha256(&text);
        let repository = format!("{}/{}", file::HOST, name.repository());
        for bytes in [file::EMPTY_CONFIG, text.as_bytes()] {
            one.push_blob(&repository, bytes).await;
        }
        let manifest = name.manifest(&digest, text.len() as u64);
        let manifest = String::from_utf8(manifest).unwrap();
        one.push_manifest(&repository, "latest", manifest).await;
        let size = text.len() as u64;
        let files = [("index.yaml".to_owned(), SiteFile { digest, size })].into();
        let (url, set) = (folder.clone(), 0);
        let entry = SiteEntry { files, set, url };
        let change = Change::Site {
            folder: folder.folder(),
            new: Some(entry),
        };
        let batch = Batch {
            at: Time::now(),
            cause: Cause::Push,
            changes: vec![change],
        };
        let expected = one.store.sequence().await.unwrap();
        one.store.commit(expected, batch).await.unwrap();

        for (target, text) in &shows {
            let shown = two.get(target).await;
            assert!(shown.text().contains(text), "{target}: {}", shown.text());
        }
    }
}

#[tokio::test]
async fn an_answer_is_made_again_though_another_request_read_the_newer_names() {
    let sick = Sick::default();
    let (one, two) = (site(&sick).await, site(&sick).await);
    one.push_image("a", "v1").await;
    two.read_on().await;
    let old = Arc::clone(&two.store.log.known().names);
    let digest = one.push_image("a", "v2").await;
    // by somebody else, between the first answer and the look for newer names
    two.read_on().await;
    let answers = Server::new(Stale(old, two.store.clone())).into_answers();
    let request = Request::builder().uri(format!("/v2/a/manifests/{digest}"));
    let (answer, _) = answers.answer(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn one_failure_is_told_to_all_who_wait_for_it() {
    let sick = Sick::default();
    let site = site(&sick).await;
    site.push_image("a", "v1").await;
    sick.hold(Some(keys::COMMITS));
    let many = (0..200).map(|n| {
        let site = &site;
        async move { site.get(&format!("/v2/a/manifests/none{n}")).await.status }
    });
    let before = sick.0.asked.load(Ordering::SeqCst);
    let many = futures_util::future::join_all(many);
    let fails = async {
        sick.waits(1).await;
        sick.down(Some(keys::COMMITS));
        sick.hold(None);
    };
    let (statuses, ()) = tokio::join!(many, fails);
    assert!(
        statuses
            .iter()
            .all(|status| *status == StatusCode::SERVICE_UNAVAILABLE)
    );
    let asked = sick.0.asked.load(Ordering::SeqCst) - before;
    assert!(
        asked <= 3,
        "the bucket was asked {asked} times by 200 requests"
    );
}

#[tokio::test]
async fn a_bucket_that_says_nothing_is_waited_for_so_long_and_not_at_all_for_known_content() {
    let sick = Sick::default();
    let site = site(&sick).await;
    let digest = site.push_image("a", "v1").await;
    let site = old(site).await;
    sick.hold(Some(keys::COMMITS));
    // neither the one who asks first nor those who come later wait for an answer
    for _ in 0..3 {
        let tags = site.get("/v2/a/tags/list").await;
        assert_eq!(tags.status, StatusCode::SERVICE_UNAVAILABLE);
        let known = site.get(&format!("/v2/a/manifests/{digest}")).await;
        assert_eq!(known.status, StatusCode::OK);
    }
    assert_eq!(*sick.0.waiting.borrow(), 1, "one try is enough");
    sick.hold(None);
    site.read_on().await;
    assert_eq!(site.get("/v2/a/tags/list").await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_upload_stays_until_its_content_is_in_the_bucket() {
    let sick = Sick::default();
    let site = site(&sick).await;
    let small = b"small".to_vec();
    let large = vec![7; usize::try_from(super::content::PART).unwrap() + 100_000];
    for (n, bytes) in [small, large].into_iter().enumerate() {
        let half = bytes.len() / 2;
        let digest = Digest::sha256(&bytes);
        let begun = site
            .send(Method::POST, "/v2/a/blobs/uploads/", Body::empty())
            .await;
        let upload = begun.location();
        let sent = site
            .send(Method::PATCH, &upload, bytes[..half].to_vec())
            .await;
        assert_eq!(sent.status, StatusCode::ACCEPTED);
        let finish = format!("{upload}?digest={digest}");
        for down in [keys::BLOBS, keys::LEASES] {
            sick.down(Some(down));
            for _ in 0..2 {
                let put = site
                    .send(Method::PUT, &finish, bytes[half..].to_vec())
                    .await;
                assert_eq!(
                    put.status,
                    StatusCode::SERVICE_UNAVAILABLE,
                    "{}",
                    put.text()
                );
                assert!(put.headers.contains_key("retry-after"));
                // nothing of this request was kept
                let state = site.get(&upload).await;
                let range = format!("0-{}", half - 1);
                assert_eq!(state.headers["range"].to_str().unwrap(), range);
            }
        }
        sick.down(None);
        let put = site
            .send(Method::PUT, &finish, bytes[half..].to_vec())
            .await;
        assert_eq!(put.status, StatusCode::CREATED, "{n}: {}", put.text());
        let got = site.get(&format!("/v2/a/blobs/{digest}")).await;
        assert!(got.body == bytes);
        // its answer was lost
        let again = site.send(Method::PUT, &finish, Body::empty()).await;
        assert_eq!(again.status, StatusCode::CREATED);
        assert_eq!(site.uploads(), 0);
    }
    // an upload whose id nobody was told leaves nothing
    sick.down(Some(keys::BLOBS));
    let pushed = site.push_blob("a", b"whole").await;
    assert_eq!(pushed.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(site.uploads(), 0);
    sick.down(None);
    assert_eq!(
        site.push_blob("a", b"whole").await.status,
        StatusCode::CREATED
    );
}

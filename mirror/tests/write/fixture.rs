//! A store in a temporary folder, a server that takes pushes into it, and a client for it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use kubepkg_core::Digest;
use kubepkg_mirror::access::Gate;
use kubepkg_mirror::bucket::{Bucket, BucketMode, BucketStore, Replica, Spool};
use kubepkg_mirror::http::{PushSettings, Server};
use kubepkg_mirror::serve::{Limits, ServeError, serve_with};
use kubepkg_mirror::store::{FileStore, OpenMode};
pub use kubepkg_test_support::noise::noise;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::client::{Answer, parse};

pub const OCI_IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// All codes an error may have (OCI distribution specification, "Error Codes"); only a failure
/// of the server itself is `UNKNOWN`.
const CODES: [&str; 14] = [
    "BLOB_UNKNOWN",
    "BLOB_UPLOAD_INVALID",
    "BLOB_UPLOAD_UNKNOWN",
    "DIGEST_INVALID",
    "MANIFEST_BLOB_UNKNOWN",
    "MANIFEST_INVALID",
    "MANIFEST_UNKNOWN",
    "NAME_INVALID",
    "NAME_UNKNOWN",
    "SIZE_INVALID",
    "UNAUTHORIZED",
    "DENIED",
    "UNSUPPORTED",
    "TOOMANYREQUESTS",
];

/// A server that runs until it is stopped or dropped.
pub struct Site {
    pub folder: TempDir,
    pub store: FileStore,
    pub address: SocketAddr,
    settings: Option<PushSettings>,
    min_free: u32,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ServeError>>,
}

/// The body of a request.
pub enum Body<'a> {
    /// With its length.
    Whole(&'a [u8]),
    /// In HTTP chunks of this many bytes.
    Stream(&'a [u8], usize),
    /// A longer length is announced, and the connection ends early.
    Cut(&'a [u8], usize),
}

impl Site {
    /// Connections on each of which the largest manifest is announced, and nothing comes.
    pub async fn manifests_that_never_come(&self, how_many: usize) -> Vec<TcpStream> {
        let mut waiting = Vec::new();
        for n in 0..how_many {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let head = format!(
                "PUT /v2/a/manifests/t{n} HTTP/1.1\r\nHost: x\r\nContent-Type: {OCI_IMAGE}\r\n\
                 Content-Length: {}\r\n\r\n",
                4 << 20
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            waiting.push(stream);
        }
        waiting
    }

    /// A server that everybody may push to.
    pub async fn start() -> Site {
        Site::with(Some(PushSettings::default())).await
    }

    /// The same with other settings; with `None` nobody may push.
    pub async fn with(settings: Option<PushSettings>) -> Site {
        Site::at(tempfile::tempdir().unwrap(), settings, 0).await
    }

    /// A server at which `gate` decides, on the store in `folder`, that knows its address.
    pub async fn gated(folder: TempDir, gate: Arc<Gate>) -> Site {
        let settings = Some(PushSettings::default());
        let make = |server: Server, address: SocketAddr| {
            let url = format!("http://{address}");
            server.gate(gate).reached(None, Some(url))
        };
        Site::made(folder, settings, 0, make).await
    }

    /// The same behind who knows what.
    pub async fn gated_somewhere(folder: TempDir, gate: Arc<Gate>) -> Site {
        let settings = Some(PushSettings::default());
        Site::made(folder, settings, 0, |server, _| server.gate(gate)).await
    }

    /// A server on a new store, as `make` sets it up.
    pub async fn set_up(make: impl FnOnce(Server) -> Server) -> Site {
        let settings = Some(PushSettings::default());
        let folder = tempfile::tempdir().unwrap();
        Site::made(folder, settings, 0, |server, _| make(server)).await
    }

    /// A server on the store in `folder`, of whose disk `min_free` per mille stay free.
    pub async fn at(folder: TempDir, settings: Option<PushSettings>, min_free: u32) -> Site {
        Site::made(folder, settings, min_free, |server, _| server).await
    }

    /// One of several servers on the store in `bucket`; `store` is the folder of its uploads.
    pub async fn on_bucket(bucket: &Bucket) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let mode = BucketMode::OpenOrCreate;
        let shared = BucketStore::open(bucket.clone(), mode).await.unwrap();
        let spool = Spool::open(folder.path(), 0).await.unwrap();
        let settings = PushSettings::default();
        let server = Server::new(shared.clone());
        let server = server.accept_pushes(Replica::new(shared, spool), settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move {
            let _ = stopped.await;
        };
        Site {
            store: open(folder.path()),
            folder,
            address,
            settings: Some(settings),
            min_free: 0,
            stop,
            task: tokio::spawn(serve_with(listener, server, Limits::default(), shutdown)),
        }
    }

    async fn made(
        folder: TempDir,
        settings: Option<PushSettings>,
        min_free: u32,
        make: impl FnOnce(Server, SocketAddr) -> Server,
    ) -> Site {
        let store = open(folder.path()).min_free(min_free);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move {
            let _ = stopped.await;
        };
        let server = make(server(&store, settings), address);
        let task = tokio::spawn(serve_with(listener, server, Limits::default(), shutdown));
        Site {
            folder,
            store,
            address,
            settings,
            min_free,
            stop,
            task,
        }
    }

    /// Ends the server and serves the same folder with another one.
    pub async fn restart(self) -> Site {
        self.restart_as(|server| server).await
    }

    /// The same, as `make` sets the other one up.
    pub async fn restart_as(self, make: impl FnOnce(Server) -> Server) -> Site {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
        drop(self.store);
        Site::made(self.folder, self.settings, self.min_free, |server, _| {
            make(server)
        })
        .await
    }

    pub async fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[], b"").await
    }

    pub async fn head(&self, target: &str) -> Answer {
        self.send("HEAD", target, &[], b"").await
    }

    pub async fn delete(&self, target: &str) -> Answer {
        self.send("DELETE", target, &[], b"").await
    }

    pub async fn send(
        &self,
        method: &str,
        target: &str,
        lines: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        send(self.address, method, target, lines, Body::Whole(body)).await
    }

    pub async fn send_body(&self, method: &str, target: &str, body: Body<'_>) -> Answer {
        send(self.address, method, target, &[], body).await
    }

    /// Begins an upload and answers where it goes on.
    pub async fn begin(&self, repository: &str) -> String {
        let target = format!("/v2/{repository}/blobs/uploads/");
        location(&self.send("POST", &target, &[], b"").await, 202)
    }

    /// A chunk that begins at `first`.
    pub async fn patch(&self, upload: &str, first: usize, bytes: &[u8]) -> Answer {
        let range = format!("{first}-{}", first + bytes.len() - 1);
        let lines = [("Content-Range", range.as_str())];
        self.send("PATCH", upload, &lines, bytes).await
    }

    pub async fn finish(&self, upload: &str, digest: &Digest, bytes: &[u8]) -> Answer {
        let target = finishing(upload, digest);
        self.send("PUT", &target, &[], bytes).await
    }

    /// How many bytes the server says it has of an upload that has some.
    pub async fn received(&self, upload: &str) -> u64 {
        let state = self.get(upload).await;
        assert_eq!(state.status, 204, "{upload}");
        let last = state.header("range").unwrap().strip_prefix("0-").unwrap();
        last.parse::<u64>().unwrap() + 1
    }

    pub async fn push_blob(&self, repository: &str, bytes: &[u8]) -> Digest {
        let digest = Digest::sha256(bytes);
        let target = format!("/v2/{repository}/blobs/uploads/?digest={digest}");
        let pushed = self.send("POST", &target, &[], bytes).await;
        assert_eq!(pushed.status, 201, "{:?}", pushed);
        digest
    }

    pub async fn put_manifest(
        &self,
        repository: &str,
        reference: &str,
        manifest: &Value,
    ) -> Answer {
        let target = format!("/v2/{repository}/manifests/{reference}");
        let kind = manifest["mediaType"].as_str().unwrap_or(OCI_IMAGE);
        let lines = [("Content-Type", kind)];
        let bytes = manifest.to_string();
        self.send("PUT", &target, &lines, bytes.as_bytes()).await
    }

    /// Pushes an image of one layer, which differs by `note`, under a tag.
    pub async fn push_image(&self, repository: &str, tag: &str, note: &str) -> (Digest, Value) {
        let manifest = self.image(repository, note).await;
        let put = self.put_manifest(repository, tag, &manifest).await;
        assert_eq!(put.status, 201, "{put:?}");
        (Digest::sha256(manifest.to_string()), manifest)
    }

    /// The manifest of an image whose blobs are pushed.
    pub async fn image(&self, repository: &str, note: &str) -> Value {
        let config = format!("{{\"note\":\"{note}\"}}");
        let layer = format!("layer {note}");
        self.push_blob(repository, config.as_bytes()).await;
        self.push_blob(repository, layer.as_bytes()).await;
        json!({
            "schemaVersion": 2,
            "mediaType": OCI_IMAGE,
            "config": described(CONFIG, config.as_bytes()),
            "layers": [described(LAYER, layer.as_bytes())],
        })
    }

    /// Asserts that `bytes` can be read as a blob.
    pub async fn assert_blob(&self, repository: &str, digest: &Digest, bytes: &[u8]) {
        let target = format!("/v2/{repository}/blobs/{digest}");
        let got = self.get(&target).await;
        assert_eq!(got.status, 200, "{target}");
        assert!(got.body == bytes, "{target}: other bytes");
        let shown = got.header("docker-content-digest").unwrap();
        assert_eq!(shown, digest.to_string());
    }

    /// Asserts that there is no such blob.
    pub async fn assert_no_blob(&self, repository: &str, digest: &Digest) {
        let target = format!("/v2/{repository}/blobs/{digest}");
        assert_eq!(self.get(&target).await.status, 404, "{target}");
        assert_eq!(self.head(&target).await.status, 404, "{target}");
    }

    /// Files below `uploads` of the store.
    pub fn lying(&self) -> usize {
        let uploads = self.folder.path().join("uploads");
        std::fs::read_dir(uploads).map_or(0, Iterator::count)
    }
}

pub fn open(folder: &Path) -> FileStore {
    // a full disk is a matter of tests of their own
    let store = FileStore::open(folder, OpenMode::OpenOrCreate).unwrap();
    store.min_free(0)
}

pub fn server(store: &FileStore, settings: Option<PushSettings>) -> Server {
    let server = Server::new(store.clone());
    match settings {
        Some(settings) => server.accept_pushes(store.clone(), settings),
        None => server,
    }
}

pub fn described(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": Digest::sha256(bytes), "size": bytes.len()})
}

pub fn finishing(upload: &str, digest: &Digest) -> String {
    let mark = if upload.contains('?') { '&' } else { '?' };
    format!("{upload}{mark}digest={digest}")
}

/// Where an answer with this status leads; relative, so that proxies do not matter.
pub fn location(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    let location = answer.header("location").unwrap();
    assert!(location.starts_with("/v2/"), "{location}");
    location.to_owned()
}

/// Asserts an error answer.
pub fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code));
}

/// Sends a request and reads the answer to the end of the connection.
pub async fn send(
    to: SocketAddr,
    method: &str,
    target: &str,
    lines: &[(&str, &str)],
    body: Body<'_>,
) -> Answer {
    let host = match lines.iter().any(|(name, _)| *name == "Host") {
        true => String::new(),
        false => format!("Host: {to}\r\n"),
    };
    let lines: String = lines.iter().map(|(k, v)| format!("{k}: {v}\r\n")).collect();
    let (length, bytes) = match body {
        Body::Whole(b"") if method != "PUT" && method != "POST" => (String::new(), Vec::new()),
        Body::Whole(bytes) => (
            format!("Content-Length: {}\r\n", bytes.len()),
            bytes.to_vec(),
        ),
        Body::Stream(bytes, piece) => {
            let mut coded = Vec::new();
            for piece in bytes.chunks(piece) {
                coded.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                coded.extend_from_slice(piece);
                coded.extend_from_slice(b"\r\n");
            }
            coded.extend_from_slice(b"0\r\n\r\n");
            ("Transfer-Encoding: chunked\r\n".to_owned(), coded)
        }
        Body::Cut(bytes, length) => (format!("Content-Length: {length}\r\n"), bytes.to_vec()),
    };
    let head =
        format!("{method} {target} HTTP/1.1\r\n{host}Connection: close\r\n{length}{lines}\r\n");
    let mut stream = TcpStream::connect(to).await.unwrap();
    let (mut read, mut write) = stream.split();
    let sending = async {
        write.write_all(head.as_bytes()).await.unwrap();
        // a server that refuses may answer before it has read everything
        let _ = write.write_all(&bytes).await;
        if matches!(body, Body::Cut(..)) {
            write.shutdown().await.unwrap();
        }
    };
    let receiving = async {
        let mut all = Vec::new();
        read.read_to_end(&mut all).await.unwrap();
        all
    };
    let ((), all) = tokio::join!(sending, receiving);
    let answer = parse(&all);
    check(method, target, &answer);
    answer
}

/// What holds for all answers.
fn check(method: &str, target: &str, answer: &Answer) {
    assert_eq!(answer.header("transfer-encoding"), None, "{target}");
    let empty = method == "HEAD" || matches!(answer.status, 204 | 304);
    if empty {
        assert!(answer.body.is_empty(), "{method} {target}");
    } else {
        let length = answer.header("content-length").unwrap();
        assert_eq!(length, answer.body.len().to_string(), "{method} {target}");
    }
    // what says how the server is has a form of its own
    if answer.status >= 400 && !empty && target != "/readyz" {
        assert!(answer.status < 500 || answer.status == 507, "{answer:?}");
        answer.code();
        for error in answer.json()["errors"].as_array().unwrap() {
            let code = error["code"].as_str().unwrap();
            assert!(CODES.contains(&code), "{method} {target}: {code}");
        }
    }
}

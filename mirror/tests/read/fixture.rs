//! Content in temporary files, names in memory, and a server on them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kubepkg_core::Digest;
use kubepkg_core::manifest::Manifest;
use kubepkg_core::store::{
    Change, FileRange, ManifestEntry, Names, SiteEntry, SiteFile, StoreError, TagEntry,
};
use kubepkg_mirror::http::Server;
use kubepkg_mirror::serve::{Limits, ServeError, serve_on};
use kubepkg_mirror::source::{Age, DoneFuture, NamesFuture, SizesFuture, Source, Standing};
use kubepkg_mirror::tls::Tls;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::client::{Answer, send};

/// A store as far as reading needs one.
#[derive(Debug, Default)]
pub struct Memory {
    names: Mutex<Arc<Names>>,
    files: Mutex<BTreeMap<Digest, FileRange>>,
    /// How often a file was asked for.
    pub opened: AtomicUsize,
    /// What is known of content; of the rest nothing.
    pub standings: Mutex<BTreeMap<Digest, Standing>>,
    /// What was rescued.
    pub rescued: Mutex<Vec<Digest>>,
    /// What somebody else commits while something is rescued.
    pub meanwhile: Mutex<Vec<Change>>,
    /// Reading this waits until it may go on.
    pub held: Mutex<Option<(Digest, std::sync::mpsc::Receiver<()>)>>,
    /// Reading the names fails.
    pub broken: std::sync::atomic::AtomicBool,
}

impl Source for Memory {
    fn names(&self, _age: Age) -> NamesFuture<'_> {
        let names = match self.broken.load(Ordering::SeqCst) {
            false => Ok(Arc::clone(&self.names.lock().unwrap())),
            true => Err(StoreError::Damaged {
                path: "names".into(),
                why: "test".to_owned(),
            }),
        };
        Box::pin(std::future::ready(names))
    }

    fn standing(&self, digest: &Digest) -> Standing {
        let standings = self.standings.lock().unwrap();
        standings.get(digest).copied().unwrap_or(Standing::Sound)
    }

    fn rescue(&self, digests: Vec<Digest>) -> DoneFuture<'_> {
        for digest in &digests {
            self.standings.lock().unwrap().remove(digest);
        }
        self.rescued.lock().unwrap().extend(digests);
        let meanwhile = std::mem::take(&mut *self.meanwhile.lock().unwrap());
        self.commit(&meanwhile);
        Box::pin(std::future::ready(Ok(())))
    }

    fn blob(&self, digest: &Digest) -> Result<Option<FileRange>, StoreError> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        let held = self
            .held
            .lock()
            .unwrap()
            .take_if(|(held, _)| held == digest);
        if let Some((_, go_on)) = held {
            go_on.recv().unwrap();
        }
        Ok(self.files.lock().unwrap().get(digest).cloned())
    }

    fn sizes(&self, digests: Vec<Digest>) -> SizesFuture<'_> {
        let files = self.files.lock().unwrap();
        let sizes = digests.iter().map(|d| files.get(d).map(|range| range.len));
        Box::pin(std::future::ready(Ok(sizes.collect())))
    }

    fn site_file(
        &self,
        _folder: &str,
        site: &SiteEntry,
        path: &str,
    ) -> Result<Option<FileRange>, StoreError> {
        self.blob(&site.files[path].digest)
    }
}

impl Memory {
    /// Makes content readable, at an odd place of a larger file.
    pub fn publish(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::sha256(bytes);
        let mut file: File = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        file.write_all(bytes).unwrap();
        file.write_all(b"after").unwrap();
        let range = FileRange {
            file: Arc::new(file),
            offset: 6,
            len: bytes.len() as u64,
        };
        self.files.lock().unwrap().insert(digest, range);
        digest
    }

    /// Takes content away without telling the names.
    pub fn lose(&self, digest: &Digest) {
        self.files.lock().unwrap().remove(digest);
    }

    /// Replaces what is read under a digest.
    pub fn spoil(&self, digest: &Digest, bytes: &[u8]) {
        let other = self.publish(bytes);
        let mut files = self.files.lock().unwrap();
        let range = files[&other].clone();
        files.insert(*digest, range);
    }

    /// Cuts the file that holds some content short, behind `len` bytes of the content.
    pub fn cut(&self, digest: &Digest, len: u64) {
        let range = self.files.lock().unwrap()[digest].clone();
        range.file.set_len(range.offset + len).unwrap();
    }

    /// The names as they are.
    pub fn names_now(&self) -> Arc<Names> {
        Arc::clone(&self.names.lock().unwrap())
    }

    /// Changes names in one step.
    pub fn commit(&self, changes: &[Change]) {
        let mut names = self.names.lock().unwrap();
        let mut next = (**names).clone();
        for change in changes {
            next.apply(change, 7);
        }
        *names = Arc::new(next);
    }

    pub fn blob_in(&self, repository: &str, bytes: &[u8]) -> Digest {
        let digest = self.publish(bytes);
        self.commit(&[Change::Blob {
            repository: repository.parse().unwrap(),
            digest,
            new: Some(bytes.len() as u64),
        }]);
        digest
    }

    pub fn manifest_in(&self, repository: &str, manifest: &Value, tags: &[&str]) -> Digest {
        self.raw_manifest_in(repository, manifest.to_string().as_bytes(), tags)
    }

    pub fn raw_manifest_in(&self, repository: &str, bytes: &[u8], tags: &[&str]) -> Digest {
        let digest = self.publish(bytes);
        let parsed = Manifest::parse(bytes, None).unwrap();
        let entry = ManifestEntry::of(&parsed, bytes.len() as u64);
        let repository = || repository.parse().unwrap();
        let mut changes = vec![Change::Manifest {
            repository: repository(),
            digest,
            new: Some(entry),
        }];
        changes.extend(tags.iter().map(|tag| Change::Tag {
            repository: repository(),
            tag: tag.parse().unwrap(),
            new: Some(TagEntry {
                digest,
                origin: None,
            }),
        }));
        self.commit(&changes);
        digest
    }

    pub fn site(&self, url: &str, files: &[(&str, &[u8])]) {
        let url: kubepkg_core::location::CanonicalUrl = url.parse().unwrap();
        let file = |bytes: &[u8]| SiteFile {
            digest: self.publish(bytes),
            size: bytes.len() as u64,
        };
        let files = files.iter().map(|(path, b)| ((*path).to_owned(), file(b)));
        self.commit(&[Change::Site {
            folder: url.folder(),
            new: Some(SiteEntry {
                files: files.collect(),
                set: 0,
                url,
            }),
        }]);
    }
}

/// A manifest of an image without layers.
pub fn image(store: &Memory, repository: &str, note: &str) -> Value {
    let config = store.blob_in(repository, format!("{{\"note\":\"{note}\"}}").as_bytes());
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": config,
            "size": note.len() + 11,
        },
        "layers": [],
        "annotations": {"note": note},
    })
}

/// A server that runs until it is dropped or stopped.
pub struct Running {
    pub store: Arc<Memory>,
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    pub async fn start() -> Running {
        Running::with(Limits::default(), |server| server).await
    }

    pub async fn with(limits: Limits, settings: impl FnOnce(Server) -> Server) -> Running {
        Running::on(1, None, limits, settings).await.0
    }

    /// On several sockets, whose addresses are given; with TLS on all of them where it is given.
    pub async fn on(
        sockets: usize,
        tls: Option<Arc<Tls>>,
        limits: Limits,
        settings: impl FnOnce(Server) -> Server,
    ) -> (Running, Vec<SocketAddr>) {
        let store = Arc::new(Memory::default());
        let mut listeners = Vec::new();
        for _ in 0..sockets {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let addresses: Vec<SocketAddr> =
            listeners.iter().map(|l| l.local_addr().unwrap()).collect();
        let address = addresses[0];
        let (stop, stopped) = oneshot::channel();
        let server = settings(Server::new(Arc::clone(&store)));
        let shutdown = async move {
            let _ = stopped.await;
        };
        let task = tokio::spawn(serve_on(listeners, tls, server, limits, shutdown));
        let running = Running {
            store,
            address,
            stop,
            task,
        };
        (running, addresses)
    }

    pub async fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[]).await
    }

    pub async fn head(&self, target: &str) -> Answer {
        self.send("HEAD", target, &[]).await
    }

    pub async fn send(&self, method: &str, target: &str, lines: &[(&str, &str)]) -> Answer {
        send(self.address, method, target, lines).await
    }

    /// Asks the server to end and waits for it.
    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }

    /// Asks the server to end without waiting.
    pub fn ask_to_stop(self) -> JoinHandle<Result<(), ServeError>> {
        self.stop.send(()).unwrap();
        self.task
    }
}

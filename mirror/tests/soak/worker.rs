//! A client that pushes, mounts, moves tags, deletes and reads, and knows what it was told.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kubepkg_core::Digest;
use serde_json::json;

use super::client::{Answer, Client};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const BYTES: &str = "application/octet-stream";

/// Layers all workers push again and again, so that what one gives up another wants.
const LAYERS: u64 = 24;

/// Tags of each repository.
const TAGS: u64 = 4;

/// Manifests a worker leaves behind; more are deleted.
const KEPT: usize = 6;

/// What was done, and what is to be here.
#[derive(Default)]
pub struct Pushed {
    pub pushes: u64,
    pub deletes: u64,
    pub skipped: u64,
    pub mounted: u64,
    /// Pushes that took so long that nothing was promised any more.
    pub void: u64,
    /// What the manifests that were acknowledged and not deleted need, and they themselves.
    pub live: HashSet<Digest>,
    /// Everything that ever was pushed.
    pub ever: HashSet<Digest>,
}

impl Pushed {
    pub fn add(&mut self, other: Pushed) {
        self.pushes += other.pushes;
        self.deletes += other.deletes;
        self.skipped += other.skipped;
        self.mounted += other.mounted;
        self.void += other.void;
        self.live.extend(other.live);
        self.ever.extend(other.ever);
    }
}

/// A manifest that was acknowledged.
struct Image {
    bytes: Bytes,
    blobs: Vec<(Digest, Bytes)>,
}

/// One client with a repository of its own.
pub struct Worker {
    number: u64,
    to: [SocketAddr; 2],
    clients: Vec<Client>,
    /// How long what was confirmed is relied on.
    patience: Duration,
    state: u64,
    images: BTreeMap<Digest, Image>,
    tags: BTreeMap<u64, Digest>,
    done: Pushed,
}

impl Worker {
    pub fn new(number: u64, to: [SocketAddr; 2], patience: Duration) -> Worker {
        Worker {
            number,
            to,
            clients: Vec::new(),
            patience,
            state: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            images: BTreeMap::new(),
            tags: BTreeMap::new(),
            done: Pushed::default(),
        }
    }

    /// Works until then; answers what is to be here.
    pub async fn work(mut self, until: Instant) -> Pushed {
        for to in self.to {
            self.clients.push(Client::connect(to).await);
        }
        while Instant::now() < until {
            self.push().await;
            if self.images.len() > KEPT {
                self.delete().await;
            }
            if self.pick(4) == 0 {
                self.read().await;
            }
        }
        for digest in self.images.keys().copied().collect::<Vec<_>>() {
            self.check(digest).await;
        }
        for (digest, image) in &self.images {
            self.done.live.insert(*digest);
            let blobs = image.blobs.iter().map(|(digest, _)| *digest);
            self.done.live.extend(blobs);
        }
        self.done
    }

    fn pick(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    fn repository(&self, number: u64) -> String {
        format!("site.example/r{number}")
    }

    /// Either server: they tell the same.
    async fn send(&mut self, method: &str, path: &str, kind: &str, body: &Bytes) -> Answer {
        let server = usize::try_from(self.pick(2)).unwrap();
        let target = format!("/v2/{path}");
        self.clients[server]
            .send(method, &target, kind, body.clone())
            .await
    }

    /// Asks for a blob and uploads or mounts it where it is not here, as clients do.
    async fn blob(&mut self, bytes: &Bytes) -> Digest {
        let digest = Digest::sha256(bytes);
        self.done.ever.insert(digest);
        let name = self.repository(self.number);
        let path = format!("{name}/blobs/{digest}");
        match self.send("HEAD", &path, BYTES, &Bytes::new()).await.status {
            200 => {
                self.done.skipped += 1;
                return digest;
            }
            404 => {}
            other => panic!("HEAD {path}: {other}"),
        }
        let uploads = format!("{name}/blobs/uploads/");
        if self.pick(2) == 0 {
            let from = self.pick(super::WORKERS);
            let from = self.repository(from);
            let mount = format!("{uploads}?mount={digest}&from={from}");
            match self.send("POST", &mount, BYTES, &Bytes::new()).await.status {
                201 => {
                    self.done.mounted += 1;
                    return digest;
                }
                202 => {}
                other => panic!("POST {mount}: {other}"),
            }
        }
        let upload = format!("{uploads}?digest={digest}");
        let answer = self.send("POST", &upload, BYTES, bytes).await;
        assert_eq!(answer.status, 201, "POST {upload}: {answer:?}");
        digest
    }

    async fn push(&mut self) {
        let began = Instant::now();
        let config = Bytes::from(format!(
            "{{\"n\":\"{}-{}\"}}",
            self.number, self.done.pushes
        ));
        let mut all = vec![config];
        for _ in 0..=self.pick(3) {
            let layer = self.pick(LAYERS);
            all.push(Bytes::from(format!("layer {layer} ").repeat(200)));
        }
        let mut blobs = Vec::new();
        for bytes in all {
            blobs.push((self.blob(&bytes).await, bytes));
        }
        let descriptors: Vec<_> = blobs
            .iter()
            .map(|(digest, bytes)| {
                json!({"mediaType": BYTES, "digest": digest, "size": bytes.len()})
            })
            .collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptors[0],
            "layers": descriptors[1..],
        });
        // time in which a collection may come
        let moment = self.pick(30);
        tokio::time::sleep(Duration::from_millis(moment)).await;
        let bytes = Bytes::from(manifest.to_string());
        let digest = Digest::sha256(&bytes);
        let tag = self.pick(TAGS);
        let path = format!("{}/manifests/t{tag}", self.repository(self.number));
        let answer = self.send("PUT", &path, MANIFEST, &bytes).await;
        if answer.status != 201 && began.elapsed() > self.patience {
            self.done.void += 1; // so busy a machine that the grace was over
            return;
        }
        assert_eq!(answer.status, 201, "PUT {path}: {answer:?}");
        self.done.pushes += 1;
        self.done.ever.insert(digest);
        self.images.insert(digest, Image { bytes, blobs });
        self.tags.insert(tag, digest);
    }

    /// Deletes a manifest, and with it the tags that lead to it.
    async fn delete(&mut self) {
        let nth = usize::try_from(self.pick(self.images.len() as u64)).unwrap();
        let digest = *self.images.keys().nth(nth).unwrap();
        let path = format!("{}/manifests/{digest}", self.repository(self.number));
        let answer = self.send("DELETE", &path, MANIFEST, &Bytes::new()).await;
        assert_eq!(answer.status, 202, "DELETE {path}: {answer:?}");
        self.done.deletes += 1;
        self.images.remove(&digest);
        self.tags.retain(|_, to| *to != digest);
    }

    /// Reads what a tag leads to.
    async fn read(&mut self) {
        let tag = self.pick(TAGS);
        let Some(digest) = self.tags.get(&tag).copied() else {
            return;
        };
        let path = format!("{}/manifests/t{tag}", self.repository(self.number));
        let answer = self.send("GET", &path, BYTES, &Bytes::new()).await;
        assert_eq!(answer.status, 200, "GET {path}: {answer:?}");
        assert_eq!(Digest::sha256(&answer.body), digest, "GET {path}");
        self.check(digest).await;
    }

    /// Reads all of an image that is to be here.
    async fn check(&mut self, digest: Digest) {
        let name = self.repository(self.number);
        let image = &self.images[&digest];
        let mut wanted = vec![(format!("{name}/manifests/{digest}"), image.bytes.clone())];
        for (digest, bytes) in &image.blobs {
            wanted.push((format!("{name}/blobs/{digest}"), bytes.clone()));
        }
        for (path, bytes) in wanted {
            let answer = self.send("GET", &path, BYTES, &Bytes::new()).await;
            assert_eq!((answer.status, answer.body), (200, bytes), "GET {path}");
        }
    }
}

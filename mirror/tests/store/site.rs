//! A store as a site has it, small: two repositories that share a layer, an index with a
//! platform that is not here, a signature, repository files and trust.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::store::{Change, ManifestEntry};
use kubepkg_mirror::store::{FileStore, OpenMode};
use serde_json::json;

use crate::support::{blob, commit, manifest, noise, now, put, site, tag, trust};

pub const WEB: &str = "docker.io/library/web";
pub const APP: &str = "quay.io/team/app";

/// The store and the digests in it.
pub struct Site {
    pub folder: tempfile::TempDir,
    pub store: FileStore,
    pub layer: Digest,
    pub manifest: Digest,
    pub index: Digest,
    pub signature: Digest,
    pub other: Digest,
}

fn descriptor(media_type: &str, digest: Digest, size: usize) -> serde_json::Value {
    json!({"mediaType": media_type, "digest": digest, "size": size})
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The bytes of an image manifest.
pub fn image(config: &Bytes, layers: &[&Bytes], subject: Option<Digest>) -> Bytes {
    let part = |kind: &str, bytes: &Bytes| {
        let media_type = format!("application/vnd.oci.image.{kind}");
        descriptor(&media_type, Digest::sha256(bytes), bytes.len())
    };
    let layers: Vec<_> = layers
        .iter()
        .map(|layer| part("layer.v1.tar", layer))
        .collect();
    let mut manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": part("config.v1+json", config),
        "layers": layers,
    });
    if let Some(subject) = subject {
        manifest["subject"] = descriptor(MANIFEST, subject, 100);
    }
    Bytes::from(manifest.to_string())
}

/// Publishes an image and answers the changes that name it.
pub fn bring(
    store: &FileStore,
    repository: &str,
    config: &Bytes,
    layers: &[&Bytes],
) -> (Digest, Vec<Change>) {
    let bytes = image(config, layers, None);
    let mut changes = Vec::new();
    for part in std::iter::once(&config).chain(layers) {
        let digest = now(put(store, part)).unwrap();
        changes.push(blob(repository, digest, part.len()));
    }
    let digest = now(put(store, &bytes)).unwrap();
    changes.push(manifest(repository, digest, bytes.len()));
    (digest, changes)
}

impl Site {
    pub fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
        let (config, layer) = (Bytes::from_static(b"{}"), noise(1, 300_000));
        let (image_digest, mut changes) = bring(&store, WEB, &config, &[&layer]);
        let index = Bytes::from(
            json!({
                "schemaVersion": 2,
                "mediaType": INDEX,
                "manifests": [
                    descriptor(MANIFEST, image_digest, 500),
                    descriptor(MANIFEST, Digest::sha256("for another platform"), 500),
                ],
            })
            .to_string(),
        );
        let index_digest = now(put(&store, &index)).unwrap();
        changes.push(entry(WEB, index_digest, index.len(), INDEX, None));
        changes.push(tag(WEB, "1", index_digest));
        let signature = image(&config, &[], Some(index_digest));
        let signature_digest = now(put(&store, &signature)).unwrap();
        let subject = Some(index_digest);
        changes.push(entry(
            WEB,
            signature_digest,
            signature.len(),
            MANIFEST,
            subject,
        ));
        now(commit(&store, changes)).unwrap();

        let (other, mut changes) = bring(&store, APP, &config, &[&layer, &noise(2, 5000)]);
        changes.push(tag(APP, "2", other));
        now(commit(&store, changes)).unwrap();

        let (first, second) = (Bytes::from_static(b"index: 1\n"), Bytes::from_static(b"{}"));
        now(put(&store, &first)).unwrap();
        let files = [("index.yaml", &first), ("root/1.yaml", &second)];
        let changes = vec![
            site("https://packages.example.com/index.yaml", &files),
            trust("packages.example.com", json!({"seen": 1})),
        ];
        now(commit(&store, changes)).unwrap();
        Site {
            folder,
            store,
            layer: Digest::sha256(&layer),
            manifest: image_digest,
            index: index_digest,
            signature: signature_digest,
            other,
        }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn blob(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.root().join("blobs/sha256").join(&hex[..2]).join(&hex)
    }

    pub fn names(&self, repository: &str) -> PathBuf {
        let hex = Digest::sha256(repository).hex();
        self.root()
            .join("names")
            .join(&hex[..2])
            .join(format!("{hex}.json"))
    }

    /// The one file of that name somewhere below the root.
    pub fn only(&self, name: &str) -> PathBuf {
        let mut open = vec![self.root().to_owned()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.file_name().is_some_and(|found| found == name) {
                    return path;
                }
                if path.is_dir() {
                    open.push(path);
                }
            }
        }
        panic!("no {name}");
    }
}

fn entry(
    repository: &str,
    digest: Digest,
    size: usize,
    media_type: &str,
    subject: Option<Digest>,
) -> Change {
    Change::Manifest {
        repository: repository.parse().unwrap(),
        digest,
        new: Some(ManifestEntry {
            media_type: media_type.into(),
            size: size as u64,
            subject: subject.map(Box::new),
            artifact_type: None,
            annotations: Default::default(),
        }),
    }
}

//! A small bundle with one of everything, written to a real file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _};

use crate::bundle::head::{
    Class, Extension, Head, HeadBlob, HeadChart, HeadFile, HeadImage, HeadPackage, HeadReferrer,
    HeadRepository, HeadTree,
};
use crate::bundle::{Layout, Signatures, bundle_id, write};
use crate::chart;
use crate::descriptor::{Descriptor, Platform, media_type};
use crate::digest::{Algorithm, Digest};
use crate::manifest::Manifest;

pub(super) const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(super) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

#[derive(Clone, Default)]
pub(super) struct Sample {
    pub head: Head,
    /// Payload by digest.
    pub content: BTreeMap<Digest, Vec<u8>>,
}

impl Sample {
    /// Adds a blob; the lowest class of its uses counts.
    pub fn blob(&mut self, class: Class, kind: &str, bytes: &[u8]) -> Descriptor {
        self.blob_of(Algorithm::Sha256, class, kind, bytes)
    }

    pub fn blob_of(
        &mut self,
        algorithm: Algorithm,
        class: Class,
        kind: &str,
        bytes: &[u8],
    ) -> Descriptor {
        let digest = Digest::of(algorithm, bytes);
        let size = bytes.len() as u64;
        match self.head.blobs.iter_mut().find(|b| b.digest == digest) {
            Some(blob) => blob.class = blob.class.min(class),
            None => self.head.blobs.push(HeadBlob {
                digest,
                size,
                class,
                assumed: false,
            }),
        }
        self.content.insert(digest, bytes.to_vec());
        Descriptor::new(kind, digest, size)
    }

    pub fn manifest(&mut self, value: &serde_json::Value) -> Descriptor {
        let bytes = serde_json::to_vec(value).unwrap();
        let kind = value["mediaType"].as_str().unwrap();
        self.blob(Class::Manifest, kind, &bytes)
    }

    /// An image manifest with one layer, possibly about `subject`.
    pub fn image(&mut self, layer: &[u8], subject: Option<&Descriptor>) -> Descriptor {
        let config = self.blob(Class::Config, IMAGE_CONFIG, b"{}");
        let layer = self.blob(Class::Layer, LAYER, layer);
        let mut manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": media_type::OCI_MANIFEST,
            "config": config,
            "layers": [layer],
        });
        if let Some(subject) = subject {
            manifest["subject"] = serde_json::to_value(subject).unwrap();
            manifest["artifactType"] = "application/spdx+json".into();
        }
        self.manifest(&manifest)
    }

    pub fn index(&mut self, children: &[Descriptor]) -> Descriptor {
        self.manifest(&serde_json::json!({
            "schemaVersion": 2,
            "mediaType": media_type::OCI_INDEX,
            "manifests": children,
        }))
    }

    pub fn add_image(&mut self, reference: &str, manifest: &Descriptor) {
        let content = &self.content[&manifest.digest];
        let content = Manifest::parse(content, Some(&manifest.media_type)).unwrap();
        let children = content.children().iter();
        self.head.images.push(HeadImage {
            reference: format!("{reference}@{}", manifest.digest).parse().unwrap(),
            manifest: manifest.clone(),
            platforms: children
                .filter_map(|child| child.platform.clone())
                .collect(),
            packages: vec!["web".parse().unwrap()],
            pinned: true,
            file: None,
            sparse: false,
            untagged: false,
        });
    }

    pub fn add_referrer(&mut self, repository: &str, subject: &Digest, manifest: &Descriptor) {
        self.head.referrers.push(HeadReferrer {
            repository: repository.to_owned(),
            subject: *subject,
            manifest: manifest.clone(),
            tag: None,
        });
    }

    fn file(&mut self, path: &str, bytes: &[u8]) -> HeadFile {
        let digest = Digest::sha256(bytes);
        self.content.insert(digest, bytes.to_vec());
        HeadFile {
            path: path.to_owned(),
            size: bytes.len() as u64,
            digest,
        }
    }

    /// A chart as somebody could have pushed it to a registry.
    pub fn chart(&mut self, repository: &str, name: &str, archive: &[u8]) -> Descriptor {
        self.put_chart(repository, name, archive, |_| {})
    }

    /// The same with one more layer, before or after the archive.
    pub fn chart_with(
        &mut self,
        repository: &str,
        name: &str,
        archive: &[u8],
        first: bool,
        (kind, bytes): (&str, &[u8]),
    ) {
        let more = self.blob(Class::Chart, kind, bytes);
        self.put_chart(repository, name, archive, |layers| {
            layers.insert(usize::from(!first), more);
        });
    }

    fn put_chart(
        &mut self,
        repository: &str,
        name: &str,
        archive: &[u8],
        change: impl FnOnce(&mut Vec<Descriptor>),
    ) -> Descriptor {
        let config = self.blob(
            Class::Config,
            media_type::HELM_CONFIG,
            format!(r#"{{"name":"{name}","version":"1.0.0+up1"}}"#).as_bytes(),
        );
        let archive = self.blob(Class::Chart, media_type::HELM_CHART, archive);
        let mut layers = vec![archive.clone()];
        change(&mut layers);
        let manifest = self.manifest(&serde_json::json!({
            "schemaVersion": 2,
            "mediaType": media_type::OCI_MANIFEST,
            "config": config,
            "layers": layers,
        }));
        self.list_chart(repository, name, archive.digest, &manifest);
        manifest
    }

    /// A chart of a classic repository, as the bundler carries it.
    pub fn classic_chart(
        &mut self,
        repository: &str,
        name: &str,
        archive: &[u8],
        algorithm: Algorithm,
        provenance: Option<&[u8]>,
    ) {
        let provenance = provenance
            .map(|file| self.blob(Class::Chart, media_type::HELM_PROVENANCE, file))
            .map(|file| (file.digest, file.size));
        let form = chart::oci_form_with(archive, algorithm, provenance).unwrap();
        self.blob(Class::Manifest, media_type::OCI_MANIFEST, &form.manifest);
        self.blob(Class::Config, media_type::HELM_CONFIG, &form.config);
        let archive = self.blob_of(algorithm, Class::Chart, media_type::HELM_CHART, archive);
        self.list_chart(repository, name, archive.digest, &form.manifest_descriptor);
    }

    fn list_chart(&mut self, repository: &str, name: &str, archive: Digest, manifest: &Descriptor) {
        self.head.charts.push(HeadChart {
            repository: repository.parse().unwrap(),
            name: name.to_owned(),
            version: "1.0.0+up1".to_owned(),
            archive,
            manifest: manifest.clone(),
            packages: vec!["web".parse().unwrap()],
        });
    }

    /// One package with nothing in it.
    pub fn empty() -> Sample {
        let mut sample = Sample::default();
        let files = vec![
            sample.file("index.yaml", b"packages: {}\n"),
            sample.file("index.yaml.sig", b"signature"),
            sample.file("root/1.yaml", b"one"),
            sample.file("root/2.yaml", b"two"),
            sample.file("root.yaml", b"two"),
        ];
        let url = "https://packages.example.com:8443/stable/index.yaml";
        sample.head.repositories.push(HeadRepository {
            url: url.parse().unwrap(),
            priority: 0,
            files,
        });
        sample.head.packages.push(HeadPackage {
            name: "web".parse().unwrap(),
            version: "1.0.0".to_owned(),
            build: 0,
            digest: Digest::sha256("spec"),
            repository: url.parse().unwrap(),
            variants: vec!["default".to_owned()],
            no_images: false,
        });
        sample
    }

    /// One of everything. `large` is the size of one layer.
    pub fn new(large: usize) -> Sample {
        let mut sample = Sample::empty();
        sample.chart("https://charts.example.com/stable", "web", b"chart archive");

        let config = sample.blob(
            Class::Config,
            "application/vnd.example.tree.v1",
            b"{\"tree\":1}",
        );
        let layer = sample.blob(Class::Tree, LAYER, b"tree");
        let tree = sample.manifest(&serde_json::json!({
            "schemaVersion": 2,
            "mediaType": media_type::OCI_MANIFEST,
            "config": config,
            "layers": [layer],
        }));
        sample.head.trees.push(HeadTree {
            reference: format!("ghcr.io/org/trees/web:1.0.0@{}", tree.digest)
                .parse()
                .unwrap(),
            manifest: tree,
            packages: vec!["web".parse().unwrap()],
        });

        let mut children = Vec::new();
        for (n, architecture) in ["amd64", "arm64"].into_iter().enumerate() {
            let mut child = sample.image(&vec![n as u8; 100 + n * large], None);
            child.platform = Some(Platform {
                os: "linux".to_owned(),
                architecture: architecture.to_owned(),
                variant: None,
                os_version: None,
            });
            children.push(child);
        }
        let index = sample.index(&children);
        sample.add_image("registry.example.com/web/app:1", &index);

        let config = sample.blob(Class::Config, IMAGE_CONFIG, b"{}");
        let layer = sample.blob_of(Algorithm::Sha512, Class::Layer, LAYER, b"sha512 layer");
        let plain = sample.manifest(&serde_json::json!({
            "schemaVersion": 2,
            "mediaType": media_type::DOCKER_MANIFEST,
            "config": config,
            "layers": [layer],
        }));
        sample.add_image("docker.io/library/plain", &plain);

        let sbom = sample.image(b"sbom", Some(&index));
        sample.add_referrer("registry.example.com/web/app", &index.digest, &sbom);
        let signature = sample.image(b"signature of the sbom", Some(&sbom));
        sample.add_referrer("registry.example.com/web/app", &sbom.digest, &signature);

        let file = sample.file("notes/a.txt", b"free");
        sample.head.extensions.insert(
            "notes".to_owned(),
            Extension {
                files: vec![file],
                fields: BTreeMap::from([("b".to_owned(), serde_json::json!({"z": 1, "a": []}))]),
            },
        );
        sample.head.sort();
        sample
    }

    pub fn layout(&self) -> Layout {
        Layout::plan(&self.head, &self.head.encode().unwrap()).unwrap()
    }

    /// Writes the bundle to a new file as the bundler does.
    pub fn write(&self) -> File {
        let layout = self.layout();
        assert_eq!(layout.id(), bundle_id(layout.head_bytes()));
        let file = tempfile::tempfile().unwrap();
        write::allocate(&file, layout.len()).unwrap();
        write::write_frame(&file, &layout, &Signatures::default()).unwrap();
        for member in layout.payload() {
            let bytes = &self.content[&member.digest.unwrap()];
            write::put(&file, member.extent(), bytes).unwrap();
        }
        write::check(file.try_clone().unwrap(), &layout).unwrap();
        file
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut file = self.write();
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }
}

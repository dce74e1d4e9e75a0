//! Images in memory: real layers (tar+gzip of a file of noise), configs with the right
//! `diff_ids`, indexes, Docker schema 2, and artifacts about other manifests.

use std::collections::BTreeMap;
use std::io::Write as _;

use bytes::Bytes;
use kubepkg_core::descriptor::{Descriptor, Platform, media_type};
use kubepkg_core::{Algorithm, Digest};
use serde_json::{Value, json};

use crate::noise::noise;

/// Media type of a layer of an OCI image.
pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Media type of the config of an OCI image.
pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// Media type of a layer of a Docker image.
pub const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
/// Media type of the config of a Docker image.
pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
/// Media type of an empty config.
pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// Manifests and blobs by digest.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// Manifests and indexes, with their media types.
    pub manifests: BTreeMap<Digest, (String, Bytes)>,
    /// Configs and layers.
    pub blobs: BTreeMap<Digest, Bytes>,
}

impl Content {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Content) {
        self.manifests.extend(other.manifests.clone());
        self.blobs.extend(other.blobs.clone());
    }

    /// Adds a blob and describes it.
    pub fn add_blob(
        &mut self,
        algorithm: Algorithm,
        media_type: &str,
        data: Vec<u8>,
    ) -> Descriptor {
        let digest = Digest::of(algorithm, &data);
        let descriptor = Descriptor::new(media_type, digest, data.len() as u64);
        self.blobs.insert(digest, data.into());
        descriptor
    }

    /// Adds a manifest and describes it.
    pub fn add_manifest(
        &mut self,
        algorithm: Algorithm,
        media_type: &str,
        json: &Value,
    ) -> Descriptor {
        let data = serde_json::to_vec(json).unwrap();
        let digest = Digest::of(algorithm, &data);
        let descriptor = Descriptor::new(media_type, digest, data.len() as u64);
        self.manifests
            .insert(digest, (media_type.to_owned(), data.into()));
        descriptor
    }

    /// Bytes of all blobs and manifests.
    pub fn size(&self) -> u64 {
        let manifests = self.manifests.values().map(|(_, bytes)| bytes.len());
        let blobs = self.blobs.values().map(Bytes::len);
        manifests.chain(blobs).sum::<usize>() as u64
    }
}

/// A manifest or index with everything below it.
#[derive(Clone, Debug)]
pub struct Image {
    /// The manifest or index on top.
    pub descriptor: Descriptor,
    /// It and everything below.
    pub content: Content,
}

impl Image {
    /// Digest of the manifest or index on top.
    pub fn digest(&self) -> Digest {
        self.descriptor.digest
    }

    /// The bytes of the manifest or index on top.
    pub fn manifest(&self) -> Bytes {
        self.content.manifests[&self.descriptor.digest].1.clone()
    }

    /// Digests of the blobs below, in order.
    pub fn blobs(&self) -> Vec<Digest> {
        self.content.blobs.keys().copied().collect()
    }
}

/// Makes one image manifest.
#[derive(Clone, Debug)]
pub struct ImageBuilder {
    seed: u64,
    layers: Vec<usize>,
    platform: Platform,
    docker: bool,
    algorithm: Algorithm,
}

impl ImageBuilder {
    /// An image of its own for each seed: linux/amd64, one layer of about a KiB.
    pub fn new(seed: u64) -> ImageBuilder {
        ImageBuilder {
            seed,
            layers: vec![1024],
            platform: platform("linux/amd64"),
            docker: false,
            algorithm: Algorithm::Sha256,
        }
    }

    /// `count` layers that hold a file of `size` bytes each.
    #[must_use]
    pub fn layers(mut self, count: usize, size: usize) -> ImageBuilder {
        self.layers = vec![size; count];
        self
    }

    /// For `os/architecture[/variant]`.
    #[must_use]
    pub fn platform(mut self, text: &str) -> ImageBuilder {
        self.platform = platform(text);
        self
    }

    /// As Docker schema 2.
    #[must_use]
    pub fn docker(mut self) -> ImageBuilder {
        self.docker = true;
        self
    }

    /// With digests of this algorithm.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> ImageBuilder {
        self.algorithm = algorithm;
        self
    }

    /// The image.
    pub fn build(self) -> Image {
        let mut content = Content::default();
        let (manifest_type, config_type, layer_type) = if self.docker {
            (media_type::DOCKER_MANIFEST, DOCKER_CONFIG, DOCKER_LAYER)
        } else {
            (media_type::OCI_MANIFEST, OCI_CONFIG, OCI_LAYER)
        };
        let mut diff_ids = Vec::new();
        let mut layers = Vec::new();
        for (number, size) in self.layers.iter().enumerate() {
            let seed = self.seed.wrapping_mul(1000).wrapping_add(number as u64);
            let tar = layer_tar(&format!("data/{}-{number}", self.seed), &noise(seed, *size));
            diff_ids.push(Digest::sha256(&tar));
            layers.push(content.add_blob(self.algorithm, layer_type, gzip(&tar)));
        }
        let mut config = json!({
            "architecture": self.platform.architecture,
            "os": self.platform.os,
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        if let Some(variant) = &self.platform.variant {
            config["variant"] = json!(variant);
        }
        let config = content.add_blob(
            self.algorithm,
            config_type,
            serde_json::to_vec(&config).unwrap(),
        );
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": manifest_type,
            "config": config,
            "layers": layers,
        });
        let mut descriptor = content.add_manifest(self.algorithm, manifest_type, &manifest);
        descriptor.platform = Some(self.platform);
        Image {
            descriptor,
            content,
        }
    }
}

/// An OCI index over images or, nested, over indexes.
pub fn index(images: &[Image]) -> Image {
    list(media_type::OCI_INDEX, images)
}

/// A Docker manifest list.
pub fn docker_list(images: &[Image]) -> Image {
    list(media_type::DOCKER_LIST, images)
}

fn list(media_type: &str, images: &[Image]) -> Image {
    let mut content = Content::default();
    for image in images {
        content.merge(&image.content);
    }
    let manifests: Vec<&Descriptor> = images.iter().map(|image| &image.descriptor).collect();
    let json = json!({"schemaVersion": 2, "mediaType": media_type, "manifests": manifests});
    let descriptor = content.add_manifest(Algorithm::Sha256, media_type, &json);
    Image {
        descriptor,
        content,
    }
}

/// A manifest about `subject` (SBOM, signature) with one layer that holds `payload`.
pub fn artifact(subject: &Descriptor, artifact_type: &str, payload: &[u8]) -> Image {
    let mut content = Content::default();
    let config = content.add_blob(Algorithm::Sha256, EMPTY, b"{}".to_vec());
    let layer = content.add_blob(Algorithm::Sha256, artifact_type, payload.to_vec());
    let subject = Descriptor::new(subject.media_type.clone(), subject.digest, subject.size);
    let json = json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_MANIFEST,
        "artifactType": artifact_type,
        "config": config,
        "layers": [layer],
        "subject": subject,
        "annotations": {"org.opencontainers.image.created": "2026-01-01T00:00:00Z"},
    });
    let mut descriptor = content.add_manifest(Algorithm::Sha256, media_type::OCI_MANIFEST, &json);
    descriptor.artifact_type = Some(artifact_type.to_owned());
    Image {
        descriptor,
        content,
    }
}

/// A signature as cosign stores it: found by a tag only, without a subject.
pub fn cosign_signature(payload: &[u8]) -> Image {
    let kind = "application/vnd.dev.cosign.simplesigning.v1+json";
    let mut content = Content::default();
    let config = content.add_blob(Algorithm::Sha256, OCI_CONFIG, b"{}".to_vec());
    let layer = content.add_blob(Algorithm::Sha256, kind, payload.to_vec());
    let json = json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_MANIFEST,
        "config": config,
        "layers": [layer],
    });
    let descriptor = content.add_manifest(Algorithm::Sha256, media_type::OCI_MANIFEST, &json);
    Image {
        descriptor,
        content,
    }
}

/// The tag under which cosign looks for what belongs to `digest`: `ending` is `sig`, `att` or
/// `sbom`.
pub fn cosign_tag(digest: &Digest, ending: &str) -> String {
    format!("{}.{ending}", digest.to_string().replace(':', "-"))
}

/// `os/architecture[/variant]`.
pub fn platform(text: &str) -> Platform {
    let mut parts = text.split('/').map(str::to_owned);
    Platform {
        os: parts.next().unwrap(),
        architecture: parts.next().unwrap(),
        variant: parts.next(),
        os_version: None,
    }
}

fn layer_tar(path: &str, data: &[u8]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    append(&mut archive, path, data);
    archive.into_inner().unwrap()
}

/// Appends a file that belongs to nobody, from 1970.
pub(crate) fn append(archive: &mut tar::Builder<impl std::io::Write>, path: &str, data: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_size(data.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    archive.append_data(&mut header, path, data).unwrap();
}

/// `data` as gzip, without a time; stored, since noise does not compress.
pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::manifest::Manifest;

    fn check(image: &Image) {
        for (digest, (media_type, bytes)) in &image.content.manifests {
            assert!(digest.matches(bytes));
            let manifest = Manifest::parse(bytes, Some(media_type)).unwrap();
            for blob in manifest.blobs() {
                assert_eq!(image.content.blobs[&blob.digest].len() as u64, blob.size);
            }
            for child in manifest.children() {
                assert!(image.content.manifests.contains_key(&child.digest));
            }
        }
    }

    #[test]
    fn images_are_whole_and_the_same_every_time() {
        let amd = ImageBuilder::new(1).layers(3, 5000).build();
        let arm = ImageBuilder::new(2).platform("linux/arm64/v8").build();
        let docker = ImageBuilder::new(3)
            .docker()
            .algorithm(Algorithm::Sha512)
            .build();
        let both = index(&[amd.clone(), arm.clone()]);
        let nested = index(&[both.clone(), docker.clone()]);
        let sbom = artifact(&amd.descriptor, "application/spdx+json", b"{}");
        for image in [&amd, &arm, &docker, &both, &nested, &sbom] {
            check(image);
        }
        assert_eq!(nested.content.manifests.len(), 5);
        assert_eq!(
            ImageBuilder::new(1).layers(3, 5000).build().digest(),
            amd.digest()
        );
        let about = Manifest::parse(&sbom.manifest(), None)
            .unwrap()
            .subject
            .unwrap();
        assert_eq!(about.digest, amd.digest());
    }

    #[test]
    fn cosign_finds_by_tag() {
        let digest = Digest::sha256(b"x");
        let tag = cosign_tag(&digest, "sig");
        assert!(tag.starts_with("sha256-") && tag.ends_with(".sig"));
    }
}

//! OCI images, packed layer by layer.

use std::collections::BTreeMap;

use anyhow::Result;
use kubepkg_core::descriptor::{Descriptor, media_type};
use kubepkg_core::digest::Digest;
use serde_json::json;

use crate::archive::{Entry, tar_gz};
use crate::rootfs::USER;

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A packed layer.
#[derive(Clone, Debug)]
pub struct Layer {
    descriptor: Descriptor,
    diff: Digest,
    bytes: Vec<u8>,
}

impl Layer {
    /// Packs `entries`, owned by root.
    pub fn pack(entries: &BTreeMap<String, Entry>) -> Result<Layer> {
        let (bytes, tar) = tar_gz(entries, 0)?;
        Ok(Layer {
            descriptor: Descriptor::new(LAYER, Digest::sha256(&bytes), bytes.len() as u64),
            diff: Digest::sha256(tar),
            bytes,
        })
    }
}

/// An image: its manifest and everything the manifest names.
#[derive(Debug)]
pub struct Image {
    /// The manifest.
    pub manifest: Vec<u8>,
    /// Config and layers.
    pub blobs: Vec<Vec<u8>>,
}

/// An image for this machine's processor from `layers`, which runs `command`.
pub fn image(layers: &[Layer], command: &[&str]) -> Result<Image> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let diffs: Vec<String> = layers.iter().map(|layer| layer.diff.to_string()).collect();
    let config = serde_json::to_vec(&json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": command,
            "Env": ["PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
            "WorkingDir": "/tmp",
        },
        "rootfs": {"type": "layers", "diff_ids": diffs},
    }))?;
    let described: Vec<&Descriptor> = layers.iter().map(|layer| &layer.descriptor).collect();
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_MANIFEST,
        "config": Descriptor::new(CONFIG, Digest::sha256(&config), config.len() as u64),
        "layers": described,
    }))?;
    let mut blobs = vec![config];
    blobs.extend(layers.iter().map(|layer| layer.bytes.clone()));
    Ok(Image { manifest, blobs })
}

//! The manifest of a tree, and what there is to know of one that is published.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Packed;
use crate::descriptor::{Descriptor, media_type};
use crate::digest::Digest;
use crate::manifest::{Content, Manifest};

/// Media type of the layer: Flux's, which Flux and the existing program read.
pub(super) const LAYER: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";

/// Layers that are taken for a tree.
const LAYERS: &[&str] = &[
    LAYER,
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.kubepkg.tree.v1.tar+gzip",
];

/// Media type of the config.
const CONFIG: &str = "application/vnd.cncf.flux.config.v1+json";

/// The config: nothing.
const EMPTY: &[u8] = b"{}";

/// The annotation that says which tree it is: the digest of its archive before compression.
pub const CONTENT_DIGEST: &str = "dev.kubepkg.content.digest";

const CREATED: &str = "org.opencontainers.image.created";
const SOURCE: &str = "org.opencontainers.image.source";
const REVISION: &str = "org.opencontainers.image.revision";

/// The time of creation of every tree, as it says nothing of its content.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// A tree as a registry holds it, beside its layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Bytes of the config.
    pub config: &'static [u8],
    /// Descriptor of the config.
    pub config_descriptor: Descriptor,
    /// Bytes of the manifest.
    pub manifest: Vec<u8>,
    /// Descriptor of the manifest.
    pub descriptor: Descriptor,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    schema_version: u32,
    media_type: &'static str,
    config: &'a Descriptor,
    layers: [&'a Descriptor; 1],
    annotations: BTreeMap<&'static str, &'a str>,
}

/// The artifact of a packed tree, with where it comes from.
pub fn artifact(packed: &Packed, source: Option<&str>, revision: Option<&str>) -> Artifact {
    let config = Descriptor::new(CONFIG, Digest::sha256(EMPTY), EMPTY.len() as u64);
    let content = packed.content.to_string();
    let mut annotations = BTreeMap::from([(CREATED, NO_TIME), (CONTENT_DIGEST, &*content)]);
    annotations.extend(source.map(|text| (SOURCE, text)));
    annotations.extend(revision.map(|text| (REVISION, text)));
    let wire = Wire {
        schema_version: 2,
        media_type: media_type::OCI_MANIFEST,
        config: &config,
        layers: [&packed.layer],
        annotations,
    };
    // only keys that are no text and values that refuse to be written could fail
    let manifest = serde_json::to_vec(&wire).unwrap_or_default();
    let digest = Digest::sha256(&manifest);
    Artifact {
        config: EMPTY,
        config_descriptor: config,
        descriptor: Descriptor::new(media_type::OCI_MANIFEST, digest, manifest.len() as u64),
        manifest,
    }
}

/// What a published manifest says of the content of its tree.
pub fn content_digest(manifest: &Manifest) -> Option<Digest> {
    manifest.annotations.get(CONTENT_DIGEST)?.parse().ok()
}

/// The layer of a published tree; the first one counts, as for everybody who reads it. `None`
/// when this is something else.
pub fn layer(manifest: &Manifest) -> Option<&Descriptor> {
    let Content::Image { layers, .. } = &manifest.content else {
        return None;
    };
    layers
        .iter()
        .find(|layer| LAYERS.contains(&layer.media_type.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed() -> Packed {
        Packed {
            content: Digest::sha256("tar"),
            without_modes: None,
            layer: Descriptor::new(LAYER, Digest::sha256("gzip"), 4),
            files: 1,
            bytes: 1,
        }
    }

    #[test]
    fn a_manifest_says_what_it_is_and_where_from() {
        let artifact = artifact(&packed(), Some("https://git.example/a?b=\"c\""), None);
        let manifest = Manifest::parse(&artifact.manifest, None).unwrap();
        assert_eq!(manifest.media_type, artifact.descriptor.media_type);
        assert_eq!(content_digest(&manifest), Some(Digest::sha256("tar")));
        assert_eq!(layer(&manifest), Some(&packed().layer));
        assert_eq!(manifest.annotations[CREATED], NO_TIME);
        assert_eq!(
            manifest.annotations[SOURCE],
            "https://git.example/a?b=\"c\""
        );
        assert!(!manifest.annotations.contains_key(REVISION));
        assert_eq!(manifest.blobs()[0], &artifact.config_descriptor);
        assert!(artifact.config_descriptor.digest.matches(artifact.config));
    }

    #[test]
    fn trees_of_others_are_known_by_their_layer() {
        let manifest = |layers: &str| {
            let digest = Digest::sha256("x");
            let config = format!(r#"{{"mediaType":"a/b","digest":"{digest}","size":1}}"#);
            let layers: Vec<String> = layers
                .split_whitespace()
                .map(|kind| format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":1}}"#))
                .collect();
            let layers = layers.join(",");
            let text = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layers}]}}"#);
            Manifest::parse(text.as_bytes(), None).unwrap()
        };
        for kind in LAYERS {
            let manifest = manifest(&format!("text/plain {kind}"));
            assert_eq!(layer(&manifest).unwrap().media_type, *kind);
            assert_eq!(content_digest(&manifest), None);
        }
        assert_eq!(layer(&manifest("text/plain")), None);
    }
}

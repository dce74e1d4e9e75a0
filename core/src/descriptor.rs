//! Descriptors and the media types kubepkg knows (OCI image specification, "Content
//! Descriptors").

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The media types that are named in more than one place.
pub mod media_type {
    /// OCI image manifest.
    pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// OCI image index.
    pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// Docker image manifest, version 2, schema 2.
    pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    /// Docker manifest list.
    pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    /// Docker schema 1, signed; refused everywhere.
    pub const DOCKER_SCHEMA1_SIGNED: &str =
        "application/vnd.docker.distribution.manifest.v1+prettyjws";
    /// Docker schema 1; refused everywhere.
    pub const DOCKER_SCHEMA1: &str = "application/vnd.docker.distribution.manifest.v1+json";
    /// Config of a Helm chart in a registry.
    pub const HELM_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
    /// Archive of a Helm chart in a registry.
    pub const HELM_CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    /// Provenance file of a Helm chart in a registry.
    pub const HELM_PROVENANCE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";

    /// Whether `text` names a manifest that lists other manifests.
    pub fn is_index(text: &str) -> bool {
        matches!(text, OCI_INDEX | DOCKER_LIST)
    }

    /// Whether `text` names a layer that its maker does not let others distribute (OCI image
    /// specification, "Non-distributable layers"; Docker's foreign layers).
    pub fn is_foreign_layer(text: &str) -> bool {
        text.starts_with("application/vnd.docker.image.rootfs.foreign.diff.tar")
            || text.starts_with("application/vnd.oci.image.layer.nondistributable.v1.tar")
    }

    /// Whether `text` names an image manifest.
    pub fn is_image_manifest(text: &str) -> bool {
        matches!(text, OCI_MANIFEST | DOCKER_MANIFEST)
    }
}

/// What some content is: media type, digest and size, and what is said about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Media type of the content.
    pub media_type: String,
    /// Digest of the content.
    pub digest: Digest,
    /// Size of the content in bytes.
    pub size: u64,
    /// Places outside the registry where the content may be had (foreign layers).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// For which platform it is, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// The artifact type of the manifest it points at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
}

impl Descriptor {
    /// A descriptor with nothing but what identifies the content.
    pub fn new(media_type: impl Into<String>, digest: Digest, size: u64) -> Descriptor {
        Descriptor {
            media_type: media_type.into(),
            digest,
            size,
            urls: Vec::new(),
            annotations: BTreeMap::new(),
            platform: None,
            artifact_type: None,
        }
    }
}

/// Operating system and processor an image is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Platform {
    /// Operating system, e.g. `linux`.
    pub os: String,
    /// Processor, e.g. `amd64`.
    pub architecture: String,
    /// Processor variant, e.g. `v8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Version of the operating system (Windows).
    #[serde(
        default,
        rename = "os.version",
        skip_serializing_if = "Option::is_none"
    )]
    pub os_version: Option<String>,
}

impl Platform {
    /// Whether `text` reads like a platform as people write one: `os/architecture` or
    /// `os/architecture/variant`.
    pub fn is_name(text: &str) -> bool {
        text.parse::<Platform>().is_ok()
    }
}

/// A text is no platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no platform: write OS/ARCH or OS/ARCH/VARIANT, e.g. linux/amd64")]
pub struct ParsePlatformError(String);

impl std::str::FromStr for Platform {
    type Err = ParsePlatformError;

    fn from_str(text: &str) -> Result<Platform, ParsePlatformError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        let parts: Vec<&str> = text.split('/').collect();
        let sound = |part: &&str| !part.is_empty() && part.bytes().all(legal);
        let (os, architecture, variant) = match parts.as_slice() {
            [os, architecture] => (*os, *architecture, None),
            [os, architecture, variant] => (*os, *architecture, Some((*variant).to_owned())),
            _ => ("", "", None),
        };
        if os.is_empty() || !parts.iter().all(sound) {
            return Err(ParsePlatformError(crate::error::shown(text)));
        }
        Ok(Platform {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            variant,
            os_version: None,
        })
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}

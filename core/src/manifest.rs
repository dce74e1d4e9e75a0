//! Reading manifests and indexes without ever re-writing them.
//!
//! A manifest is judged by its own bytes. Only the members that name other content are
//! looked at; everything else is carried as it came.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::descriptor::{Descriptor, media_type};
use crate::error::{Classify, Kind};

/// Largest manifest: what registries and clients agree on (4 MiB).
pub const MAX_MANIFEST: u64 = 4 * 1024 * 1024;

/// Deepest nesting of indexes that is followed.
pub const MAX_NESTING: usize = 8;

/// Most descriptors in one manifest: far above real images (Docker stops at 127 layers).
pub const MAX_DESCRIPTORS: usize = 10_000;

/// Why bytes are not a manifest kubepkg can carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Larger than [`MAX_MANIFEST`].
    #[error("the manifest is larger than {MAX_MANIFEST} bytes")]
    TooLarge,
    /// Not JSON of the right shape.
    #[error("the manifest is not valid: {0}")]
    Shape(String),
    /// Docker schema 1, which has no digest of its layers' order.
    #[error(
        "this is a Docker schema 1 manifest, which is too old to be carried; push the image again with a current tool"
    )]
    Schema1,
    /// Media type unknown.
    #[error("\"{0}\" is no manifest type kubepkg knows")]
    MediaType(String),
    /// More than [`MAX_DESCRIPTORS`] descriptors.
    #[error("the manifest names more than {MAX_DESCRIPTORS} objects")]
    TooMany,
}

impl Classify for ManifestError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }
}

/// What a manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its media type.
    pub media_type: String,
    /// `artifactType` as it stands in the manifest.
    pub artifact_type: Option<String>,
    /// The manifest this one is about.
    pub subject: Option<Descriptor>,
    /// Annotations of the manifest itself.
    pub annotations: BTreeMap<String, String>,
    /// What it is made of.
    pub content: Content,
}

/// The two shapes of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// An image (or artifact): config and layers, both blobs.
    Image {
        /// The config.
        config: Box<Descriptor>,
        /// The layers, in order; an artifact may have none.
        layers: Vec<Descriptor>,
    },
    /// An index: other manifests.
    Index(Vec<Descriptor>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    schema_version: u64,
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    subject: Option<Descriptor>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

impl Manifest {
    /// Reads `bytes`. `declared` is the media type a descriptor or `Content-Type` gave; where
    /// the manifest carries its own it must be the same.
    pub fn parse(bytes: &[u8], declared: Option<&str>) -> Result<Manifest, ManifestError> {
        if bytes.len() as u64 > MAX_MANIFEST {
            return Err(ManifestError::TooLarge);
        }
        if let Some(media_type::DOCKER_SCHEMA1 | media_type::DOCKER_SCHEMA1_SIGNED) = declared {
            return Err(ManifestError::Schema1);
        }
        let wire: Wire =
            serde_json::from_slice(bytes).map_err(|e| ManifestError::Shape(e.to_string()))?;
        // whoever looks for all it names, as collection does, reads more of it than is used here
        serde_json::from_slice::<Readable>(bytes).map_err(|e| {
            let said = e.to_string();
            ManifestError::Shape(match said.contains("recursion") {
                true => format!("{said}; it may be nested 127 levels deep"),
                false => said,
            })
        })?;
        match wire.schema_version {
            2 => {}
            1 => return Err(ManifestError::Schema1),
            other => return Err(ManifestError::Shape(format!("schemaVersion {other}"))),
        }
        let media_type = match (wire.media_type, declared) {
            (Some(own), Some(declared)) if own != declared => {
                return Err(ManifestError::Shape(format!(
                    "it says {own}, its descriptor {declared}"
                )));
            }
            (Some(own), _) => own,
            (None, Some(declared)) => declared.to_owned(),
            (None, None) if wire.manifests.is_some() => media_type::OCI_INDEX.to_owned(),
            (None, None) => media_type::OCI_MANIFEST.to_owned(),
        };
        let content = if media_type::is_index(&media_type) {
            if wire.config.is_some() || wire.layers.is_some() {
                return Err(ManifestError::Shape(
                    "an index with config or layers".to_owned(),
                ));
            }
            Content::Index(wire.manifests.unwrap_or_default())
        } else if media_type::is_image_manifest(&media_type) {
            if wire.manifests.is_some() {
                return Err(ManifestError::Shape(
                    "an image manifest with manifests".to_owned(),
                ));
            }
            let config = wire
                .config
                .ok_or_else(|| ManifestError::Shape("no config".to_owned()))?;
            Content::Image {
                config: Box::new(config),
                layers: wire.layers.unwrap_or_default(),
            }
        } else {
            return Err(ManifestError::MediaType(media_type));
        };
        let count = match &content {
            Content::Image { layers, .. } => layers.len(),
            Content::Index(manifests) => manifests.len(),
        };
        if count > MAX_DESCRIPTORS {
            return Err(ManifestError::TooMany);
        }
        Ok(Manifest {
            media_type,
            artifact_type: wire.artifact_type.filter(|text| !text.is_empty()),
            subject: wire.subject,
            annotations: wire.annotations.unwrap_or_default(),
            content,
        })
    }

    /// The blobs it names: config first, then layers. Empty for an index.
    pub fn blobs(&self) -> Vec<&Descriptor> {
        match &self.content {
            Content::Image { config, layers } => std::iter::once(&**config).chain(layers).collect(),
            Content::Index(_) => Vec::new(),
        }
    }

    /// The manifests it names. Empty for an image.
    pub fn children(&self) -> &[Descriptor] {
        match &self.content {
            Content::Index(manifests) => manifests,
            Content::Image { .. } => &[],
        }
    }

    /// The artifact type a referrers answer shows: its own, else the config's media type of
    /// an image manifest (distribution specification, "Listing Referrers").
    pub fn referrer_type(&self) -> Option<String> {
        match (&self.artifact_type, &self.content) {
            (Some(own), _) => Some(own.clone()),
            (None, Content::Image { config, .. }) => Some(config.media_type.clone()),
            (None, Content::Index(_)) => None,
        }
    }
}

/// JSON of any kind that can be read to its last level. What is merely ignored may be nested
/// as deep as it likes.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Readable, D::Error> {
        deserializer.deserialize_any(Readable)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Readable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_str<E>(self, _: &str) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Readable, A::Error> {
        while values.next_element::<Readable>()?.is_some() {}
        Ok(Readable)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Readable, A::Error> {
        while members.next_entry::<Readable, Readable>()?.is_some() {}
        Ok(Readable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2}"#;

    #[test]
    fn reads_an_image_and_an_index() {
        let image = format!(r#"{{"schemaVersion":2,"config":{CONFIG},"layers":[],"extra":1}}"#);
        let image = Manifest::parse(image.as_bytes(), None).unwrap();
        assert_eq!(image.media_type, media_type::OCI_MANIFEST);
        assert_eq!(image.blobs().len(), 1);
        let index = br#"{"schemaVersion":2,"manifests":[]}"#;
        assert!(Manifest::parse(index, None).unwrap().children().is_empty());
    }

    #[test]
    fn refuses_what_two_readers_could_see_differently() {
        let both = format!(r#"{{"schemaVersion":2,"config":{CONFIG},"manifests":[]}}"#);
        assert!(Manifest::parse(both.as_bytes(), None).is_err());
        let other = format!(
            r#"{{"schemaVersion":2,"mediaType":"{}","config":{CONFIG}}}"#,
            media_type::DOCKER_MANIFEST
        );
        assert!(Manifest::parse(other.as_bytes(), Some(media_type::OCI_MANIFEST)).is_err());
        assert_eq!(
            Manifest::parse(br#"{"schemaVersion":1}"#, None),
            Err(ManifestError::Schema1)
        );
        assert_eq!(
            Manifest::parse(&vec![b' '; 5 << 20], None),
            Err(ManifestError::TooLarge)
        );
    }

    #[test]
    fn what_nobody_can_read_to_the_end_is_refused() {
        let with = |odd: &str| {
            let text = format!(
                r#"{{"schemaVersion":2,"mediaType":"{}","manifests":[],"odd":{odd}}}"#,
                media_type::OCI_INDEX
            );
            Manifest::parse(text.as_bytes(), None)
        };
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for fine in [&nested(126), "[1,-1,1.5,null,true,\"x\",{\"a\":{}}]"] {
            with(fine).unwrap();
        }
        for (bad, word) in [
            (nested(127), "127 levels"),
            (nested(100_000), "127 levels"),
            ("1e999".to_owned(), "out of range"),
        ] {
            let error = with(&bad).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}

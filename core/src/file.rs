//! Files that are neither charts nor images, carried as content of a registry.
//!
//! A file has any UTF-8 name, which is no legal name of a repository. So it is carried as an
//! artifact with one layer, in a repository whose name is made from the file's name, and the
//! name itself stands in the manifest, where `oras pull` looks for it too. Manifest and
//! repository follow from name and content alone: a reader computes them and compares.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::descriptor::{Descriptor, media_type};
use crate::digest::Digest;
use crate::error::shown;
use crate::manifest::Manifest;
use crate::reference::Reference;

/// The host that stands for files in references. Nothing is fetched from there.
pub const HOST: &str = "files.kubepkg.dev";

/// The artifact type of a file's manifest.
pub const ARTIFACT_TYPE: &str = "application/vnd.kubepkg.file.v1";

/// The media type of a file's layer.
pub const LAYER: &str = "application/octet-stream";

/// Content of the config, which says nothing (OCI image specification, "Guidance for an empty
/// descriptor").
pub const EMPTY_CONFIG: &[u8] = b"{}";

/// Where artifacts say the name of the file a layer is.
const TITLE: &str = "org.opencontainers.image.title";

/// Longest name in bytes: what file systems take for a path of some depth, and what fits into
/// the request line of a client.
pub const MAX_NAME: usize = 1024;

/// Most characters of a repository's name that are taken from the file's name.
const MAX_SLUG: usize = 96;

/// Hexadecimal digits of the name's hash in a repository's name: two names never meet by chance.
const HASH: usize = 16;

/// The name of a carried file: a relative path in UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(String);

/// Why a text is no name of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no name for a carried file: it is a relative path without \".\", \"..\", empty \
     elements or control characters, at most {MAX_NAME} bytes long"
)]
pub struct FileNameError(String);

impl std::str::FromStr for FileName {
    type Err = FileNameError;

    fn from_str(text: &str) -> Result<FileName, FileNameError> {
        let sound = text.len() <= MAX_NAME
            && !text.chars().any(char::is_control)
            && !text.split('/').any(|part| matches!(part, "" | "." | ".."));
        match sound {
            true => Ok(FileName(text.to_owned())),
            false => Err(FileNameError(shown(text))),
        }
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

crate::serde_by_text!(FileName);

/// The members in the order they are written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileManifest<'a> {
    schema_version: u32,
    media_type: &'static str,
    artifact_type: &'static str,
    config: Descriptor,
    layers: [Descriptor; 1],
    annotations: BTreeMap<&'static str, &'a str>,
}

impl FileName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as it stands in a URL.
    pub fn escaped(&self) -> String {
        let mut text = String::new();
        for byte in self.0.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    text.push(char::from(byte));
                }
                _ => text.push_str(&format!("%{byte:02X}")),
            }
        }
        text
    }

    /// Path of its repository, below [`HOST`]: what is legal of the name, for people, and the
    /// beginning of the name's hash.
    pub fn repository(&self) -> String {
        let mut slug = String::new();
        for c in self.0.chars().take(MAX_SLUG) {
            match c.to_ascii_lowercase() {
                c if c.is_ascii_alphanumeric() => slug.push(c),
                _ if slug.is_empty() || slug.ends_with('-') => {}
                _ => slug.push('-'),
            }
        }
        let hash = Digest::sha256(self.0.as_bytes()).hex();
        let hash = &hash[..HASH];
        match slug.trim_matches('-') {
            "" => hash.to_owned(),
            slug => format!("{slug}-{hash}"),
        }
    }

    /// The reference under which a mirror has the file: `files.kubepkg.dev/…:latest`.
    pub fn reference(&self) -> Reference {
        let latest = "latest".parse().ok();
        // made of legal elements, as the tests hold
        Reference::from_parts(HOST, &self.repository(), latest, None)
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// The manifest of this file with `content` of `size` bytes.
    pub fn manifest(&self, content: &Digest, size: u64) -> Vec<u8> {
        let config = Descriptor::new(
            "application/vnd.oci.empty.v1+json",
            Digest::sha256(EMPTY_CONFIG),
            EMPTY_CONFIG.len() as u64,
        );
        let mut layer = Descriptor::new(LAYER, *content, size);
        layer.annotations.insert(TITLE.to_owned(), self.0.clone());
        let manifest = FileManifest {
            schema_version: 2,
            media_type: media_type::OCI_MANIFEST,
            artifact_type: ARTIFACT_TYPE,
            config,
            layers: [layer],
            annotations: BTreeMap::from([(TITLE, self.0.as_str())]),
        };
        // texts and numbers only: nothing that JSON cannot hold
        serde_json::to_vec(&manifest).unwrap_or_default()
    }
}

/// A file as its manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its name.
    pub name: FileName,
    /// Digest of its content.
    pub content: Digest,
    /// Size of its content in bytes.
    pub size: u64,
}

/// The file that the manifest with these bytes is; `None` when it is none as files are carried.
pub fn carried(manifest: &[u8]) -> Option<Carried> {
    let read = Manifest::parse(manifest, Some(media_type::OCI_MANIFEST)).ok()?;
    let name: FileName = read.annotations.get(TITLE)?.parse().ok()?;
    let blobs = read.blobs();
    let layer = blobs.get(1)?;
    let found = Carried {
        content: layer.digest,
        size: layer.size,
        name,
    };
    (found.name.manifest(&found.content, found.size) == manifest).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    fn name(text: &str) -> FileName {
        text.parse().unwrap()
    }

    #[test]
    fn any_name_has_a_repository_of_its_own() {
        let long = format!("dir/{}", "ü".repeat(150));
        let names = [
            ".metadata",
            "metadata",
            "libstdc++-12.rpm",
            "libstdc--12.rpm",
            "with space.iso",
            "ünïcode/日本語.txt",
            "日本語",
            "A/B",
            "a/b",
            "a b",
            long.as_str(),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for text in names {
            let reference = name(text).reference();
            assert_eq!(
                (reference.host(), reference.digest()),
                (HOST, None),
                "{text}"
            );
            assert!(seen.insert(reference.to_string()), "{text}");
        }
        let shown = name("k3s install.sh").repository();
        assert!(shown.starts_with("k3s-install-sh-"), "{shown}");
    }

    #[test]
    fn names_stay_below_a_folder() {
        let long = "x".repeat(MAX_NAME + 1);
        for bad in [
            "", "/a", "a/", "a//b", "../a", "a/../b", ".", "a\nb", "a\0", &long,
        ] {
            assert!(bad.parse::<FileName>().is_err(), "{bad:?}");
        }
        for good in ["..a", "a..", "...", ".a/b", "\\"] {
            assert!(good.parse::<FileName>().is_ok(), "{good}");
        }
    }

    #[test]
    fn the_manifest_never_changes() {
        let bytes = name("a \"b\".txt").manifest(&Digest::sha256("x"), 1);
        let found = carried(&bytes).unwrap();
        assert_eq!((found.name.as_str(), found.size), ("a \"b\".txt", 1));
        let mut other = bytes.clone();
        other.push(b' ');
        assert_eq!(carried(&other), None, "only in its one form");
        // a change here is a change of the format: the same file would get another digest
        assert_eq!(Digest::sha256(&bytes).to_string(), GOLDEN);
    }

    const GOLDEN: &str = "sha256:b1f486a299ebcb258b3a39020fc120c51c970ee521306eed6407c729674ecb83";
}

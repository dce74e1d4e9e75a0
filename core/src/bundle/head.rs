//! The head of a bundle (`kubepkg/bundle.json`): what is in the file, to the last byte.
//!
//! It holds nothing that is not content: no time, host or user. Lists are sorted, so that the
//! same selection gives the same head and the same bundle id.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::error::FormatError;
use super::format::{
    ALIGNMENT, HEAD_REMAINDER, MAX_BLOBS, MAX_ENTRIES, MAX_EXTENSION_FIELDS, MAX_EXTENSIONS,
    MAX_HEAD, MAX_REPOSITORIES, MAX_ROOTS,
};
use super::{grammar, json};
use crate::descriptor::{Descriptor, Platform};
use crate::digest::Digest;
use crate::error::shown;
use crate::file::FileName;
use crate::location::CanonicalUrl;
use crate::name::{PackageName, Tag};
use crate::reference::Reference;

/// The format this code writes.
pub const FORMAT: &str = "kubepkg.dev/bundle/v1";

/// Most entries of a list that is short by nature: features, variants, platforms, extensions.
const FEW: usize = 1_000;

/// Most files of one repository: index, signature, `root.yaml` and the roots.
const FILES: usize = MAX_ROOTS + 3;

/// The head as it is written. Unknown fields are refused: they could hide content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Head {
    /// Format version, [`FORMAT`].
    pub format: String,
    /// Features a reader must know, sorted; an unknown one is refused.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::<_, _, FEW>"
    )]
    pub requires: Vec<String>,
    /// Repositories with their files, sorted by URL.
    #[serde(deserialize_with = "bounded::<_, _, MAX_REPOSITORIES>")]
    pub repositories: Vec<HeadRepository>,
    /// Packages, sorted by name (one version each).
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    pub packages: Vec<HeadPackage>,
    /// Charts, sorted by (repository, name, version).
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    pub charts: Vec<HeadChart>,
    /// Package trees, sorted by reference.
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    pub trees: Vec<HeadTree>,
    /// Images, sorted by reference.
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    pub images: Vec<HeadImage>,
    /// The platforms that were asked for, sorted; empty: all that the images are for (feature
    /// `sparse-indexes`).
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::<_, _, FEW>"
    )]
    pub platforms: Vec<Platform>,
    /// Referrers, sorted by (repository, subject, digest).
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    pub referrers: Vec<HeadReferrer>,
    /// What is missing and known to be, sorted.
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    pub holes: Vec<Hole>,
    /// Every blob of the file, manifests included, in the order they lie in it:
    /// (class, algorithm, hex).
    #[serde(deserialize_with = "bounded::<_, _, MAX_BLOBS>")]
    pub blobs: Vec<HeadBlob>,
    /// Optional features: their files and free fields, by feature name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, Extension>,
}

/// One repository whose packages are in the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeadRepository {
    /// Canonical URL of the index.
    pub url: CanonicalUrl,
    /// Where it stood in the order of repositories at creation; for display only.
    pub priority: i32,
    /// Its files as fetched, by their path beside the index (`index.yaml`, `index.yaml.sig`,
    /// `root.yaml`, `root/1.yaml` …), sorted.
    #[serde(deserialize_with = "bounded::<_, _, FILES>")]
    pub files: Vec<HeadFile>,
}

/// One repository or extension file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeadFile {
    /// Relative path.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Digest.
    pub digest: Digest,
}

/// One package version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeadPackage {
    /// Package name.
    pub name: PackageName,
    /// Version as the index writes it.
    pub version: String,
    /// Build, 0 where there is none.
    pub build: u32,
    /// Digest of the spec in the index.
    pub digest: Digest,
    /// Canonical URL of the repository it comes from.
    pub repository: CanonicalUrl,
    /// The variants whose requirements travel along, sorted.
    #[serde(deserialize_with = "bounded::<_, _, FEW>")]
    pub variants: Vec<String>,
    /// It has charts or trees, pins no images, and the user said that it has none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_images: bool,
}

/// One chart, carried as an OCI chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeadChart {
    /// Chart repository as the package names it, canonical.
    pub repository: CanonicalUrl,
    /// Chart name.
    pub name: String,
    /// Chart version as the package names it.
    pub version: String,
    /// Digest of the archive, as pinned.
    pub archive: Digest,
    /// The manifest that carries it: the registry's own, or built here for a classic one.
    pub manifest: Descriptor,
    /// Packages that pin it, sorted; none where it belongs to no package (feature
    /// `unpackaged-content`).
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    pub packages: Vec<PackageName>,
}

/// One package tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeadTree {
    /// Canonical reference, with digest.
    pub reference: Reference,
    /// Its manifest.
    pub manifest: Descriptor,
    /// Packages that pin it, sorted.
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    pub packages: Vec<PackageName>,
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeadImage {
    /// Canonical reference, with digest.
    pub reference: Reference,
    /// Its manifest or index.
    pub manifest: Descriptor,
    /// Platforms carried, sorted; empty where the image does not say.
    #[serde(deserialize_with = "bounded::<_, _, FEW>")]
    pub platforms: Vec<Platform>,
    /// Packages that name it, sorted; none where it belongs to no package (feature
    /// `unpackaged-content`).
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    pub packages: Vec<PackageName>,
    /// False when no signed package pins it and the bundle's word is all there is.
    pub pinned: bool,
    /// The name of the file it is, where it is one ([`crate::file`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileName>,
    /// Something its index names is not carried (feature `sparse-indexes`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sparse: bool,
    /// Its tag goes to another image of this bundle, as decided when that was created; this
    /// one is found by digest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untagged: bool,
}

/// A manifest that is about another one: signature, attestation, SBOM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeadReferrer {
    /// `host/path` upstream where both lie.
    pub repository: String,
    /// What it is about.
    pub subject: Digest,
    /// Its manifest.
    pub manifest: Descriptor,
    /// The tag it was found under, where it has one of its own (cosign's `sha256-….sig`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
}

/// The kind of a hole where a look-up of referrers failed.
pub const REFERRERS: &str = "referrers";

/// The kind of a hole where an index names an attestation that its registry does not have.
pub const ATTESTATION: &str = "attestation";

/// Something that should be here and is not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hole {
    /// `referrers`: a look-up failed. `attestation`: an index names an attestation that its
    /// registry does not have. Images themselves are always whole.
    pub kind: String,
    /// `host/path@digest` of what it is about.
    pub of: String,
    /// Why.
    pub why: String,
}

/// What a blob is; the lowest of all its uses decides where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// Manifest or index.
    Manifest,
    /// Config of a manifest.
    Config,
    /// Chart archive (and provenance).
    Chart,
    /// Layer of a package tree.
    Tree,
    /// Layer of an image or referrer.
    Layer,
}

/// One blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeadBlob {
    /// Digest.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
    /// What it is.
    pub class: Class,
    /// Not in this file: the far side is assumed to have it (feature `assumed-blobs`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
}

/// An optional feature's part of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extension {
    /// Files under `extensions/<feature>/`, sorted by path.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::<_, _, MAX_ENTRIES>"
    )]
    pub files: Vec<HeadFile>,
    /// Free fields.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "bounded_fields"
    )]
    pub fields: BTreeMap<String, serde_json::Value>,
}

/// The bundle id: the SHA-256 of the head's bytes.
pub fn bundle_id(head_bytes: &[u8]) -> Digest {
    Digest::sha256(head_bytes)
}

/// What is read of a head before all else, so that a newer bundle is named as such and not
/// as a broken one, and one that would fill the memory is refused before it does.
#[derive(Deserialize)]
struct Preamble {
    format: String,
    #[serde(default, deserialize_with = "bounded::<_, _, FEW>")]
    requires: Vec<String>,
    #[serde(default)]
    packages: Inner,
    #[serde(default)]
    charts: Inner,
    #[serde(default)]
    trees: Inner,
    #[serde(default)]
    images: Inner,
    #[serde(default)]
    extensions: Keys,
}

/// How many entries the lists within the entries of a list have; nothing is kept of them.
#[derive(Default)]
struct Inner(usize);

/// How many members an object has.
#[derive(Default)]
struct Keys(usize);

/// How long a list is.
#[derive(Default)]
struct Length(usize);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Length, D::Error> {
        count::<D, IgnoredAny>(deserializer, |_| 1).map(Length)
    }
}

impl<'de> Deserialize<'de> for Inner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Inner, D::Error> {
        #[derive(Deserialize)]
        struct Entry {
            #[serde(default)]
            packages: Length,
            #[serde(default)]
            variants: Length,
            #[serde(default)]
            platforms: Length,
        }
        let entries = |entry: Entry| entry.packages.0 + entry.variants.0 + entry.platforms.0;
        count(deserializer, entries).map(Inner)
    }
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Keys, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = 0;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    keys += 1;
                }
                Ok(Keys(keys))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// The sum of what `of` says of the elements of a list, which are read one at a time.
fn count<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
    of: impl Fn(T) -> usize,
) -> Result<usize, D::Error> {
    struct Sum<T, F>(F, PhantomData<T>);

    impl<'de, T: Deserialize<'de>, F: Fn(T) -> usize> Visitor<'de> for Sum<T, F> {
        type Value = usize;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<usize, A::Error> {
            let mut sum = 0usize;
            while let Some(element) = seq.next_element()? {
                sum = sum.saturating_add((self.0)(element));
            }
            Ok(sum)
        }
    }

    deserializer.deserialize_seq(Sum(of, PhantomData))
}

impl Head {
    /// A head of this format with nothing in it.
    pub fn new() -> Head {
        Head {
            format: FORMAT.to_owned(),
            requires: Vec::new(),
            repositories: Vec::new(),
            packages: Vec::new(),
            charts: Vec::new(),
            trees: Vec::new(),
            images: Vec::new(),
            platforms: Vec::new(),
            referrers: Vec::new(),
            holes: Vec::new(),
            blobs: Vec::new(),
            extensions: BTreeMap::new(),
        }
    }

    /// Brings every list into the order the format wants. Doubles stay, and are refused by
    /// [`Head::encode`].
    pub fn sort(&mut self) {
        self.requires.sort();
        self.repositories.sort_by(|a, b| a.url.cmp(&b.url));
        for repository in &mut self.repositories {
            repository.files.sort();
        }
        self.packages.sort_by(|a, b| a.name.cmp(&b.name));
        for package in &mut self.packages {
            package.variants.sort();
        }
        self.charts.sort_by(HeadChart::order);
        for chart in &mut self.charts {
            chart.packages.sort();
        }
        self.trees.sort_by(|a, b| a.reference.cmp(&b.reference));
        for tree in &mut self.trees {
            tree.packages.sort();
        }
        self.images.sort_by(|a, b| a.reference.cmp(&b.reference));
        for image in &mut self.images {
            image.packages.sort();
            image.platforms.sort();
        }
        self.platforms.sort();
        self.referrers.sort_by(HeadReferrer::order);
        self.holes.sort();
        self.blobs.sort_by(HeadBlob::order);
        for extension in self.extensions.values_mut() {
            extension.files.sort();
        }
    }

    /// The bytes of this head: JSON with sorted keys, then spaces until the length is 3072
    /// modulo 4096. Fails when a rule of the format is broken, so that what is written can be
    /// read.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        grammar::check(self)?;
        let mut out = Vec::new();
        // the keys in byte order; each list goes out element by element
        out.extend_from_slice(b"{\"blobs\":");
        json::write_list(&self.blobs, &mut out)?;
        out.extend_from_slice(b",\"charts\":");
        json::write_list(&self.charts, &mut out)?;
        if !self.extensions.is_empty() {
            out.extend_from_slice(b",\"extensions\":");
            json::write(&self.extensions, &mut out)?;
        }
        out.extend_from_slice(b",\"format\":");
        json::write(&self.format, &mut out)?;
        out.extend_from_slice(b",\"holes\":");
        json::write_list(&self.holes, &mut out)?;
        out.extend_from_slice(b",\"images\":");
        json::write_list(&self.images, &mut out)?;
        out.extend_from_slice(b",\"packages\":");
        json::write_list(&self.packages, &mut out)?;
        if !self.platforms.is_empty() {
            out.extend_from_slice(b",\"platforms\":");
            json::write_list(&self.platforms, &mut out)?;
        }
        out.extend_from_slice(b",\"referrers\":");
        json::write_list(&self.referrers, &mut out)?;
        out.extend_from_slice(b",\"repositories\":");
        json::write_list(&self.repositories, &mut out)?;
        if !self.requires.is_empty() {
            out.extend_from_slice(b",\"requires\":");
            json::write_list(&self.requires, &mut out)?;
        }
        out.extend_from_slice(b",\"trees\":");
        json::write_list(&self.trees, &mut out)?;
        out.push(b'}');
        let alignment = ALIGNMENT as usize;
        let over = (out.len() + alignment - HEAD_REMAINDER as usize) % alignment;
        let padding = (alignment - over) % alignment;
        out.resize(out.len() + padding, b' ');
        check_length(out.len() as u64)?;
        Ok(out)
    }

    /// Reads the bytes of a head. Whatever [`Head::encode`] would not have written, byte for
    /// byte, is refused.
    pub fn decode(bytes: &[u8]) -> Result<Head, FormatError> {
        check_length(bytes.len() as u64)?;
        let bad = |e: serde_json::Error| FormatError::head(shown(&e.to_string()));
        let preamble: Preamble = serde_json::from_slice(bytes).map_err(bad)?;
        if preamble.format != FORMAT {
            return Err(FormatError::Version(shown(&preamble.format)));
        }
        grammar::check_features(&preamble.requires)?;
        let inner = [
            preamble.packages.0,
            preamble.charts.0,
            preamble.trees.0,
            preamble.images.0,
        ];
        grammar::check_inner(inner.into_iter().sum())?;
        if preamble.extensions.0 > MAX_EXTENSIONS {
            let what = "the list \"extensions\" of the head";
            return Err(FormatError::too_many(
                what,
                preamble.extensions.0,
                MAX_EXTENSIONS,
            ));
        }
        let head: Head = serde_json::from_slice(bytes).map_err(bad)?;
        let again = head.encode()?;
        if again != bytes {
            let at = again.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            return Err(FormatError::head(format!(
                "it is not written in its one form (sorted keys, no spaces between tokens, spaces \
                 to fill): byte {at} of it is another one"
            )));
        }
        Ok(head)
    }
}

impl Default for Head {
    fn default() -> Head {
        Head::new()
    }
}

impl Head {
    /// Whether readers must know the feature `name`.
    pub fn requires(&self, name: &str) -> bool {
        self.requires.iter().any(|feature| feature == name)
    }

    /// Whether something in it belongs to no package.
    pub fn has_unpackaged(&self) -> bool {
        self.images.iter().any(HeadImage::is_unpackaged)
            || self.charts.iter().any(HeadChart::is_unpackaged)
    }
}

impl HeadImage {
    /// Whether it belongs to no package.
    pub fn is_unpackaged(&self) -> bool {
        self.packages.is_empty()
    }
}

impl HeadChart {
    /// Whether it belongs to no package.
    pub fn is_unpackaged(&self) -> bool {
        self.packages.is_empty()
    }

    /// The order of charts in a head.
    pub fn order(a: &HeadChart, b: &HeadChart) -> Ordering {
        (&a.repository, &a.name, &a.version).cmp(&(&b.repository, &b.name, &b.version))
    }

    /// The tag this chart has in a registry, as Helm writes it: `+` is no legal character there.
    pub fn tag(&self) -> String {
        self.version.replace('+', "_")
    }
}

impl HeadReferrer {
    /// The order of referrers in a head.
    pub fn order(a: &HeadReferrer, b: &HeadReferrer) -> Ordering {
        (&a.repository, &a.subject, &a.manifest.digest).cmp(&(
            &b.repository,
            &b.subject,
            &b.manifest.digest,
        ))
    }
}

impl HeadBlob {
    /// The order of blobs in a head, which is also that of their members.
    pub fn order(a: &HeadBlob, b: &HeadBlob) -> Ordering {
        (a.class, a.digest).cmp(&(b.class, b.digest))
    }

    /// The path of its member.
    pub fn path(&self) -> String {
        format!(
            "blobs/{}/{}",
            self.digest.algorithm().as_str(),
            self.digest.hex()
        )
    }
}

fn check_length(len: u64) -> Result<(), FormatError> {
    if len > MAX_HEAD {
        return Err(FormatError::too_long("the head", len, MAX_HEAD));
    }
    if len % ALIGNMENT != HEAD_REMAINDER {
        return Err(FormatError::head(format!(
            "its length is {len} bytes, which is not {HEAD_REMAINDER} modulo {ALIGNMENT}"
        )));
    }
    Ok(())
}

/// Reads a list that may not have more than `MAX` entries.
fn bounded<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX} entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = seq.next_element()? {
                if list.len() == MAX {
                    return Err(A::Error::custom(format_args!(
                        "a list has more than {MAX} entries"
                    )));
                }
                list.push(element);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(List::<T, MAX>(PhantomData))
}

/// Reads the free fields of an extension. Their texts are counted before they become values,
/// which take many times the memory.
fn bounded_fields<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, serde_json::Value>, D::Error> {
    struct Fields;

    impl<'de> Visitor<'de> for Fields {
        type Value = BTreeMap<String, serde_json::Value>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "fields of at most {MAX_EXTENSION_FIELDS} bytes")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = BTreeMap::new();
            let mut bytes = 0usize;
            while let Some((key, raw)) = map.next_entry::<String, Box<RawValue>>()? {
                bytes = bytes.saturating_add(key.len() + raw.get().len());
                if bytes > MAX_EXTENSION_FIELDS {
                    return Err(A::Error::custom(format_args!(
                        "the fields of an extension have more than {MAX_EXTENSION_FIELDS} bytes"
                    )));
                }
                let value = serde_json::from_str(raw.get()).map_err(A::Error::custom)?;
                fields.insert(key, value);
            }
            Ok(fields)
        }
    }

    deserializer.deserialize_map(Fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_at_its_limit() {
        #[derive(Deserialize)]
        struct Two {
            #[serde(deserialize_with = "bounded::<_, _, 2>")]
            list: Vec<u8>,
        }
        let read = |json: &str| serde_json::from_str::<Two>(json);
        assert_eq!(read(r#"{"list":[1,2]}"#).unwrap().list, [1, 2]);
        let error = read(r#"{"list":[1,2,3]}"#).err().unwrap();
        assert!(error.to_string().contains("more than 2 entries"));
    }
}

//! `oci-layout` and `index.json`, computed from the head.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::error::FormatError;
use super::head::{Head, HeadImage};
use super::json;
use crate::descriptor::{Descriptor, media_type};
use crate::location::mirror_chart;

/// Content of `oci-layout` (OCI image specification, "Image Layout").
pub(super) const OCI_LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// Where skopeo, regctl and oras look a name up.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// What containerd names an image by.
const IMAGE_NAME: &str = "io.containerd.image.name";

/// Place of a chart, a tree or an image in part; no tool takes it for the name of an image.
const REFERENCE: &str = "dev.kubepkg.reference";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    media_type: &'static str,
    manifests: Vec<Descriptor>,
}

/// Content of `index.json`.
pub(super) fn index(head: &Head) -> Result<Vec<u8>, FormatError> {
    let mut manifests = Vec::new();
    manifests.extend(head.images.iter().map(image));
    for chart in &head.charts {
        let annotations = match mirror_chart(&chart.repository, &chart.name) {
            Ok(repository) => named(REFERENCE, format!("{repository}:{}", chart.tag())),
            // the head is still readable; who needs the place of this chart says that it has none
            Err(_) => BTreeMap::new(),
        };
        manifests.push(annotated(&chart.manifest, annotations));
    }
    for tree in &head.trees {
        let annotations = named(REFERENCE, tree.reference.to_string());
        manifests.push(annotated(&tree.manifest, annotations));
    }
    let mut listed = BTreeSet::new();
    for referrer in &head.referrers {
        if listed.insert(referrer.manifest.digest) {
            manifests.push(referrer.manifest.clone());
        }
    }
    let index = Index {
        schema_version: 2,
        media_type: media_type::OCI_INDEX,
        manifests,
    };
    let mut out = Vec::new();
    json::write(&index, &mut out)?;
    Ok(out)
}

fn image(image: &HeadImage) -> Descriptor {
    // Under the name of an image, runtimes want all of its index (containerd #11344), and
    // something they can unpack.
    if image.sparse || image.file.is_some() {
        return annotated(
            &image.manifest,
            named(REFERENCE, image.reference.to_string()),
        );
    }
    let mut annotations = named(REF_NAME, image.reference.to_string());
    if let Some(tag) = image.reference.tag().filter(|_| !image.untagged) {
        annotations.insert(
            IMAGE_NAME.to_owned(),
            format!("{}:{tag}", image.reference.repository()),
        );
    }
    annotated(&image.manifest, annotations)
}

fn named(key: &str, name: String) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), name)])
}

fn annotated(descriptor: &Descriptor, annotations: BTreeMap<String, String>) -> Descriptor {
    Descriptor {
        annotations,
        ..descriptor.clone()
    }
}

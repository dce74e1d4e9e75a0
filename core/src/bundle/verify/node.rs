//! What is kept of a manifest once it was read. A bundle has room for hundreds of megabytes of
//! manifests; most of that is free text nobody needs after the walk.

use crate::chart;
use crate::descriptor::Platform;
use crate::digest::Digest;
use crate::manifest::{Content, Manifest};
use crate::store::ManifestEntry;

/// Most bytes of annotations and artifact type of one manifest, which every store keeps among
/// its names and every answer about referrers repeats. Real ones have some 500.
pub(super) const MAX_ANNOTATIONS: usize = 16 * 1024;

/// A manifest.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Media type, size, subject and annotations, as a store keeps them.
    pub entry: ManifestEntry,
    /// The blobs it names with their sizes: config first, then layers.
    pub blobs: Vec<(Digest, u64)>,
    /// The manifests it names.
    pub children: Vec<Digest>,
    /// The platforms an index names; `None` for an image manifest.
    pub platforms: Option<Vec<Platform>>,
    /// The blobs of the chart it is, or why it is none.
    pub chart: Result<Box<ChartBlobs>, &'static str>,
}

/// Config, archive and provenance file of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChartBlobs {
    pub config: Digest,
    pub archive: Digest,
    /// Digest and size.
    pub provenance: Option<(Digest, u64)>,
}

impl Node {
    pub fn of(manifest: &Manifest, size: u64) -> Node {
        let blobs = manifest.blobs();
        let children = manifest.children();
        Node {
            entry: ManifestEntry::of(manifest, size),
            blobs: blobs.into_iter().map(|b| (b.digest, b.size)).collect(),
            children: children.iter().map(|child| child.digest).collect(),
            platforms: match manifest.content {
                Content::Index(_) => Some(platforms(manifest)),
                Content::Image { .. } => None,
            },
            chart: chart::parts(manifest).map(|parts| {
                Box::new(ChartBlobs {
                    config: parts.config.digest,
                    archive: parts.archive.digest,
                    provenance: parts.provenance.map(|file| (file.digest, file.size)),
                })
            }),
        }
    }

    /// Bytes of free text that a store keeps of it.
    pub fn kept_text(&self) -> usize {
        let annotations = self.entry.annotations.iter();
        annotations
            .map(|(key, text)| key.len() + text.len())
            .sum::<usize>()
            + self
                .entry
                .artifact_type
                .as_ref()
                .map_or(0, |text| text.len())
    }
}

/// Sorted, without doubles and without the `unknown/unknown` of attestations: what a head says
/// of an image that is an index.
fn platforms(index: &Manifest) -> Vec<Platform> {
    let children = index.children().iter();
    let mut platforms: Vec<Platform> = children
        .filter_map(|child| child.platform.clone())
        .filter(|p| !p.os.is_empty() && p.os != "unknown" && !p.architecture.is_empty())
        .collect();
    platforms.sort();
    platforms.dedup();
    platforms
}

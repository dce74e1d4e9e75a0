//! What is kept of a manifest once it was read. A bundle has room for hundreds of megabytes of
//! manifests; most of that is free text nobody needs after the walk.

use crate::bundle::format::MAX_WORD;
use crate::chart;
use crate::descriptor::Platform;
use crate::digest::Digest;
use crate::manifest::{Content, Manifest};
use crate::sparse;
use crate::store::ManifestEntry;

/// Most bytes of annotations and artifact type of one manifest, which every store keeps among
/// its names and every answer about referrers repeats. Real ones have some 500.
pub(super) const MAX_ANNOTATIONS: usize = 16 * 1024;

/// Most platforms of one image that are left out. The widest images are for some 20; the list
/// is repeated in every index above.
pub(super) const MAX_LEFT_OUT: usize = 64;

/// A manifest.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Media type, size, subject and annotations, as a store keeps them.
    pub entry: ManifestEntry,
    /// The blobs it names with their sizes: config first, then layers.
    pub blobs: Vec<(Digest, u64)>,
    /// The manifests it names.
    pub children: Vec<Digest>,
    /// The platforms an index names and that are carried; `None` for an image manifest.
    pub platforms: Option<Vec<Platform>>,
    /// The platforms of it and of what is below it that are not carried, without doubles.
    pub left_out: Vec<Platform>,
    /// Whether anything that it or an index below it names is not carried.
    pub sparse: bool,
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
    /// Of a manifest from which what is not carried was taken.
    pub fn of(manifest: &Manifest, size: u64) -> Node {
        let blobs = manifest.blobs();
        let children = manifest.children();
        Node {
            entry: ManifestEntry::of(manifest, size),
            blobs: blobs.into_iter().map(|b| (b.digest, b.size)).collect(),
            children: children.iter().map(|child| child.digest).collect(),
            platforms: match manifest.content {
                Content::Index(_) => {
                    let children = manifest.children().iter();
                    Some(sparse::known(
                        children.filter_map(|child| child.platform.clone()),
                    ))
                }
                Content::Image { .. } => None,
            },
            left_out: Vec::new(),
            sparse: false,
            chart: chart::parts(manifest).map(|parts| {
                Box::new(ChartBlobs {
                    config: parts.config.digest,
                    archive: parts.archive.digest,
                    provenance: parts.provenance.map(|file| (file.digest, file.size)),
                })
            }),
        }
    }

    /// Takes over what is left out below it. `false` when these are more platforms than an
    /// image can sensibly be for, or one is called by more than a word.
    pub fn lacks<'p>(
        &mut self,
        sparse: bool,
        left_out: impl Iterator<Item = &'p Platform>,
    ) -> bool {
        self.sparse |= sparse;
        for platform in left_out {
            // many versions of Windows are one platform here
            let same = |known: &Platform| {
                known.os == platform.os
                    && known.architecture == platform.architecture
                    && known.variant == platform.variant
            };
            if self.left_out.iter().any(same) {
                continue;
            }
            let variant = platform.variant.as_ref().map_or(0, String::len);
            let length = platform
                .os
                .len()
                .max(platform.architecture.len())
                .max(variant);
            if self.left_out.len() == MAX_LEFT_OUT || length > MAX_WORD {
                return false;
            }
            self.left_out.push(Platform {
                os_version: None,
                ..platform.clone()
            });
        }
        true
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

//! The head from everything that was looked up. Pure.

use kubepkg_core::bundle::Head;
use kubepkg_core::bundle::format::{FOREIGN_LAYERS, SPARSE_INDEXES, UNPACKAGED_CONTENT};
use kubepkg_core::bundle::head::{ATTESTATION, HeadBlob, HeadPackage};
use kubepkg_core::descriptor::Platform;

use crate::collect::Collected;
use crate::repositories::Loaded;

/// The head of the bundle, sorted as the format wants it.
pub fn assemble(
    repositories: &[&Loaded],
    packages: Vec<HeadPackage>,
    platforms: &[Platform],
    collected: &Collected,
) -> Head {
    let here = collected
        .here
        .iter()
        .map(|(digest, (class, bytes))| HeadBlob {
            digest: *digest,
            size: bytes.len() as u64,
            class: *class,
            assumed: false,
        });
    let fetched = collected.sources.values().map(|source| HeadBlob {
        digest: source.blob.digest,
        size: source.blob.size,
        class: source.class,
        assumed: false,
    });
    let mut head = Head {
        repositories: repositories.iter().map(|loaded| loaded.head()).collect(),
        packages,
        charts: collected.charts.clone(),
        trees: collected.trees.clone(),
        images: collected.images.clone(),
        platforms: platforms.to_vec(),
        referrers: collected.referrers.clone(),
        holes: collected.holes.clone(),
        blobs: here.chain(fetched).collect(),
        ..Head::new()
    };
    head.platforms.sort();
    head.platforms.dedup();
    head.requires = features(&head, collected.foreign);
    head.sort();
    head
}

/// What readers of `head` must know.
fn features(head: &Head, foreign: bool) -> Vec<String> {
    let sparse = !head.platforms.is_empty()
        || head.images.iter().any(|image| image.sparse)
        || head.holes.iter().any(|hole| hole.kind == ATTESTATION);
    let features = [
        (foreign, FOREIGN_LAYERS),
        (sparse, SPARSE_INDEXES),
        (head.has_unpackaged(), UNPACKAGED_CONTENT),
    ];
    let needed = features.into_iter().filter(|(needed, _)| *needed);
    needed.map(|(_, name)| name.to_owned()).collect()
}

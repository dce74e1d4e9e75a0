//! The head from everything that was looked up. Pure.

use kubepkg_core::bundle::Head;
use kubepkg_core::bundle::head::{HeadBlob, HeadPackage};

use crate::collect::Collected;
use crate::repositories::Loaded;

/// The head of the bundle, sorted as the format wants it.
pub fn assemble(
    repositories: &[&Loaded],
    packages: Vec<HeadPackage>,
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
        referrers: collected.referrers.clone(),
        holes: collected.holes.clone(),
        blobs: here.chain(fetched).collect(),
        ..Head::new()
    };
    head.sort();
    head
}

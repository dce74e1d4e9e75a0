//! Imports that end before the end, and what the next run finds.

use kubepkg_core::Digest;
use kubepkg_core::bundle::Bundle;
use kubepkg_core::store::Store as _;
use kubepkg_importer::ImportError;
use kubepkg_test_support::ImageBuilder;

use super::site::{Publisher, Site, URL, app, hours_ago, into};

const LAYERS: usize = 12;

#[tokio::test]
async fn what_was_taken_in_before_an_error_stays() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let mut web = app("web", "1.0.0", "registry.example.com/web:1");
    web.image = ImageBuilder::new(7).layers(LAYERS, 50_000).build();
    let pinned = format!("{}@{}", web.reference, web.digest());
    web.package = kubepkg_test_support::Package::new("web", "1.0.0").image(&pinned);
    let forge = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    let good = site.carry(&forge);

    // the one that comes last is damaged
    let mut layers: Vec<(Digest, u64)> = good
        .layout()
        .payload()
        .iter()
        .filter_map(|member| Some((member.digest?, member.data_at, member.size)))
        .filter(|(_, _, size)| *size >= 50_000)
        .map(|(digest, at, _)| (digest, at))
        .collect();
    layers.sort();
    assert_eq!(layers.len(), LAYERS);
    let mut bytes = forge.bytes();
    let at = usize::try_from(layers[LAYERS - 1].1).unwrap();
    bytes[at] ^= 1;
    let path = site.store_folder().with_file_name("damaged.tar");
    std::fs::write(&path, bytes).unwrap();
    let damaged = Bundle::open(&path).unwrap();
    let store = site.store();
    let error = into(&store, &damaged, &publisher.trusted())
        .await
        .unwrap_err();
    assert!(matches!(error, ImportError::Format(_)), "{error}");
    assert_eq!(store.sequence().await.unwrap(), 0);

    let mut there = 0;
    for (digest, _) in &layers {
        there += u64::from(store.stat(digest).await.unwrap().is_some());
    }
    // as many may have been on their way as there are jobs
    assert!(there + 2 >= LAYERS as u64 - 1, "{there} of {LAYERS} layers");
    let imported = into(&store, &good, &publisher.trusted()).await.unwrap();
    assert_eq!(imported.commit, Some(1));
    assert!(imported.receipt.new_bytes < 50_000 * 4, "the rest only");
}

//! One repository of the mirror, one upstream location, whatever comes later.

use kubepkg_core::Kind;
use kubepkg_core::error::Classify as _;
use kubepkg_core::store::Store as _;
use kubepkg_importer::ImportError;
use kubepkg_test_support::{Chart, Package};

use super::site::{App, Publisher, Site, URL, app, hours_ago};

/// Has the place of the image `registry.example.com/charts/web`.
const CHARTS: &str = "https://registry.example.com/charts";

#[tokio::test]
async fn two_locations_do_not_meet_across_imports() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let image = app("web", "1.0.0", "registry.example.com/charts/web:1");
    let chart = Chart::new("web", "2.0.0", "unused");
    let packed = App {
        package: Package::new("packed", "1.0.0").chart(
            CHARTS,
            &chart.name,
            &chart.version,
            Some(chart.digest()),
        ),
        ..image.clone()
    };
    let listed = [&image, &packed];
    let one = publisher.bundle(hours_ago(2), &listed, &[&image]);
    site.import(&publisher, &one).await.unwrap();
    let names = site.names().await;
    let repository = &names.repositories["registry.example.com/charts/web"];
    assert_eq!(
        repository.upstream.as_deref(),
        Some("oci://registry.example.com/charts/web")
    );

    let before = site.files();
    let mut two = publisher.bundle(hours_ago(1), &listed, &[]);
    two.package(&publisher.url, &packed.package);
    two.head.packages[0].no_images = true;
    two.chart(CHARTS, &chart, &["packed"]);
    let error = site.import(&publisher, &two).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    assert!(matches!(error, ImportError::InFile { .. }), "{error:?}");
    let said = error.to_string();
    for location in ["oci", "helm"] {
        let location = format!("{location}://registry.example.com/charts/web");
        assert!(said.contains(&location), "{said}");
    }
    assert_eq!(site.files(), before);
    let stored = site.store().stat(&chart.digest()).await.unwrap();
    assert_eq!(stored, None, "refused before anything is stored");
    // the same bundle is fine where the name is free
    Site::new().import(&publisher, &two).await.unwrap();
}

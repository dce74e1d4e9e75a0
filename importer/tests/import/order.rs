//! Bundles come in any order, and more than once.

use kubepkg_core::store::Names;
use kubepkg_core::{Kind, error::Classify as _};
use kubepkg_importer::ImportError;
use kubepkg_test_support::Forge;

use super::site::{App, Publisher, Site, URL, app, hours_ago};

const WEB: &str = "registry.example.com/web";

fn web(version: &str) -> App {
    app("web", version, &format!("{WEB}:stable"))
}

/// The names without the numbers of commits, which say in which order things came.
async fn lasting(site: &Site) -> Names {
    let mut names = site.names().await;
    names.sequence = 0;
    names.sites.values_mut().for_each(|entry| entry.set = 0);
    names
}

#[tokio::test]
async fn any_order_and_repetition_ends_in_the_same_names() {
    let publisher = Publisher::new(URL);
    let (a, b, c) = (web("1.0.0"), web("1.1.0"), web("1.2.0"));
    let bundles: [Forge; 3] = [
        publisher.bundle(hours_ago(30), &[&a], &[&a]),
        publisher.bundle(hours_ago(20), &[&a, &b], &[&b]),
        publisher.bundle(hours_ago(10), &[&a, &b, &c], &[&c]),
    ];
    let mut wanted: Option<Names> = None;
    for order in [
        &[0, 1, 2][..],
        &[0, 2, 1],
        &[1, 0, 2],
        &[1, 2, 0],
        &[2, 0, 1],
        &[2, 1, 0],
        &[0, 0, 2, 0, 1, 2, 1],
    ] {
        let site = Site::new();
        for number in order {
            site.import(&publisher, &bundles[*number]).await.unwrap();
        }
        assert_eq!(site.tag(WEB, "stable").await, Some(c.digest()), "{order:?}");
        assert_eq!(
            site.carried(URL).await,
            ["web 1.0.0", "web 1.1.0", "web 1.2.0"]
        );
        let names = lasting(&site).await;
        assert_eq!(
            wanted.get_or_insert_with(|| names.clone()),
            &names,
            "{order:?}"
        );
    }
}

#[tokio::test]
async fn an_older_index_never_replaces_the_accepted_one() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let (old, new) = (web("1.0.0"), web("1.1.0"));
    let newer = publisher.bundle(hours_ago(1), &[&old, &new], &[&new]);
    site.import(&publisher, &newer).await.unwrap();
    let index = site.published(URL, "index.yaml").await.unwrap();
    let signature = site.published(URL, "index.yaml.sig").await.unwrap();
    let trust = site.names().await.trust;

    let older = publisher.bundle(hours_ago(2), &[&old], &[&old]);
    let imported = site.import(&publisher, &older).await.unwrap();
    assert_eq!(imported.commit, Some(2));
    let said = imported.receipt.warnings.join("\n");
    assert!(
        said.contains("older than the one accepted before"),
        "{said}"
    );
    assert_eq!(site.published(URL, "index.yaml").await.unwrap(), index);
    assert_eq!(
        site.published(URL, "index.yaml.sig").await.unwrap(),
        signature
    );
    assert_eq!(site.names().await.trust, trust);
    // its index is not even kept, and a second time there is nothing to do
    let digest = older.head.repositories[0].files[0].digest;
    assert!(site.content(&digest).await.is_none());
    let again = site.import(&publisher, &older).await.unwrap();
    assert_eq!((again.commit, again.receipt.new_bytes), (None, 0));
    // its content came in all the same
    assert_eq!(site.carried(URL).await, ["web 1.0.0", "web 1.1.0"]);
    assert!(site.content(&old.digest()).await.is_some());
}

#[tokio::test]
async fn what_the_accepted_index_no_longer_lists_stays_out() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let (old, new) = (web("1.0.0"), web("1.1.0"));
    let newer = publisher.bundle(hours_ago(1), &[&new], &[&new]);
    site.import(&publisher, &newer).await.unwrap();
    let before = site.files();

    let older = publisher.bundle(hours_ago(2), &[&old], &[&old]);
    let error = site.import(&publisher, &older).await.unwrap_err();
    assert!(matches!(error, ImportError::Trust { .. }), "{error}");
    assert_eq!(error.kind(), Kind::Refused);
    assert!(
        error
            .to_string()
            .contains("web 1.0.0 is not in the signed index")
    );
    assert_eq!(site.files(), before);
    assert!(site.content(&old.digest()).await.is_none());
}

#[tokio::test]
async fn a_package_changed_under_its_version_stays_out() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let real = web("1.0.0");
    let newer = publisher.bundle(hours_ago(1), &[&real], &[&real]);
    site.import(&publisher, &newer).await.unwrap();
    let before = site.files();
    let mut other = web("1.0.0");
    other.package = other.package.requires("else", "");
    let older = publisher.bundle(hours_ago(2), &[&other], &[&other]);
    let error = site.import(&publisher, &older).await.unwrap_err();
    assert!(
        error.to_string().contains("but the signed index lists"),
        "{error}"
    );
    assert_eq!(site.files(), before);
}

#[tokio::test]
async fn the_list_of_what_is_here_is_the_union_of_all_imports() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web("1.0.0");
    let db = app("db", "3.0.0", "registry.example.com/db:3");
    let both = [&web, &db];
    for (hours, carried) in [(5, &web), (4, &db), (3, &web)] {
        let bundle = publisher.bundle(hours_ago(hours), &both, &[carried]);
        site.import(&publisher, &bundle).await.unwrap();
    }
    assert_eq!(site.carried(URL).await, ["db 3.0.0", "web 1.0.0"]);
}

//! Who may move a tag, end to end.

use kubepkg_importer::Trusted;

use super::site::{App, Publisher, Site, URL, app, hours_ago, into};

const WEB: &str = "registry.example.com/web";

fn web(name: &str, version: &str) -> App {
    app(name, version, &format!("{WEB}:1"))
}

/// Whether the image is in the repository, whatever tags say.
async fn is_there(site: &Site, app: &App) -> bool {
    let names = site.names().await;
    let repository = &names.repositories[WEB];
    repository.manifests.contains_key(&app.digest()) && site.content(&app.digest()).await.is_some()
}

#[tokio::test]
async fn another_repository_cannot_take_a_tag() {
    let ours = Publisher::new(URL);
    let theirs = Publisher::new("https://other.example.com/index.yaml");
    let site = Site::new();
    let first = web("web", "1.0.0");
    site.import(&ours, &ours.bundle(hours_ago(3), &[&first], &[&first]))
        .await
        .unwrap();
    // the same name of a package, and a higher version
    let second = web("web", "9.0.0");
    let bundle = theirs.bundle(hours_ago(2), &[&second], &[&second]);
    let imported = site.import(&theirs, &bundle).await.unwrap();
    assert_eq!(site.tag(WEB, "1").await, Some(first.digest()));
    assert!(is_there(&site, &second).await);
    let said = imported.receipt.warnings.join("\n");
    assert!(
        said.contains(&format!("tag {WEB}:1 is left alone")),
        "{said}"
    );
    assert!(said.contains("belongs to package web"), "{said}");
    assert!(
        said.contains(&format!("by digest {}", second.digest())),
        "{said}"
    );
    // the receipt keeps what was said
    assert_eq!(site.names().await.sequence, 2);
}

#[tokio::test]
async fn another_package_of_the_same_repository_cannot_take_a_tag() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let (first, second) = (web("web", "1.0.0"), web("web-fork", "2.0.0"));
    let bundle = publisher.bundle(hours_ago(3), &[&first, &second], &[&first]);
    site.import(&publisher, &bundle).await.unwrap();
    let bundle = publisher.bundle(hours_ago(2), &[&first, &second], &[&second]);
    let imported = site.import(&publisher, &bundle).await.unwrap();
    assert_eq!(site.tag(WEB, "1").await, Some(first.digest()));
    assert!(is_there(&site, &second).await);
    assert!(
        imported
            .receipt
            .warnings
            .iter()
            .any(|w| w.contains("is left alone"))
    );
}

#[tokio::test]
async fn a_newer_version_takes_the_tag_and_an_older_one_does_not_take_it_back() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let (old, new) = (web("web", "1.9.0"), web("web", "1.10.0"));
    let listed = [&old, &new];
    let import = async |hours, carried: &App| {
        let bundle = publisher.bundle(hours_ago(hours), &listed, &[carried]);
        site.import(&publisher, &bundle).await.unwrap()
    };
    import(5, &old).await;
    assert_eq!(site.tag(WEB, "1").await, Some(old.digest()));
    let imported = import(4, &new).await;
    assert_eq!(site.tag(WEB, "1").await, Some(new.digest()));
    assert!(
        imported.receipt.warnings.is_empty(),
        "{:?}",
        imported.receipt.warnings
    );
    // under a newer index, so that it is the version alone that decides
    let imported = import(3, &old).await;
    assert_eq!(site.tag(WEB, "1").await, Some(new.digest()));
    assert!(is_there(&site, &old).await);
    let said = imported.receipt.warnings.join("\n");
    assert!(said.contains("set by the newer web 1.10.0"), "{said}");
    // unless that is what the site wants
    let trusted = Trusted {
        allow_tag_back: true,
        ..publisher.trusted()
    };
    let bundle = site.carry(&publisher.bundle(hours_ago(2), &listed, &[&old]));
    let imported = into(&site.store(), &bundle, &trusted).await.unwrap();
    assert!(
        imported.receipt.warnings.is_empty(),
        "{:?}",
        imported.receipt.warnings
    );
    assert_eq!(site.tag(WEB, "1").await, Some(old.digest()));
}

#[tokio::test]
async fn a_first_bundle_decides_when_nobody_was_there() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let first = web("web", "1.0.0");
    let bundle = publisher.bundle(hours_ago(3), &[&first], &[&first]);
    site.import(&publisher, &bundle).await.unwrap();
    let names = site.names().await;
    let tag = &names.repositories[WEB].tags["1"];
    let origin = tag.origin.as_ref().unwrap();
    assert_eq!(
        (origin.package.as_str(), origin.version.as_str()),
        ("web", "1.0.0")
    );
}

//! Each test is named after the attack it stops.

use kubepkg_core::carried::Carried;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::store::{Batch, Cause, Change, SiteFile, Store as _};
use kubepkg_core::trust::{Given, TrustError};
use kubepkg_core::{Digest, Kind, error::Classify as _};
use kubepkg_importer::{ImportError, Imported, Trusted};

use super::site::{App, Publisher, Site, URL, app, hours_ago, into, now};

fn web(version: &str) -> App {
    app("web", version, "registry.example.com/web:stable")
}

/// Checks that nothing came in, and gives the reason.
fn reason(result: Result<Imported, ImportError>) -> TrustError {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused, "{error}");
    assert!(error.hint().is_some(), "{error}");
    match error {
        ImportError::Trust { source, .. } => *source,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn another_spelling_of_the_url_brings_no_old_index_in() {
    let mut publisher = Publisher::new(URL);
    let site = Site::new();
    let (old, new) = (web("1.0.0"), web("1.1.0"));
    let newer = publisher.bundle(hours_ago(1), &[&new], &[&new]);
    site.import(&publisher, &newer).await.unwrap();
    let before = site.files();
    let spelled = "HTTPS://packages.example.com:443/%73t%61ble/index%2Eyaml";
    publisher = publisher.said_to_be_at(spelled);
    // it is an old bundle of the one repository, with a version withdrawn since
    let older = publisher.bundle(hours_ago(2), &[&old], &[&old]);
    let error = reason(site.import(&publisher, &older).await);
    assert!(matches!(error, TrustError::NotListed { .. }), "{error}");
    assert_eq!(site.files(), before);
}

#[tokio::test]
async fn another_url_brings_no_old_index_in() {
    let mut publisher = Publisher::new(URL);
    let site = Site::new();
    let (old, new) = (web("1.0.0"), web("1.1.0"));
    let newer = publisher.bundle(hours_ago(1), &[&new], &[&new]);
    site.import(&publisher, &newer).await.unwrap();
    let before = site.files();
    publisher = publisher.said_to_be_at("https://elsewhere.example.com/index.yaml");
    let older = publisher.bundle(hours_ago(2), &[&old], &[&old]);
    let error = reason(site.import(&publisher, &older).await);
    assert!(matches!(error, TrustError::KnownKey { .. }), "{error}");
    assert_eq!(site.files(), before);
}

#[tokio::test]
async fn a_site_does_not_cover_another_at_its_place() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web("1.0.0");
    let bundle = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    site.import(&publisher, &bundle).await.unwrap();
    let before = site.files();
    let other = Publisher::new("http://packages.example.com/stable/index.yaml");
    let bundle = other.bundle(hours_ago(1), &[&web], &[&web]);
    let error = reason(site.import(&other, &bundle).await);
    assert!(matches!(error, TrustError::SitesMeet { .. }), "{error}");
    assert_eq!(site.files(), before);
}

#[tokio::test]
async fn consent_to_unsigned_indexes_does_not_pass_a_signature_nobody_checks() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web("1.0.0");
    let unsigned = Trusted {
        given: Given {
            allow_unsigned: true,
            ..Given::default()
        },
        ..Trusted::default()
    };
    let mut forge = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    let result = into(&site.store(), &site.carry(&forge), &unsigned).await;
    assert!(matches!(reason(result), TrustError::KeyWanted { .. }));
    // nor does an index without one replace what was accepted under a key
    site.import(&publisher, &forge).await.unwrap();
    let before = site.files();
    let index = Publisher::index(hours_ago(0), &[&web]);
    forge.repository(URL, &[("index.yaml", &index)]);
    let result = into(&site.store(), &site.carry(&forge), &unsigned).await;
    // the store knows whose signature there must be
    assert!(matches!(reason(result), TrustError::Unsigned { .. }));
    assert_eq!(site.files(), before);
}

#[tokio::test]
async fn nobody_adds_or_strips_files_beside_an_accepted_index() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web("1.0.0");
    let forge = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    let index = Publisher::index(hours_ago(1), &[&web]);
    let root = b"signed: {version: 1}\nsignatures: []\n";
    let signature = &forge.content[&forge.head.repositories[0].files[1].digest];
    let mut with_root = forge.clone();
    let files: [(&str, &[u8]); 4] = [
        ("index.yaml", &index),
        ("index.yaml.sig", signature),
        ("root.yaml", root),
        ("root/1.yaml", root),
    ];
    with_root.repository(URL, &files);
    // roots that nobody judged are not published, first or later
    for order in [[&with_root, &forge], [&forge, &with_root]] {
        let site = Site::new();
        site.import(&publisher, order[0]).await.unwrap();
        let before = site.files();
        let again = site.import(&publisher, order[1]).await.unwrap();
        assert_eq!(again.commit, None);
        assert_eq!(site.files(), before);
        assert_eq!(site.published(URL, "root.yaml").await, None);
        assert_eq!(site.published(URL, "root/1.yaml").await, None);
    }
    site.import(&publisher, &forge).await.unwrap();
    assert!(site.published(URL, "index.yaml.sig").await.is_some());
}

#[tokio::test]
async fn the_list_drops_what_the_accepted_index_lists_no_more() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let (old, new) = (web("1.0.0"), web("1.1.0"));
    let bundle = publisher.bundle(hours_ago(3), &[&old], &[&old]);
    site.import(&publisher, &bundle).await.unwrap();
    let bundle = publisher.bundle(hours_ago(2), &[&old, &new], &[&new]);
    site.import(&publisher, &bundle).await.unwrap();
    assert_eq!(site.carried(URL).await, ["web 1.0.0", "web 1.1.0"]);
    let bundle = publisher.bundle(hours_ago(1), &[&new], &[&new]);
    site.import(&publisher, &bundle).await.unwrap();
    assert_eq!(site.carried(URL).await, ["web 1.1.0"]);
}

#[tokio::test]
async fn a_damaged_list_is_not_begun_anew() {
    let publisher = Publisher::new(URL);
    let url: CanonicalUrl = URL.parse().unwrap();
    let elsewhere = Carried::new("https://x.example.com/index.yaml".parse().unwrap());
    for list in [b"{".to_vec(), elsewhere.to_bytes()] {
        let site = Site::new();
        let web = web("1.0.0");
        let bundle = publisher.bundle(hours_ago(2), &[&web], &[&web]);
        site.import(&publisher, &bundle).await.unwrap();
        let store = site.store();
        let mut entry = store.site(&url.folder()).await.unwrap().unwrap();
        let file = SiteFile {
            digest: Digest::sha256(&list),
            size: list.len() as u64,
        };
        let body = kubepkg_core::store::Body::Bytes(list.into());
        let staged = store.stage(file.digest, file.size, body).await.unwrap();
        store.publish(vec![staged]).await.unwrap();
        entry.files.insert("carried.json".to_owned(), file);
        let batch = Batch {
            at: now(),
            cause: Cause::Push,
            changes: vec![Change::Site {
                folder: url.folder(),
                new: Some(entry),
            }],
        };
        let expected = store.sequence().await.unwrap();
        store.commit(expected, batch).await.unwrap();
        let before = site.files();
        let bundle = publisher.bundle(hours_ago(1), &[&web], &[&web]);
        let error = site.import(&publisher, &bundle).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Failed, "{error}");
        let place = error.place().unwrap_or_default();
        assert!(place.contains("carried.json"), "{error}: {place}");
        assert_eq!(site.files(), before);
    }
}

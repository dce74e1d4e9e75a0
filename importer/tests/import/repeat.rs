//! The same file again, receipts, and stores that lost something.

use kubepkg_core::error::Classify as _;
use kubepkg_core::store::{Batch, Cause, Change, Store as _};
use kubepkg_core::trust::{Anchor, Entry, TrustError};
use kubepkg_core::{Digest, Kind};
use kubepkg_importer::ImportError;

use super::site::{Publisher, Site, URL, app, hours_ago, now};

#[tokio::test]
async fn a_second_import_of_a_file_changes_nothing() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = app("web", "1.0.0", "registry.example.com/web:1");
    let bundle = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    let first = site.import(&publisher, &bundle).await.unwrap();
    assert_eq!(first.commit, Some(1));
    let before = site.files();
    let second = site.import(&publisher, &bundle).await.unwrap();
    assert_eq!(second.commit, None);
    assert_eq!(second.receipt.new_bytes, 0);
    assert_eq!(site.files(), before);
}

#[tokio::test]
async fn the_receipt_says_what_came_in() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = app("web", "1.0.0", "registry.example.com/web:1");
    let forge = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    let bundle = site.carry(&forge);
    let imported = site.import(&publisher, &forge).await.unwrap();
    let record = site.store().record(1).await.unwrap().unwrap();
    assert_eq!(record.at, now());
    let Cause::Import(receipt) = record.cause else {
        panic!("an import leaves a receipt");
    };
    assert_eq!(*receipt, imported.receipt);
    assert_eq!(receipt.bundle, bundle.id().to_string());
    assert_eq!(receipt.size, bundle.layout().len());
    let index = &forge.head.repositories[0].files[0];
    let [repository] = receipt.repositories.as_slice() else {
        panic!("{:?}", receipt.repositories);
    };
    assert_eq!(repository.url, URL);
    assert_eq!(repository.digest, index.digest);
    assert_eq!(repository.generated, Some(hours_ago(1)));
    let keys = publisher.trusted().given.keys;
    assert_eq!(repository.signed_by, [keys[0].id().to_string()]);
    let [package] = receipt.packages.as_slice() else {
        panic!("{:?}", receipt.packages);
    };
    assert_eq!(
        (package.name.as_str(), package.version.as_str()),
        ("web", "1.0.0")
    );
    assert_eq!(package.digest, web.package.source().spec.digest());
    assert_eq!(receipt.counts["images"], 1);
    assert_eq!(receipt.counts["blobs"], 3);
    let payload: u64 = bundle.layout().payload().iter().map(|m| m.size).sum();
    assert_eq!(receipt.new_bytes, payload);
}

#[tokio::test]
async fn content_that_was_there_is_not_counted_as_new() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = app("web", "1.0.0", "registry.example.com/web:1");
    let db = app("db", "1.0.0", "registry.example.com/db:1");
    let first = publisher.bundle(hours_ago(2), &[&web, &db], &[&web]);
    site.import(&publisher, &first).await.unwrap();
    let both = publisher.bundle(hours_ago(1), &[&web, &db], &[&web, &db]);
    let imported = site.import(&publisher, &both).await.unwrap();
    let files = &both.head.repositories[0].files;
    let index: u64 = files.iter().map(|file| file.size).sum();
    assert_eq!(imported.receipt.new_bytes, index + db.image.content.size());
}

#[tokio::test]
async fn an_import_heals_a_store_that_lost_content() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = app("web", "1.0.0", "registry.example.com/web:1");
    let forge = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    site.import(&publisher, &forge).await.unwrap();
    let before = site.files();
    let digests: Vec<Digest> = forge.content.keys().copied().collect();
    for digest in &digests {
        let hex = digest.hex();
        let file = site
            .store_folder()
            .join("blobs/sha256")
            .join(&hex[..2])
            .join(&hex);
        std::fs::remove_file(file).unwrap();
        assert!(site.content(digest).await.is_none());
    }
    let imported = site.import(&publisher, &forge).await.unwrap();
    assert_eq!(imported.commit, None, "no name has changed");
    let lost: usize = forge.content.values().map(Vec::len).sum();
    assert_eq!(imported.receipt.new_bytes, lost as u64);
    assert_eq!(site.files(), before);
    for digest in &digests {
        assert_eq!(site.content(digest).await.unwrap(), forge.content[digest]);
    }
}

/// A store that remembers `memory` for the repository of `publisher`, whatever that is.
async fn remembering(site: &Site, publisher: &Publisher, memory: serde_json::Value) {
    let url = publisher.url.parse().unwrap();
    let batch = Batch {
        at: now(),
        cause: Cause::Push,
        changes: vec![Change::Trust {
            entry: Entry::new(url, Anchor::Unsigned).id,
            new: Some(memory),
        }],
    };
    let store = site.store();
    let expected = store.sequence().await.unwrap();
    store.commit(expected, batch).await.unwrap();
}

#[tokio::test]
async fn a_memory_that_is_not_understood_is_not_taken_for_none() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = app("web", "1.0.0", "registry.example.com/web:1");
    let forge = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    remembering(&site, &publisher, serde_json::json!({"later": "version"})).await;
    let before = site.files();
    let error = site.import(&publisher, &forge).await.unwrap_err();
    assert!(matches!(error, ImportError::Memory { .. }), "{error}");
    assert_eq!(error.place().as_deref(), Some(URL));
    assert!(error.hint().unwrap().contains("backup"));
    assert_eq!(site.files(), before);
}

#[tokio::test]
async fn a_memory_of_another_repository_is_not_used() {
    let site = Site::new();
    let other = Publisher::new("https://other.example.com/index.yaml");
    let web = app("web", "1.0.0", "registry.example.com/web:1");
    let bundle = other.bundle(hours_ago(2), &[&web], &[&web]);
    site.import(&other, &bundle).await.unwrap();
    let id = Entry::new(other.url.parse().unwrap(), Anchor::Unsigned).id;
    let memory = site.names().await.trust.remove(&id).unwrap();
    let publisher = Publisher::new(URL);
    remembering(&site, &publisher, memory).await;
    let before = site.files();
    let forge = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    let error = site.import(&publisher, &forge).await.unwrap_err();
    let ImportError::Trust { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(
        matches!(**source, TrustError::OtherMemory { .. }),
        "{error}"
    );
    assert_eq!(error.kind(), Kind::Refused);
    assert!(error.to_string().contains(&other.url), "{error}");
    assert_eq!(site.files(), before);
}

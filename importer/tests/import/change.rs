//! Changes of trust, and what a store knows over all its entries.

use kubepkg_core::store::{Batch, Cause, Change, Store as _};
use kubepkg_core::trust::{Anchor, Entry, Given, KNOWN_ID, KeySet, Memory, TrustError, entry_id};
use kubepkg_core::{Kind, error::Classify as _};
use kubepkg_importer::{ImportError, Imported, Trusted, reset};

use super::site::{App, Publisher, Site, URL, app, hours_ago, into, now};

const OTHER: &str = "https://other.example.com/index.yaml";

fn web(version: &str) -> App {
    app("web", version, "registry.example.com/web:stable")
}

fn reason(result: Result<Imported, ImportError>) -> TrustError {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused, "{error}");
    assert!(error.hint().is_some(), "{error}");
    match error {
        ImportError::Trust { source, .. } => *source,
        other => panic!("{other}"),
    }
}

async fn record(site: &Site, id: &str) -> Option<Memory> {
    let json = site.store().trust(id).await.unwrap()?;
    Some(Memory::from_value(&json).unwrap())
}

/// An entry that trusts the publisher's key, and those of `more`.
fn entry(publisher: &Publisher, more: &[&Publisher]) -> Entry {
    let keys = std::iter::once(&publisher)
        .chain(more)
        .flat_map(|publisher| publisher.trusted().given.keys);
    Entry::new(
        publisher.url.parse().unwrap(),
        Anchor::any_of(keys.collect()),
    )
}

fn trusting(entry: Entry, change_trust: bool) -> Trusted {
    Trusted {
        given: Given {
            entries: vec![entry],
            ..Given::default()
        },
        change_trust,
        ..Trusted::default()
    }
}

async fn put(site: &Site, id: &str, new: Option<serde_json::Value>) {
    let store = site.store();
    let batch = Batch {
        at: now(),
        cause: Cause::Push,
        changes: vec![Change::Trust {
            entry: id.to_owned(),
            new,
        }],
    };
    let expected = store.sequence().await.unwrap();
    store.commit(expected, batch).await.unwrap();
}

#[tokio::test]
async fn a_change_of_trust_holds_also_when_the_bundle_is_old() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let (old, new) = (web("1.0.0"), web("1.1.0"));
    let older = publisher.bundle(hours_ago(2), &[&old], &[&old]);
    let newer = publisher.bundle(hours_ago(1), &[&old, &new], &[&new]);
    site.import(&publisher, &newer).await.unwrap();
    let id = entry_id(&URL.parse().unwrap());
    let accepted = record(&site, &id).await.unwrap().accepted;
    let second = Publisher::new(URL);
    for bundle in [&older, &newer] {
        // to two keys, and back to one
        let change = match record(&site, &id)
            .await
            .unwrap()
            .trust
            .unwrap()
            .anchor
            .keys()
            .len()
        {
            1 => entry(&publisher, &[&second]),
            _ => entry(&publisher, &[]),
        };
        let trusted = trusting(change.clone(), true);
        let carried = site.carry(bundle);
        let imported = into(&site.store(), &carried, &trusted).await.unwrap();
        assert!(imported.commit.is_some());
        let said = format!("trust in {URL} changed: keys from 1 of (");
        let warnings = &imported.receipt.warnings;
        assert!(
            warnings.iter().any(|w| w.starts_with(&said)),
            "{warnings:?}"
        );
        let record = record(&site, &id).await.unwrap();
        assert!(record.trust.unwrap().same_trust(&change));
        assert_eq!(record.accepted, accepted);
        let again = into(&site.store(), &carried, &trusted).await.unwrap();
        assert_eq!(again.commit, None);
    }
    // a change to keys that the accepted index is not signed by does not pass
    let before = site.files();
    let keys = second.trusted().given.keys;
    let other = Entry::new(
        URL.parse().unwrap(),
        Anchor::Keys(KeySet::new(keys, 1).unwrap()),
    );
    let by_other = second.bundle(hours_ago(2), &[&old], &[&old]);
    let result = into(
        &site.store(),
        &site.carry(&by_other),
        &trusting(other, true),
    )
    .await;
    let error = result.unwrap_err();
    assert!(matches!(error, ImportError::Accepted { .. }), "{error}");
    assert_eq!(site.files(), before);
}

#[tokio::test]
async fn a_change_of_trust_as_of_another_time_is_refused() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web("1.0.0");
    let bundle = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    let mut trusted = publisher.trusted();
    trusted.change_trust = true;
    trusted.as_of = Some(hours_ago(1));
    let error = into(&site.store(), &site.carry(&bundle), &trusted).await;
    assert_eq!(error.unwrap_err().kind(), Kind::Usage);
}

#[tokio::test]
async fn an_entry_of_a_trust_file_takes_the_memory_of_its_url_over() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let (old, new) = (web("1.0.0"), web("1.1.0"));
    let older = publisher.bundle(hours_ago(2), &[&old], &[&old]);
    let newer = publisher.bundle(hours_ago(1), &[&new], &[&new]);
    site.import(&publisher, &newer).await.unwrap();
    let mut named = entry(&publisher, &[]);
    let derived = std::mem::replace(&mut named.id, "main".to_owned());
    let accepted = record(&site, &derived).await.unwrap().accepted;
    let carried = site.carry(&newer);
    let refused = into(&site.store(), &carried, &trusting(named.clone(), false)).await;
    let error = reason(refused);
    assert!(matches!(error, TrustError::OtherTrust { .. }), "{error}");
    let imported = into(&site.store(), &carried, &trusting(named, true)).await;
    let warnings = imported.unwrap().receipt.warnings;
    let said = format!("trust in {URL} changed: id from {derived} to main");
    assert!(warnings.contains(&said), "{warnings:?}");
    assert_eq!(record(&site, &derived).await, None);
    assert_eq!(record(&site, "main").await.unwrap().accepted, accepted);
    // the old index is still known to be old, with flags and without
    for trusted in [publisher.trusted(), Trusted::default()] {
        let result = into(&site.store(), &site.carry(&older), &trusted).await;
        let error = reason(result);
        assert!(matches!(error, TrustError::NotListed { .. }), "{error}");
    }
}

#[tokio::test]
async fn an_index_by_a_shared_key_does_not_follow_another_repositorys() {
    let (a, b) = (Publisher::new(URL), Publisher::new(OTHER));
    let site = Site::new();
    let (one, two) = (web("1.0.0"), web("1.1.0"));
    // A trusts the key of B as well, and has not used it yet
    let of_a = a.bundle(hours_ago(4), &[&one], &[&one]);
    let both = trusting(entry(&a, &[&b]), false);
    let of_b = b.bundle(hours_ago(3), &[&one], &[&one]);
    // in either order: what is known of the first keeps the second out
    into(&site.store(), &site.carry(&of_a), &both)
        .await
        .unwrap();
    let error = reason(site.import(&b, &of_b).await);
    assert!(matches!(error, TrustError::KnownKey { .. }), "{error}");
    let site = Site::new();
    site.import(&b, &of_b).await.unwrap();
    let error = reason(into(&site.store(), &site.carry(&of_a), &both).await);
    assert!(matches!(error, TrustError::KnownKey { .. }), "{error}");
    // one key of A is replaced by that of B, and B gets what A's publisher signed with it
    let site = Site::new();
    site.import(&a, &of_a).await.unwrap();
    let imported = site.import(&b, &of_b).await.unwrap();
    let warnings = imported.receipt.warnings;
    let said = format!("this store sees {OTHER} for the first time");
    assert!(
        warnings.iter().any(|w| w.starts_with(&said)),
        "{warnings:?}"
    );
    let next = b.bundle(hours_ago(2), &[&two], &[&two]);
    let change = trusting(entry(&b, &[&a]), true);
    let error = reason(into(&site.store(), &site.carry(&next), &change).await);
    assert!(matches!(error, TrustError::KnownKey { .. }), "{error}");
}

#[tokio::test]
async fn a_record_that_is_gone_is_not_a_repository_never_seen() {
    let mut publisher = Publisher::new(URL);
    let site = Site::new();
    let (old, new) = (web("1.0.0"), web("1.1.0"));
    let older = publisher.bundle(hours_ago(2), &[&old], &[&old]);
    let newer = publisher.bundle(hours_ago(1), &[&new], &[&new]);
    site.import(&publisher, &newer).await.unwrap();
    let id = entry_id(&URL.parse().unwrap());
    for damage in [None, Some(serde_json::json!({"entry": 1}))] {
        put(&site, &id, damage.clone()).await;
        let error = site.import(&publisher, &older).await.unwrap_err();
        match damage {
            None => assert!(error.hint().unwrap().contains(&id), "{error}"),
            Some(_) => assert!(matches!(error, ImportError::Memory { .. }), "{error}"),
        }
        // somebody asks for it
        assert!(reset(&site.store(), &id, now()).await.unwrap().is_some());
        assert_eq!(reset(&site.store(), &id, now()).await.unwrap(), None);
        // its keys stay known
        publisher = publisher.said_to_be_at(OTHER);
        let elsewhere = publisher.bundle(hours_ago(2), &[&old], &[&old]);
        let error = reason(site.import(&publisher, &elsewhere).await);
        publisher = publisher.said_to_be_at(URL);
        assert!(matches!(error, TrustError::KnownKey { .. }), "{error}");
        site.import(&publisher, &newer).await.unwrap();
    }
    let error = reset(&site.store(), KNOWN_ID, now()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
}

//! Repositories with a root, and what trust entries ask, from bundle to bundle in one store.

use kubepkg_core::bundle::{Bundle, Signatures};
use kubepkg_core::index::Index;
use kubepkg_core::keys::{PrivateKey, PublicKey};
use kubepkg_core::store::{Cause, Store as _};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{
    Anchor, Entry, Given, KeySet, Memory, Root, RootChange, RootDraft, TrustError, numbered,
    sign_index,
};
use kubepkg_core::{Kind, error::Classify as _};
use kubepkg_importer::{ImportError, Imported, Trusted, Want, reset};
use kubepkg_test_support::{Forge, Package};

use super::site::{App, Site, URL, app, hours_ago, into, now};

fn web(version: &str) -> App {
    app("web", version, "registry.example.com/web:stable")
}

fn public(key: &PrivateKey) -> PublicKey {
    key.public().unwrap()
}

/// A publisher with a root of one key and another one for its index.
struct Publisher {
    root: PrivateKey,
    index: PrivateKey,
    chain: Vec<Root>,
}

impl Publisher {
    fn new() -> Publisher {
        let key = || PrivateKey::generate().unwrap();
        let (root, index) = (key(), key());
        let mut first = Root::first(&RootDraft {
            expires: now().plus(365 * 86_400),
            root: (vec![public(&root)], 1),
            index: (vec![public(&index)], 1),
            approvals: None,
            delegations: Vec::new(),
        })
        .unwrap();
        first.sign(&root).unwrap();
        Publisher {
            root,
            index,
            chain: vec![first],
        }
    }

    /// Adds a version of the root that expires so many days from now.
    fn renew(&mut self, days: i64) {
        let change = RootChange::renewed(now().plus(days * 86_400));
        let mut next = self.chain.last().unwrap().next(&change).unwrap();
        next.sign(&self.root).unwrap();
        self.chain.push(next);
    }

    fn entry(&self) -> Entry {
        let keys = KeySet::new([public(&self.root)], 1).unwrap();
        Entry::new(URL.parse().unwrap(), Anchor::Root(keys))
    }

    fn trusted(&self) -> Trusted {
        trusting(self.entry())
    }

    fn bundle(&self, generated: Time, listed: &[&App], carried: &[&App]) -> Forge {
        self.bundle_with(generated, listed, carried, "")
    }

    /// A bundle whose index says something more of its newest version.
    fn bundle_with(&self, generated: Time, listed: &[&App], carried: &[&App], said: &str) -> Forge {
        let packages: Vec<Package> = listed.iter().map(|app| app.package.clone()).collect();
        let expires = Some(generated.plus(30 * 86_400));
        let index = kubepkg_test_support::package::index(&packages, generated, expires);
        let index = String::from_utf8(index).unwrap();
        let index = index.replacen("      spec:\n", &format!("{said}      spec:\n"), 1);
        Index::read(index.as_bytes()).unwrap();
        let signature = sign_index(None, index.as_bytes(), &self.index).unwrap();
        let mut files = vec![
            ("index.yaml".to_owned(), index),
            ("index.yaml.sig".to_owned(), signature),
        ];
        for root in &self.chain {
            files.push((numbered(root.version), root.to_yaml()));
        }
        let last = self.chain.last().unwrap().to_yaml();
        files.push(("root.yaml".to_owned(), last));
        files.sort();
        let files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_bytes()))
            .collect();
        let mut forge = Forge::default();
        forge.repository(URL, &files);
        for app in carried {
            forge.package(URL, &app.package);
            let name = &app.package.source().metadata.name;
            forge.image(&app.reference, &app.image, &[name]);
        }
        forge
    }
}

fn trusting(entry: Entry) -> Trusted {
    Trusted {
        given: Given {
            entries: vec![entry],
            ..Given::default()
        },
        ..Trusted::default()
    }
}

async fn import(site: &Site, forge: &Forge, trusted: &Trusted) -> Result<Imported, ImportError> {
    into(&site.store(), &site.carry(forge), trusted).await
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

fn want(result: Result<Imported, ImportError>) -> Want {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused, "{error}");
    assert!(error.hint().is_some(), "{error}");
    let ImportError::InFile { source, .. } = error else {
        panic!("{error}");
    };
    match *source {
        ImportError::Wants(error) => error.problems[0].clone(),
        other => panic!("{other}"),
    }
}

async fn memory(site: &Site) -> Memory {
    let id = Entry::new(URL.parse().unwrap(), Anchor::Unsigned).id;
    let json = site.store().trust(&id).await.unwrap().unwrap();
    Memory::from_value(&json).unwrap()
}

#[tokio::test]
async fn judged_roots_are_published_and_later_imports_need_no_flags() {
    let mut publisher = Publisher::new();
    let site = Site::new();
    let (a, b) = (web("1.0.0"), web("1.1.0"));
    let first = publisher.bundle(hours_ago(3), &[&a], &[&a]);
    let imported = import(&site, &first, &publisher.trusted()).await.unwrap();
    let said = &imported.receipt.repositories[0];
    assert_eq!(said.root, Some(1));
    assert_eq!(said.acceptable_until, Some(hours_ago(3).plus(30 * 86_400)));
    let text = publisher.chain[0].to_yaml().into_bytes();
    for file in ["root.yaml", "root/1.yaml"] {
        assert_eq!(
            site.published(URL, file).await.as_ref(),
            Some(&text),
            "{file}"
        );
    }
    publisher.renew(300);
    let second = publisher.bundle(hours_ago(2), &[&b, &a], &[&b]);
    import(&site, &second, &Trusted::default()).await.unwrap();
    let text = publisher.chain[1].to_yaml().into_bytes();
    for file in ["root.yaml", "root/2.yaml"] {
        assert_eq!(
            site.published(URL, file).await.as_ref(),
            Some(&text),
            "{file}"
        );
    }
    let known = memory(&site).await.accepted.unwrap().root.unwrap();
    assert_eq!((known.version, known.versions.len()), (2, 2));
    // the older bundle, with its older root, is like an older index
    let again = import(&site, &first, &Trusted::default()).await.unwrap();
    assert_eq!(again.commit, None);
    // without a store there is nothing to go by
    let error = import(&Site::new(), &first, &Trusted::default()).await;
    assert_eq!(error.unwrap_err().kind(), Kind::Usage);
}

#[tokio::test]
async fn a_newer_root_beside_the_same_index_is_taken() {
    let mut publisher = Publisher::new();
    let site = Site::new();
    let a = web("1.0.0");
    let first = publisher.bundle(hours_ago(3), &[&a], &[&a]);
    import(&site, &first, &publisher.trusted()).await.unwrap();
    publisher.renew(300);
    let second = publisher.bundle(hours_ago(3), &[&a], &[&a]);
    let imported = import(&site, &second, &Trusted::default()).await.unwrap();
    assert!(imported.commit.is_some());
    let text = publisher.chain[1].to_yaml().into_bytes();
    assert_eq!(site.published(URL, "root.yaml").await, Some(text));
}

#[tokio::test]
async fn a_newer_root_beside_an_older_index_is_taken() {
    let mut publisher = Publisher::new();
    let site = Site::new();
    let (a, b) = (web("1.0.0"), web("1.1.0"));
    let newest = publisher.bundle(hours_ago(2), &[&b, &a], &[&b]);
    import(&site, &newest, &publisher.trusted()).await.unwrap();
    let index = site.published(URL, "index.yaml").await;
    publisher.renew(300);
    let older = publisher.bundle(hours_ago(3), &[&a], &[&a]);
    let imported = import(&site, &older, &Trusted::default()).await.unwrap();
    assert!(imported.commit.is_some());
    let text = publisher.chain[1].to_yaml().into_bytes();
    for file in ["root.yaml", "root/2.yaml"] {
        assert_eq!(
            site.published(URL, file).await.as_ref(),
            Some(&text),
            "{file}"
        );
    }
    assert_eq!(site.published(URL, "index.yaml").await, index);
    let known = memory(&site).await.accepted.unwrap().root.unwrap();
    assert_eq!(known.version, 2);
    let again = import(&site, &older, &Trusted::default()).await.unwrap();
    assert_eq!(again.commit, None);
    // and what is newer goes on from there
    let next = publisher.bundle(hours_ago(1), &[&b, &a], &[&b]);
    import(&site, &next, &Trusted::default()).await.unwrap();
}

#[tokio::test]
async fn signatures_stripped_from_accepted_roots_are_not_published() {
    let mut publisher = Publisher::new();
    let site = Site::new();
    let (a, b) = (web("1.0.0"), web("1.1.0"));
    let first = publisher.bundle(hours_ago(3), &[&a], &[&a]);
    import(&site, &first, &publisher.trusted()).await.unwrap();
    let whole = site.published(URL, "root/1.yaml").await.unwrap();
    let genuine = publisher.chain[0].to_yaml();
    let signed = genuine.find("signed:").unwrap();
    let stripped = format!("{}signatures: []\n", &genuine[signed..]);
    publisher.chain[0] = Root::read(stripped.as_bytes()).unwrap();
    let second = publisher.bundle(hours_ago(2), &[&b, &a], &[&b]);
    import(&site, &second, &Trusted::default()).await.unwrap();
    for file in ["root/1.yaml", "root.yaml"] {
        assert_eq!(
            site.published(URL, file).await.as_ref(),
            Some(&whole),
            "{file}"
        );
    }
    // and who knows nothing yet does not take it
    let error = import(&Site::new(), &second, &publisher.trusted()).await;
    assert!(matches!(reason(error), TrustError::RootUnsigned { .. }));
}

#[tokio::test]
async fn a_forked_root_in_a_later_bundle_stays_out_until_a_reset() {
    let mut publisher = Publisher::new();
    let site = Site::new();
    let (a, b) = (web("1.0.0"), web("1.1.0"));
    publisher.renew(300);
    let first = publisher.bundle(hours_ago(3), &[&a], &[&a]);
    import(&site, &first, &publisher.trusted()).await.unwrap();
    let before = site.files();
    publisher.chain.truncate(1);
    publisher.renew(299);
    let fork = publisher.bundle(hours_ago(2), &[&b, &a], &[&b]);
    let result = import(&site, &fork, &Trusted::default()).await;
    assert!(matches!(
        reason(result),
        TrustError::RootFork { version: 2, .. }
    ));
    assert_eq!(site.files(), before);

    let store = site.store();
    let id = memory(&site).await.entry;
    let number = reset(&store, &id, now()).await.unwrap().unwrap();
    let record = store.record(number).await.unwrap().unwrap();
    assert_eq!(record.cause, Cause::TrustReset { entry: id.clone() });
    assert_eq!(memory(&site).await.accepted, None);
    assert_eq!(reset(&store, &id, now()).await.unwrap(), None);
    assert_eq!(reset(&store, "no-such-entry", now()).await.unwrap(), None);
    drop(store);
    // who is trusted was not forgotten
    import(&site, &fork, &Trusted::default()).await.unwrap();
    let text = publisher.chain[1].to_yaml().into_bytes();
    assert_eq!(site.published(URL, "root/2.yaml").await, Some(text));
}

#[tokio::test]
async fn a_change_of_trust_needs_its_flag() {
    let publisher = Publisher::new();
    let site = Site::new();
    let (a, b) = (web("1.0.0"), web("1.1.0"));
    let first = publisher.bundle(hours_ago(3), &[&a], &[&a]);
    import(&site, &first, &publisher.trusted()).await.unwrap();
    let before = site.files();
    let second = publisher.bundle(hours_ago(2), &[&b, &a], &[&b]);
    // plain keys would be a way round the root
    let mut plain = Trusted {
        given: Given {
            keys: vec![public(&publisher.index)],
            ..Given::default()
        },
        ..Trusted::default()
    };
    let result = import(&site, &second, &plain).await;
    assert!(matches!(reason(result), TrustError::OtherTrust { .. }));
    assert_eq!(site.files(), before);
    plain.change_trust = true;
    import(&site, &second, &plain).await.unwrap();
    let trust = memory(&site).await.trust.unwrap();
    assert!(matches!(trust.anchor, Anchor::Keys(_)));
}

#[tokio::test]
async fn content_from_outside_the_entrys_locations_stays_out() {
    let publisher = Publisher::new();
    let a = web("1.0.0");
    let forge = publisher.bundle(hours_ago(3), &[&a], &[&a]);
    let mut entry = publisher.entry();
    entry.locations = vec!["registry.example.com/we".parse().unwrap()];
    let site = Site::new();
    let found = want(import(&site, &forge, &trusting(entry.clone())).await);
    assert!(matches!(found, Want::Location { .. }), "{found}");
    entry
        .locations
        .push("registry.example.com/web".parse().unwrap());
    import(&site, &forge, &trusting(entry)).await.unwrap();
}

#[tokio::test]
async fn an_image_that_nobody_made_for_a_wanted_platform_is_told_of_and_comes_in() {
    let publisher = Publisher::new();
    let a = web("1.0.0");
    let forge = publisher.bundle(hours_ago(3), &[&a], &[&a]);
    let has = forge.head.images[0]
        .platforms
        .first()
        .map(ToString::to_string);
    let mut entry = publisher.entry();
    entry.platforms = vec!["plan9/mips".to_owned()];
    let imported = import(&Site::new(), &forge, &trusting(entry)).await;
    let receipt = imported.unwrap().receipt;
    let said = receipt.warnings.iter();
    let said = said.filter(|warning| warning.contains("nothing for plan9/mips"));
    // an image that does not say cannot lack one
    assert_eq!(said.count(), usize::from(has.is_some()));
}

#[tokio::test]
async fn a_bundle_nobody_wanted_signed_stays_out() {
    let publisher = Publisher::new();
    let a = web("1.0.0");
    let forge = publisher.bundle(hours_ago(3), &[&a], &[&a]);
    let (carrier, other) = (
        PrivateKey::generate().unwrap(),
        PrivateKey::generate().unwrap(),
    );
    let mut entry = publisher.entry();
    let keys = [public(&carrier), public(&other)];
    entry.bundle_signers = Some(KeySet::new(keys, 2).unwrap());
    let trusted = trusting(entry);
    let site = Site::new();
    let bundle = site.carry(&forge);
    let found = want(into(&site.store(), &bundle, &trusted).await);
    assert!(
        matches!(
            found,
            Want::Signers {
                have: 0,
                need: 2,
                ..
            }
        ),
        "{found}"
    );
    let mut signatures = Signatures::default();
    for (key, have) in [(&carrier, 1), (&other, 2)] {
        signatures.sign(key, &bundle.id()).unwrap();
        let path = bundle.path().unwrap();
        let mut bytes = std::fs::read(path).unwrap();
        let slot = bundle.layout().signatures();
        let (at, len) = (slot.offset as usize, slot.size as usize);
        bytes[at..at + len].copy_from_slice(&signatures.encode().unwrap());
        std::fs::write(path, bytes).unwrap();
        let signed = Bundle::open(path).unwrap();
        let result = into(&site.store(), &signed, &trusted).await;
        match have {
            2 => drop(result.unwrap()),
            have => {
                let found = want(result);
                assert!(matches!(found, Want::Signers { have: n, .. } if n == have));
            }
        }
    }
}

#[tokio::test]
async fn what_was_withdrawn_stays_out_also_when_the_index_forgets_it() {
    let publisher = Publisher::new();
    let site = Site::new();
    let (a, b) = (web("1.0.0"), web("1.1.0"));
    let since = hours_ago(5);
    let said =
        format!("      withdrawn:\n        since: \"{since}\"\n        reason: it loses data\n");
    let first = publisher.bundle_with(hours_ago(4), &[&a], &[&a], &said);
    let found = want(import(&site, &first, &publisher.trusted()).await);
    assert!(matches!(found, Want::Withdrawn { .. }), "{found}");
    assert!(found.to_string().contains("it loses data"), "{found}");
    let mut allowed = publisher.trusted();
    allowed.allow_withdrawn = true;
    let imported = import(&site, &first, &allowed).await.unwrap();
    assert!(
        imported
            .receipt
            .warnings
            .iter()
            .any(|w| w.contains("it loses data"))
    );
    // an older program has merged the index
    let forgetful = publisher.bundle(hours_ago(3), &[&b, &a], &[&a]);
    let found = want(import(&site, &forgetful, &Trusted::default()).await);
    assert!(matches!(found, Want::Withdrawn { .. }), "{found}");
    let other = publisher.bundle(hours_ago(2), &[&b, &a], &[&b]);
    import(&site, &other, &Trusted::default()).await.unwrap();
    assert_eq!(memory(&site).await.accepted.unwrap().withdrawn.len(), 1);
}

#[tokio::test]
async fn what_is_judged_as_of_another_time_brings_content_and_no_memory() {
    let publisher = Publisher::new();
    let site = Site::new();
    let a = web("1.0.0");
    // expired ten days ago
    let old = publisher.bundle(hours_ago(40 * 24), &[&a], &[&a]);
    let result = import(&site, &old, &publisher.trusted()).await;
    assert!(matches!(reason(result), TrustError::Expired { .. }));
    let mut audit = publisher.trusted();
    audit.as_of = Some(hours_ago(20 * 24));
    let imported = import(&site, &old, &audit).await.unwrap();
    assert_eq!(imported.receipt.as_of, audit.as_of);
    let names = site.names().await;
    assert!(names.trust.is_empty(), "{:?}", names.trust);
    assert!(names.sites.is_empty());
    assert_eq!(
        site.tag("registry.example.com/web", "stable").await,
        Some(a.digest())
    );
}

//! Attacks on the chain of roots and on what a root says, and what must still work.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{generated, index, refused, time, url};
use crate::index::signature::Signatures;
use crate::keys::{PrivateKey, PublicKey};
use crate::location::CanonicalUrl;
use crate::trust::*;

const URL: &str = "https://packages.example.com/index.yaml";

fn key() -> PrivateKey {
    PrivateKey::generate().unwrap()
}

fn public(keys: &[&PrivateKey]) -> Vec<PublicKey> {
    keys.iter().map(|key| key.public().unwrap()).collect()
}

fn set(keys: &[&PrivateKey], threshold: i64) -> KeySet {
    KeySet::new(public(keys), threshold).unwrap()
}

/// A publisher with a root of two keys, both of which must sign, and one key for its index.
struct Publisher {
    root: [PrivateKey; 2],
    index: PrivateKey,
    chain: Vec<Root>,
}

impl Publisher {
    fn new() -> Publisher {
        Publisher::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut RootDraft)) -> Publisher {
        let (root, index) = ([key(), key()], key());
        let mut draft = RootDraft {
            expires: time("2027-06-01T00:00:00Z"),
            root: (public(&[&root[0], &root[1]]), 2),
            index: (public(&[&index]), 1),
            approvals: None,
            delegations: Vec::new(),
        };
        change(&mut draft);
        let mut first = Root::first(&draft).unwrap();
        for key in &root {
            first.sign(key).unwrap();
        }
        Publisher {
            root,
            index,
            chain: vec![first],
        }
    }

    /// Adds a version, signed by these keys.
    fn next(&mut self, change: impl FnOnce(&mut RootChange), signers: &[&PrivateKey]) {
        let mut wish = RootChange::renewed(time("2027-06-02T00:00:00Z"));
        change(&mut wish);
        let mut next = self.chain.last().unwrap().next(&wish).unwrap();
        for key in signers {
            next.sign(key).unwrap();
        }
        self.chain.push(next);
    }

    /// Adds a version that changes nothing, signed as it must be.
    fn renew(&mut self) {
        let root = std::mem::replace(&mut self.root, [key(), key()]);
        self.next(|_| {}, &[&root[0], &root[1]]);
        self.root = root;
    }

    fn entry(&self) -> Entry {
        Entry::new(
            url(URL),
            Anchor::Root(set(&[&self.root[0], &self.root[1]], 2)),
        )
    }

    fn roots(&self) -> Roots {
        roots(&self.chain)
    }

    /// An index of this time that expires a year later.
    fn file(at: &str) -> Vec<u8> {
        index(&format!(
            "generated: \"{at}\"\nexpires: \"2028-01-01T00:00:00Z\""
        ))
    }

    fn judge(&self, file: &[u8], memory: Option<&Memory>) -> Result<Verdict, TrustError> {
        self.judge_by(&self.roots(), file, memory)
    }

    fn judge_by(
        &self,
        roots: &Roots,
        file: &[u8],
        memory: Option<&Memory>,
    ) -> Result<Verdict, TrustError> {
        let signature = sign_index(None, file, &self.index).unwrap();
        offer(&self.entry(), file, &signature, roots, memory)
    }
}

fn roots(chain: &[Root]) -> Roots {
    let file = |root: &Root| Bytes::from(root.to_yaml());
    Roots {
        current: chain.last().map(file),
        numbered: chain
            .iter()
            .map(|root| (root.version, file(root)))
            .collect(),
    }
}

fn offer(
    entry: &Entry,
    file: &[u8],
    signature: &str,
    roots: &Roots,
    memory: Option<&Memory>,
) -> Result<Verdict, TrustError> {
    let file = Bytes::copy_from_slice(file);
    let offer = Offer {
        index: &file,
        signature: Some(signature.as_bytes()),
        roots: Some(roots),
        table: None,
    };
    judge(
        entry,
        offer,
        memory,
        Clock::at(time("2027-01-01T00:00:00Z")),
    )
}

const NOW: &str = "2026-12-31T00:00:00Z";

#[test]
fn a_chain_is_followed_and_remembered() {
    let mut publisher = Publisher::new();
    let first = publisher.judge(&Publisher::file(NOW), None).unwrap();
    publisher.renew();
    publisher.renew();
    let third = publisher
        .judge(&Publisher::file(NOW), Some(&first.memory))
        .unwrap();
    assert_eq!(third.standing, Standing::Same);
    let known = third.memory.accepted.clone().unwrap().root.unwrap();
    assert_eq!((known.version, known.versions.len()), (3, 3));
    assert_eq!(third.acceptable_until, Some(time("2027-06-02T00:00:00Z")));
    let again = Memory::from_value(&third.memory.to_value()).unwrap();
    assert_eq!(again, third.memory);
    // from the accepted version on nothing else is needed, and nothing more is looked at
    assert_eq!(first_root(&publisher.entry(), Some(&again)), 3);
    assert_eq!(first_root(&publisher.entry(), None), 1);
    publisher.renew();
    let mut late = publisher.roots();
    late.numbered.retain(|number, _| *number >= 3);
    let fourth = publisher
        .judge_by(&late, &Publisher::file(NOW), Some(&again))
        .unwrap();
    assert_eq!(fourth.root.unwrap().version, 4);
    // but who has accepted nothing needs them all
    let error = refused(publisher.judge_by(&late, &Publisher::file(NOW), None));
    assert!(
        matches!(error, TrustError::RootMissing { number: 1, .. }),
        "{error}"
    );
}

#[test]
fn other_pinned_keys_walk_the_chain_anew() {
    let publisher = Publisher::new();
    let first = publisher.judge(&Publisher::file(NOW), None).unwrap();
    let mut entry = publisher.entry();
    entry.anchor = Anchor::Root(set(&[&key()], 1));
    assert_eq!(first_root(&entry, Some(&first.memory)), 1);
    let file = Publisher::file(NOW);
    let signature = sign_index(None, &file, &publisher.index).unwrap();
    let result = offer(
        &entry,
        &file,
        &signature,
        &publisher.roots(),
        Some(&first.memory),
    );
    assert!(matches!(
        refused(result),
        TrustError::RootUnsigned { have: 0, .. }
    ));
}

#[test]
fn one_key_counted_twice_is_one_signature() {
    let mut publisher = Publisher::new();
    let first = &publisher.chain[0];
    // the same signature under both names, under no name, and twice
    let names = first.root.ids();
    let text = first.to_yaml();
    let own = Root::read(text.as_bytes()).unwrap();
    assert_eq!(own.signed_by(&own.root).len(), 2);
    let by_one = {
        let mut draft = own.next(&RootChange::renewed(own.expires)).unwrap();
        draft.sign(&publisher.root[0]).unwrap();
        draft.to_yaml()
    };
    let sig = by_one.lines().find(|line| line.starts_with("  sig: "));
    let sig = sig.unwrap().trim().to_owned();
    for entries in [
        format!("- keyid: {}\n  {sig}\n", names[1]),
        format!("- keyid: \"\"\n  {sig}\n"),
        format!(
            "- keyid: {}\n  {sig}\n- keyid: {}\n  {sig}\n",
            names[0], names[0]
        ),
    ] {
        let list = format!("signatures:\n{entries}");
        let next = by_one.replacen("signatures:\n", &list, 1);
        let next = Root::read(next.as_bytes()).unwrap();
        assert_eq!(next.signed_by(&next.root).len(), 1, "{entries}");
        publisher.chain.truncate(1);
        publisher.chain.push(next);
        let error = refused(publisher.judge(&Publisher::file(NOW), None));
        assert!(
            matches!(
                error,
                TrustError::RootUnsigned {
                    have: 1,
                    need: 2,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_threshold_is_not_met_by_keys_of_another_role() {
    let mut publisher = Publisher::new();
    let (one, index) = (key(), key());
    let index_key = std::mem::replace(&mut publisher.index, index);
    let root = std::mem::replace(&mut publisher.root, [key(), key()]);
    publisher.next(|_| {}, &[&root[0], &index_key, &one]);
    publisher.root = root;
    publisher.index = index_key;
    let error = refused(publisher.judge(&Publisher::file(NOW), None));
    assert!(
        matches!(
            error,
            TrustError::RootUnsigned {
                have: 1,
                need: 2,
                ..
            }
        ),
        "{error}"
    );
    // nor does a root key sign an index
    publisher.chain.truncate(1);
    let file = Publisher::file(NOW);
    let signature = sign_index(None, &file, &publisher.root[0]).unwrap();
    let result = offer(
        &publisher.entry(),
        &file,
        &signature,
        &publisher.roots(),
        None,
    );
    assert!(matches!(refused(result), TrustError::Untrusted { .. }));
}

#[test]
fn a_root_signed_only_by_new_keys_or_only_by_old_ones_is_refused() {
    for by_old in [true, false] {
        let mut publisher = Publisher::new();
        let new = [key(), key()];
        let change = |wish: &mut RootChange| {
            wish.root.keys = Some(public(&[&new[0], &new[1]]));
        };
        let old = std::mem::replace(&mut publisher.root, [key(), key()]);
        let signers = if by_old { &old } else { &new };
        publisher.next(change, &[&signers[0], &signers[1]]);
        publisher.root = old;
        let error = refused(publisher.judge(&Publisher::file(NOW), None));
        assert!(
            matches!(
                error,
                TrustError::RootUnsigned {
                    version: 2,
                    have: 0,
                    need: 2,
                    ..
                }
            ),
            "{error}"
        );
        // with both it is good
        let mut good = publisher.chain[1].clone();
        [&new, &publisher.root]
            .into_iter()
            .flatten()
            .for_each(|key| drop(good.sign(key)));
        publisher.chain[1] = good;
        publisher.judge(&Publisher::file(NOW), None).unwrap();
    }
}

#[test]
fn a_rollback_of_the_root_is_refused_and_an_ancestor_replaces_nothing() {
    let mut publisher = Publisher::new();
    let old = publisher.roots();
    publisher.renew();
    let memory = publisher.judge(&Publisher::file(NOW), None).unwrap().memory;
    // even with an index that is newer: an index key taken back could have signed it
    let newer = Publisher::file("2026-12-31T12:00:00Z");
    let verdict = publisher.judge_by(&old, &newer, Some(&memory)).unwrap();
    assert_eq!(verdict.standing, Standing::Older);
    assert_eq!(verdict.memory, memory);
    let error = verdict.refuse_older(&publisher.entry()).unwrap_err();
    assert!(matches!(
        error,
        TrustError::RootOlder {
            version: 1,
            accepted: 2,
            ..
        }
    ));
    for date in ["2027-06-01", "2027-06-02"] {
        assert!(error.to_string().contains(date), "{error}");
    }
}

#[test]
fn an_index_dated_ahead_by_a_key_taken_back_does_not_keep_the_old_root_alive() {
    let mut publisher = Publisher::new();
    let stolen = publisher.judge(&Publisher::file("2026-12-31T20:00:00Z"), None);
    let memory = stolen.unwrap().memory;
    // the publisher takes the key back; what it signs now is dated before
    let (root, index) = (
        std::mem::replace(&mut publisher.root, [key(), key()]),
        key(),
    );
    let keys = public(&[&index]);
    let change = |wish: &mut RootChange| wish.index.keys = Some(keys);
    publisher.next(change, &[&root[0], &root[1]]);
    (publisher.root, publisher.index) = (root, index);
    let honest = publisher
        .judge(&Publisher::file(NOW), Some(&memory))
        .unwrap();
    assert_eq!(honest.standing, Standing::Newer);
    let accepted = honest.memory.accepted.unwrap();
    assert_eq!(accepted.root.unwrap().version, 2);
    assert_eq!(accepted.generated, Some(time(NOW)));
}

#[test]
fn a_newer_root_beside_an_older_index_is_remembered() {
    let mut publisher = Publisher::new();
    let first = publisher.judge(&Publisher::file(NOW), None).unwrap();
    let old = publisher.roots();
    publisher.renew();
    let older = Publisher::file("2026-12-30T00:00:00Z");
    let verdict = publisher.judge(&older, Some(&first.memory)).unwrap();
    assert_eq!(verdict.standing, Standing::Older);
    let accepted = verdict.memory.accepted.as_ref().unwrap();
    assert_eq!(accepted.root.as_ref().unwrap().version, 2);
    assert_eq!(accepted.index, first.memory.accepted.unwrap().index);
    // from now on the first root is an old one
    let newer = Publisher::file("2026-12-31T12:00:00Z");
    let again = publisher.judge_by(&old, &newer, Some(&verdict.memory));
    assert_eq!(again.unwrap().standing, Standing::Older);
}

#[test]
fn who_goes_to_keys_and_back_does_not_meet_another_chain() {
    let mut publisher = Publisher::new();
    publisher.renew();
    let file = Publisher::file(NOW);
    let memory = publisher.judge(&file, None).unwrap().memory;
    let keys = Entry::new(url(URL), Anchor::Keys(set(&[&publisher.index], 1)));
    let signature = sign_index(None, &file, &publisher.index).unwrap();
    let by_keys = offer(&keys, &file, &signature, &publisher.roots(), Some(&memory));
    let memory = by_keys.unwrap().memory;
    publisher.chain.truncate(1);
    let keys = public(&[&publisher.index, &key()]);
    let root = std::mem::replace(&mut publisher.root, [key(), key()]);
    let change = |wish: &mut RootChange| wish.index.keys = Some(keys);
    publisher.next(change, &[&root[0], &root[1]]);
    publisher.root = root;
    let error = refused(publisher.judge(&file, Some(&memory)));
    assert!(
        matches!(error, TrustError::RootFork { version: 2, .. }),
        "{error}"
    );
}

#[test]
fn a_fork_at_the_same_version_is_refused_and_both_are_named() {
    let mut publisher = Publisher::new();
    publisher.renew();
    let memory = publisher.judge(&Publisher::file(NOW), None).unwrap().memory;
    let genuine = publisher.chain[1].digest().to_string();
    let other = |publisher: &mut Publisher, at: usize| {
        publisher.chain.truncate(at);
        let root = std::mem::replace(&mut publisher.root, [key(), key()]);
        let later = time("2027-06-03T00:00:00Z");
        publisher.next(|wish| wish.expires = later, &[&root[0], &root[1]]);
        publisher.root = root;
    };
    other(&mut publisher, 1);
    let file = Publisher::file("2026-12-31T12:00:00Z");
    let error = refused(publisher.judge(&file, Some(&memory)));
    assert!(
        matches!(error, TrustError::RootFork { version: 2, .. }),
        "{error}"
    );
    assert!(error.to_string().contains(&genuine), "{error}");
    assert!(error.to_string().contains("2027-06-03"), "{error}");
    assert!(error.to_string().contains("2027-06-02"), "{error}");
    // and one that goes on beyond the accepted version
    publisher.renew();
    let error = refused(publisher.judge(&file, Some(&memory)));
    assert!(
        matches!(error, TrustError::RootFork { version: 2, .. }),
        "{error}"
    );
}

#[test]
fn root_yaml_that_is_not_its_numbered_twin_is_refused() {
    let mut publisher = Publisher::new();
    publisher.renew();
    let mut roots = publisher.roots();
    let text = publisher.chain[1].to_yaml() + "# more\n";
    roots.current = Some(Bytes::from(text));
    let error = refused(publisher.judge_by(&roots, &Publisher::file(NOW), None));
    assert!(
        matches!(error, TrustError::RootTwin { version: 2, .. }),
        "{error}"
    );
    let mut roots = publisher.roots();
    roots.numbered.insert(1, roots.numbered[&2].clone());
    let error = refused(publisher.judge_by(&roots, &Publisher::file(NOW), None));
    assert!(
        matches!(
            error,
            TrustError::RootNumber {
                number: 1,
                found: 2,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_freeze_ends_when_root_or_index_expire() {
    let publisher = Publisher::with(|draft| draft.expires = time("2026-12-31T23:59:59Z"));
    let error = refused(publisher.judge(&Publisher::file(NOW), None));
    assert!(matches!(error, TrustError::RootExpired { .. }), "{error}");
    let publisher = Publisher::with(|draft| draft.expires = time("2027-01-01T00:00:00Z"));
    let verdict = publisher.judge(&Publisher::file(NOW), None).unwrap();
    assert!(matches!(
        verdict.warnings[..],
        [Warning::RootExpiresSoon { .. }]
    ));
    // with a root an index must say how long it is good
    let publisher = Publisher::new();
    let error = refused(publisher.judge(&generated(NOW), None));
    assert!(matches!(error, TrustError::NoExpiry { .. }), "{error}");
    let old = index(&format!("generated: \"{NOW}\"\nexpires: \"{NOW}\""));
    let error = refused(publisher.judge(&old, None));
    assert!(matches!(error, TrustError::Expired { .. }), "{error}");
}

#[test]
fn an_index_and_a_root_of_two_repositories_do_not_mix() {
    let (a, b) = (Publisher::new(), Publisher::new());
    let file = Publisher::file(NOW);
    let signature = sign_index(None, &file, &b.index).unwrap();
    let result = offer(&a.entry(), &file, &signature, &a.roots(), None);
    assert!(matches!(refused(result), TrustError::Untrusted { .. }));
    let result = offer(&a.entry(), &file, &signature, &b.roots(), None);
    assert!(matches!(refused(result), TrustError::RootUnsigned { .. }));
}

#[test]
fn an_entry_with_a_root_never_falls_back_to_keys() {
    let publisher = Publisher::new();
    let file = Publisher::file(NOW);
    let signature = Signatures::write_plain(&publisher.index.sign(&file));
    let none = Roots::default();
    let result = offer(&publisher.entry(), &file, &signature, &none, None);
    assert!(matches!(refused(result), TrustError::NoRoot { .. }));
    // the plain form is one signature like any other
    offer(
        &publisher.entry(),
        &file,
        &signature,
        &publisher.roots(),
        None,
    )
    .unwrap();
}

#[test]
fn a_key_dropped_from_the_index_role_signs_no_more() {
    let mut publisher = Publisher::new();
    let memory = publisher.judge(&Publisher::file(NOW), None).unwrap().memory;
    let new = key();
    let root = std::mem::replace(&mut publisher.root, [key(), key()]);
    let keys = Some(public(&[&new]));
    publisher.next(|wish| wish.index.keys = keys, &[&root[0], &root[1]]);
    publisher.root = root;
    // also the very file that was accepted, whose signature is on record
    for file in [
        Publisher::file("2026-12-31T12:00:00Z"),
        Publisher::file(NOW),
    ] {
        let error = refused(publisher.judge(&file, Some(&memory)));
        assert!(matches!(error, TrustError::Untrusted { .. }), "{error}");
    }
}

#[test]
fn too_many_roots_to_walk_are_not_walked() {
    let publisher = Publisher::new();
    let far = publisher.chain[0]
        .to_yaml()
        .replace("version: 1\n", "version: 100000\n");
    let roots = Roots {
        current: Some(Bytes::from(far.clone())),
        numbered: BTreeMap::from([(100_000, Bytes::from(far))]),
    };
    let error = refused(publisher.judge_by(&roots, &Publisher::file(NOW), None));
    assert!(matches!(error, TrustError::Root { .. }), "{error}");
}

#[test]
fn what_is_judged_as_of_another_time_says_until_when_it_was_good() {
    let publisher = Publisher::new();
    let file = Bytes::from(Publisher::file(NOW));
    let signature = sign_index(None, &file, &publisher.index).unwrap();
    let roots = publisher.roots();
    let offer = Offer {
        index: &file,
        signature: Some(signature.as_bytes()),
        roots: Some(&roots),
        table: None,
    };
    let at = |as_of: Option<&str>, max_age| {
        let clock = Clock {
            as_of: as_of.map(time),
            max_age,
            ..Clock::at(time("2030-01-01T00:00:00Z"))
        };
        judge(&publisher.entry(), offer, None, clock)
    };
    assert!(matches!(
        refused(at(None, None)),
        TrustError::RootExpired { .. }
    ));
    let verdict = at(Some("2027-01-01T00:00:00Z"), None).unwrap();
    assert_eq!(verdict.acceptable_until, Some(time("2027-06-01T00:00:00Z")));
    let verdict = at(Some("2027-01-01T00:00:00Z"), Some(86_400)).unwrap();
    assert_eq!(verdict.acceptable_until, Some(time("2027-01-01T00:00:00Z")));
    let error = refused(at(Some("2027-01-01T00:00:01Z"), Some(86_400)));
    assert!(matches!(error, TrustError::TooOld { .. }), "{error}");
}

#[test]
fn a_reset_keeps_who_is_trusted_and_drops_what_was_accepted() {
    let mut publisher = Publisher::new();
    publisher.renew();
    let entry = publisher.entry();
    let mut remembered = Remembered::default();
    let verdict = publisher.judge(&Publisher::file(NOW), None).unwrap();
    remembered.accept(&entry, &verdict);
    let mut stored = Remembered::decode(&remembered.encode()).unwrap();
    assert_eq!(stored, remembered);
    assert!(stored.reset(&entry.id));
    assert!(!stored.reset(&entry.id));
    let stored = Remembered::decode(&stored.encode()).unwrap();
    assert!(stored.entry(&entry.url).unwrap().same_trust(&entry));
    // what would be a fork begins anew
    publisher.chain.truncate(1);
    let memory = stored.memory(&entry.id);
    let older = publisher
        .judge(&Publisher::file("2026-12-30T00:00:00Z"), memory)
        .unwrap();
    assert_eq!(older.standing, Standing::Newer);
}

#[test]
fn a_record_follows_its_repository_to_another_id() {
    let mut publisher = Publisher::new();
    publisher.renew();
    let entry = publisher.entry();
    let mut remembered = Remembered::default();
    let verdict = publisher.judge(&Publisher::file(NOW), None).unwrap();
    remembered.accept(&entry, &verdict);
    let mut named = entry.clone();
    named.id = "main".to_owned();
    let error = remembered.check_entry(&named, false).unwrap_err();
    assert!(error.to_string().contains("given: main"), "{error}");
    remembered.check_entry(&named, true).unwrap();
    let record = remembered.record(&named).unwrap().into_owned();
    assert_eq!(record.accepted, verdict.memory.accepted);
    assert_eq!(first_root(&named, Some(&record)), 2);
    remembered.keep(record);
    let mut stored = Remembered::decode(&remembered.encode()).unwrap();
    let ids: Vec<&str> = stored.known.entries().map(|(id, _)| id).collect();
    assert_eq!(ids, ["main"]);
    assert_eq!(stored.memories.len(), 1);
    // a record that is lost is not one that never was, until somebody says so
    stored.memories.clear();
    assert_eq!(stored.known.must_have(&entry), Some("main"));
    assert!(stored.reset("main"));
    assert!(!stored.reset("main"));
    assert_eq!(stored.known.must_have(&entry), None);
}

#[test]
fn a_change_of_trust_must_be_meant() {
    let publisher = Publisher::new();
    let entry = publisher.entry();
    let mut remembered = Remembered::default();
    let verdict = publisher.judge(&Publisher::file(NOW), None).unwrap();
    remembered.accept(&entry, &verdict);
    remembered.check_entry(&entry, false).unwrap();
    let mut other = entry.clone();
    other.anchor = Anchor::any_of(public(&[&publisher.index]));
    let error = remembered.check_entry(&other, false).unwrap_err();
    assert!(matches!(error, TrustError::OtherTrust { .. }), "{error}");
    assert!(
        error.to_string().contains("stored keys: a root by 2 of"),
        "{error}"
    );
    remembered.check_entry(&other, true).unwrap();
    // what is given without an id belongs to the entry the repository has
    let mut named = Remembered::default();
    let mut entry = entry;
    entry.id = "main".to_owned();
    let mut verdict = verdict;
    verdict.memory.entry = "main".to_owned();
    verdict.memory.trust = Some(entry.clone());
    named.accept(&entry, &verdict);
    let urls: [CanonicalUrl; 1] = [url(URL)];
    let stored = named.entries(&Given::default(), &urls).unwrap();
    assert_eq!(stored, [entry]);
    let given = Given {
        keys: public(&[&publisher.index]),
        ..Given::default()
    };
    assert_eq!(named.entries(&given, &urls).unwrap()[0].id, "main");
}

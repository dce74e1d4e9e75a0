//! Each test is named after what it stops, or after what must still work.

mod roots;
mod texts;
mod versions;

use bytes::Bytes;

use super::*;
use crate::Digest;
use crate::error::{Classify, Kind};
use crate::index::signature::Signatures;
use crate::keys::{PrivateKey, PublicKey};
use crate::location::CanonicalUrl;
use crate::time::Time;

const URL: &str = "https://packages.example.com/index.yaml";

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

fn url(text: &str) -> CanonicalUrl {
    text.parse().unwrap()
}

fn key() -> (PrivateKey, PublicKey) {
    let private = PrivateKey::generate().unwrap();
    let public = private.public().unwrap();
    (private, public)
}

/// An index without packages and with these top-level members.
fn index(members: &str) -> Vec<u8> {
    format!("apiVersion: kubepkg.dev/v1alpha1\nkind: RepositoryIndex\n{members}\npackages: {{}}\n")
        .into_bytes()
}

fn generated(at: &str) -> Vec<u8> {
    index(&format!("generated: \"{at}\""))
}

/// A publisher with one key, and a site that trusts it.
struct Site {
    private: PrivateKey,
    entry: Entry,
    now: Time,
    memory: Option<Memory>,
}

impl Site {
    fn new() -> Site {
        let (private, public) = key();
        Site {
            private,
            entry: Entry::new(url(URL), Anchor::any_of(vec![public])),
            now: time("2027-01-01T00:00:00Z"),
            memory: None,
        }
    }

    /// Signs `index` and judges it.
    fn judge(&self, index: &[u8]) -> Result<Verdict, TrustError> {
        let signature = Signatures::write_plain(&self.private.sign(index));
        self.judge_with(index, Some(signature.as_bytes()))
    }

    fn judge_with(&self, index: &[u8], signature: Option<&[u8]>) -> Result<Verdict, TrustError> {
        let index = Bytes::copy_from_slice(index);
        let offer = Offer {
            index: &index,
            signature,
            roots: None,
            table: None,
        };
        judge(
            &self.entry,
            offer,
            self.memory.as_ref(),
            Clock::at(self.now),
        )
    }

    /// Accepts `index` and remembers it.
    fn accept(&mut self, index: &[u8]) -> Verdict {
        let verdict = self.judge(index).unwrap();
        self.memory = Some(verdict.memory.clone());
        verdict
    }
}

fn refused(result: Result<Verdict, TrustError>) -> TrustError {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused, "{error}");
    assert!(error.hint().is_some(), "{error}");
    error
}

#[test]
fn a_signed_index_is_accepted_and_remembered() {
    let mut site = Site::new();
    let file = generated("2026-12-31T00:00:00Z");
    let verdict = site.accept(&file);
    assert_eq!(verdict.standing, Standing::Newer);
    assert_eq!(verdict.signed_by, [site.entry.anchor.keys()[0].id()]);
    let accepted = verdict.memory.accepted.unwrap();
    assert_eq!(accepted.index, Digest::sha256(&file));
    assert_eq!(accepted.first_seen, site.now);
    assert!(verdict.warnings.is_empty());

    site.now = site.now.plus(3600);
    let again = site.judge(&file).unwrap();
    assert_eq!(again.standing, Standing::Same);
    assert_eq!(Some(again.memory), site.memory);
}

#[test]
fn a_changed_index_is_refused() {
    let site = Site::new();
    let file = generated("2026-12-31T00:00:00Z");
    let signature = Signatures::write_plain(&site.private.sign(&file));
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 1;
        let result = site.judge_with(&changed, Some(signature.as_bytes()));
        assert!(
            matches!(refused(result), TrustError::Untrusted { .. }),
            "byte {at}"
        );
    }
}

#[test]
fn another_key_is_refused_and_both_keys_are_named() {
    let site = Site::new();
    let (stranger, stranger_public) = key();
    let file = generated("2026-12-31T00:00:00Z");
    let signed = Signatures::write_list(&[(stranger_public.id(), stranger.sign(&file))]);
    let error = refused(site.judge_with(&file, Some(signed.as_bytes())));
    assert_eq!(error.place().as_deref(), Some(URL));
    let error = error.to_string();
    assert!(
        error.contains(&site.entry.anchor.keys()[0].id().to_string()),
        "{error}"
    );
    assert!(error.contains(&stranger_public.id().to_string()), "{error}");
}

#[test]
fn a_trusted_key_id_over_a_strangers_signature_is_refused() {
    let site = Site::new();
    let (stranger, _) = key();
    let file = generated("2026-12-31T00:00:00Z");
    let signed =
        Signatures::write_list(&[(site.entry.anchor.keys()[0].id(), stranger.sign(&file))]);
    let result = site.judge_with(&file, Some(signed.as_bytes()));
    assert!(matches!(refused(result), TrustError::Untrusted { .. }));
}

#[test]
fn any_trusted_key_beside_unknown_ones_is_enough() {
    let mut site = Site::new();
    let (second, second_public) = key();
    let (stranger, stranger_public) = key();
    let both = vec![site.entry.anchor.keys()[0].clone(), second_public.clone()];
    site.entry.anchor = Anchor::any_of(both);
    let file = generated("2026-12-31T00:00:00Z");
    let signed = Signatures::write_list(&[
        (stranger_public.id(), stranger.sign(&file)),
        (second_public.id(), second.sign(&file)),
    ]);
    let verdict = site.judge_with(&file, Some(signed.as_bytes())).unwrap();
    assert_eq!(verdict.signed_by, [second_public.id()]);
}

#[test]
fn a_signature_taken_away_is_refused() {
    let mut site = Site::new();
    let file = generated("2026-12-31T00:00:00Z");
    let error = refused(site.judge_with(&file, None));
    assert!(matches!(error, TrustError::Unsigned { .. }));
    site.entry.anchor = Anchor::Unsigned;
    let verdict = site.judge_with(&file, None).unwrap();
    assert!(verdict.signed_by.is_empty());
    assert!(matches!(verdict.warnings[..], [Warning::Unsigned { .. }]));
}

#[test]
fn a_signature_file_that_is_none_is_refused() {
    let site = Site::new();
    let file = generated("2026-12-31T00:00:00Z");
    let wrong = Signatures::write_plain(&site.private.sign(b"something else"));
    let result = site.judge_with(&file, Some(wrong.as_bytes()));
    assert!(matches!(refused(result), TrustError::Untrusted { .. }));
    for none in [&b"garbage"[..], b"", b"signatures: []\n"] {
        let result = site.judge_with(&file, Some(none));
        assert!(matches!(refused(result), TrustError::Signature { .. }));
    }
}

#[test]
fn unsigned_bytes_never_reach_the_yaml_reader() {
    let site = Site::new();
    let bomb = b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n- [";
    let signature = Signatures::write_plain(&site.private.sign(b"other"));
    let result = site.judge_with(bomb, Some(signature.as_bytes()));
    assert!(matches!(refused(result), TrustError::Untrusted { .. }));
    // what is signed is read, and refused for what it is
    assert!(matches!(
        refused(site.judge(bomb)),
        TrustError::Index { .. }
    ));
}

#[test]
fn an_older_index_does_not_replace_the_accepted_one() {
    let mut site = Site::new();
    site.accept(&generated("2026-12-31T00:00:00Z"));
    let before = site.memory.clone();
    let verdict = site.judge(&generated("2026-12-30T23:59:59Z")).unwrap();
    assert_eq!(verdict.standing, Standing::Older);
    assert_eq!(Some(verdict.memory), before);
}

#[test]
fn an_older_index_is_no_error_even_when_it_has_expired() {
    let mut site = Site::new();
    site.accept(&generated("2026-12-31T00:00:00Z"));
    let old = index("generated: \"2026-12-01T00:00:00Z\"\nexpires: \"2026-12-08T00:00:00Z\"");
    assert_eq!(site.judge(&old).unwrap().standing, Standing::Older);
}

#[test]
fn an_index_without_a_time_cannot_slip_past_the_memory() {
    let mut site = Site::new();
    site.accept(&generated("2026-12-31T00:00:00Z"));
    let error = refused(site.judge(&index("")));
    assert!(matches!(error, TrustError::NoGenerated { .. }));
    assert!(
        error.to_string().contains("2026-12-31T00:00:00Z"),
        "{error}"
    );
}

#[test]
fn an_index_without_a_time_is_warned_of_and_known_again() {
    let mut site = Site::new();
    let verdict = site.accept(&index(""));
    assert!(matches!(
        verdict.warnings[..],
        [Warning::NoGenerated { .. }]
    ));
    assert_eq!(site.judge(&index("")).unwrap().standing, Standing::Same);
    let other = index("expires: \"2030-01-01T00:00:00Z\"");
    assert!(matches!(
        refused(site.judge(&other)),
        TrustError::NoGenerated { .. }
    ));
    let dated = site.judge(&generated("2026-12-31T00:00:00Z")).unwrap();
    assert_eq!(dated.standing, Standing::Newer);
}

#[test]
fn two_indexes_of_one_time_are_a_fork_and_both_digests_are_named() {
    let mut site = Site::new();
    let first = generated("2026-12-31T00:00:00Z");
    let second = index("generated: \"2026-12-31T00:00:00Z\"\nexpires: \"2030-01-01T00:00:00Z\"");
    site.accept(&first);
    let error = refused(site.judge(&second));
    assert!(matches!(error, TrustError::Fork { .. }));
    for file in [first, second] {
        let digest = Digest::sha256(file).to_string();
        assert!(error.to_string().contains(&digest), "{error}");
    }
}

#[test]
fn a_fork_is_known_in_another_spelling_of_the_time() {
    let mut site = Site::new();
    site.accept(&generated("2026-12-31T00:00:00Z"));
    let result = site.judge(&generated("2026-12-31T01:00:00+01:00"));
    assert!(matches!(refused(result), TrustError::Fork { .. }));
}

#[test]
fn an_expired_index_is_refused_with_its_dates() {
    let mut site = Site::new();
    let file = index("generated: \"2026-12-01T00:00:00Z\"\nexpires: \"2027-01-01T00:00:00Z\"");
    site.accept(&file);
    site.now = site.now.plus(1);
    for memory in [site.memory.take(), None] {
        site.memory = memory;
        let error = refused(site.judge(&file));
        assert!(matches!(error, TrustError::Expired { .. }));
        let text = error.to_string();
        assert!(text.contains("2027-01-01T00:00:00Z"), "{text}");
        assert!(text.contains("2027-01-01T00:00:01Z"), "{text}");
    }
}

#[test]
fn a_clock_set_back_does_not_revive_an_expired_index() {
    let mut site = Site::new();
    let later = index("generated: \"2026-12-31T00:00:00Z\"\nexpires: \"2026-12-30T00:00:00Z\"");
    site.memory = Some(Memory {
        entry: site.entry.id.clone(),
        url: site.entry.url.clone(),
        trust: None,
        accepted: Some(Accepted {
            index: Digest::sha256(&later),
            quick: None,
            generated: Some(time("2026-12-31T00:00:00Z")),
            first_seen: time("2026-12-31T00:00:00Z"),
            signed_by: Default::default(),
            signature: None,
            table: None,
            names_url: false,
            root: None,
            withdrawn: Seen::default(),
        }),
    });
    site.now = time("2020-01-01T00:00:00Z");
    assert!(matches!(
        refused(site.judge(&later)),
        TrustError::Expired { .. }
    ));
}

#[test]
fn a_clock_set_back_is_said() {
    let mut site = Site::new();
    let file = generated("2026-12-31T00:00:00Z");
    site.accept(&file);
    site.now = time("2020-01-01T00:00:00Z");
    let verdict = site.judge(&file).unwrap();
    assert!(matches!(
        verdict.warnings[..],
        [Warning::ClockBehind { .. }]
    ));
}

#[test]
fn an_index_from_the_future_cannot_lock_out_later_ones() {
    let mut site = Site::new();
    site.accept(&generated("2027-01-02T00:00:00Z"));
    let error = refused(site.judge(&generated("2027-01-02T00:00:01Z")));
    assert!(matches!(error, TrustError::Future { .. }));
    assert!(
        error.to_string().contains("2027-01-01T00:00:00Z"),
        "{error}"
    );
    site.memory = None;
    let result = site.judge(&generated("9999-01-01T00:00:00Z"));
    assert!(matches!(refused(result), TrustError::Future { .. }));
}

#[test]
fn an_index_about_to_expire_or_old_without_expiry_is_warned_of() {
    let site = Site::new();
    let warnings = |members: &str| site.judge(&index(members)).unwrap().warnings;
    let soon = "generated: \"2026-12-31T00:00:00Z\"\nexpires: \"2027-01-07T23:59:59Z\"";
    assert!(matches!(warnings(soon)[..], [Warning::ExpiresSoon { .. }]));
    let fine = "generated: \"2026-12-31T00:00:00Z\"\nexpires: \"2027-01-08T00:00:00Z\"";
    assert!(warnings(fine).is_empty());
    let old = warnings("generated: \"2026-10-02T23:59:59Z\"");
    assert!(matches!(old[..], [Warning::Old { .. }]));
    assert!(old[0].to_string().contains("90 days"), "{}", old[0]);
    assert!(warnings("generated: \"2026-10-03T00:00:00Z\"").is_empty());
}

#[test]
fn another_repositorys_index_is_refused() {
    let site = Site::new();
    let named = |url: &str| {
        let members = format!("generated: \"2026-12-31T00:00:00Z\"\nrepository: \"{url}\"");
        site.judge(&index(&members))
    };
    assert!(named("https://PACKAGES.example.com:443/index.yaml").is_ok());
    let error = refused(named("https://packages.example.com/testing/index.yaml"));
    assert!(matches!(error, TrustError::OtherRepository { .. }));
    assert!(error.to_string().contains("/testing/index.yaml"), "{error}");
}

#[test]
fn indexes_under_a_shared_key_cannot_be_exchanged() {
    let (_, shared) = key();
    let (_, own) = key();
    let entry = |path: &str, keys: &[&PublicKey]| {
        let url = url(&format!("https://packages.example.com/{path}/index.yaml"));
        let keys = keys.iter().map(|key| (*key).clone()).collect();
        Entry::new(url, Anchor::any_of(keys))
    };
    let mut entries = [
        entry("stable", &[&shared, &shared]),
        entry("testing", &[&own, &shared]),
        entry("third", &[&own]),
        entry("alone", &[&key().1]),
    ];
    mark_shared_keys(&mut entries);
    assert_eq!(
        entries.each_ref().map(|e| e.must_name_url),
        [true, true, true, false]
    );

    let mut site = Site::new();
    site.entry.must_name_url = true;
    let result = site.judge(&generated("2026-12-31T00:00:00Z"));
    assert!(matches!(refused(result), TrustError::NoUrl { .. }));
}

#[test]
fn one_key_given_twice_for_one_repository_is_not_shared() {
    let (_, public) = key();
    let mut entries = [Entry::new(
        url(URL),
        Anchor::any_of(vec![public.clone(), public]),
    )];
    mark_shared_keys(&mut entries);
    assert!(!entries[0].must_name_url);
    assert_eq!(entries[0].anchor.keys().len(), 1);
}

#[test]
fn new_keys_do_not_lose_the_memory() {
    let mut site = Site::new();
    site.accept(&generated("2026-12-31T00:00:00Z"));
    let (private, public) = key();
    site.private = private;
    site.entry = Entry::new(
        url("https://packages.EXAMPLE.com/index.yaml"),
        Anchor::any_of(vec![public]),
    );
    let verdict = site.judge(&generated("2026-12-01T00:00:00Z")).unwrap();
    assert_eq!(verdict.standing, Standing::Older);
}

#[test]
fn the_memory_of_another_repository_is_not_used() {
    let mut site = Site::new();
    site.accept(&generated("2026-12-31T00:00:00Z"));
    site.entry = Entry::new(
        url("https://other.example.com/index.yaml"),
        site.entry.anchor.clone(),
    );
    let result = site.judge(&generated("2026-12-01T00:00:00Z"));
    assert!(matches!(refused(result), TrustError::OtherMemory { .. }));
}

#[test]
fn a_damaged_memory_is_an_error_and_not_no_memory() {
    let mut site = Site::new();
    let memory = site.accept(&generated("2026-12-31T00:00:00Z")).memory;
    let bytes = memory.encode();
    assert_eq!(Memory::decode(&bytes).unwrap(), memory);
    assert_eq!(Memory::from_value(&memory.to_value()).unwrap(), memory);
    let text = String::from_utf8(bytes.clone()).unwrap();
    let damaged = [
        String::new(),
        "null".to_owned(),
        "{}".to_owned(),
        text.replace("2026-12-31", "2026-13-31"),
        text.replace("sha256:", "sha257:"),
        text.replacen('{', "{\"extra\":1,", 1),
        text.replacen('{', "{\"entry\":\"x\",", 1),
        text.clone() + "x",
    ];
    for damaged in damaged {
        let error = Memory::decode(damaged.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), Kind::Refused, "{damaged}");
    }
    for end in 0..text.trim_end().len() {
        assert!(Memory::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    assert!(Memory::from_value(&serde_json::Value::Null).is_err());
    assert!(Memory::decode(&vec![b' '; MAX_MEMORY + 1]).is_err());
}

#[test]
fn consent_to_unsigned_indexes_does_not_pass_a_signature_nobody_checks() {
    let mut site = Site::new();
    site.entry.anchor = Anchor::Unsigned;
    let file = generated("2026-12-31T00:00:00Z");
    let wrong = Signatures::write_plain(&site.private.sign(b"something else"));
    for signature in [wrong.as_bytes(), b"garbage"] {
        let error = refused(site.judge_with(&file, Some(signature)));
        assert!(matches!(error, TrustError::KeyWanted { .. }), "{error}");
        assert!(error.hint().unwrap().contains("--public-key"));
    }
}

#[test]
fn an_unsigned_index_never_replaces_a_signed_one() {
    let mut site = Site::new();
    site.accept(&generated("2026-12-30T00:00:00Z"));
    let keys = site.entry.anchor.keys().to_vec();
    site.entry.anchor = Anchor::Unsigned;
    for at in ["2026-12-29", "2026-12-30", "2026-12-31"] {
        let file = generated(&format!("{at}T00:00:00Z"));
        let error = refused(site.judge_with(&file, None));
        assert!(matches!(error, TrustError::SignedBefore { .. }), "{error}");
        assert!(error.to_string().contains(&keys[0].id().to_string()));
    }
    // the other way round is no loss
    let mut site = Site::new();
    let file = generated("2026-12-30T00:00:00Z");
    let keys = site.entry.anchor.keys().to_vec();
    site.entry.anchor = Anchor::Unsigned;
    site.memory = Some(site.judge_with(&file, None).unwrap().memory);
    site.entry = Entry::new(url(URL), Anchor::any_of(keys.clone()));
    let verdict = site.accept(&file);
    assert_eq!(verdict.standing, Standing::Same);
    assert_eq!(
        verdict.memory.accepted.unwrap().signed_by,
        [keys[0].id()].into_iter().collect()
    );
}

#[test]
fn an_unsigned_index_that_is_not_valid_is_not_called_signed() {
    let mut site = Site::new();
    let signed = refused(site.judge(b"x: [")).to_string();
    assert!(signed.contains("signed but not valid"), "{signed}");
    site.entry.anchor = Anchor::Unsigned;
    let unsigned = refused(site.judge_with(b"x: [", None)).to_string();
    assert!(unsigned.contains("index is not valid"), "{unsigned}");
}

#[test]
fn an_index_that_named_its_url_is_not_followed_by_one_that_does_not() {
    let mut site = Site::new();
    let named = |at: &str| index(&format!("generated: \"{at}\"\nrepository: {URL}"));
    site.accept(&named("2026-12-20T00:00:00Z"));
    let result = site.judge(&generated("2026-12-21T00:00:00Z"));
    let error = refused(result);
    assert!(matches!(error, TrustError::UrlDropped { .. }), "{error}");
    // an older one replaces nothing
    let older = site.judge(&generated("2026-12-19T00:00:00Z")).unwrap();
    assert_eq!(older.standing, Standing::Older);
    site.accept(&named("2026-12-22T00:00:00Z"));
}

#[test]
fn an_old_index_under_another_url_does_not_come_in_as_a_new_repository() {
    let mut site = Site::new();
    let mut known = Known::default();
    let verdict = site.accept(&generated("2026-12-30T00:00:00Z"));
    known.admit(&site.entry, &verdict).unwrap();
    known.note(&site.entry, &verdict);
    let known = Known::from_value(&known.to_value()).unwrap();
    assert_eq!(known.newest(), verdict.memory.accepted.unwrap().generated);

    let other = "https://elsewhere.example.com/index.yaml";
    let trusted = site.entry.anchor.keys()[0].clone();
    site.memory = None;
    site.entry = Entry::new(url(other), Anchor::any_of(vec![trusted.clone()]));
    let old = site.judge(&generated("2026-12-01T00:00:00Z")).unwrap();
    let error = known.admit(&site.entry, &old).unwrap_err();
    assert!(matches!(error, TrustError::KnownKey { .. }), "{error}");
    assert!(error.to_string().contains(URL), "{error}");
    assert!(
        error.to_string().contains(&trusted.id().to_string()),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("repo index --url"));
    // another repository by the same key names itself
    let named = index(&format!(
        "generated: \"2026-12-01T00:00:00Z\"\nrepository: {other}"
    ));
    known
        .admit(&site.entry, &site.judge(&named).unwrap())
        .unwrap();
    // as does one by another key
    let (private, public) = key();
    site.private = private;
    site.entry = Entry::new(url(other), Anchor::any_of(vec![public]));
    let verdict = site.judge(&generated("2026-12-01T00:00:00Z")).unwrap();
    known.admit(&site.entry, &verdict).unwrap();
}

#[test]
fn a_key_that_was_replaced_does_not_bring_old_indexes_in_under_another_url() {
    let mut site = Site::new();
    let mut known = Known::default();
    let verdict = site.accept(&generated("2026-12-01T00:00:00Z"));
    known.note(&site.entry, &verdict);
    let (private, public) = key();
    let old_private = std::mem::replace(&mut site.private, private);
    let new_entry = Entry::new(url(URL), Anchor::any_of(vec![public]));
    let old_entry = std::mem::replace(&mut site.entry, new_entry);
    let old_public = old_entry.anchor.keys()[0].clone();
    let verdict = site.accept(&generated("2026-12-30T00:00:00Z"));
    known.note(&site.entry, &verdict);

    site.private = old_private;
    site.memory = None;
    site.entry = Entry::new(
        url("https://elsewhere.example.com/index.yaml"),
        Anchor::any_of(vec![old_public]),
    );
    let old = site.judge(&generated("2026-12-01T00:00:00Z")).unwrap();
    let error = known.admit(&site.entry, &old).unwrap_err();
    assert!(matches!(error, TrustError::KnownKey { .. }), "{error}");
}

#[test]
fn a_repository_that_would_lie_where_another_lies_is_refused() {
    let mut site = Site::new();
    let mut known = Known::default();
    let verdict = site.accept(&generated("2026-12-30T00:00:00Z"));
    known.note(&site.entry, &verdict);
    let (private, public) = key();
    site.private = private;
    site.memory = None;
    site.entry = Entry::new(
        url("http://packages.example.com/index.yaml"),
        Anchor::any_of(vec![public]),
    );
    let verdict = site.judge(&generated("2026-12-30T00:00:00Z")).unwrap();
    let error = known.admit(&site.entry, &verdict).unwrap_err();
    assert!(matches!(error, TrustError::SitesMeet { .. }), "{error}");
}

#[test]
fn a_clock_set_back_does_not_outdo_what_other_repositories_have_shown() {
    let site = Site::new();
    let file = index("generated: \"2026-12-01T00:00:00Z\"\nexpires: \"2026-12-31T00:00:00Z\"");
    let signature = Signatures::write_plain(&site.private.sign(&file));
    let file = Bytes::from(file);
    let offer = Offer {
        index: &file,
        signature: Some(signature.as_bytes()),
        roots: None,
        table: None,
    };
    let now = time("2026-12-30T00:00:00Z");
    let judged = |seen| {
        let clock = Clock {
            seen,
            ..Clock::at(now)
        };
        judge(&site.entry, offer, None, clock)
    };
    judged(None).unwrap();
    let error = refused(judged(Some(time("2026-12-31T00:00:30Z"))));
    assert!(matches!(error, TrustError::Expired { .. }), "{error}");
    assert!(error.to_string().contains("30 seconds ago"), "{error}");
}

#[test]
fn a_damaged_record_of_keys_is_an_error_and_not_none() {
    for damaged in [
        serde_json::json!(null),
        serde_json::json!({}),
        serde_json::json!({"entries": {"x": {"url": URL, "keys": ["zz"]}}}),
        serde_json::json!({"entries": {}, "later": 1}),
    ] {
        assert!(Known::from_value(&damaged).is_err(), "{damaged}");
    }
}

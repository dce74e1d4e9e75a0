//! Attacks on the texts themselves: signatures, keys, and documents that read in two ways.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Site, generated, index, key, refused};
use crate::index::signature::{SignatureError, Signatures};
use crate::keys::{KeyError, PublicKey};
use crate::trust::*;

/// The order of the group, little-endian.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

#[test]
fn a_signature_with_the_order_added_to_its_scalar_is_refused() {
    let (private, public) = key();
    let mut signature = private.sign(b"index");
    assert!(public.verifies(b"index", &signature));
    let mut carry = 0u16;
    for (byte, add) in signature[32..].iter_mut().zip(ORDER) {
        carry += u16::from(*byte) + u16::from(add);
        *byte = (carry & 0xff) as u8;
        carry >>= 8;
    }
    assert_eq!(carry, 0, "a second form of the same signature");
    assert!(!public.verifies(b"index", &signature));
}

#[test]
fn keys_of_small_order_are_refused() {
    // y of points of order 1, 2, 4 and 8, and two of them in a second spelling
    let points = [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];
    for point in points {
        let mut der = hex::decode("302a300506032b6570032100").unwrap();
        der.extend(hex::decode(point).unwrap());
        let pem = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            STANDARD.encode(der)
        );
        assert_eq!(
            PublicKey::from_pem(&pem).unwrap_err(),
            KeyError::Weak,
            "{point}"
        );
    }
}

#[test]
fn a_key_file_with_windows_line_ends_is_the_same_key() {
    let (_, public) = key();
    let crlf = public.to_pem().replace('\n', "\r\n");
    assert_eq!(PublicKey::from_pem(&crlf).unwrap(), public);
}

#[test]
fn an_empty_signature_list_is_no_signature() {
    let site = Site::new();
    let file = generated("2026-12-31T00:00:00Z");
    for list in [
        "signatures: []\n",
        "signatures:\n",
        "signatures: [{keyid: a, sig: \"\"}]\n",
    ] {
        let error = refused(site.judge_with(&file, Some(list.as_bytes())));
        match error {
            TrustError::Signature { source, .. } => assert_eq!(*source, SignatureError::Empty),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn base64_with_spaces_is_no_signature() {
    let site = Site::new();
    let file = generated("2026-12-31T00:00:00Z");
    let good = Signatures::write_plain(&site.private.sign(&file));
    let spaced = format!("{} {}", &good[..20], &good[20..]);
    let list = format!(
        "signatures:\n- {{keyid: \"\", sig: \"{}\"}}\n",
        spaced.trim()
    );
    for bad in [spaced, list] {
        assert!(matches!(
            refused(site.judge_with(&file, Some(bad.as_bytes()))),
            TrustError::Signature { .. }
        ));
    }
}

#[test]
fn a_signature_over_the_text_written_anew_does_not_count() {
    let site = Site::new();
    let file = generated("2026-12-31T00:00:00Z");
    let text = String::from_utf8(file.clone()).unwrap();
    for anew in [
        text.replace('\n', "\r\n"),
        text.trim_end().to_owned(),
        text.replace('"', "'"),
        format!("---\n{text}"),
    ] {
        let signature = Signatures::write_plain(&site.private.sign(anew.as_bytes()));
        let error = refused(site.judge_with(&file, Some(signature.as_bytes())));
        assert!(matches!(error, TrustError::Untrusted { .. }), "{anew}");
    }
}

#[test]
fn a_second_document_says_nothing() {
    let site = Site::new();
    let first = String::from_utf8(generated("2026-12-30T00:00:00Z")).unwrap();
    let second = String::from_utf8(generated("2026-12-31T00:00:00Z")).unwrap();
    // the existing program takes the first document, and so must every reader here
    let both = format!("{first}---\n{second}");
    match site.judge(both.as_bytes()) {
        Ok(verdict) => {
            let generated = verdict.index.generated.map(|time| time.to_string());
            assert_eq!(generated.as_deref(), Some("2026-12-30T00:00:00Z"));
        }
        Err(error) => assert!(matches!(error, TrustError::Index { .. }), "{error}"),
    }
}

#[test]
fn a_key_given_twice_refuses_the_index() {
    let site = Site::new();
    let at = "generated: \"2026-12-31T00:00:00Z\"";
    for twice in [
        format!("{at}\n{at}"),
        format!("{at}\nGenerated: \"2026-12-30T00:00:00Z\""),
        format!("{at}\npackages: {{}}"),
    ] {
        let error = refused(site.judge(&index(&twice)));
        assert!(
            matches!(error, TrustError::Index { signed: true, .. }),
            "{twice}"
        );
    }
}

#[test]
fn a_time_zone_in_generated_orders_nothing_otherwise() {
    let mut site = Site::new();
    // 23:00 in Greenwich, though it reads like the next day
    site.accept(&generated("2026-12-31T00:00:00+01:00"));
    let later = site.judge(&generated("2026-12-30T23:00:01Z")).unwrap();
    assert_eq!(later.standing, Standing::Newer);
    let earlier = site.judge(&generated("2026-12-31T00:59:59+02:00")).unwrap();
    assert_eq!(earlier.standing, Standing::Older);
    let same = site.judge(&generated("2026-12-30T23:00:00Z"));
    assert!(matches!(refused(same), TrustError::Fork { .. }));
}

#[test]
fn a_rollback_of_the_index_is_refused_with_both_dates() {
    let mut site = Site::new();
    site.accept(&generated("2026-12-31T00:00:00Z"));
    let verdict = site.judge(&generated("2026-12-30T00:00:00Z")).unwrap();
    let error = verdict.refuse_older(&site.entry).unwrap_err();
    for date in ["2026-12-30T00:00:00Z", "2026-12-31T00:00:00Z"] {
        assert!(error.to_string().contains(date), "{error}");
    }
}

#[test]
fn a_threshold_of_plain_keys_needs_that_many() {
    let mut site = Site::new();
    let (second, second_public) = key();
    let first_public = site.entry.anchor.keys()[0].clone();
    let keys = [first_public.clone(), second_public.clone()];
    site.entry.anchor = Anchor::Keys(KeySet::new(keys, 2).unwrap());
    let file = generated("2026-12-31T00:00:00Z");
    let own = (first_public.id(), site.private.sign(&file));
    let other = (second_public.id(), second.sign(&file));
    let error =
        refused(site.judge_with(&file, Some(Signatures::write_list(&[own, own]).as_bytes())));
    assert!(
        matches!(
            error,
            TrustError::TooFew {
                have: 1,
                need: 2,
                ..
            }
        ),
        "{error}"
    );
    let both = Signatures::write_list(&[own, other]);
    let verdict = site.judge_with(&file, Some(both.as_bytes())).unwrap();
    assert_eq!(verdict.signed_by.len(), 2);
}

#[test]
fn a_signature_on_record_is_not_counted_for_other_keys() {
    let mut site = Site::new();
    let file = generated("2026-12-31T00:00:00Z");
    let signature = Signatures::write_plain(&site.private.sign(&file));
    site.accept(&file);
    // on record, the very same files are accepted, and others are judged anew
    site.judge_with(&file, Some(signature.as_bytes())).unwrap();
    let stranger = Signatures::write_plain(&key().0.sign(&file));
    assert!(site.judge_with(&file, Some(stranger.as_bytes())).is_err());
    site.entry.anchor = Anchor::any_of(vec![key().1]);
    let error = refused(site.judge_with(&file, Some(signature.as_bytes())));
    assert!(matches!(error, TrustError::Untrusted { .. }), "{error}");
}

#[test]
fn a_kept_table_is_used_only_when_it_is_the_one_on_record() {
    let mut site = Site::new();
    let file = bytes::Bytes::from(generated("2026-12-31T00:00:00Z"));
    let signature = Signatures::write_plain(&site.private.sign(&file));
    let judged = |site: &Site, table: Option<&[u8]>| {
        let offer = Offer {
            index: &file,
            signature: Some(signature.as_bytes()),
            roots: None,
            table,
        };
        judge(
            &site.entry,
            offer,
            site.memory.as_ref(),
            Clock::at(site.now),
        )
        .unwrap()
    };
    assert_eq!(judged(&site, None).table, None);
    let first = judged(&site, Some(b""));
    let Some(table) = first.table else {
        return assert_eq!(first.memory.accepted.unwrap().table, None);
    };
    site.memory = Some(first.memory);
    let again = judged(&site, Some(&table));
    assert_eq!((again.table, again.index), (None, first.index.clone()));
    assert_eq!(Some(again.memory), site.memory);
    // a changed one costs time and shows nothing
    let mut changed = table.clone();
    *changed.last_mut().unwrap() ^= 1;
    let anew = judged(&site, Some(&changed));
    assert_eq!((anew.table, anew.index), (Some(table), first.index));
}

//! `trust.jsonl`: which served files a client accepts.
//!
//! Run are the cases of plain keys. The others are listed with what they still need.

use std::collections::BTreeSet;

use kubepkg_core::Digest;
use kubepkg_core::keys::PublicKey;
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Anchor, Entry, Offer, TrustError, judge};
use serde_json::Value;

use crate::vectors::{lines, text, texts};

/// Cases in which a root of trust decides: roots are not there yet.
const NEED_ROOTS: [&str; 61] = [
    "chain-of-four",
    "chain-of-four-pinned-one",
    "chain-of-four-threshold-default",
    "chain-of-four-recorded",
    "chain-of-four-recorded-older",
    "pinned-key-did-not-sign",
    "pinned-threshold-too-high",
    "pinned-same-key-twice",
    "root-yaml-missing",
    "first-root-missing",
    "middle-root-missing",
    "root-yaml-ahead-of-chain",
    "root-yaml-body-unsigned",
    "root-yaml-behind-chain",
    "wrong-version-in-file",
    "index-changed-by-a-space",
    "index-crlf",
    "signature-missing",
    "signature-garbage",
    "signature-empty",
    "signature-empty-list",
    "not-an-index",
    "threshold-root-one-of-two",
    "threshold-all-met",
    "threshold-index-one-of-two",
    "threshold-index-same-key-twice",
    "index-expired",
    "index-without-expiry",
    "root-expired",
    "pinned-strangers",
    "expires-exactly-now",
    "rotation-by-new-keys-only",
    "rotation-by-old-keys-only",
    "rotation-index-by-dropped-key",
    "rotation-good",
    "root-rollback",
    "root-fork",
    "root-fork-without-record",
    "root-fork-of-earlier-version",
    "earlier-root-expired",
    "plain-signature-with-root",
    "plain-signature-threshold-two",
    "plain-plus-one-more",
    "same-key-plain-and-listed",
    "key-under-made-up-id",
    "delegation-to-unknown-key",
    "delegation-bad-pattern",
    "delegation-threshold-above-keys",
    "root-with-unknown-field",
    "key-id-upper-case",
    "signature-url-safe-alphabet",
    "signature-unpadded",
    "signature-with-line-breaks",
    "signature-with-spaces",
    "extra-unknown-signer",
    "broken-entry-before-good-one",
    "signed-by-root-key",
    "index-older-than-recorded",
    "index-same-as-recorded",
    "index-without-generated-recorded",
    "index-without-generated-first-time",
];

/// Without keys for the index file there is nothing to judge: fetching it has failed before.
const NEED_FETCH: [&str; 1] = ["plain-missing-index"];

/// The existing program looks at the expiry of an index only when there is a root. Here it
/// counts always: who sets one means it.
const STRICTER_HERE: [&str; 1] = ["plain-expired-index"];

fn accepted(case: &Value) -> Result<Value, TrustError> {
    let client = &case["client"];
    let keys = texts(client, "publicKeys");
    let keys = keys
        .into_iter()
        .map(|pem| PublicKey::from_pem(pem).expect("a key"));
    let entry = Entry::new(
        "https://packages.example.org/index.yaml"
            .parse()
            .expect("a URL"),
        match client["allowUnsigned"] == true {
            true => Anchor::Unsigned,
            false => Anchor::any_of(keys.collect()),
        },
    );
    let offer = Offer {
        index: text(&case["files"], "index.yaml").as_bytes(),
        signature: case["files"]["index.yaml.sig"].as_str().map(str::as_bytes),
    };
    let now: Time = text(case, "now").parse().expect("a time");
    let verdict = judge(&entry, offer, None, now)?;
    assert_eq!(verdict.memory.index, Digest::sha256(offer.index));
    let packages = verdict.index.packages.into_iter().map(|(name, package)| {
        let versions = package.versions.iter();
        let versions = versions.map(|v| format!("{} build {}", v.version, v.build));
        (name, versions.collect::<Value>())
    });
    Ok(Value::Object(packages.collect()))
}

#[test]
fn indexes_are_accepted_and_refused_as_the_existing_program_does() {
    let later: BTreeSet<&str> = NEED_ROOTS.into_iter().chain(NEED_FETCH).collect();
    let mut passed_over = BTreeSet::new();
    let mut run = 0;
    for case in lines("trust.jsonl") {
        let name = text(&case, "name");
        if let Some(name) = later.get(name) {
            passed_over.insert(*name);
            continue;
        }
        let expected = case["ok"] == true && !STRICTER_HERE.contains(&name);
        match accepted(&case) {
            Ok(versions) => {
                assert!(expected, "{name} was accepted");
                assert_eq!(versions, case["versions"], "{name}");
            }
            Err(error) => assert!(!expected, "{name}: {error}"),
        }
        run += 1;
    }
    assert_eq!(
        passed_over, later,
        "a case listed as not run does not exist"
    );
    assert_eq!(run + later.len(), 71);
}

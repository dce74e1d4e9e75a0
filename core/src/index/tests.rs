//! What stands beside a spec in an index, and what malformed entries of it do.

use super::*;
use crate::api::PackageSourceSpec;

/// An index of `app` 1.0.0 with `members` beside its spec.
fn with(members: &str) -> String {
    let spec = PackageSourceSpec {
        version: "1.0.0".to_owned(),
        ..PackageSourceSpec::default()
    };
    format!(
        "kind: RepositoryIndex\npackages:\n  app:\n    versions:\n    - version: 1.0.0\n      \
         digest: {}\n      spec: {{version: 1.0.0}}\n{members}",
        spec.digest()
    )
}

fn version(members: &str) -> Result<IndexVersion, IndexError> {
    let index = Index::read(with(members).as_bytes())?;
    Ok(index.packages["app"].versions[0].clone())
}

#[test]
fn signatures_withdrawal_and_approvals_stand_outside_the_digest() {
    let read = version(
        "      signatures:\n      - {keyid: a, sig: AAAA}\n      approvals:\n      - {keyid: b, sig: \
         BBBB, time: \"2026-11-30T12:00:00Z\"}\n      withdrawn:\n        since: \
         \"2026-11-30T12:00:00Z\"\n        reason: CVE-2026-1\n        replacement: 1.0.1\n",
    )
    .unwrap();
    let since: Time = "2026-11-30T12:00:00Z".parse().unwrap();
    assert_eq!(read.signatures[0].keyid, "a");
    assert_eq!(
        (read.approvals[0].sig.as_str(), read.approvals[0].time),
        ("BBBB", since)
    );
    let withdrawn = read.withdrawn.unwrap();
    assert_eq!(withdrawn.since, since);
    assert_eq!(withdrawn.reason, "CVE-2026-1");
    assert_eq!(withdrawn.replacement.as_deref(), Some("1.0.1"));
    assert!(withdrawn.holds());
}

#[test]
fn entries_that_do_not_read_count_for_nothing() {
    let read = version(
        "      signatures: [{keyid: 1, sig: \"?\", more: x}, null, {}]\n      approvals: [{time: \
         yesterday}, {}, null]\n",
    )
    .unwrap();
    assert_eq!(read.signatures.len(), 3);
    assert!(read.approvals.is_empty());
}

#[test]
fn members_of_another_type_and_half_withdrawals_refuse_the_index() {
    for members in [
        "signatures: x",
        "signatures: [x]",
        "signatures: [{sig: [a]}]",
        "approvals: {}",
        "approvals: [[]]",
        "withdrawn: true",
        "withdrawn: {}",
        "withdrawn: {since: \"2026-11-30T12:00:00Z\"}",
        "withdrawn: {since: yesterday, reason: r}",
        "withdrawn: {since: \"2026-11-30T12:00:00Z\", reason: r, lifted: x}",
    ] {
        assert!(version(&format!("      {members}\n")).is_err(), "{members}");
    }
}

#[test]
fn a_withdrawal_is_lifted_only_by_a_later_statement() {
    let lifted = |time: &str| {
        let text = format!(
            "      withdrawn: {{since: \"2026-11-30T12:00:00Z\", reason: r, lifted: \"{time}\"}}\n"
        );
        !version(&text).unwrap().withdrawn.unwrap().holds()
    };
    assert!(lifted("2026-11-30T12:00:01Z"));
    assert!(!lifted("2026-11-30T12:00:00Z"));
    assert!(!lifted("2026-11-29T12:00:00Z"));
}

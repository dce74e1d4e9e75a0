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

/// Reads both ways in a moment, whatever the answers are.
fn in_a_moment(text: String) -> Result<Index, IndexError> {
    let begun = std::time::Instant::now();
    let read = Index::read_shared(text.into());
    // What grows with the square of these texts takes hours.
    assert!(begun.elapsed().as_secs() < 120);
    read
}

/// Large enough that anything quadratic never ends, small enough for a test without
/// optimisation.
const LARGE: usize = 2 << 20;

#[test]
fn texts_that_are_one_long_value_take_linear_time() {
    let long = "x".repeat(LARGE);
    let index = in_a_moment(with(&format!("      withdrawn: {long}\n")));
    assert!(index.is_err(), "a withdrawal is a map");
    let index = in_a_moment(with(&format!("      unknown: {long}\n"))).unwrap();
    assert_eq!(index.packages.len(), 1);
    for (part, end) in [("''", "'"), ("\\\"", "\""), ("<", "\""), ("é&", "\"")] {
        let text = part.repeat(LARGE / 4);
        let _ = in_a_moment(with(&format!("      unknown: {end}{text}{end}\n")));
        let spec = format!("        provides:\n        - {end}{text}{end}\n");
        let _ = in_a_moment(
            with("").replace("spec: {version: 1.0.0}", "spec:")
                + &spec
                + "        version: 1.0.0\n      version: 1.0.0\n",
        );
    }
    let _ = in_a_moment(long);
    let _ = in_a_moment(" ".repeat(LARGE));
    let _ = in_a_moment("\n".repeat(LARGE));
    let _ = in_a_moment("'".repeat(LARGE));
    let _ = in_a_moment("a: |\n".to_owned() + &" \n".repeat(LARGE / 4));
    let _ = in_a_moment("a: b\n".to_owned() + &"  c\n".repeat(LARGE / 4));
    let _ = in_a_moment("a:\n- b: c\n".to_owned() + &"- d: e\n".repeat(LARGE / 16));
}

#[test]
fn deep_nesting_is_refused_without_a_stack() {
    let mut maps = "kind: RepositoryIndex\n".to_owned();
    for level in 0..2000 {
        maps += &" ".repeat(level);
        maps += "a:\n";
    }
    assert!(in_a_moment(maps).is_err());
    assert!(in_a_moment("- ".repeat(100_000) + "a\n").is_err());
    let nested = with(&format!("      x: {}a\n", "- ".repeat(100_000)));
    assert!(in_a_moment(nested).is_err());
    assert!(in_a_moment("[".repeat(100_000)).is_err());
}

#[test]
fn aliases_do_not_multiply() {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let (this, last) = (b'a' + level, b'a' + level - 1);
        let list = format!("*{}, ", char::from(last)).repeat(8);
        bomb += &format!("{0}: &{0} [{list}]\n", char::from(this));
    }
    assert!(in_a_moment(bomb + &with("")).is_err());
}

#[test]
fn thousands_of_versions_in_a_package_are_found_and_told_apart() {
    let mut text = "kind: RepositoryIndex\npackages:\n  app:\n    versions:\n".to_owned();
    for n in 0..5000 {
        let spec = PackageSourceSpec {
            version: format!("1.{n}.0"),
            ..PackageSourceSpec::default()
        };
        text += &format!(
            "    - digest: {}\n      spec:\n        version: 1.{n}.0\n      version: 1.{n}.0\n",
            spec.digest()
        );
    }
    let index = in_a_moment(text).unwrap();
    let versions = &index.packages["app"].versions;
    assert_eq!(versions.len(), 5000);
    assert_eq!(versions[4321].spec().version, "1.4321.0");
    assert!(versions[4321].may_mention("1.4321.0"));
    assert!(!versions[4321].may_mention("app"));
}

#[test]
fn a_digest_over_members_in_another_order_leaves_only_its_version_out() {
    let text = |requirement: &str| {
        format!(
            "kind: RepositoryIndex\npackages: {{a: {{versions: [{{version: 1.0.0, digest: \"sha256:{}\", \
             spec: {{version: 1.0.0, variants: [{{name: d, requires: [{{package: b, {requirement}}}]}}]}}}}]}}}}",
            "0".repeat(64)
        )
    };
    for (requirement, member) in [
        ("variant: small", "variant"),
        ("values: {c: {a: 1}}", "values"),
    ] {
        let index = Index::read(text(requirement).as_bytes()).unwrap();
        assert!(index.packages.is_empty());
        let unknown = vec![member.to_owned()];
        assert_eq!(index.left_out[0].why, LeftOutWhy::Newer { unknown });
    }
    assert!(Index::read(text("optional: true").as_bytes()).is_err());
}

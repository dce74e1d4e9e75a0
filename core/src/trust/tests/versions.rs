//! Attacks on what single versions need: signatures of delegated keys, approvals.

use crate::Digest;
use crate::api::PackageSourceSpec;
use crate::index::{Approval, Index, IndexPackage, IndexVersion, LeftOutWhy, VersionSignature};
use crate::keys::PrivateKey;
use crate::time::Time;
use crate::trust::signers::leave_out;
use crate::trust::*;

fn key() -> PrivateKey {
    PrivateKey::generate().unwrap()
}

fn set(keys: &[&PrivateKey], threshold: i64) -> KeySet {
    KeySet::new(keys.iter().map(|key| key.public().unwrap()), threshold).unwrap()
}

fn now() -> Time {
    "2027-01-01T00:00:00Z".parse().unwrap()
}

fn version(build: i32) -> IndexVersion {
    IndexVersion::of(PackageSourceSpec {
        version: "1.0.0".to_owned(),
        build,
        ..PackageSourceSpec::default()
    })
}

fn named<'v>(package: &'v str, version: &'v IndexVersion) -> Named<'v> {
    Named {
        package,
        version: &version.version,
        build: version.build,
        digest: &version.digest,
    }
}

fn index(package: &str, version: IndexVersion) -> Index {
    let listed = IndexPackage {
        versions: vec![version],
        ..IndexPackage::default()
    };
    Index {
        packages: [(package.to_owned(), listed)].into(),
        ..Index::default()
    }
}

fn signature(made: Made) -> VersionSignature {
    VersionSignature {
        keyid: made.keyid,
        sig: made.sig,
    }
}

fn approval(made: Made, time: Time) -> Approval {
    Approval {
        keyid: made.keyid,
        sig: made.sig,
        time,
    }
}

/// A root with two delegations that both fit `virt-ui`.
fn root(first: &PrivateKey, second: &PrivateKey) -> Root {
    let own = key();
    let delegation = |name: &str, pattern: &str, key: &PrivateKey| DelegationDraft {
        name: name.to_owned(),
        packages: vec![pattern.to_owned()],
        keys: vec![key.public().unwrap()],
        threshold: 1,
    };
    Root::first(&RootDraft {
        expires: now(),
        root: (vec![own.public().unwrap()], 1),
        index: (vec![own.public().unwrap()], 1),
        approvals: None,
        delegations: vec![
            delegation("virt", "virt-*", first),
            delegation("all", "*", second),
        ],
    })
    .unwrap()
}

#[test]
fn a_delegation_does_not_speak_for_a_package_an_earlier_one_takes() {
    let (first, second) = (key(), key());
    let root = root(&first, &second);
    let judged = |package: &str, by: &PrivateKey| {
        let mut version = version(1);
        let made = sign_version(named(package, &version), by).unwrap();
        version.signatures = vec![signature(made)];
        let mut index = index(package, version);
        leave_out(&mut index, Some(&root), None);
        index
    };
    assert_eq!(judged("virt-ui", &first).packages.len(), 1);
    assert_eq!(judged("web", &second).packages.len(), 1);
    for (package, by, name) in [("virt-ui", &second, "virt"), ("web", &first, "all")] {
        let index = judged(package, by);
        assert!(index.packages.is_empty(), "{package}");
        let why = LeftOutWhy::Delegation {
            name: name.to_owned(),
            have: 0,
            need: 1,
        };
        assert_eq!(index.left_out[0].why, why);
    }
}

#[test]
fn a_signature_of_another_package_version_or_digest_does_not_pass() {
    let (first, second) = (key(), key());
    let root = root(&first, &second);
    let other_digest = Digest::sha256("other");
    let good = version(1);
    for wrong in [
        named("virt-other", &good),
        Named {
            build: 2,
            ..named("virt-ui", &good)
        },
        Named {
            version: "1.0.1",
            ..named("virt-ui", &good)
        },
        Named {
            digest: &other_digest,
            ..named("virt-ui", &good)
        },
    ] {
        let mut version = good.clone();
        version.signatures = vec![signature(sign_version(wrong, &first).unwrap())];
        let mut index = index("virt-ui", version);
        leave_out(&mut index, Some(&root), None);
        assert!(index.packages.is_empty(), "{wrong:?}");
    }
}

#[test]
fn an_approval_is_no_version_signature_and_the_reverse() {
    let signer = key();
    let root = root(&signer, &key());
    let mut version = version(1);
    let approved = sign_approval(named("virt-ui", &version), now(), &signer).unwrap();
    let signed = sign_version(named("virt-ui", &version), &signer).unwrap();
    version.signatures = vec![signature(approved.clone())];
    let mut replayed = index("virt-ui", version.clone());
    leave_out(&mut replayed, Some(&root), None);
    assert!(replayed.packages.is_empty());

    let approvers = set(&[&signer], 1);
    version.signatures.clear();
    version.approvals = vec![approval(signed, now())];
    let mut replayed = index("virt-ui", version.clone());
    leave_out(&mut replayed, None, Some(&approvers));
    let why = LeftOutWhy::Approvals { have: 0, need: 1 };
    assert_eq!(replayed.left_out[0].why, why);

    version.approvals = vec![approval(approved, now())];
    let mut good = index("virt-ui", version);
    leave_out(&mut good, None, Some(&approvers));
    assert_eq!(good.packages.len(), 1);
}

#[test]
fn an_approval_of_another_build_or_time_does_not_pass() {
    let signer = key();
    let approvers = set(&[&signer], 1);
    let (first, mut second) = (version(1), version(2));
    let made = sign_approval(named("app", &first), now(), &signer).unwrap();
    second.approvals = vec![approval(made.clone(), now())];
    let mut other_build = index("app", second);
    leave_out(&mut other_build, None, Some(&approvers));
    assert!(other_build.packages.is_empty());
    let mut first = first;
    first.approvals = vec![approval(made, now().plus(1))];
    let mut other_time = index("app", first);
    leave_out(&mut other_time, None, Some(&approvers));
    assert!(other_time.packages.is_empty());
}

#[test]
fn two_approvals_by_one_key_are_one() {
    let (one, two) = (key(), key());
    let approvers = set(&[&one, &two], 2);
    let mut version = version(1);
    let approve = |key: &PrivateKey, at: Time| {
        let made = sign_approval(named("app", &version), at, key).unwrap();
        approval(made, at)
    };
    let mut twice = version.clone();
    twice.approvals = vec![approve(&one, now()), approve(&one, now().plus(60))];
    twice.approvals.push(Approval {
        keyid: two.public().unwrap().id().to_string(),
        ..twice.approvals[0].clone()
    });
    let both = vec![approve(&one, now()), approve(&two, now())];
    let mut index_of_one = index("app", twice);
    leave_out(&mut index_of_one, None, Some(&approvers));
    let why = LeftOutWhy::Approvals { have: 1, need: 2 };
    assert_eq!(index_of_one.left_out[0].why, why);
    version.approvals = both;
    let mut good = index("app", version);
    leave_out(&mut good, None, Some(&approvers));
    assert_eq!(good.packages.len(), 1);
}

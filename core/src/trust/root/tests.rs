//! Roots against those made by others, both ways, and what a root must not say.

use super::*;
use crate::error::Classify as _;

const FOUR: [&str; 4] = [
    include_str!("../../../tests/data/root/1.yaml"),
    include_str!("../../../tests/data/root/2.yaml"),
    include_str!("../../../tests/data/root/3.yaml"),
    include_str!("../../../tests/data/root/4.yaml"),
];

fn read(text: &str) -> Result<Root, RootError> {
    Root::read(text.as_bytes())
}

fn key() -> PublicKey {
    PrivateKey::generate().unwrap().public().unwrap()
}

fn draft() -> RootDraft {
    RootDraft {
        expires: "2027-12-31T00:00:00Z".parse().unwrap(),
        root: (vec![key(), key(), key()], 2),
        index: (vec![key()], 1),
        approvals: None,
        delegations: vec![DelegationDraft {
            name: "virt".to_owned(),
            packages: vec!["cdi".to_owned(), "kubevirt-*".to_owned()],
            keys: vec![key(), key()],
            threshold: 1,
        }],
    }
}

#[test]
fn what_is_read_is_written_again_byte_for_byte() {
    for text in FOUR {
        assert_eq!(read(text).unwrap().to_yaml(), text);
    }
}

#[test]
fn a_root_made_of_the_same_data_has_the_same_signed_bytes() {
    let theirs = FOUR.map(|text| read(text).unwrap());
    let expires = theirs[0].expires;
    let mut ours = Root::first(&RootDraft {
        expires,
        root: (theirs[0].root.keys().to_vec(), theirs[0].root.threshold()),
        index: (theirs[0].index.keys().to_vec(), theirs[0].index.threshold()),
        approvals: None,
        delegations: Vec::new(),
    })
    .unwrap();
    assert_eq!(ours.signed_bytes(), theirs[0].signed_bytes());
    for theirs in &theirs[1..] {
        let role = |set: &KeySet| RoleChange {
            keys: Some(set.keys().to_vec()),
            threshold: Some(set.threshold()),
        };
        let delegate = |one: &Delegation| DelegationDraft {
            name: one.name.clone(),
            packages: one.packages.iter().map(|p| p.as_str().to_owned()).collect(),
            keys: one.signers.keys().to_vec(),
            threshold: one.signers.threshold(),
        };
        ours = ours
            .next(&RootChange {
                expires: theirs.expires,
                root: role(&theirs.root),
                index: role(&theirs.index),
                approvals: RoleChange::default(),
                undelegate: Vec::new(),
                delegate: theirs.delegations.iter().map(delegate).collect(),
            })
            .unwrap();
        assert_eq!(ours.signed_bytes(), theirs.signed_bytes());
        assert_eq!(ours.digest(), theirs.digest());
    }
}

#[test]
fn what_is_not_changed_stays_in_the_next_version() {
    let first = Root::first(&draft()).unwrap();
    let later = "2028-12-31T00:00:00Z".parse().unwrap();
    let next = first.next(&RootChange::renewed(later)).unwrap();
    assert_eq!((next.version, next.expires), (2, later));
    assert_eq!((&next.root, &next.index), (&first.root, &first.index));
    assert_eq!(next.delegations, first.delegations);
    assert_eq!(next.signature_count(), 0);
    assert_eq!(read(&next.to_yaml()).unwrap(), next);

    let mut change = RootChange::renewed(later);
    change.undelegate = vec!["virt".to_owned()];
    change.approvals.keys = Some(vec![key()]);
    change.approvals.threshold = Some(1);
    let third = next.next(&change).unwrap();
    assert!(third.delegations.is_empty());
    assert_eq!(third.approvals.as_ref().unwrap().threshold(), 1);
    // keys nobody needs any more are dropped
    assert_eq!(third.keys.len(), next.keys.len() - 2 + 1);
    assert!(matches!(
        third.next(&change),
        Err(RootError::NoDelegation(_))
    ));
    let mut change = RootChange::renewed(later);
    change.approvals.keys = Some(Vec::new());
    assert_eq!(third.next(&change).unwrap().approvals, None);
    // more keys are wanted than there are
    let mut change = RootChange::renewed(later);
    change.root.threshold = Some(4);
    assert!(matches!(third.next(&change), Err(RootError::KeySet { .. })));
}

#[test]
fn a_second_signature_of_a_key_replaces_its_first() {
    let private = PrivateKey::generate().unwrap();
    let mut draft = draft();
    draft.root = (vec![private.public().unwrap(), key()], 1);
    let mut root = Root::first(&draft).unwrap();
    root.sign(&private).unwrap();
    root.sign(&private).unwrap();
    assert_eq!(root.signature_count(), 1);
    let again = read(&root.to_yaml()).unwrap();
    assert_eq!(
        again.signed_by(&again.root),
        [private.public().unwrap().id()]
    );
}

#[test]
fn what_a_root_must_not_say() {
    let good = Root::first(&draft()).unwrap().to_yaml();
    let id = |n: usize| {
        let root = read(&good).unwrap();
        root.keys.keys().nth(n).unwrap().to_string()
    };
    let replaced = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        read(&good.replacen(from, to, 1)).unwrap_err()
    };
    use RootError::*;
    for (from, to) in [
        ("  version: 1", "  version: 1\n  extra: 1"),
        ("      threshold: 2", "      threshold: 2\n      more: 1"),
        ("    name: virt", "    name: virt\n    more: 1"),
        ("    index:", "    more:"),
        ("  version: 1", "  \"versionen\": 1"),
    ] {
        let error = replaced(from, to);
        assert!(matches!(error, Newer { .. }), "{to}: {error}");
        assert!(error.hint().unwrap().contains("upgrade"));
    }
    for version in ["0", "-1", "1001"] {
        let error = replaced("  version: 1", &format!("  version: {version}"));
        assert!(matches!(error, Version(_)), "{error}");
    }
    for threshold in ["0", "4", "-1"] {
        let error = replaced(
            "      threshold: 2",
            &format!("      threshold: {threshold}"),
        );
        assert!(matches!(error, KeySet { .. }), "{error}");
    }
    for expires in [
        "2027-12-31T01:00:00+01:00",
        "2027-12-31T00:00:00.5Z",
        "soon",
        "",
    ] {
        let error = replaced("2027-12-31T00:00:00Z", expires);
        assert!(matches!(error, Expires(_)), "{error}");
    }
    let swapped = good
        .replace(&id(0), "swap")
        .replace(&id(1), &id(0))
        .replace("swap", &id(1));
    assert!(matches!(read(&swapped), Err(KeyId { .. })));
    let upper = good.replacen(&id(0), &id(0).to_uppercase(), 1);
    assert!(read(&upper).is_err());
    let error = replaced("    - cdi", "    - \"[a\"");
    assert!(matches!(error, Pattern { .. }), "{error}");
    let duplicate = format!("{good}signatures: []\n");
    assert!(matches!(read(&duplicate), Err(Yaml(_))));
    let spelled = format!("{good}Signatures: []\n");
    assert!(matches!(read(&spelled), Err(Yaml(_))));
    let second = format!("{good}---\n{good}");
    assert!(matches!(read(&second), Err(Documents)));
    assert!(matches!(read("signatures: []\n"), Err(NoRoot)));
    assert!(matches!(read(&" ".repeat(MAX_ROOT + 1)), Err(TooLarge)));
    let mut bad = draft();
    bad.delegations.push(bad.delegations[0].clone());
    assert!(matches!(Root::first(&bad), Err(TwoDelegations(_))));
}

#[test]
fn the_first_delegation_that_fits_counts() {
    let mut draft = draft();
    let mut second = draft.delegations[0].clone();
    second.name = "all".to_owned();
    second.packages = vec!["*".to_owned()];
    draft.delegations.push(second);
    let root = Root::first(&draft).unwrap();
    let name = |package| root.delegation(package).map(|one| one.name.as_str());
    assert_eq!(name("cdi"), Some("virt"));
    assert_eq!(name("kubevirt-ui"), Some("virt"));
    assert_eq!(name("cdi-more"), Some("all"));
}

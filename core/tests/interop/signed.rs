//! `signed-bytes.jsonl` and `genuine-root.json`: the exact bytes that are signed, and signatures
//! made here with the same keys.

use std::collections::BTreeMap;

use kubepkg_core::Digest;
use kubepkg_core::index::Index;
use kubepkg_core::index::signature::Signatures;
use kubepkg_core::keys::{KeyId, PrivateKey};
use kubepkg_core::trust::{Named, Root, sign_index, sign_version};
use serde_json::Value;

use crate::vectors::{lines, text, texts};

/// The key files of the vectors. They are known to all the world.
fn keys() -> BTreeMap<KeyId, PrivateKey> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/keys");
    let names: BTreeMap<String, String> =
        serde_json::from_str(include_str!("../data/keys/key-ids.json")).expect("names and ids");
    let read = |(name, id): (String, String)| {
        let path = format!("{folder}/TEST-ONLY-{name}.key");
        let pem = std::fs::read_to_string(path).expect("a key file");
        let key = PrivateKey::from_pem(&pem).expect("a key");
        assert_eq!(key.public().expect("its public half").id().to_string(), id);
        (id.parse().expect("an id"), key)
    };
    names.into_iter().map(read).collect()
}

fn root(number: &str) -> Root {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/root");
    let bytes = std::fs::read(format!("{path}/{number}")).expect("a root");
    Root::read(&bytes).expect("a root")
}

#[test]
fn roots_have_the_signed_bytes_and_our_signatures_are_theirs() {
    let keys = keys();
    let mut run = 0;
    for case in lines("signed-bytes.jsonl") {
        let Some(number) = text(&case, "what").strip_prefix("root/") else {
            continue;
        };
        let mut root = root(number);
        assert_eq!(
            root.signed_bytes(),
            text(&case, "bytes").as_bytes(),
            "{number}"
        );
        assert_eq!(root.digest().to_string(), text(&case, "digest"));
        let written = root.to_yaml();
        // ed25519 is deterministic: who signs again with these keys changes no byte
        for id in texts(&case, "signed_by") {
            root.sign(&keys[&id.parse().expect("an id")])
                .expect("a signature");
        }
        assert_eq!(root.to_yaml(), written, "{number}");
        run += 1;
    }
    assert_eq!(run, 4);
}

#[test]
fn delegated_versions_are_signed_as_there() {
    let keys = keys();
    let index = Index::read(include_bytes!("../data/index.yaml")).expect("an index");
    let versions = index.packages.iter().flat_map(|(name, package)| {
        let versions = package.versions.iter();
        versions.map(move |version| (name.as_str(), version))
    });
    let mut run = 0;
    let versions: Vec<_> = versions.collect();
    for case in lines("signed-bytes.jsonl") {
        let what = text(&case, "what");
        let bytes = text(&case, "bytes").as_bytes();
        if let Some(of) = what.strip_prefix("spec of ") {
            let same = |(name, version): &&(&str, &kubepkg_core::index::IndexVersion)| {
                format!("{name} {}", version.version) == of
                    && version.digest == Digest::sha256(bytes)
            };
            let found = versions.iter().find(same).expect(what);
            assert_eq!(found.1.spec().canonical_json(), bytes, "{what}");
            run += 1;
        }
        let Some(of) = what.strip_prefix("delegated signature of ") else {
            continue;
        };
        let signed: Value = serde_json::from_slice(bytes).expect("JSON");
        let digest: Digest = text(&signed, "digest").parse().expect("a digest");
        let named = Named {
            package: text(&signed, "package"),
            version: text(&signed, "version"),
            build: 1,
            digest: &digest,
        };
        assert_eq!(named.version_statement(), bytes, "{of}");
        let keyid = text(&case, "keyid");
        let made = sign_version(named, &keys[&keyid.parse().expect("an id")]).expect("made");
        assert_eq!(
            (made.keyid.as_str(), made.sig.as_str()),
            (keyid, text(&case, "sig"))
        );
        run += 1;
    }
    assert_eq!(run, 14);
}

#[test]
fn the_index_is_signed_as_there() {
    let keys = keys();
    let index = include_bytes!("../data/index.yaml");
    let theirs = include_bytes!("../data/index.yaml.sig");
    let id: KeyId = Signatures::parse(theirs).expect("signatures").entries()[0]
        .key_id
        .parse()
        .expect("an id");
    let ours = sign_index(None, index, &keys[&id]).expect("a signature");
    assert_eq!(ours.as_bytes(), theirs);
    assert_eq!(
        sign_index(Some(theirs), index, &keys[&id]).expect("again"),
        ours
    );
}

#[test]
fn the_genuine_root_verifies_with_the_signed_bytes_it_had() {
    let genuine = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/interop/genuine-root.json"
    ));
    let genuine = genuine.expect("the vector");
    let case: Value = serde_json::from_slice(&genuine).expect("JSON");
    // the vector has more members beside; JSON is YAML
    let root = Root::read(&genuine).expect("a root");
    assert_eq!(root.signed_bytes(), text(&case, "signed_bytes").as_bytes());
    assert_eq!(root.digest().to_string(), text(&case, "digest"));
    assert_eq!(root.signed_by(&root.root).len(), 2);
    assert!(root.root.met_by(2));
    let again = Root::read(root.to_yaml().as_bytes()).expect("a root");
    assert_eq!(again, root);
}

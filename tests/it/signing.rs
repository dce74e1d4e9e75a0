//! `trust sign` on indexes and on versions of packages.

use kubepkg_core::api::SIGNATURES_ANNOTATION;
use kubepkg_core::index::build;
use kubepkg_core::index::signature::Signatures;
use kubepkg_core::index::{Index, VersionSignature};
use kubepkg_core::keys::PublicKey;
use kubepkg_core::trust::Named;
use kubepkg_test_support::Package;

use crate::command::Scratch;

fn public(scratch: &Scratch, name: &str) -> PublicKey {
    PublicKey::from_pem(&scratch.read(&format!("{name}.pub"))).unwrap()
}

fn keys(scratch: &Scratch, names: &[&str]) {
    for name in names {
        scratch.run(&["repo", "keygen", name]).ok();
    }
}

#[test]
fn each_key_adds_its_signature_to_an_index() {
    let scratch = Scratch::new();
    keys(&scratch, &["one", "two"]);
    scratch.write("packages/a.yaml", Package::new("a", "1.0.0").to_yaml());
    scratch
        .run(&["repo", "index", "packages", "--sign-key", "one.key"])
        .ok();
    let plain = scratch.read("index.yaml.sig");
    assert!(
        !plain.contains("signatures:"),
        "one key gives the plain form"
    );
    let index = scratch.read("index.yaml");
    for _ in 0..2 {
        scratch
            .run(&["trust", "sign", "index.yaml", "--key", "two.key"])
            .ok()
            .says("signed index.yaml in index.yaml.sig");
    }
    assert_eq!(scratch.read("index.yaml"), index, "the index itself stays");
    let signatures = Signatures::parse(scratch.read("index.yaml.sig").as_bytes()).unwrap();
    assert_eq!(signatures.entries().len(), 2);
    let all = [public(&scratch, "one"), public(&scratch, "two")];
    assert_eq!(signatures.signed_by(index.as_bytes(), &all).len(), 2);
    // beside a root it is said what the root would object to
    scratch
        .run(&[
            "trust",
            "root",
            "new",
            "--root-key",
            "one.pub",
            "--index-key",
            "one.pub",
        ])
        .ok();
    scratch
        .run(&["trust", "sign", "index.yaml", "--key", "two.key"])
        .ok()
        .says("is no index key of root.yaml version 1")
        .says("an index must expire");
    scratch.write("index.yaml.sig", "damaged");
    scratch
        .run(&["trust", "sign", "index.yaml", "--key", "two.key"])
        .fails(3, "the signature file that is there does not read");
}

#[test]
fn versions_are_signed_in_place_and_every_comment_stays() {
    let scratch = Scratch::new();
    keys(&scratch, &["team", "boss"]);
    let image = "registry.example.com/a:1@sha256:0000000000000000000000000000000000000000000000000000000000000001";
    let one = |version: &str| {
        format!(
            "# who wrote it\napiVersion: kubepkg.dev/v1alpha1\nkind: PackageSource\nmetadata:\n  \
             # its name\n  name: cdi\nspec:\n  version: {version} # exact\n  variants:\n  - name: \
             default\n  images:\n  - {image}\n"
        )
    };
    let text = format!("{}---\n{}", one("1.0.0"), one("1.1.0"));
    scratch.write("packages/cdi.yaml", &text);
    let sign = |keys: &[&str]| {
        let mut call = vec!["trust", "sign", "packages/cdi.yaml"];
        for key in keys {
            call.extend(["--key", key]);
        }
        scratch.run(&call)
    };
    sign(&["team.key"])
        .ok()
        .says("signed cdi 1.0.0\nsigned cdi 1.1.0\n")
        .says("nothing else in it was changed");
    let signed = scratch.read("packages/cdi.yaml");
    let ours =
        |line: &&str| !line.contains("annotations:") && !line.contains(SIGNATURES_ANNOTATION);
    let kept: Vec<&str> = signed.lines().filter(ours).collect();
    assert_eq!(kept, text.lines().collect::<Vec<_>>());
    // the same again changes nothing, another key adds its own
    sign(&["team.key"]).ok();
    assert_eq!(scratch.read("packages/cdi.yaml"), signed);
    sign(&["boss.key"]).ok();
    for found in build::read_file("x", &scratch.read("packages/cdi.yaml")).unwrap() {
        let source = found.source;
        let digest = source.spec.digest();
        let named = Named {
            package: "cdi",
            version: &source.spec.version,
            build: 0,
            digest: &digest,
        };
        let list: Vec<VersionSignature> =
            serde_json::from_str(source.annotation(SIGNATURES_ANNOTATION)).unwrap();
        let ids: Vec<&str> = list.iter().map(|one| one.keyid.as_str()).collect();
        let want = ["team", "boss"].map(|name| public(&scratch, name).id().to_string());
        assert_eq!(ids, want);
        use base64::Engine as _;
        for (one, name) in list.iter().zip(["team", "boss"]) {
            let sig = base64::engine::general_purpose::STANDARD
                .decode(&one.sig)
                .unwrap();
            assert!(public(&scratch, name).verifies(&named.version_statement(), &sig));
        }
    }
    // and the index carries them
    scratch.run(&["repo", "index", "packages"]).ok();
    let index = Index::read(scratch.read("index.yaml").as_bytes()).unwrap();
    assert_eq!(index.packages["cdi"].versions[0].signatures.len(), 2);
}

#[test]
fn what_would_change_its_digest_later_is_not_signed() {
    let scratch = Scratch::new();
    keys(&scratch, &["team"]);
    let open =
        Package::new("web", "1.0.0").chart("https://charts.example.com", "web", "1.0.0", None);
    scratch.write("web.yaml", open.to_yaml());
    let before = scratch.read("web.yaml");
    scratch
        .run(&["trust", "sign", "web.yaml", "--key", "team.key"])
        .fails(3, "chart web 1.0.0 has no digest yet")
        .says("web.yaml:1: web 1.0.0");
    assert_eq!(scratch.read("web.yaml"), before);
    let flow = "{kind: PackageSource, metadata: {name: a}, spec: {version: 1.0.0}}\n";
    scratch.write("flow.yaml", flow);
    scratch
        .run(&["trust", "sign", "flow.yaml", "--key", "team.key"])
        .fails(1, "without writing all of it anew");
    assert_eq!(scratch.read("flow.yaml"), flow);
}

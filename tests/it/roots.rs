//! `trust root new|next`, `trust sign` and `trust show`: roots of trust, made and signed by
//! people on different machines.

use kubepkg_core::trust::Root;

use crate::command::{Run, Scratch};

/// A person with a key pair of her own, on a machine of her own.
struct Signer {
    name: &'static str,
    machine: Scratch,
}

impl Signer {
    fn new(name: &'static str) -> Signer {
        let machine = Scratch::new();
        machine.run(&["repo", "keygen", name]).ok();
        Signer { name, machine }
    }

    /// Hands the public key over.
    fn public(&self, to: &Scratch) -> String {
        let file = format!("{}.pub", self.name);
        to.write(&file, self.machine.read(&file));
        file
    }

    /// Gets the file, signs it, and gives it back.
    fn signs(&self, office: &Scratch, file: &str) -> Run {
        self.machine.write(file, office.read(file));
        let key = format!("{}.key", self.name);
        let run = self
            .machine
            .run(&["trust", "sign", file, "--key", &key])
            .ok();
        office.write(file, self.machine.read(file));
        run
    }
}

fn root(scratch: &Scratch, file: &str) -> Root {
    Root::read(scratch.read(file).as_bytes()).unwrap()
}

/// `root.yaml` of two of ann, bob and eve, and one release key.
fn office(signers: [&Signer; 3], release: &Signer) -> Scratch {
    let office = Scratch::new();
    let mut call = vec!["trust".to_owned(), "root".into(), "new".into()];
    for signer in signers {
        call.extend(["--root-key".into(), signer.public(&office)]);
    }
    call.extend(["--index-key".into(), release.public(&office)]);
    let call: Vec<&str> = call.iter().map(String::as_str).collect();
    // which threshold is for people to choose
    office
        .run(&call)
        .fails(2, "how many of the 3 root keys must sign is not said")
        .says("hint: add --root-threshold 2");
    office
        .run(&[&call[..], &["--root-threshold", "2"]].concat())
        .ok()
        .says("wrote root.yaml and root/1.yaml (the same bytes; publish both): root version 1, unsigned")
        .says("needs 0 of 2 signatures by the root keys of version 1");
    office
}

#[test]
fn two_of_three_sign_on_their_own_machines() {
    let [ann, bob, eve, release] = ["ann", "bob", "eve", "release"].map(Signer::new);
    let office = office([&ann, &bob, &eve], &release);
    assert_eq!(office.read("root.yaml"), office.read("root/1.yaml"));
    ann.signs(&office, "root.yaml")
        .says("root version 1 now has 1 signature\n")
        .says("needs 1 of 2 signatures");
    // one person cannot be two
    ann.signs(&office, "root.yaml")
        .says("root version 1 now has 1 signature\n");
    let shown = office
        .run(&["trust", "show", "root.yaml", "-o", "json"])
        .ok()
        .json();
    assert_eq!(shown["missing"].as_array().unwrap().len(), 1);
    eve.signs(&office, "root.yaml")
        .says("root version 1 now has 2 signatures")
        .says("it is signed by enough keys");
    let one = root(&office, "root.yaml");
    assert_eq!(one.signed_by(&one.root).len(), 2);
    let shown = office.run(&["trust", "show", "root.yaml"]).ok();
    for text in [
        "root version 1, valid until",
        "2 of 3",
        "signed by enough of its keys",
    ] {
        assert!(shown.stdout.contains(text), "{}", shown.stdout);
    }
    // the twin was signed elsewhere: it is not the same file until it is brought along
    assert!(
        shown.stderr.contains("not the same file"),
        "{}",
        shown.stderr
    );
    // who holds no root key can sign, and is told that it counts for nothing
    release
        .signs(&office, "root.yaml")
        .says("counts for nothing");
}

#[test]
fn a_key_is_changed_with_the_consent_of_old_and_new() {
    let [ann, bob, eve, release] = ["ann", "bob", "eve", "release"].map(Signer::new);
    let office = office([&ann, &bob, &eve], &release);
    for signer in [&ann, &bob] {
        let key = format!("{}.key", signer.name);
        office.write(&key, signer.machine.read(&key));
        office
            .run(&["trust", "sign", "root.yaml", "--key", &key])
            .ok();
    }
    assert_eq!(
        office.read("root.yaml"),
        office.read("root/1.yaml"),
        "both are signed"
    );
    let first = office.read("root/1.yaml");
    let zoe = Signer::new("zoe");
    let (ann_pub, zoe_pub) = (ann.public(&office), zoe.public(&office));
    let call = [
        "trust",
        "root",
        "next",
        "root.yaml",
        "--root-key",
        &ann_pub,
        "--root-key",
        &zoe_pub,
        "--expires",
        "30d",
    ];
    office
        .run(&call)
        .ok()
        .says("root version 2, unsigned")
        .says("needs 0 of 2 signatures by the root keys of version 2")
        .says("needs 0 of 2 signatures by the root keys of version 1");
    assert_eq!(
        office.read("root/1.yaml"),
        first,
        "the version before stays"
    );
    assert_eq!(office.read("root.yaml"), office.read("root/2.yaml"));
    let two = root(&office, "root.yaml");
    assert_eq!((two.version, two.root.threshold()), (2, 2));
    assert_eq!(
        two.index.ids(),
        root(&office, "root/1.yaml").index.ids(),
        "kept"
    );
    // new keys alone do not make it
    let zoe_key = zoe.machine.read("zoe.key");
    office.write("zoe.key", zoe_key);
    office
        .run(&[
            "trust",
            "sign",
            "root/2.yaml",
            "--key",
            "zoe.key",
            "--key",
            "ann.key",
        ])
        .ok()
        .says("needs 1 of 2 signatures by the root keys of version 1");
    assert_eq!(
        office.read("root.yaml"),
        office.read("root/2.yaml"),
        "either may be named"
    );
    office
        .run(&["trust", "sign", "root.yaml", "--key", "bob.key"])
        .ok()
        .says("it is signed by enough keys");
    // a version that exists is not made again
    office
        .run(&["trust", "root", "next", "root/1.yaml"])
        .fails(1, "exists already");
    office
        .run(&["trust", "root", "next", "root.yaml"])
        .ok()
        .says("root version 3");
}

#[test]
fn delegations_are_made_changed_and_taken_back() {
    let scratch = Scratch::new();
    for key in ["root", "team", "team2"] {
        scratch.run(&["repo", "keygen", key]).ok();
    }
    let new = [
        "trust",
        "root",
        "new",
        "--root-key",
        "root.pub",
        "--index-key",
        "root.pub",
    ];
    scratch
        .run(&[&new[..], &["--delegate", "virt=cdi,kubevirt-*"]].concat())
        .fails(2, "the delegation virt has no key")
        .says("--delegate-key virt=FILE.pub");
    scratch
        .run(&[&new[..], &["--delegate-key", "virt=team.pub"]].concat())
        .fails(2, "the delegation virt has no packages");
    scratch
        .run(
            &[
                &new[..],
                &["--delegate", "virt=[a", "--delegate-key", "virt=team.pub"],
            ]
            .concat(),
        )
        .fails(2, "bad pattern");
    scratch
        .run(
            &[
                &new[..],
                &[
                    "--delegate",
                    "virt=cdi",
                    "--delegate-key",
                    "virt=team.pub",
                    "--delegate-threshold",
                    "virt=2",
                ],
            ]
            .concat(),
        )
        .fails(2, "threshold 2 with 1 key");
    assert!(!scratch.path("root.yaml").exists());
    let flags = [
        "--delegate",
        "virt=cdi,kubevirt-*",
        "--delegate-key",
        "virt=team.pub",
    ];
    scratch.run(&[&new[..], &flags].concat()).ok();
    let one = root(&scratch, "root.yaml");
    assert!(one.delegation("kubevirt-ui").is_some() && one.delegation("web").is_none());
    // only the key is changed
    scratch
        .run(&[
            "trust",
            "root",
            "next",
            "root.yaml",
            "--delegate-key",
            "virt=team2.pub",
        ])
        .ok()
        .says("is not accepted by anyone yet");
    let two = root(&scratch, "root.yaml");
    assert_eq!(two.delegations[0].packages, one.delegations[0].packages);
    assert_ne!(two.delegations[0].signers, one.delegations[0].signers);
    scratch
        .run(&["trust", "root", "next", "root.yaml", "--undelegate", "virt"])
        .ok();
    assert!(root(&scratch, "root.yaml").delegations.is_empty());
    scratch
        .run(&["trust", "root", "next", "root.yaml", "--undelegate", "virt"])
        .fails(2, "no delegation \"virt\"");
    // approvals are a role of their own
    scratch
        .run(&[
            "trust",
            "root",
            "next",
            "root.yaml",
            "--approvals-key",
            "team.pub",
            "--approvals-threshold",
            "1",
        ])
        .ok();
    assert!(root(&scratch, "root.yaml").approvals.is_some());
    scratch
        .run(&["trust", "root", "next", "root.yaml", "--no-approvals"])
        .ok();
    assert!(root(&scratch, "root.yaml").approvals.is_none());
}

#[test]
fn a_root_is_never_overwritten_by_accident() {
    let scratch = Scratch::new();
    scratch.run(&["repo", "keygen", "root"]).ok();
    let new = [
        "trust",
        "root",
        "new",
        "--root-key",
        "root.pub",
        "--index-key",
        "root.pub",
    ];
    scratch.write("root/1.yaml", "precious");
    scratch
        .run(&new)
        .fails(1, "exists already")
        .says("where: root/1.yaml");
    std::fs::remove_file(scratch.path("root/1.yaml")).unwrap();
    scratch.run(&new).ok();
    let made = scratch.read("root.yaml");
    scratch.run(&new).fails(1, "the output exists already");
    assert_eq!(scratch.read("root.yaml"), made);
    // a chain whose files disagree is not continued
    scratch.write(
        "root/1.yaml",
        made.replace("signatures: []", "signatures: [] # more"),
    );
    scratch
        .run(&["trust", "root", "next", "root.yaml"])
        .fails(3, "root/1.yaml is another file than root.yaml");
    // variables that say whom to trust do not become keys of a root
    scratch
        .run_with(
            &[("KUBEPKG_ROOT_KEY", "root.pub")],
            &[
                "trust",
                "root",
                "new",
                "-o",
                "x.yaml",
                "--index-key",
                "root.pub",
            ],
        )
        .fails(2, "no key is given for the role root");
}

#[test]
fn what_does_not_read_is_not_signed() {
    let scratch = Scratch::new();
    scratch.run(&["repo", "keygen", "k"]).ok();
    let sign = |file| scratch.run(&["trust", "sign", file, "--key", "k.key"]);
    scratch.write("a.yaml", "kind: Other\n");
    sign("a.yaml").fails(2, "neither a root, an index nor PackageSources");
    scratch.write("b.yaml", "signed: {version: 1, surprise: 2}\n");
    sign("b.yaml")
        .fails(3, "made for a newer kubepkg")
        .says("where: b.yaml");
    scratch.write("c.yaml", "kind: RepositoryIndex\npackages: 1\n");
    sign("c.yaml")
        .fails(3, "what does not read is not signed")
        .says("where: c.yaml");
    scratch.write("d.yaml", "kind: PackageSource\nsurprise: 1\n");
    sign("d.yaml").fails(3, "surprise");
    sign("none.yaml").fails(4, "cannot read the file");
    scratch
        .run(&["trust", "sign", "a.yaml"])
        .fails(2, "give --key or --key-env");
    let left = ["a.yaml", "b.yaml", "c.yaml", "d.yaml", "k.key", "k.pub"];
    assert_eq!(scratch.names(), left);
}

#[test]
fn a_next_root_keeps_the_one_it_follows_whatever_its_file_is_called() {
    let scratch = Scratch::new();
    for key in ["ann", "app1", "app2"] {
        scratch.run(&["repo", "keygen", key]).ok();
    }
    let new = [
        "trust",
        "root",
        "new",
        "--root-key",
        "ann.pub",
        "--index-key",
        "ann.pub",
        "-o",
        "r.yaml",
    ];
    scratch.run(&new).ok();
    // one key that approves needs no threshold, several do
    let next = [
        "trust",
        "root",
        "next",
        "r.yaml",
        "--approvals-key",
        "app1.pub",
    ];
    scratch
        .run(&[&next[..], &["--approvals-key", "app2.pub"]].concat())
        .fails(2, "how many of the 2 approvals keys must sign is not said")
        .says("--approvals-threshold");
    scratch
        .run(&next)
        .ok()
        .says("kept version 1 as root/1.yaml");
    assert_eq!(scratch.read("root/1.yaml"), scratch.read("r.yaml"));
    assert_eq!(root(&scratch, "root.yaml").version, 2);
    let approvals = root(&scratch, "root.yaml").approvals.unwrap();
    assert_eq!(approvals.threshold(), 1);
}

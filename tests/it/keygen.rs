//! `repo keygen`: a pair that other tools read, never overwritten, private to its owner.

use std::os::unix::fs::PermissionsExt as _;

use kubepkg_core::keys::{PrivateKey, PublicKey};

use kubepkg_test_support::Package;

use crate::command::Scratch;

#[test]
fn writes_a_pair_that_belongs_together() {
    let scratch = Scratch::new();
    let run = scratch.run(&["repo", "keygen", "release"]).ok();
    assert_eq!(run.stdout, "");
    assert_eq!(scratch.names(), ["release.key", "release.pub"]);
    let private = PrivateKey::from_pem(&scratch.read("release.key")).unwrap();
    let public = PublicKey::from_pem(&scratch.read("release.pub")).unwrap();
    assert!(public.verifies(b"text", &private.sign(b"text")));
    assert!(run.stderr.contains(&public.id().to_string()));
}

#[test]
fn only_the_owner_reads_the_private_key() {
    let scratch = Scratch::new();
    scratch.run(&["repo", "keygen", "release"]).ok();
    let mode = |name| {
        std::fs::metadata(scratch.path(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("release.key"), 0o600);
    assert_eq!(mode("release.pub") & 0o444, 0o444);
}

#[test]
fn nothing_is_overwritten_and_nothing_is_left_half_done() {
    for taken in ["release.key", "release.pub"] {
        let scratch = Scratch::new();
        scratch.write(taken, "precious");
        scratch
            .run(&["repo", "keygen", "release"])
            .fails(1, "never overwritten")
            .says(&format!("where: {taken}"));
        assert_eq!(scratch.names(), [taken]);
        assert_eq!(scratch.read(taken), "precious");
    }
}

#[test]
fn a_dangling_link_counts_as_a_file() {
    let scratch = Scratch::new();
    std::os::unix::fs::symlink("nowhere", scratch.path("release.key")).unwrap();
    scratch
        .run(&["repo", "keygen", "release"])
        .fails(1, "never overwritten");
    assert_eq!(scratch.names(), ["release.key"]);
}

#[test]
fn a_missing_folder_is_named() {
    let scratch = Scratch::new();
    scratch
        .run(&["repo", "keygen", "none/release"])
        .fails(1, "cannot write the file")
        .says("where: none/release.key");
    scratch
        .run(&["repo", "keygen", ".."])
        .fails(2, "ends with a name");
}

#[test]
fn an_ending_in_the_prefix_is_kept() {
    let scratch = Scratch::new();
    scratch.run(&["repo", "keygen", "team.v1"]).ok();
    assert_eq!(scratch.names(), ["team.v1.key", "team.v1.pub"]);
}

/// Runs openssl, which other people's keys come from.
fn openssl(scratch: &Scratch, arguments: &str) -> std::process::Output {
    std::process::Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(scratch.work())
        .output()
        .expect("this test needs the program openssl (package openssl)")
}

fn passphrase(scratch: &Scratch, text: &str) -> String {
    let file = scratch.write("word", text);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn openssl_opens_an_encrypted_key_of_ours() {
    let scratch = Scratch::new();
    let word = passphrase(&scratch, "correct horse\n");
    let variables = [("KUBEPKG_KEY_PASSPHRASE_FILE", word.as_str())];
    let run = scratch
        .run_with(&variables, &["repo", "keygen", "release", "--encrypt"])
        .ok()
        .says("knows the passphrase");
    assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    let pem = scratch.read("release.key");
    assert!(
        pem.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"),
        "{pem}"
    );
    let opened = openssl(&scratch, "pkey -in release.key -passin file:word -pubout");
    let said = String::from_utf8_lossy(&opened.stderr);
    assert!(opened.status.success(), "{said}");
    assert_eq!(
        String::from_utf8(opened.stdout).unwrap(),
        scratch.read("release.pub")
    );
}

#[test]
fn a_key_encrypted_by_openssl_signs() {
    let scratch = Scratch::new();
    scratch.write("packages/a.yaml", Package::new("a", "1.0.0").to_yaml());
    let word = passphrase(&scratch, "correct horse\n");
    let variables = [("KUBEPKG_KEY_PASSPHRASE_FILE", word.as_str())];
    for call in [
        "genpkey -algorithm ed25519 -aes256 -pass file:word -out genpkey.key",
        "genpkey -algorithm ed25519 -out plain.key",
        "pkcs8 -topk8 -in plain.key -passout file:word -out pkcs8.key",
        "pkcs8 -topk8 -scrypt -in plain.key -passout file:word -out scrypt.key",
        "pkcs8 -topk8 -v2 aes-256-cbc -v2prf hmacWithSHA512 -iter 100000 -in plain.key -passout file:word -out rounds.key",
    ] {
        let made = openssl(&scratch, call);
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{call}: {said}");
    }
    for key in [
        "genpkey.key",
        "plain.key",
        "pkcs8.key",
        "scrypt.key",
        "rounds.key",
    ] {
        let public = openssl(
            &scratch,
            &format!("pkey -in {key} -passin file:word -pubout"),
        );
        let public = PublicKey::from_pem(&String::from_utf8(public.stdout).unwrap()).unwrap();
        let call = ["repo", "index", "packages", "--force", "--sign-key", key];
        scratch
            .run_with(&variables, &call)
            .ok()
            .says(&public.id().to_string());
    }
    // without a passphrase and a terminal it says what to do; nothing hangs
    scratch
        .run(&[
            "repo",
            "index",
            "packages",
            "--force",
            "--sign-key",
            "pkcs8.key",
        ])
        .fails(2, "a passphrase is needed")
        .says("KUBEPKG_KEY_PASSPHRASE_FILE=FILE");
    let wrong = passphrase(&scratch, "correct horse ");
    std::fs::set_permissions(&wrong, std::fs::Permissions::from_mode(0o644)).unwrap();
    scratch
        .run_with(
            &[("KUBEPKG_KEY_PASSPHRASE_FILE", &wrong)],
            &[
                "repo",
                "index",
                "packages",
                "--force",
                "--sign-key",
                "pkcs8.key",
            ],
        )
        .fails(2, "the passphrase does not open this key")
        .says("where: pkcs8.key")
        .says("others than its owner can read");
}

#[test]
fn a_key_in_a_variable_signs_and_is_never_shown() {
    let scratch = Scratch::new();
    scratch.write("packages/a.yaml", Package::new("a", "1.0.0").to_yaml());
    scratch.run(&["repo", "keygen", "release"]).ok();
    let pem = scratch.read("release.key");
    let public = PublicKey::from_pem(&scratch.read("release.pub")).unwrap();
    let call = |name| {
        [
            "repo",
            "index",
            "packages",
            "--force",
            "--sign-key-env",
            name,
        ]
    };
    let crlf = pem.replace('\n', "\r\n");
    for text in [&pem, &crlf] {
        let run = scratch
            .run_with(&[("KUBEPKG_RELEASE", text)], &call("KUBEPKG_RELEASE"))
            .ok()
            .says(&public.id().to_string());
        assert!(!run.stderr.contains("no effect"), "{}", run.stderr);
    }
    scratch
        .run(&call("RELEASE"))
        .fails(2, "this variable is not set")
        .says("where: $RELEASE");
    let secret = pem.lines().nth(1).unwrap();
    let cut = pem.replace("-----END", "-----EN");
    let run = scratch
        .run_with(&[("RELEASE", &cut)], &call("RELEASE"))
        .fails(2, "not an ed25519 private key");
    assert!(!run.stderr.contains(secret), "{}", run.stderr);
}

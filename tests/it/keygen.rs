//! `repo keygen`: a pair that other tools read, never overwritten, private to its owner.

use std::os::unix::fs::PermissionsExt as _;

use kubepkg_core::keys::{PrivateKey, PublicKey};

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
        .fails(4, "cannot write the file")
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

//! Wrong calls: exit code 2, a message that says what is missing, and nothing done.

use crate::command::Scratch;

const REPO: &str = "https://packages.example.com/index.yaml";

#[test]
fn unknown_verbs_and_flags_are_wrong_usage() {
    let scratch = Scratch::new();
    scratch
        .run(&["fly"])
        .fails(2, "unrecognized subcommand 'fly'");
    scratch
        .run(&["repo", "keygen", "x", "--fly"])
        .fails(2, "unexpected argument '--fly'");
    scratch.run(&["repo"]).fails(2, "Usage: kubepkg repo");
    scratch.run(&[]).fails(2, "Usage: kubepkg");
}

#[test]
fn without_a_key_nothing_is_trusted() {
    let scratch = Scratch::new();
    for call in [
        &["bundle", "verify", "site.tar"][..],
        &["bundle", "import", "site.tar", "--store", "mirror"],
        &["bundle", "create", "web", "-o", "site.tar", "--repo", REPO],
    ] {
        scratch
            .run(call)
            .fails(2, "error: no key given")
            .says("hint: add --public-key");
    }
    assert!(scratch.names().is_empty());
}

#[test]
fn create_wants_a_repository() {
    let scratch = Scratch::new();
    scratch
        .run(&[
            "bundle",
            "create",
            "web",
            "-o",
            "site.tar",
            "--public-key",
            "x.pub",
        ])
        .fails(2, "no repository given");
    scratch
        .run(&["bundle", "create", "-o", "site.tar"])
        .fails(2, "nothing is named")
        .says("name packages, or use");
}

#[test]
fn a_key_file_that_is_none_is_named() {
    let scratch = Scratch::new();
    let create = |key: &str| {
        scratch.run(&[
            "bundle",
            "create",
            "web",
            "-o",
            "site.tar",
            "--repo",
            REPO,
            "--public-key",
            key,
        ])
    };
    create("none.pub")
        .fails(4, "cannot read the key")
        .says("where: none.pub");
    scratch.write("text.pub", "hello");
    create("text.pub")
        .fails(2, "not an ed25519 public key")
        .says("where: text.pub");
    scratch.run(&["repo", "keygen", "release"]).ok();
    create("release.key").fails(2, "this is a private key");
    create("ftp://x=release.pub").fails(2, "is no URL");
}

#[test]
fn with_several_repositories_a_key_says_whose_it_is() {
    let scratch = Scratch::new();
    scratch.run(&["repo", "keygen", "release"]).ok();
    let other = "https://other.example.com/index.yaml";
    let call = |keys: &[&str]| {
        let mut call = vec![
            "bundle", "create", "web", "-o", "x.tar", "--repo", REPO, "--repo", other,
        ];
        for key in keys {
            call.extend(["--public-key", key]);
        }
        scratch.run(&call)
    };
    call(&["release.pub"])
        .fails(2, "there are 2 repositories")
        .says("=release.pub");
    call(&[&format!("{REPO}=release.pub")]).fails(2, &format!("no key is given for {other}"));
}

#[test]
fn errors_are_json_when_the_answer_would_be() {
    let scratch = Scratch::new();
    let run = scratch.run(&["bundle", "verify", "site.tar", "-o", "json"]);
    let error = run.json_error();
    assert_eq!((run.code, error["kind"].as_str()), (2, Some("usage")));
    assert_eq!(error["retry"], false);
    assert!(error["hint"].as_str().unwrap().contains("--public-key"));
    let run = scratch.run(&["bundle", "verify", "-o", "json", "--fly"]);
    assert_eq!(run.json_error()["kind"], "usage");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
}

#[test]
fn a_variable_counts_as_its_flag() {
    let scratch = Scratch::new();
    scratch
        .run_with(
            &[("KUBEPKG_PUBLIC_KEY", "none.pub")],
            &["bundle", "create", "web", "-o", "x.tar", "--repo", REPO],
        )
        .fails(4, "cannot read the key");
    scratch
        .run_with(&[("KUBEPKG_JOBS", "no")], &["repo", "index", "."])
        .fails(2, "KUBEPKG_JOBS");
    // but never for a flag that weakens a check
    scratch
        .run_with(
            &[("KUBEPKG_ALLOW_UNSIGNED", "true")],
            &["bundle", "verify", "x.tar"],
        )
        .fails(2, "no key given");
}

#[test]
fn an_output_that_exists_is_kept() {
    let scratch = Scratch::new();
    scratch.run(&["repo", "keygen", "release"]).ok();
    scratch.write("site.tar", "precious");
    scratch
        .run(&[
            "bundle",
            "create",
            "web",
            "-o",
            "site.tar",
            "--repo",
            REPO,
            "--public-key",
            "release.pub",
        ])
        .fails(1, "the output exists already")
        .says("where: site.tar")
        .says("--force");
    assert_eq!(scratch.read("site.tar"), "precious");
}

#[test]
fn colours_only_where_they_are_wanted() {
    let scratch = Scratch::new();
    let plain = scratch.run(&["bundle", "verify", "x.tar"]);
    assert!(!plain.stderr.contains('\x1b'));
    let painted = scratch.run(&["bundle", "verify", "x.tar", "--color", "always"]);
    assert!(painted.stderr.contains("\x1b[31;1merror:"));
}

#[test]
fn variables_say_yes_in_many_words_and_unknown_ones_are_told() {
    let scratch = Scratch::new();
    let call = ["repo", "keygen"];
    let run = |name: &str, variables: &[(&str, &str)]| {
        scratch.run_with(variables, &[&call[..], &[name]].concat())
    };
    assert_eq!(run("a", &[("KUBEPKG_QUIET", "1")]).ok().stderr, "");
    run("b", &[("KUBEPKG_QUIET", "no")])
        .ok()
        .says("wrote b.key");
    run("c", &[("KUBEPKG_QUIET", "maybe")]).fails(2, "KUBEPKG_QUIET");
    run("d", &[("KUBEPKG_STROE", "x")])
        .ok()
        .says("warning: KUBEPKG_STROE is set and has no effect");
    run("e", &[("KUBEPKG_FORCE", "1")]).ok().says("--force");
}

#[test]
fn small_mistakes_are_told_apart() {
    let scratch = Scratch::new();
    let create = |package: &str, repo: &str| {
        let call = ["bundle", "create", package, "-o", "site.tar"];
        scratch.run(&[&call[..], &["--repo", repo, "--allow-unsigned"]].concat())
    };
    create("web@", REPO).fails(2, "no constraint after '@'");
    // nobody listens at port 1
    create(
        "web",
        "https://me:secret@127.0.0.1:1/index.yaml?token=secret",
    )
    .fails(5, "Connection refused")
    .says("warning: user, password, query and fragment")
    .says("HTTPS_PROXY");
    let config = [
        "node-config",
        "containerd",
        "--mirror",
        "http://10.0.0.5:5000",
        "-o",
        "x",
    ];
    let run = |more: &[&str]| scratch.run(&[&config[..], more].concat());
    run(&[]).fails(2, "no store or bundle").says("--store");
    run(&["--store", "none"])
        .fails(4, "there is no store here")
        .says("where: none");
    let run = scratch.run(&["repo", "keygen", "none/release"]);
    let run = run.fails(1, "where: none/release.key");
    assert!(!run.stderr.contains(".tmp-"), "{}", run.stderr);
}

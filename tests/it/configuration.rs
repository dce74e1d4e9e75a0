//! `repo add|list|remove`: repositories known by a name, with their keys.

use crate::command::Scratch;
use crate::publisher::Publisher;

const URL: &str = "https://packages.example.com/index.yaml";

#[test]
fn a_known_repository_needs_no_flags() {
    let (publisher, _) = Publisher::of_web();
    let scratch = &publisher.scratch;
    let repo = publisher.repo();
    let create = ["bundle", "create", "web", "-o", "site.tar", "--no-progress"];
    scratch
        .run(&create)
        .fails(2, "no repository given")
        .says("kubepkg repo add NAME URL");
    scratch
        .run(&["repo", "add", "main", &repo])
        .fails(2, "no key given");
    scratch
        .run(&["repo", "add", "main", &repo, "--public-key", "release.pub"])
        .ok()
        .says("added main");
    // the key was copied
    std::fs::rename(scratch.path("release.pub"), scratch.path("away.pub")).unwrap();
    scratch.run(&create).ok();
    let again = |flags: &[&str]| scratch.run(&[&create[..], &["--force"], flags].concat());
    again(&["--repo", "main"]).ok();
    again(&["--repo", &repo]).ok();
    // a flag comes before the configuration
    scratch.run(&["repo", "keygen", "other"]).ok();
    let other = ["--repo", "main", "--public-key", "other.pub"];
    again(&other).fails(3, "--change-trust");
    again(&[&other[..], &["--change-trust"]].concat()).fails(3, "not signed by");
    scratch
        .run(&["repo", "remove", "main"])
        .ok()
        .says("removed main");
    again(&[]).fails(2, "no repository given");
    scratch
        .run(&["repo", "remove", "main"])
        .fails(4, "no repository of this name");
}

#[test]
fn the_list_shows_who_is_trusted() {
    let publisher = Publisher::new();
    let scratch = &publisher.scratch;
    scratch
        .run(&["repo", "list"])
        .ok()
        .says("no repositories in");
    scratch.run(&["repo", "keygen", "two"]).ok();
    let add =
        |name, url, flags: &[&str]| scratch.run(&[&["repo", "add", name, url], flags].concat());
    add(
        "main",
        URL,
        &[
            "--root-key",
            "release.pub",
            "--root-key",
            "two.pub",
            "--root-threshold",
            "2",
        ],
    )
    .ok();
    let other = "https://b.example.com/index.yaml";
    add("test", other, &["--allow-unsigned", "--priority", "5"]).ok();
    add(
        "main",
        "https://c.example.com/i.yaml",
        &["--allow-unsigned"],
    )
    .fails(1, "known already");
    add("other", URL, &["--allow-unsigned"]).fails(1, "known already, as main");
    add("Main", URL, &["--allow-unsigned"]).fails(2, "no name of a repository");
    let table = scratch.run(&["repo", "list"]).ok().stdout;
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert!(
        rows[0].starts_with("test") && rows[0].ends_with("unsigned"),
        "{table}"
    );
    assert!(
        rows[1].starts_with("main") && rows[1].ends_with("2 of 2 root keys"),
        "{table}"
    );
    let json = scratch.run(&["repo", "list", "-o", "json"]).ok().json();
    assert_eq!(json["repositories"][1]["trust"]["by"], "root");
    assert_eq!(json["repositories"][1]["trust"]["threshold"], 2);
}

#[test]
fn a_damaged_configuration_is_an_error_and_comments_are_not_lost_in_silence() {
    let publisher = Publisher::new();
    let scratch = &publisher.scratch;
    let folder = scratch.path("config");
    let set = [("XDG_CONFIG_HOME", folder.to_str().unwrap())];
    let list = || scratch.run_with(&set, &["repo", "list"]);
    let head = "apiVersion: kubepkg.dev/v1\nkind: Configuration\n";
    let file = "config/kubepkg/config.yaml";
    scratch.write(file, format!("{head}repositoris: []\n"));
    list().fails(2, "repositoris").says("config.yaml");
    let one = format!(
        "{head}# mine\nrepositories:\n- name: a\n  url: {URL}\n  trust: {{keys: [k.pub]}}\n"
    );
    scratch.write(file, &one);
    list().fails(4, "cannot read the key").says("k.pub");
    // a key may lie beside it
    scratch.write("config/kubepkg/k.pub", scratch.read("release.pub"));
    list().ok();
    scratch
        .run_with(&set, &["repo", "remove", "a"])
        .ok()
        .says("comments in it are lost");
}

#[test]
fn what_is_no_repository_is_not_added() {
    let scratch = Scratch::new();
    scratch.run(&["repo", "keygen", "release"]).ok();
    let add = ["repo", "add", "x", "oci://registry.example.com/x"];
    scratch
        .run(&[&add[..], &["--public-key", "release.pub"]].concat())
        .fails(2, "a registry holds charts");
    assert!(scratch.run(&["repo", "list"]).ok().stdout.is_empty());
}

//! `bundle create` with an index nobody should trust, or an output that is in the way: refused
//! with a reason, nothing left, nothing changed.

use std::fs;
use std::io::Write as _;

use kubepkg_core::keys::PrivateKey;
use kubepkg_test_support::package::index;
use kubepkg_test_support::{Fault, ImageBuilder, Package};

use crate::publisher::{Publisher, hours_ago};

#[test]
fn another_key() {
    let (publisher, _) = Publisher::of_web();
    let other = PrivateKey::generate().unwrap().public().unwrap();
    publisher.scratch.write("other.pub", other.to_pem());
    let repo = publisher.repo();
    let call = ["bundle", "create", "web", "-o", "site.tar", "--repo", &repo];
    publisher
        .scratch
        .run(&[&call[..], &["--public-key", "other.pub"]].concat())
        .fails(3, "is not signed by a key you trust")
        .says(&repo)
        .says(&other.id().to_string())
        .says("hint: ask the publisher");
    publisher
        .scratch
        .run(&call)
        .fails(2, "no key given")
        .says("--public-key");
    assert_eq!(publisher.scratch.names(), ["other.pub", "release.pub"]);
    // one of several is enough, and who says so may do without
    let both = ["--public-key", "other.pub", "--public-key", "release.pub"];
    publisher.scratch.run(&[&call[..], &both].concat()).ok();
}

#[test]
fn an_index_changed_after_signing() {
    let (publisher, _) = Publisher::of_web();
    publisher
        .upstream
        .fault("/index.yaml", Fault::WrongBytes, 1);
    publisher.refuses(&["web"], 3, "was changed after signing");
}

#[test]
fn an_index_without_signature() {
    let (publisher, _) = Publisher::of_web();
    publisher
        .upstream
        .fault("/index.yaml.sig", Fault::Status(404), 2);
    publisher
        .refuses(&["web"], 3, "is not signed")
        .says("--allow-unsigned");
    let repo = publisher.repo();
    let call = ["bundle", "create", "web", "-o", "site.tar", "--repo", &repo];
    publisher
        .scratch
        .run(&[&call[..], &["--allow-unsigned"]].concat())
        .ok()
        .says("warning: ");
}

#[test]
fn a_signature_file_that_cannot_be_had() {
    let (publisher, _) = Publisher::of_web();
    // a server that refuses is not one that has none
    publisher
        .upstream
        .fault("/index.yaml.sig", Fault::Status(403), 1);
    publisher.refuses(&["web"], 5, "HTTP status 403");
    publisher.upstream.put_file("/index.yaml.sig", "garbage");
    publisher.refuses(&["web"], 3, "signature file");
}

#[test]
fn an_index_that_ended() {
    let publisher = Publisher::new();
    let web = [Package::new("web", "1.0.0")];
    let expires = Some(hours_ago(1));
    publisher.publish_text(&index(&web, hours_ago(10), expires));
    publisher
        .refuses(&["web"], 3, "expired at")
        .says("hint: get a newer index");
    publisher.publish_at(&web, hours_ago(-48));
    publisher.refuses(&["web"], 3, "more than a day ahead");
}

#[test]
fn an_index_that_is_none() {
    let publisher = Publisher::new();
    for text in ["", "hello", "packages: [", "apiVersion: v1\nentries: {}\n"] {
        publisher.publish_text(text.as_bytes());
        publisher.refuses(&["web"], 3, "is signed but not valid");
    }
    publisher
        .upstream
        .fault("/index.yaml", Fault::Status(404), 1);
    publisher
        .refuses(&["web"], 4, "it does not exist there")
        .says(&format!("where: {}", publisher.repo()));
}

#[test]
fn an_output_that_exists() {
    let (publisher, _) = Publisher::of_web();
    publisher.scratch.write("site.tar", "precious");
    let asked = publisher.upstream.seen().len();
    publisher
        .refuses(&["web"], 1, "the output exists already")
        .says("where: site.tar")
        .says("--force");
    assert_eq!(publisher.scratch.read("site.tar"), "precious");
    assert_eq!(publisher.upstream.seen().len(), asked, "before any work");
    // a run that fails keeps what it was told to replace
    publisher.refuses(&["none", "--force"], 4, "none");
    assert_eq!(publisher.scratch.read("site.tar"), "precious");
    publisher.create(&["web", "--force"]).ok();
    assert_eq!(publisher.carried(), ["web"]);
}

#[test]
fn an_output_that_cannot_be() {
    let (publisher, _) = Publisher::of_web();
    fs::create_dir(publisher.scratch.path("site.tar")).unwrap();
    for flags in [&["web"][..], &["web", "--force"]] {
        publisher
            .refuses(flags, 1, "the output is a folder")
            .says("hint: name a file in it: -o site.tar/site.tar");
    }
    let repo = publisher.repo();
    let call = [
        "bundle",
        "create",
        "web",
        "--repo",
        &repo,
        "--public-key",
        "release.pub",
    ];
    let run = |output| {
        publisher
            .scratch
            .run(&[&call[..], &["-o", output]].concat())
    };
    run("none/site.tar")
        .fails(4, "the folder of the output does not exist")
        .says("where: none");
    run("-").fails(2, "needs a file");
}

/// A file beside the output that somebody else is writing.
#[test]
fn an_output_under_way() {
    let (publisher, _) = Publisher::of_web();
    let partial = publisher.scratch.write("site.tar.partial", "half");
    let held = fs::File::open(&partial).unwrap();
    held.lock().unwrap();
    publisher.refuses(&["web"], 1, "is being written by another");
    assert_eq!(publisher.scratch.read("site.tar.partial"), "half");
    // what a killed run left is in nobody's way
    drop(held);
    publisher.create(&["web"]).ok();
    assert_eq!(publisher.scratch.names(), ["release.pub", "site.tar"]);
}

#[test]
fn the_root_of_trust_travels() {
    let (publisher, _) = Publisher::of_web();
    let root = |version: u32| format!("signed:\n  version: {version}\nsignatures: []\n");
    let upstream = &publisher.upstream;
    upstream.put_file("/root/1.yaml", root(1));
    upstream.put_file("/root/2.yaml", root(2));
    upstream.put_file("/root.yaml", root(2));
    publisher.create(&["web"]).ok();
    let head = publisher.head();
    let files = head["repositories"][0]["files"].as_array().unwrap();
    let paths: Vec<_> = files.iter().map(|f| f["path"].as_str().unwrap()).collect();
    assert_eq!(
        paths,
        [
            "index.yaml",
            "index.yaml.sig",
            "root.yaml",
            "root/1.yaml",
            "root/2.yaml"
        ]
    );
    fs::remove_file(publisher.scratch.path("site.tar")).unwrap();

    upstream.put_file("/root.yaml", format!("{}# other\n", root(2)));
    publisher.refuses(&["web"], 3, "root.yaml and root/2.yaml differ");
    upstream.put_file("/root.yaml", root(3));
    publisher.refuses(&["web"], 3, "root/3.yaml is missing");
    upstream.put_file("/root.yaml", root(0));
    publisher.refuses(&["web"], 3, "says it is version 0");
    upstream.put_file("/root.yaml", "hello");
    publisher.refuses(&["web"], 3, "the root of trust");
}

#[test]
fn a_local_index_is_the_repository_whose_url_it_names() {
    let publisher = Publisher::new();
    let image = ImageBuilder::new(1).build();
    let web = Package::new("web", "1.0.0").image(&publisher.image("web", "1", &image));
    let scratch = &publisher.scratch;
    scratch.write("packages/web.yaml", web.to_yaml());
    scratch.run(&["repo", "keygen", "own"]).ok();
    let served = "https://packages.example.com/stable/index.yaml";
    let index = |flags: &[&str]| {
        let call = [
            "repo",
            "index",
            "packages",
            "--sign-key",
            "own.key",
            "--force",
        ];
        scratch.run(&[&call[..], flags].concat()).ok()
    };
    let create = |repo: &str, key: &str| {
        let call = ["bundle", "create", "web", "-o", "site.tar", "--force"];
        let run = scratch.run(&[&call[..], &["--repo", repo, "--public-key", key]].concat());
        run.ok()
    };
    let verify = |key: &str| scratch.run(&["bundle", "verify", "site.tar", "--public-key", key]);

    // without a URL it is called by its path, and that is said
    index(&[]).says("--url");
    create("index.yaml", "own.pub").says("repo index --url");
    let url = publisher.head()["repositories"][0]["url"].clone();
    assert!(url.as_str().unwrap().starts_with("file:///"), "{url}");

    let quiet = index(&["--url", served, "-o", "other.yaml"]);
    assert!(!quiet.stderr.contains("--url"), "{}", quiet.stderr);
    let both = create("other.yaml", &format!("{served}=own.pub"));
    assert!(!both.stderr.contains("warning"), "{}", both.stderr);
    let head = publisher.head();
    assert_eq!(head["repositories"][0]["url"], served);
    assert_eq!(head["packages"][0]["repository"], served);
    // the files have the names they have where they are served
    let files = head["repositories"][0]["files"].as_array().unwrap();
    let names: Vec<_> = files
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["index.yaml", "index.yaml.sig"]);
    verify(&format!("{served}=own.pub")).ok();
    verify("own.pub").ok();
}

#[test]
fn a_repository_given_twice_is_one() {
    let (publisher, _) = Publisher::of_web();
    let again = publisher.repo().replace("http://", "HTTP://");
    publisher.create(&["web", "--repo", &again]).ok();
    let head = publisher.head();
    assert_eq!(head["repositories"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_not_signed_is_not_called_trusted() {
    let (publisher, _) = Publisher::of_web();
    publisher.create(&["web"]).ok();
    let verify = |flags: &[&str]| {
        let call = ["bundle", "verify", "site.tar"];
        publisher
            .scratch
            .run(&[&call[..], flags].concat())
            .ok()
            .stdout
    };
    let trusted = verify(&["--public-key", "release.pub"]);
    assert!(trusted.contains("is whole and trusted"), "{trusted}");
    // a signature that is there counts, also for who would do without one
    let call = ["bundle", "verify", "site.tar", "--allow-unsigned"];
    publisher.scratch.run(&call).fails(3, "the index is signed");
    let repo = publisher.repo();
    let gone = Fault::Status(404);
    publisher
        .upstream
        .fault("/index.yaml.sig", gone, usize::MAX);
    let call = ["bundle", "create", "web", "-o", "site.tar", "--force"];
    let flags = ["--repo", &repo, "--allow-unsigned"];
    // who has seen it signed does not go back; somebody new may
    let call = [&call[..], &flags].concat();
    publisher.scratch.run(&call).fails(3, "is not signed");
    let state = publisher.scratch.path("state");
    let new = [("XDG_STATE_HOME", state.to_str().unwrap())];
    publisher.scratch.run_with(&new, &call).ok();
    let whole = verify(&["--allow-unsigned"]);
    assert!(
        whole.contains("is whole; its index is not signed"),
        "{whole}"
    );
}

#[test]
fn a_bundle_is_looked_at_through_a_pipe() {
    let (publisher, _) = Publisher::of_web();
    publisher.create(&["web"]).ok();
    for file in ["-", "/dev/stdin"] {
        let mut inspect = publisher.scratch.command(&["bundle", "inspect", file]);
        inspect.stdin(std::process::Stdio::piped());
        inspect.stdout(std::process::Stdio::piped());
        inspect.stderr(std::process::Stdio::piped());
        let mut child = inspect.spawn().unwrap();
        let bundle = fs::read(publisher.scratch.path("site.tar")).unwrap();
        // only the head is read
        let _ = child.stdin.take().unwrap().write_all(&bundle);
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && told.is_empty(), "{file}: {told}");
    }
}

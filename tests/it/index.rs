//! `repo index`: what is written can be trusted by who holds the public key, and nothing is
//! written when anything is wrong.

use std::process::Stdio;

use kubepkg_core::index::Index;
use kubepkg_core::index::signature::Signatures;
use kubepkg_core::keys::PublicKey;
use kubepkg_test_support::{Chart, Fault, Package, Upstream};

use crate::command::{Scratch, signal, wait_for};

/// An upstream with one chart, and a folder with a package that uses it without a digest.
fn upstream(scratch: &Scratch) -> (Upstream, Chart) {
    let upstream = Upstream::start();
    let chart = Chart::new("web", "1.0.0", "registry.example.com/web:1");
    upstream.put_charts("/charts", std::slice::from_ref(&chart));
    let package =
        Package::new("web", "1.0.0").chart(&upstream.url("/charts"), "web", "1.0.0", None);
    scratch.write("packages/team/web.yaml", package.to_yaml());
    (upstream, chart)
}

fn public_key(scratch: &Scratch, name: &str) -> PublicKey {
    PublicKey::from_pem(&scratch.read(name)).unwrap()
}

#[test]
fn pins_charts_and_signs_what_it_wrote() {
    let scratch = Scratch::new();
    let (_upstream, chart) = upstream(&scratch);
    let source = scratch.read("packages/team/web.yaml");
    scratch.run(&["repo", "keygen", "release"]).ok();
    let run = scratch
        .run(&[
            "repo",
            "index",
            "packages",
            "--sign-key",
            "release.key",
            "--expires",
            "90d",
        ])
        .ok()
        .says("wrote index.yaml: 1 package, 1 version, 1 chart pinned");
    assert_eq!(run.stdout, "");
    let text = scratch.read("index.yaml");
    let index = Index::read(text.as_bytes()).unwrap();
    let version = &index.packages["web"].versions[0];
    let pinned = version.spec().charts().next().unwrap();
    assert_eq!(pinned.chart.digest, chart.digest().to_string());
    let valid = index.expires.unwrap().since(index.generated.unwrap());
    assert_eq!(valid, 90 * 24 * 3600);
    let signatures = Signatures::parse(scratch.read("index.yaml.sig").as_bytes()).unwrap();
    let key = public_key(&scratch, "release.pub");
    assert_eq!(signatures.signed_by(text.as_bytes(), &[key]).len(), 1);
    assert_eq!(
        scratch.read("packages/team/web.yaml"),
        source,
        "the source was changed"
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(scratch.path("index.yaml"))
            .unwrap()
            .permissions(),
    );
    assert_eq!(
        mode & 0o444,
        0o444,
        "a web server must be able to read the index"
    );
}

#[test]
fn several_keys_all_sign() {
    let scratch = Scratch::new();
    scratch.write("packages/a.yaml", Package::new("a", "1.0.0").to_yaml());
    for key in ["one", "two"] {
        scratch.run(&["repo", "keygen", key]).ok();
    }
    scratch
        .run(&[
            "repo",
            "index",
            "packages",
            "-o",
            "i.yaml",
            "--sign-key",
            "one.key",
            "--sign-key",
            "two.key",
        ])
        .ok();
    let signatures = Signatures::parse(scratch.read("i.yaml.sig").as_bytes()).unwrap();
    let keys = [
        public_key(&scratch, "one.pub"),
        public_key(&scratch, "two.pub"),
    ];
    assert_eq!(
        signatures
            .signed_by(scratch.read("i.yaml").as_bytes(), &keys)
            .len(),
        2
    );
}

#[test]
fn an_index_that_exists_needs_force() {
    let scratch = Scratch::new();
    scratch.write("packages/a.yaml", Package::new("a", "1.0.0").to_yaml());
    scratch.run(&["repo", "keygen", "release"]).ok();
    scratch.write("index.yaml", "precious");
    let call = ["repo", "index", "packages", "--sign-key", "release.key"];
    scratch
        .run(&call)
        .fails(1, "the output exists already")
        .says("where: index.yaml");
    assert_eq!(scratch.read("index.yaml"), "precious");
    scratch.run(&[&call[..], &["--force"]].concat()).ok();
    let signatures = Signatures::parse(scratch.read("index.yaml.sig").as_bytes()).unwrap();
    let key = public_key(&scratch, "release.pub");
    let text = scratch.read("index.yaml");
    assert_eq!(signatures.signed_by(text.as_bytes(), &[key]).len(), 1);
    // an unsigned index beside that signature would be refused by everyone
    scratch
        .run(&["repo", "index", "packages", "--force"])
        .fails(1, "would not fit the new index")
        .says("where: index.yaml.sig");
    assert_eq!(scratch.read("index.yaml"), text);
}

#[test]
fn an_unsigned_index_is_pointed_out() {
    let scratch = Scratch::new();
    scratch.write("packages/a.yaml", Package::new("a", "1.0.0").to_yaml());
    scratch
        .run(&["repo", "index", "packages", "-q"])
        .ok()
        .says("warning: the index is not signed");
    let run = scratch.run(&["repo", "index", "packages", "-o", "-"]).ok();
    assert!(
        Index::read(run.stdout.as_bytes())
            .unwrap()
            .packages
            .contains_key("a")
    );
    scratch
        .run(&["repo", "index", "packages", "-o", "-", "--sign-key", "x"])
        .fails(2, "a signature needs a file");
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_nothing_is_written() {
    let good = Package::new("a", "1.0.0").to_yaml();
    let number = good
        .replace("version: \"1.0.0\"", "version: 1.10")
        .replace("version: 1.0.0", "version: 1.10");
    for (files, code, message, place) in [
        (
            &[("a.yaml", number.as_str())][..],
            3,
            "1.1",
            "packages/a.yaml:",
        ),
        (
            &[("a.yaml", &good), ("b.yml", &good)],
            3,
            "is also defined in packages/a.yaml",
            "packages/b.yml:",
        ),
        (
            &[("a.yaml", &format!("{good}surprise: 1\n"))],
            3,
            "surprise",
            "packages/a.yaml:",
        ),
        (
            &[
                ("a.txt", &good),
                (".hidden.yaml", &good),
                (".git/a.yaml", &good),
            ],
            1,
            "no PackageSource",
            "packages",
        ),
    ] {
        let scratch = Scratch::new();
        for (name, text) in files {
            scratch.write(&format!("packages/{name}"), text);
        }
        scratch
            .run(&["repo", "index", "packages"])
            .fails(code, message)
            .says(&format!("where: {place}"));
        assert_eq!(scratch.names(), ["packages"]);
    }
    Scratch::new()
        .run(&["repo", "index", "none"])
        .fails(4, "cannot read the folder")
        .says("where: none");
}

#[test]
fn a_chart_that_cannot_be_had_is_named() {
    let scratch = Scratch::new();
    let (upstream, _) = upstream(&scratch);
    let missing =
        Package::new("web", "2.0.0").chart(&upstream.url("/charts"), "web", "2.0.0", None);
    scratch.write("packages/two.yaml", missing.to_yaml());
    scratch
        .run(&["repo", "index", "packages"])
        .fails(4, "cannot pin a chart of web 2.0.0")
        .says("2.0.0");
    assert_eq!(scratch.names(), ["packages"]);
}

#[test]
fn a_busy_server_is_asked_again() {
    let scratch = Scratch::new();
    let (upstream, _) = upstream(&scratch);
    upstream.fault("/charts/index.yaml", Fault::TooMany(0), 1);
    upstream.fault("web-1.0.0.tgz", Fault::CutBody, 1);
    scratch.run(&["repo", "index", "packages"]).ok();
    assert_eq!(upstream.count("/charts/index.yaml"), 2);
}

#[test]
fn an_interruption_leaves_nothing_and_says_how_to_go_on() {
    let scratch = Scratch::new();
    let (upstream, _) = upstream(&scratch);
    upstream.fault("/charts", Fault::Silence, 1000);
    for (name, times) in [("INT", 1), ("TERM", 1)] {
        let before = upstream.count("/charts");
        let child = scratch
            .command(&["repo", "index", "packages"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for("the request", || upstream.count("/charts") > before);
        for _ in 0..times {
            signal(&child, name);
        }
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        assert!(stderr.contains("error: interrupted"), "{stderr}");
        assert!(stderr.contains("hint: nothing was written"), "{stderr}");
        assert_eq!(scratch.names(), ["packages"]);
    }
}

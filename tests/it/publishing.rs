//! `repo index --merge` and `--verify`, `repo withdraw`, approvals: a repository that grows.

use kubepkg_core::index::Index;
use kubepkg_test_support::{Chart, ImageBuilder, Package, Upstream};

use crate::command::{Run, Scratch};

struct Publisher {
    scratch: Scratch,
    upstream: Upstream,
}

impl Publisher {
    fn new() -> Publisher {
        let publisher = Publisher {
            scratch: Scratch::new(),
            upstream: Upstream::start(),
        };
        for key in ["release", "other"] {
            publisher.run(&["repo", "keygen", key]).ok();
        }
        publisher
    }

    fn run(&self, call: &[&str]) -> Run {
        self.scratch.run(call)
    }

    /// The only recipe in the folder is this version of web from now on.
    fn recipe(&self, version: &str) -> Package {
        let image = ImageBuilder::new(version.len() as u64)
            .layers(1, 5_000)
            .build();
        self.upstream.put_image("web", &[version], &image);
        let host = self.upstream.host();
        let web =
            Package::new("web", version).image(&format!("{host}/web:{version}@{}", image.digest()));
        self.scratch.write("packages/web.yaml", web.to_yaml());
        web
    }

    fn index(&self, flags: &[&str]) -> Run {
        let call = ["repo", "index", "packages", "--sign-key", "release.key"];
        self.run(&[&call[..], flags].concat())
    }

    fn serve(&self) -> String {
        for name in ["index.yaml", "index.yaml.sig"] {
            let text = self.scratch.read(name);
            self.upstream
                .put_file(&format!("/{name}"), text.into_bytes());
        }
        self.upstream.url("/index.yaml")
    }

    fn versions(&self) -> Vec<String> {
        let index = Index::read(self.scratch.read("index.yaml").as_bytes()).unwrap();
        let versions = index.packages["web"].versions.iter();
        versions.map(|version| version.version.clone()).collect()
    }
}

#[test]
fn published_versions_are_kept_and_the_base_is_checked() {
    let publisher = Publisher::new();
    publisher.recipe("1.0.0");
    let key = ["--public-key", "release.pub"];
    let url = publisher.upstream.url("/index.yaml");
    publisher
        .index(&[&["--merge", &url][..], &key].concat())
        .ok()
        .says("does not exist yet: starting a new index");
    publisher.serve();
    publisher.recipe("1.1.0");
    let merge = ["--force", "--merge", &url];
    publisher
        .index(&[&merge[..], &key].concat())
        .ok()
        .says("only in the base");
    assert_eq!(publisher.versions(), ["1.1.0", "1.0.0"]);
    // without a key it is judged by who was trusted before; with none, that is said loudly
    let run = publisher.index(&merge).ok();
    assert!(!run.stderr.contains("nobody vouches"), "{}", run.stderr);
    let elsewhere = publisher.scratch.path("elsewhere");
    let state = [("XDG_STATE_HOME", elsewhere.to_str().unwrap())];
    let call = ["repo", "index", "packages", "--sign-key", "release.key"];
    publisher
        .scratch
        .run_with(&state, &[&call[..], &merge].concat())
        .ok()
        .says("nobody vouches for");
    let other = ["--public-key", "other.pub", "--change-trust"];
    publisher
        .index(&[&merge[..], &other].concat())
        .fails(3, "not signed by");
    // what is published does not change
    let changed = publisher.recipe("1.0.0").image(&format!(
        "{}/more:1@sha256:{}",
        publisher.upstream.host(),
        "1".repeat(64)
    ));
    publisher
        .scratch
        .write("packages/web.yaml", changed.to_yaml());
    publisher
        .index(&[&merge[..], &key].concat())
        .fails(3, "already published with different content");
    // two indexes made in one second are told apart by their time
    publisher.recipe("1.2.0");
    publisher.serve();
    publisher.index(&[&merge[..], &key].concat()).ok();
    let before =
        Index::read(&std::fs::read(publisher.scratch.path("index.yaml")).unwrap()).unwrap();
    publisher.serve();
    publisher.recipe("1.3.0");
    publisher.index(&[&merge[..], &key].concat()).ok();
    let after = Index::read(&std::fs::read(publisher.scratch.path("index.yaml")).unwrap()).unwrap();
    assert!(after.generated > before.generated);
}

#[test]
fn pinned_charts_are_compared_when_asked() {
    let publisher = Publisher::new();
    let chart = Chart::new("web", "1.0.0", "web:1");
    publisher
        .upstream
        .put_charts("/charts", std::slice::from_ref(&chart));
    let charts = publisher.upstream.url("/charts");
    let pinned = |digest| Package::new("web", "1.0.0").chart(&charts, "web", "1.0.0", Some(digest));
    publisher
        .scratch
        .write("packages/web.yaml", pinned(chart.digest()).to_yaml());
    publisher
        .index(&["--verify"])
        .ok()
        .says("verified: 1 chart has");
    let other = kubepkg_core::Digest::sha256("other");
    publisher
        .scratch
        .write("packages/web.yaml", pinned(other).to_yaml());
    publisher.index(&["--force"]).ok();
    publisher
        .index(&["--force", "--verify"])
        .fails(3, "chart web 1.0.0 is pinned at");
}

#[test]
fn a_withdrawn_version_is_kept_out_until_it_is_taken_back() {
    let publisher = Publisher::new();
    publisher.recipe("1.0.0");
    publisher.index(&[]).ok();
    publisher.recipe("1.1.0");
    let merge = [
        "--force",
        "--merge",
        "index.yaml",
        "--public-key",
        "release.pub",
    ];
    publisher.index(&merge).ok();
    let repo = publisher.serve();
    let create = |what: &str, file: &str| {
        publisher.run(&[
            "bundle",
            "create",
            what,
            "-o",
            file,
            "--force",
            "--repo",
            &repo,
            "--public-key",
            "release.pub",
            "--no-progress",
        ])
    };
    let import = |file: &str, flags: &[&str]| {
        let call = [
            "bundle",
            "import",
            file,
            "--store",
            "mirror",
            "--public-key",
            "release.pub",
        ];
        publisher.run(&[&call[..], flags].concat())
    };
    create("web", "before.tar").ok();
    let withdraw = |flags: &[&str]| {
        let call = [
            "repo",
            "withdraw",
            "web@1.1.0",
            "--index",
            "index.yaml",
            "--sign-key",
        ];
        publisher.run(&[&call[..], &["release.key"], flags].concat())
    };
    publisher
        .run(&["repo", "withdraw", "web@1.1.0", "--reason", "x"])
        .fails(2, "no key is given to sign");
    publisher
        .run(&[
            "repo",
            "withdraw",
            "web@9.0.0",
            "--reason",
            "x",
            "--sign-key",
            "release.key",
        ])
        .says("web 9.0.0");
    withdraw(&["--reason", "loses data", "--replacement", "1.0.0"])
        .ok()
        .says("web 1.1.0 is withdrawn (1 build): loses data");
    publisher.serve();
    // nobody gets it any more, but by its exact number, with a warning
    create("web", "old.tar").ok();
    let old = publisher
        .run(&["bundle", "inspect", "old.tar", "-o", "json"])
        .ok()
        .json();
    assert_eq!(old["head"]["packages"][0]["version"], "1.0.0", "{old}");
    create("web@1.1.0", "exact.tar").ok();
    let search = publisher.run(&["search", "web", "--repo", &repo]).ok();
    assert!(search.stdout.contains("1.0.0"), "{}", search.stdout);
    let shown = publisher.run(&["repo", "show", &repo]).ok();
    assert!(
        shown.stdout.contains("1.1.0 (withdrawn)"),
        "{}",
        shown.stdout
    );
    assert!(shown.stdout.contains("loses data"), "{}", shown.stdout);
    import("exact.tar", &[])
        .fails(3, "withdrawn")
        .says("--allow-withdrawn");
    import("old.tar", &[]).ok();
    // a bundle from before it was known: the store has seen the statement since
    import("before.tar", &[]).fails(3, "withdrawn");
    import("exact.tar", &["--allow-withdrawn"])
        .ok()
        .says("loses data");
    // an index that only forgets the statement changes nothing
    withdraw(&["--lift"]).ok().says("no longer withdrawn");
    publisher.serve();
    create("web", "lifted.tar").ok();
    import("lifted.tar", &[]).ok();
    withdraw(&["--lift"]).says("web 1.1.0");
}

#[test]
fn approvals_are_wanted_where_the_root_says_so() {
    let publisher = Publisher::new();
    publisher.run(&["repo", "keygen", "security"]).ok();
    publisher
        .run(&[
            "trust",
            "root",
            "new",
            "--root-key",
            "other.pub",
            "--index-key",
            "release.pub",
            "--approvals-key",
            "security.pub",
        ])
        .ok();
    publisher
        .run(&["trust", "sign", "root.yaml", "--key", "other.key"])
        .ok();
    for name in ["root.yaml", "root/1.yaml"] {
        let text = publisher.scratch.read(name);
        publisher
            .upstream
            .put_file(&format!("/{name}"), text.into_bytes());
    }
    publisher.recipe("1.0.0");
    publisher.index(&["--expires", "30d"]).ok();
    let repo = publisher.serve();
    let show = ["repo", "show", &repo, "--root-key", "other.pub"];
    let shown = publisher.run(&show).ok();
    assert!(
        shown.stdout.contains("0 of 1 approvals"),
        "{}",
        shown.stdout
    );
    // a signature as if for a delegation is no approval
    publisher
        .run(&[
            "trust",
            "sign",
            "packages/web.yaml",
            "--key",
            "security.key",
        ])
        .ok();
    publisher
        .run(&[
            "trust",
            "sign",
            "packages/web.yaml",
            "--key",
            "security.key",
            "--approve",
        ])
        .ok()
        .says("approved web 1.0.0");
    publisher
        .run(&[
            "trust",
            "sign",
            "index.yaml",
            "--key",
            "security.key",
            "--approve",
        ])
        .fails(2, "--approve is for versions");
    publisher
        .index(&[
            "--expires",
            "30d",
            "--force",
            "--merge",
            "index.yaml",
            "--public-key",
            "release.pub",
        ])
        .ok();
    publisher.serve();
    let shown = publisher.run(&show).ok();
    assert!(!shown.stdout.contains("approvals"), "{}", shown.stdout);
    publisher
        .run(&[
            "bundle",
            "create",
            "web",
            "-o",
            "a.tar",
            "--repo",
            &repo,
            "--no-progress",
        ])
        .ok();
}

#[test]
fn an_older_base_than_the_one_accepted_is_not_continued() {
    let publisher = Publisher::new();
    publisher.recipe("1.0.0");
    publisher.index(&["--expires", "90d"]).ok();
    let url = publisher.serve();
    let old = ["index.yaml", "index.yaml.sig"].map(|name| publisher.scratch.read(name));
    let withdraw = [
        "repo",
        "withdraw",
        "web@1.0.0",
        "--reason",
        "CVE-2026-1234",
        "--sign-key",
        "release.key",
    ];
    publisher.run(&withdraw).ok();
    publisher.serve();
    let merge = [
        "--force",
        "--merge",
        &url,
        "--public-key",
        "release.pub",
        "--expires",
        "90d",
    ];
    publisher.recipe("1.1.0");
    publisher
        .index(&merge)
        .ok()
        .says("0 versions unchanged, 1 only in the base");
    publisher.serve();
    publisher.index(&merge).ok();
    // the old one is handed out again, with its good signature
    for (name, text) in ["index.yaml", "index.yaml.sig"].into_iter().zip(old) {
        let path = format!("/{name}");
        publisher.upstream.put_file(&path, text.into_bytes());
    }
    let before = publisher.scratch.read("index.yaml");
    publisher.index(&merge).fails(3, "older");
    assert_eq!(publisher.scratch.read("index.yaml"), before);
    // a new index in place of the published one says what is lost
    publisher
        .index(&["--force"])
        .ok()
        .says("1 version of the index that is replaced is not in the new one");
}

#[test]
fn whoever_signs_an_index_is_told_when_the_root_beside_it_says_otherwise() {
    let publisher = Publisher::new();
    publisher.recipe("1.0.0");
    let new = [
        "trust",
        "root",
        "new",
        "--root-key",
        "other.pub",
        "--index-key",
        "other.pub",
    ];
    publisher.run(&new).ok();
    publisher
        .index(&["--expires", "90d"])
        .ok()
        .says("is no index key of root.yaml version 1");
    let withdraw = [
        "repo",
        "withdraw",
        "web@1.0.0",
        "--reason",
        "x",
        "--sign-key",
        "release.key",
    ];
    publisher
        .run(&withdraw)
        .ok()
        .says("is no index key of root.yaml version 1");
    let none = [
        "repo",
        "withdraw",
        "no@1.0.0",
        "--reason",
        "x",
        "--sign-key",
        "release.key",
    ];
    publisher
        .run(&none)
        .fails(4, "no")
        .says("where: index.yaml");
}

#[test]
fn a_file_is_shown_as_it_is_judged_elsewhere() {
    let publisher = Publisher::new();
    publisher.recipe("1.0.0");
    let served = "https://packages.example.com/index.yaml";
    publisher.index(&["--url", served]).ok();
    let show = ["repo", "show", "index.yaml"];
    publisher.run(&show).ok().says("nobody vouches");
    let verify = [
        "repo",
        "verify",
        "index.yaml",
        "--public-key",
        "release.pub",
    ];
    publisher.run(&verify).ok();
    let run = publisher.run(&show).ok();
    assert!(!run.stderr.contains("nobody vouches"), "{}", run.stderr);
    // what is no index is told with its name
    for (file, text) in [("release.pub", None), ("empty.yaml", Some(""))] {
        if let Some(text) = text {
            publisher.scratch.write(file, text);
        }
        let run = publisher.run(&["repo", "show", file]);
        assert_eq!(run.code, 3, "{}", run.stderr);
        run.says(file);
    }
}

//! Trust end to end, with the real command on both sides: roots that change, delegations,
//! withdrawals, what is remembered, and how to start anew.

use kubepkg_core::time::Time;
use kubepkg_test_support::package::index;
use kubepkg_test_support::{ImageBuilder, Package, Upstream};

use crate::command::{Run, Scratch};
use crate::publisher::hours_ago;

/// A publisher with a root of trust, and the folder everything is done in.
struct Site {
    scratch: Scratch,
    upstream: Upstream,
    repo: String,
}

const DAYS: i64 = 24;

impl Site {
    /// A root of two of ann, bob and eve; release signs the index.
    fn new(flags: &[&str]) -> Site {
        let site = Site {
            scratch: Scratch::new(),
            upstream: Upstream::start(),
            repo: String::new(),
        };
        let site = Site {
            repo: site.upstream.url("/index.yaml"),
            ..site
        };
        for key in ["ann", "bob", "eve", "release", "team"] {
            site.run(&["repo", "keygen", key]).ok();
        }
        let call = [
            "trust",
            "root",
            "new",
            "--root-key",
            "ann.pub",
            "--root-key",
            "bob.pub",
            "--root-key",
            "eve.pub",
            "--root-threshold",
            "2",
            "--index-key",
            "release.pub",
        ];
        site.run(&[&call[..], flags].concat()).ok();
        site.sign_root(&["ann", "eve"]);
        site
    }

    fn run(&self, call: &[&str]) -> Run {
        self.scratch.run(call)
    }

    fn sign_root(&self, keys: &[&str]) {
        for key in keys {
            self.run(&["trust", "sign", "root.yaml", "--key", &format!("{key}.key")])
                .ok();
        }
    }

    /// Serves the roots as they are.
    fn publish_roots(&self) {
        let put = |name: &str| {
            if let Ok(bytes) = std::fs::read(self.scratch.path(name)) {
                self.upstream.put_file(&format!("/{name}"), bytes);
            }
        };
        put("root.yaml");
        (1..=4).for_each(|n| put(&format!("root/{n}.yaml")));
    }

    /// Serves an index made so many hours ago, signed by these keys.
    fn publish(&self, packages: &[Package], hours: i64, keys: &[&str]) {
        let text = index(packages, hours_ago(hours), Some(hours_ago(-90 * DAYS)));
        self.publish_text(&text, keys);
    }

    fn publish_text(&self, text: &[u8], keys: &[&str]) {
        self.publish_roots();
        let _ = std::fs::remove_file(self.scratch.path("index.yaml.sig"));
        self.scratch.write("index.yaml", text);
        for key in keys {
            self.run(&[
                "trust",
                "sign",
                "index.yaml",
                "--key",
                &format!("{key}.key"),
            ])
            .ok();
        }
        self.upstream.put_file(
            "/index.yaml.sig",
            self.scratch.read("index.yaml.sig").into_bytes(),
        );
        self.upstream.put_file("/index.yaml", text.to_vec());
    }

    /// A package with one image of its own.
    fn package(&self, name: &str, version: &str) -> Package {
        let seed = version.bytes().map(u64::from).sum::<u64>();
        let image = ImageBuilder::new(seed).layers(1, 5_000).build();
        self.upstream.put_image(name, &[version], &image);
        let host = self.upstream.host();
        Package::new(name, version).image(&format!("{host}/{name}:{version}@{}", image.digest()))
    }

    fn create(&self, what: &str, file: &str, flags: &[&str]) -> Run {
        let call = [
            "bundle",
            "create",
            what,
            "-o",
            file,
            "--repo",
            &self.repo,
            "--no-progress",
        ];
        self.run(&[&call[..], flags].concat())
    }

    fn import(&self, file: &str, flags: &[&str]) -> Run {
        let call = [
            "bundle",
            "import",
            file,
            "--store",
            "mirror",
            "--no-progress",
        ];
        self.run(&[&call[..], flags].concat())
    }
}

const ROOT_KEYS: &[&str] = &[
    "--root-key",
    "ann.pub",
    "--root-key",
    "bob.pub",
    "--root-key",
    "eve.pub",
    "--root-threshold",
    "2",
];

#[test]
fn keys_change_and_nobody_has_to_be_told() {
    let site = Site::new(&[]);
    let (one, two) = (site.package("web", "1.0.0"), site.package("web", "1.1.0"));
    site.publish(std::slice::from_ref(&one), 48, &["release"]);
    site.create("web", "old.tar", &[]).fails(2, "no key given");
    site.create("web", "old.tar", &["--root-key", "team.pub"])
        .fails(3, "root");
    site.create("web", "old.tar", ROOT_KEYS).ok();
    site.import("old.tar", &[]).fails(2, "no key given");
    site.import("old.tar", ROOT_KEYS)
        .ok()
        .says("is acceptable until");

    // two keys of the root and the one of the index are others from now on
    for key in ["new-ann", "new-release"] {
        site.run(&["repo", "keygen", key]).ok();
    }
    site.run(&[
        "trust",
        "root",
        "next",
        "root.yaml",
        "--root-key",
        "new-ann.pub",
        "--root-key",
        "bob.pub",
        "--root-threshold",
        "2",
        "--index-key",
        "new-release.pub",
    ])
    .ok();
    // who has the new keys alone gets nobody to follow
    site.sign_root(&["new-ann", "bob"]);
    site.publish(&[one.clone(), two.clone()], 24, &["new-release"]);
    site.create("web", "new.tar", &[]).fails(3, "root");
    site.sign_root(&["eve"]);
    // neither does the old index key sign for the new root
    site.publish(&[one.clone(), two.clone()], 24, &["release"]);
    site.create("web", "new.tar", &[]).fails(3, "not signed");
    site.publish(&[one.clone(), two], 24, &["new-release"]);
    // no flags: both sides follow from what they accepted
    site.create("web", "new.tar", &[]).ok();
    site.import("new.tar", &[]).ok();
    let shown = site
        .run(&["trust", "show", "--store", "mirror", "-o", "json"])
        .ok()
        .json();
    assert_eq!(shown["entries"][0]["accepted"]["root"]["version"], 2);
    assert_eq!(shown["entries"][0]["trust"]["root"]["threshold"], 2);

    // an old bundle does no harm: its package is judged by the index accepted since
    site.import("old.tar", &[]).ok();
    let after = site
        .run(&["trust", "show", "--store", "mirror", "-o", "json"])
        .ok()
        .json();
    assert_eq!(after, shown);
    // and one with a package that this index does not list is refused
    let gone = site.package("gone", "1.0.0");
    let state = site.scratch.path("other");
    let other = [("XDG_STATE_HOME", state.to_str().unwrap())];
    let mut call = vec![
        "bundle", "create", "gone", "-o", "gone.tar", "--repo", &site.repo,
    ];
    call.extend(ROOT_KEYS);
    site.publish(&[one, gone], 30, &["new-release"]);
    site.scratch.run_with(&other, &call).ok();
    site.import("gone.tar", &[]).fails(3, "gone 1.0.0");
    // this side has seen the newer index, so a repository that went back is refused outright
    site.create("gone", "x.tar", &[]).fails(3, "older");
}

#[test]
fn a_plain_key_is_no_way_around_a_root() {
    let site = Site::new(&[]);
    let web = site.package("web", "1.0.0");
    site.publish(&[web], 10, &["release"]);
    site.create("web", "a.tar", ROOT_KEYS).ok();
    site.import("a.tar", ROOT_KEYS).ok();
    for call in [
        site.import("a.tar", &["--public-key", "release.pub"]),
        site.import(
            "a.tar",
            &["--allow-unsigned", "--public-key", "release.pub"],
        ),
        site.create("web", "b.tar", &["--public-key", "release.pub"]),
    ] {
        call.fails(3, "--change-trust");
    }
    site.import("a.tar", &["--public-key", "release.pub", "--change-trust"])
        .ok();
    let shown = site
        .run(&["trust", "show", "--store", "mirror", "-o", "json"])
        .ok()
        .json();
    assert!(shown["entries"][0]["trust"]["keys"].is_object(), "{shown}");
}

#[test]
fn what_is_delegated_needs_the_signature_of_the_team() {
    let site = Site::new(&[
        "--delegate",
        "team=web,db-*",
        "--delegate-key",
        "team=team.pub",
    ]);
    let (web, other) = (site.package("web", "1.0.0"), site.package("other", "1.0.0"));
    site.scratch.write("packages/web.yaml", web.to_yaml());
    site.scratch.write("packages/other.yaml", other.to_yaml());
    let publish = |hours: i64| {
        site.run(&[
            "repo",
            "index",
            "packages",
            "-o",
            "draft.yaml",
            "--force",
            "--expires",
            "90d",
        ])
        .ok();
        let now = site.scratch.read("draft.yaml");
        let made = now
            .lines()
            .find(|line| line.starts_with("generated:"))
            .unwrap();
        let text = now.replace(made, &format!("generated: \"{}\"", hours_ago(hours)));
        site.publish_text(text.as_bytes(), &["release"]);
    };
    publish(20);
    site.create("web", "a.tar", ROOT_KEYS).fails(4, "web");
    let show: Vec<&str> = [&["repo", "show", &site.repo][..], ROOT_KEYS].concat();
    let shown = site.run(&show).ok();
    assert!(
        shown.stdout.contains("delegation team: 0 of 1 signatures"),
        "{}",
        shown.stdout
    );
    site.create("other", "b.tar", ROOT_KEYS)
        .ok()
        .says("cannot be chosen");
    // a signature by somebody else does not help, one by the team does
    site.run(&["trust", "sign", "packages/web.yaml", "--key", "release.key"])
        .ok();
    publish(19);
    site.create("web", "a.tar", ROOT_KEYS).fails(4, "web");
    site.run(&["trust", "sign", "packages/web.yaml", "--key", "team.key"])
        .ok();
    publish(18);
    site.create("web", "a.tar", ROOT_KEYS).ok();
    site.import("a.tar", ROOT_KEYS).ok();
}

#[test]
fn what_is_remembered_survives_damage_only_as_an_error() {
    let site = Site::new(&[]);
    let web = site.package("web", "1.0.0");
    site.publish(std::slice::from_ref(&web), 24, &["release"]);
    let search: Vec<&str> = [&["search", "--repo", &site.repo][..], ROOT_KEYS].concat();
    site.run(&search).ok();
    let state = "../home/.local/state/kubepkg/trust/remembered.json";
    let kept = site.scratch.read(state);
    assert!(kept.contains("known-keys"), "{kept}");
    // an older index, rightly signed, is held back for good
    site.publish(std::slice::from_ref(&web), 48, &["release"]);
    site.run(&search).fails(3, "older");
    for damage in ["", "{}", "nonsense", &kept[..kept.len() / 2]] {
        std::fs::write(site.scratch.path(state), damage).unwrap();
        site.run(&search)
            .fails(3, "damaged")
            .says("remembered.json");
        site.create("web", "a.tar", ROOT_KEYS).fails(3, "damaged");
    }
    std::fs::write(site.scratch.path(state), &kept).unwrap();
    site.run(&search).fails(3, "older");
    // starting anew is a decision of somebody, and on record
    let shown = site.run(&["trust", "show", "-o", "json"]).ok().json();
    let entry = shown["entries"][0]["id"].as_str().unwrap().to_owned();
    site.run(&["trust", "reset", "nobody"])
        .fails(4, "no such trust entry")
        .says(&entry);
    site.run(&["trust", "reset", &entry]).ok();
    let record = site
        .scratch
        .read("../home/.local/state/kubepkg/trust/resets.jsonl");
    assert!(record.contains(&entry), "{record}");
    site.run(&["trust", "reset", &entry])
        .ok()
        .says("nothing to drop");
    // who is trusted stayed
    site.run(&["search", "--repo", &site.repo]).ok();
}

#[test]
fn a_store_is_reset_and_says_so() {
    let site = Site::new(&[]);
    let (one, two) = (site.package("web", "1.0.0"), site.package("web", "2.0.0"));
    site.publish(&[one], 24, &["release"]);
    site.create("web", "a.tar", ROOT_KEYS).ok();
    site.import("a.tar", ROOT_KEYS).ok();
    let shown = site
        .run(&["trust", "show", "--store", "mirror", "-o", "json"])
        .ok()
        .json();
    let entry = shown["entries"][0]["id"].as_str().unwrap().to_owned();
    // the publisher lost everything and starts anew, with an older time
    site.publish(&[two], 48, &["release"]);
    let other = site.scratch.path("other");
    let state = [("XDG_STATE_HOME", other.to_str().unwrap())];
    let mut call = vec![
        "bundle", "create", "web", "-o", "b.tar", "--repo", &site.repo,
    ];
    call.extend(ROOT_KEYS);
    site.scratch.run_with(&state, &call).ok();
    site.import("b.tar", &[]).fails(3, "web 2.0.0");
    site.run(&["trust", "reset", &entry, "--store", "mirror"])
        .ok()
        .says("(commit ");
    site.import("b.tar", &[]).ok();
    site.run(&["trust", "reset", &entry, "--store", "none"])
        .fails(4, "no store");
}

#[test]
fn an_expired_index_is_looked_at_as_of_then() {
    let site = Site::new(&[]);
    let web = site.package("web", "1.0.0");
    let soon = hours_ago(0).plus(4);
    let text = index(std::slice::from_ref(&web), hours_ago(10), Some(soon));
    site.publish_text(&text, &["release"]);
    site.create("web", "a.tar", ROOT_KEYS).ok();
    // the bundle waits until its index has expired
    crate::command::wait_for("expiry", || Time::now() > soon);
    let then = hours_ago(1).to_string();
    let verify = [&["bundle", "verify", "a.tar"][..], ROOT_KEYS].concat();
    site.run(&verify).fails(3, "expired");
    let as_of = ["--as-of", then.as_str()];
    site.run(&[&verify[..], &as_of].concat()).ok().says(&then);
    site.import("a.tar", ROOT_KEYS).fails(3, "expired");
    let imported = site
        .import("a.tar", &[ROOT_KEYS, &as_of, &["-o", "json"]].concat())
        .ok()
        .json();
    assert_eq!(imported["receipt"]["asOf"], then);
    let shown = site
        .run(&["trust", "show", "--store", "mirror", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        shown["entries"],
        serde_json::json!([]),
        "an audit is not remembered"
    );
    site.import("a.tar", &[ROOT_KEYS, &["--as-of", "yesterday"]].concat())
        .fails(2, "write it like");
}

#[test]
fn an_index_may_be_too_old_for_a_site() {
    let site = Site::new(&[]);
    site.publish(&[site.package("web", "1.0.0")], 50, &["release"]);
    let search: Vec<&str> = [&["search", "--repo", &site.repo][..], ROOT_KEYS].concat();
    site.run(&[&search[..], &["--max-age", "2d"]].concat())
        .fails(3, "old");
    site.run(&[&search[..], &["--max-age", "3d"]].concat()).ok();
}

#[test]
fn packages_are_found_and_an_index_is_shown() {
    let site = Site::new(&[]);
    site.publish(
        &[
            site.package("web", "1.0.0"),
            site.package("web", "1.1.0"),
            site.package("db", "2.0.0"),
        ],
        10,
        &["release"],
    );
    // without a key it is shown, and said to be vouched for by nobody
    let shown = site
        .run(&["repo", "show", &site.repo])
        .ok()
        .says("nobody vouches");
    assert!(shown.stdout.contains("not verified"), "{}", shown.stdout);
    site.run(&["repo", "verify", &site.repo])
        .fails(2, "no key given");
    let verify: Vec<&str> = [&["repo", "verify", &site.repo][..], ROOT_KEYS].concat();
    let verified = site.run(&verify).ok();
    assert!(
        verified
            .stdout
            .contains("is accepted: signed by 1 trusted key"),
        "{}",
        verified.stdout
    );
    site.run(&[
        "repo",
        "verify",
        &site.repo,
        "--root-key",
        "team.pub",
        "--change-trust",
    ])
    .fails(3, "root");
    let add: Vec<&str> = [&["repo", "add", "main", &site.repo][..], ROOT_KEYS].concat();
    site.run(&add).ok();
    let found = site.run(&["search", "WEB"]).ok();
    let rows: Vec<&str> = found.stdout.lines().collect();
    assert_eq!(rows.len(), 2, "{}", found.stdout);
    assert!(rows[1].starts_with("web") && rows[1].contains("1.1.0") && rows[1].ends_with("main"));
    site.run(&["search", "nothing"])
        .ok()
        .says("no package fits");
    let json = site.run(&["search", "-o", "json"]).ok().json();
    assert_eq!(json["packages"][0]["name"], "db");
    assert_eq!(json["packages"][1]["versions"], 2);
    let shown = site
        .run(&["repo", "show", "main", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (shown["judged"].as_bool(), shown["root"].as_u64()),
        (Some(true), Some(1))
    );
    assert_eq!(shown["packages"][1]["versions"][0]["version"], "1.1.0");
}

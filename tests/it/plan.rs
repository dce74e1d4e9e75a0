//! `plan` on files alone: what would change, why, and a lock of it.

use kubepkg_core::lock::Lock;
use kubepkg_test_support::Package;

use crate::publisher::Publisher;

fn publisher() -> Publisher {
    let publisher = Publisher::new();
    publisher.publish(&[
        Package::new("web", "1.0.0").requires("db", ">=2"),
        Package::new("web", "2.0.0").requires("db", ">=3"),
        Package::new("db", "2.0.0"),
        Package::new("db", "3.0.0"),
        Package::new("old", "1.0.0").requires("db", "<3"),
    ]);
    publisher
}

const INSTALLED: &str = "apiVersion: kubepkg.dev/v1\nkind: Installed\npackages:\n- name: db\n  \
                         version: 2.0.0\n";

fn plan<'a>(
    publisher: &'a Publisher,
    repo: &'a str,
) -> impl Fn(&[&str]) -> crate::command::Run + 'a {
    move |flags| {
        let call = ["plan", "--repo", repo, "--public-key", "release.pub"];
        publisher.scratch.run(&[&call[..], flags].concat())
    }
}

#[test]
fn what_would_change_and_why() {
    let publisher = publisher();
    let repo = publisher.repo();
    let plan = plan(&publisher, &repo);
    publisher.scratch.write("installed.yaml", INSTALLED);
    let run = plan(&["web", "--installed", "installed.yaml"]).ok();
    let rows: Vec<Vec<&str>> = run
        .stdout
        .lines()
        .take(3)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        ["ACTION", "PACKAGE", "FROM", "TO", "REPOSITORY", "WHY"]
    );
    assert_eq!(
        rows[1][..5],
        ["upgrade", "db", "2.0.0", "3.0.0", repo.as_str()]
    );
    assert_eq!(rows[1][5..], ["required", "by", "web", "2.0.0"]);
    assert_eq!(rows[2][..4], ["install", "web", "-", "2.0.0"]);
    assert!(
        run.stdout.ends_with("1 to install, 1 to upgrade\n"),
        "{}",
        run.stdout
    );
    let json = plan(&["web@<2", "--installed", "installed.yaml", "-o", "json"])
        .ok()
        .json();
    assert_eq!(json["kind"], "Plan");
    assert_eq!(json["changes"][0]["action"], "keep");
    assert_eq!(json["changes"][1]["to"]["version"], "1.0.0");
    // an empty cluster without a list
    plan(&["db"]).ok();
    plan(&[]).fails(2, "required");
    plan(&["web", "--installed", "none.yaml"]).fails(4, "cannot read the list");
    publisher
        .scratch
        .write("bad.yaml", INSTALLED.replace("version", "wersion"));
    plan(&["web", "--installed", "bad.yaml"])
        .fails(2, "wersion")
        .says("where: bad.yaml");
}

#[test]
fn what_is_installed_is_not_broken_in_silence() {
    let publisher = publisher();
    let repo = publisher.repo();
    let plan = plan(&publisher, &repo);
    let both = format!(
        "{INSTALLED}- name: old\n  version: 1.0.0\n  requires:\n  - {{package: db, version: \"<3\"}}\n"
    );
    publisher.scratch.write("installed.yaml", both);
    let web = ["web@2.0.0", "--installed", "installed.yaml"];
    let run = plan(&web);
    assert_eq!(run.stdout, "");
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("old 1.0.0"), "{}", run.stderr);
    assert!(run.stderr.contains("--allow-breaking"), "{}", run.stderr);
    let run = plan(&[&web[..], &["--allow-breaking"]].concat()).ok();
    assert!(
        run.stdout
            .contains("these will not hold any more:\n  old 1.0.0"),
        "{}",
        run.stdout
    );
}

#[test]
fn a_lock_says_exactly_what() {
    let publisher = publisher();
    let repo = publisher.repo();
    let plan = plan(&publisher, &repo);
    plan(&["web", "--lock", "web.lock"])
        .ok()
        .says("wrote web.lock: 2 packages");
    let lock = Lock::read(&publisher.scratch.read("web.lock")).unwrap();
    assert_eq!(lock.packages["db"].version, "3.0.0");
    assert_eq!(lock.repositories.keys().collect::<Vec<_>>(), [&repo]);
    // the same again is fine, another one is not written over it
    plan(&["web", "--lock", "web.lock"])
        .ok()
        .says("holds this lock already");
    plan(&["web@<2", "--lock", "web.lock"])
        .fails(1, "the lock exists already")
        .says("--lock");
    plan(&["web@<2", "--lock", "web.lock", "--force"]).ok();
}

#[test]
fn a_bundle_of_a_lock_holds_exactly_that() {
    let publisher = Publisher::new();
    let image = publisher.image(
        "app",
        "1",
        &kubepkg_test_support::ImageBuilder::new(1).build(),
    );
    let packages = |more: &[&str]| -> Vec<Package> {
        let versions = ["1.0.0"].iter().chain(more);
        versions
            .map(|version| Package::new("app", version).image(&image))
            .collect()
    };
    publisher.publish_at(&packages(&[]), crate::publisher::hours_ago(20));
    let repo = publisher.repo();
    plan(&publisher, &repo)(&["app", "--lock", "app.lock"]).ok();
    publisher.publish_at(&packages(&["2.0.0"]), crate::publisher::hours_ago(10));
    publisher
        .create(&["--lock", "app.lock"])
        .ok()
        .says("another index than the one the lock was made from");
    assert_eq!(publisher.head()["packages"][0]["version"], "1.0.0");
    publisher.create(&["app", "--force"]).ok();
    assert_eq!(publisher.head()["packages"][0]["version"], "2.0.0");
    let lock = publisher.scratch.read("app.lock");
    let other = kubepkg_core::Digest::sha256("other").to_string();
    let digest = Lock::read(&lock).unwrap().packages["app"]
        .digest
        .to_string();
    publisher
        .scratch
        .write("app.lock", lock.replace(&digest, &other));
    let run = publisher.create(&["--lock", "app.lock", "--force"]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("app"), "{}", run.stderr);
}

/// `web` needs `db` in its variant `default`, and `sqlite` in `small`.
fn two_variants() -> Publisher {
    let publisher = Publisher::new();
    publisher.publish(&[
        Package::new("web", "1.0.0")
            .requires("db", ">=2")
            .variant("small")
            .requires("sqlite", ""),
        Package::new("db", "2.0.0").requires("disk", ""),
        Package::new("db", "3.0.0").requires("disk", ""),
        Package::new("disk", "1.0.0"),
        Package::new("sqlite", "1.0.0"),
    ]);
    publisher
}

/// Names and versions in `site.tar`.
fn carried(publisher: &Publisher) -> Vec<String> {
    let head = publisher.head();
    let packages = head["packages"].as_array().unwrap().iter();
    let named = packages.map(|package| {
        let text = |member: &str| package[member].as_str().unwrap().to_owned();
        format!("{} {}", text("name"), text("version"))
    });
    named.collect()
}

#[test]
fn a_lock_holds_the_variant_that_was_planned_and_its_bundle_needs_no_other() {
    let publisher = two_variants();
    let repo = publisher.repo();
    let plan = plan(&publisher, &repo);
    plan(&["web", "--lock", "w.lock"]).ok();
    let run = publisher.create(&["--lock", "w.lock"]).ok();
    assert!(!run.stderr.contains("another index"), "{}", run.stderr);
    assert_eq!(carried(&publisher), ["db 3.0.0", "disk 1.0.0", "web 1.0.0"]);
    assert_eq!(
        publisher.head()["packages"][2]["variants"],
        serde_json::json!(["default"])
    );
    plan(&["web:small", "--lock", "small.lock"]).ok();
    publisher
        .create(&["web", "--lock", "small.lock", "--force"])
        .ok();
    assert_eq!(carried(&publisher), ["sqlite 1.0.0", "web 1.0.0"]);
    // another variant needs what the lock does not name, and the refusal says so
    publisher
        .create(&["--lock", "w.lock", "--variant", "small", "--force"])
        .fails(4, "the lock does not name sqlite")
        .says("write a new lock");
    publisher
        .create(&["sqlite", "--lock", "w.lock", "--force"])
        .fails(4, "the lock does not name sqlite (requested)");
}

#[test]
fn a_lock_holds_what_stays_installed_and_is_needed() {
    let publisher = two_variants();
    let repo = publisher.repo();
    let plan = plan(&publisher, &repo);
    let disk = "- name: disk\n  version: 1.0.0\n";
    publisher
        .scratch
        .write("inst.yaml", format!("{INSTALLED}{disk}"));
    let installed = ["--installed", "inst.yaml", "--lock"];
    plan(&[&["web"], &installed[..], &["wi.lock"]].concat()).ok();
    publisher.create(&["--lock", "wi.lock"]).ok();
    assert_eq!(carried(&publisher), ["db 2.0.0", "disk 1.0.0", "web 1.0.0"]);
    // a build nobody carries cannot travel: that is said on both sides
    publisher.scratch.write(
        "inst.yaml",
        format!("{INSTALLED}{}", disk.replace("1.0.0", "1.0.0\n  build: 7")),
    );
    plan(&[&["web"], &installed[..], &["outside.lock"]].concat())
        .ok()
        .says("the lock does not hold disk")
        .says("no repository carries this version and build");
    publisher
        .create(&["--lock", "outside.lock", "--force"])
        .ok()
        .says("disk 1.0.0 is needed and not in the bundle");
    assert_eq!(carried(&publisher), ["db 2.0.0", "web 1.0.0"]);
}

#[test]
fn what_was_written_by_hand_is_not_locked_and_that_is_said() {
    let publisher = two_variants();
    let repo = publisher.repo();
    let plan = plan(&publisher, &repo);
    let local = "---\napiVersion: kubepkg.dev/v1\nkind: PackageSource\nmetadata: {name: \
                 NAME}\nspec: {version: 9.0.0}\n";
    let empty = "apiVersion: kubepkg.dev/v1\nkind: Installed\n";
    let with = |name: &str| format!("{empty}{}", local.replace("NAME", name));
    publisher.scratch.write("db.yaml", with("db"));
    plan(&["web", "--installed", "db.yaml", "--lock", "w.lock"])
        .ok()
        .says("the lock does not hold db")
        .says("written by hand");
    publisher
        .create(&["--lock", "w.lock"])
        .ok()
        .says("db 9.0.0 is needed and not in the bundle");
    assert_eq!(carried(&publisher), ["web 1.0.0"]);
    publisher.scratch.write("web.yaml", with("web"));
    plan(&["web", "--installed", "web.yaml", "--lock", "none.lock"])
        .fails(1, "there is nothing to lock");
    assert!(!publisher.scratch.names().contains(&"none.lock".to_owned()));
}

#[test]
fn taking_a_package_away_needs_no_repository() {
    let scratch = crate::command::Scratch::new();
    scratch.write("installed.yaml", INSTALLED);
    let run = scratch.run(&["plan", "--remove", "db", "--installed", "installed.yaml"]);
    let run = run.ok();
    assert!(run.stdout.ends_with("1 to remove\n"), "{}", run.stdout);
    scratch
        .run(&["plan", "web", "--installed", "installed.yaml"])
        .fails(2, "no repository given");
}

//! What `bundle create` takes, what it refuses to take, and what has to be said first.

use kubepkg_core::Digest;
use kubepkg_core::api::{INDEX_API_VERSION, INDEX_KIND};
use kubepkg_test_support::{Chart, ImageBuilder, Package};
use serde_json::json;

use crate::command::Run;
use crate::publisher::{Publisher, hours_ago};
use crate::served::Mirror;

/// An index that `repo index` would not make: its packages need not keep the rules.
fn unchecked_index(packages: &[Package]) -> Vec<u8> {
    let entry = |package: &Package| {
        let spec = &package.source().spec;
        let version = json!({"version": spec.version, "digest": spec.digest(), "spec": spec});
        (
            package.source().metadata.name.clone(),
            json!({"versions": [version]}),
        )
    };
    let packages: serde_json::Map<_, _> = packages.iter().map(entry).collect();
    let index = json!({
        "apiVersion": INDEX_API_VERSION,
        "kind": INDEX_KIND,
        "generated": hours_ago(10),
        "packages": packages,
    });
    serde_json::to_vec(&index).unwrap()
}

fn import(publisher: &Publisher, flags: &[&str]) -> Run {
    let call = ["bundle", "import", "site.tar", "--store", "mirror"];
    let key = ["--public-key", "release.pub"];
    publisher.scratch.run(&[&call[..], &key, flags].concat())
}

#[test]
fn packages_and_versions_that_are_not_there() {
    let publisher = Publisher::new();
    publisher.publish(&[
        Package::new("web", "1.0.0"),
        Package::new("web", "1.1.0"),
        Package::new("app", "1.0.0").requires("db", ">=2"),
        Package::new("app2", "1.0.0").requires("web", ">=2"),
    ]);
    publisher
        .refuses(&["wep"], 4, "wep")
        .says(&publisher.repo());
    publisher.refuses(&["web@>=2"], 4, ">=2").says("1.1.0");
    publisher.refuses(&["app"], 4, "db").says("app 1.0.0");
    publisher.refuses(&["app2"], 4, "web").says("app2 1.0.0");
    publisher.refuses(&["web@one"], 2, "one");
    publisher.refuses(&["Web"], 2, "Web");
    publisher.create(&["web@<1.1"]).ok();
    assert_eq!(publisher.head()["packages"][0]["version"], "1.0.0");
}

#[test]
fn a_package_without_images_has_to_be_owned_up_to() {
    let publisher = Publisher::new();
    let chart = Chart::new("web", "1.0.0", "web:1");
    let repository = publisher.chart(&chart);
    let digest = Some(chart.digest());
    let web = Package::new("web", "1.0.0").chart(&repository, "web", "1.0.0", digest);
    let image = publisher.image("db", "1", &ImageBuilder::new(1).build());
    publisher.publish(&[web, Package::new("db", "1.0.0").image(&image)]);
    publisher
        .refuses(
            &["web"],
            1,
            "package web pins no images; add them to the recipe",
        )
        .says("hint: if they really run none, say so: --no-images web");
    publisher.refuses(
        &["web", "db", "--no-images", "web", "--no-images", "db"],
        2,
        "--no-images db: this package names its images",
    );
    publisher.refuses(
        &["web", "--no-images", "web", "--no-images", "db"],
        2,
        "--no-images db: this package is not in the bundle",
    );

    publisher
        .create(&["web", "--no-images", "web"])
        .ok()
        .says("package web carries no images");
    assert_eq!(publisher.head()["packages"][0]["noImages"], true);
    let inspected = publisher.scratch.run(&["bundle", "inspect", "site.tar"]);
    assert!(
        inspected
            .ok()
            .stdout
            .contains("said to have no images: web")
    );
    import(&publisher, &[]).ok().says("web");
}

#[test]
fn an_image_by_tag_only_is_taken_only_when_allowed() {
    let publisher = Publisher::new();
    let image = ImageBuilder::new(1).build();
    publisher.upstream.put_image("web", &["1"], &image);
    let reference = format!("{}/web:1", publisher.upstream.host());
    let web = Package::new("web", "1.0.0").image(&reference);
    publisher.publish_text(&unchecked_index(&[web]));
    publisher
        .refuses(&["web"], 1, "an image is named by tag only")
        .says(&reference)
        .says("--allow-unpinned-images");
    publisher
        .create(&["web", "--allow-unpinned-images"])
        .ok()
        .says("is pinned by this bundle only");
    let listed = &publisher.head()["images"][0];
    assert_eq!(listed["pinned"], false);
    assert_eq!(
        listed["reference"],
        *format!("{reference}@{}", image.digest())
    );
    let verify = [
        "bundle",
        "verify",
        "site.tar",
        "--public-key",
        "release.pub",
    ];
    for run in [publisher.scratch.run(&verify), import(&publisher, &[])] {
        run.fails(3, "is pinned only by the bundle")
            .says("--allow-unpinned-images");
    }
    import(&publisher, &["--allow-unpinned-images"]).ok();
}

#[test]
fn one_tag_for_two_images_has_to_be_decided() {
    let publisher = Publisher::new();
    let (one, two) = (ImageBuilder::new(1).build(), ImageBuilder::new(2).build());
    let first = publisher.image("app", "1", &one);
    let second = publisher.image("app", "1", &two);
    publisher.publish(&[
        Package::new("web", "1.0.0").image(&first),
        Package::new("db", "1.0.0").image(&second),
    ]);
    let tag = format!("{}/app:1", publisher.upstream.host());
    let refused = publisher.refuses(&["web", "db"], 1, "two packages pin");
    let refused = refused.says("(web)").says("(db)").says(&tag);
    refused.says(&format!("--tag {tag}=sha256:"));
    let choice = |digest: Digest| format!("{tag}={digest}");
    publisher.refuses(
        &["web", "db", "--tag", &choice(Digest::sha256("x"))],
        2,
        "none pins that digest",
    );
    publisher.refuses(&["web", "--tag", &choice(one.digest())], 2, "--tag");
    publisher.refuses(&["web", "db", "--tag", &tag], 2, "write it as REF=sha256:");

    let decision = choice(one.digest());
    publisher.create(&["web", "db", "--tag", &decision]).ok();
    import(&publisher, &[]).ok();
    let mirror = Mirror::start(&publisher.scratch, "mirror");
    let repository = tag.replace(':', "_").replace("/app_1", "/app");
    let at = |target: &str| mirror.body(&format!("/v2/{repository}/manifests/{target}"));
    assert!(at("1") == one.manifest());
    assert!(at(&two.digest().to_string()) == two.manifest());
}

#[test]
fn a_tag_without_digest_beside_one_with() {
    let publisher = Publisher::new();
    let (one, two) = (ImageBuilder::new(1).build(), ImageBuilder::new(2).build());
    let pinned = publisher.image("app", "1", &one);
    let tag = format!("{}/app:1", publisher.upstream.host());
    publisher.publish_text(&unchecked_index(&[
        Package::new("web", "1.0.0").image(&pinned),
        Package::new("db", "1.0.0").image(&tag),
    ]));
    let call = ["web", "db", "--allow-unpinned-images", "--force"];
    // both mean the same image: nothing is left that only the bundle pins
    publisher.create(&call).ok();
    let head = publisher.head();
    let images = head["images"].as_array().unwrap();
    assert_eq!(images.len(), 1);
    assert_eq!(images[0]["pinned"], true);
    import(&publisher, &[]).ok();

    publisher.upstream.put_image("app", &["1"], &two);
    publisher
        .create(&call)
        .fails(1, "two packages pin")
        .says("(web)")
        .says("(db, by tag only)");
    for (chosen, other) in [(&one, &two), (&two, &one)] {
        let decision = format!("{tag}={}", chosen.digest());
        publisher
            .create(&[&call[..], &["--tag", &decision]].concat())
            .ok();
        let head = publisher.head();
        let images = head["images"].as_array().unwrap();
        assert_eq!(images.len(), 2);
        for image in images {
            let loser = image["manifest"]["digest"] == *other.digest().to_string();
            assert_eq!(image["untagged"] == true, loser, "{image}");
        }
        let key = ["--public-key", "release.pub", "--allow-unpinned-images"];
        let verify = [&["bundle", "verify", "site.tar"][..], &key].concat();
        publisher.scratch.run(&verify).ok();
    }
}

#[test]
fn variants_and_wishes_say_whose_requirements_travel() {
    let publisher = Publisher::new();
    let web = Package::new("web", "1.0.0")
        .requires("db", "")
        .wishes("cache", "")
        .wishes("nowhere", "")
        .variant("ha")
        .requires("quorum", "");
    let others = ["db", "cache", "quorum"].map(|name| Package::new(name, "1.0.0"));
    publisher.publish(&[&[web][..], &others].concat());
    for (flags, want) in [
        (&["web"][..], &["db", "quorum", "web"][..]),
        (&["web", "--variant", "ha"], &["quorum", "web"]),
        (&["web", "--variant", "default"], &["db", "web"]),
        (
            &["web", "--with-optional"],
            &["cache", "db", "quorum", "web"],
        ),
    ] {
        let run = publisher.create(&[flags, &["--force"]].concat()).ok();
        assert_eq!(publisher.carried(), want, "{flags:?}");
        if flags.contains(&"--with-optional") {
            run.says("nowhere").says("no repository has it");
        }
    }
}

#[test]
fn a_variant_nobody_has_is_a_mistake() {
    let publisher = Publisher::new();
    publisher.publish(&[Package::new("web", "1.0.0").requires("db", "")]);
    publisher
        .refuses(&["web", "--variant", "defualt"], 4, "\"defualt\"")
        .says("default");
}

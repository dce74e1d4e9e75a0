//! `bundle create` when the other side fails, lies or stalls: a small trouble is overcome, any
//! other ends with an exit code, a message that says where, and nothing left behind.

use kubepkg_core::Algorithm;
use kubepkg_core::descriptor::media_type;
use kubepkg_test_support::image::{artifact, index};
use kubepkg_test_support::{Chart, Content, Fault, Image, ImageBuilder, Package};
use rustix::process::Signal;
use serde_json::json;

use crate::publisher::Publisher;
use crate::served::Running;

/// More than any request is tried.
const ALWAYS: usize = 100;

/// A manifest nobody else makes.
fn manifest(media_type: &str, manifest: &serde_json::Value) -> Image {
    let mut content = Content::default();
    let descriptor = content.add_manifest(Algorithm::Sha256, media_type, manifest);
    Image {
        descriptor,
        content,
    }
}

/// A layer's path, as the upstream is asked for it.
fn layer(image: &Image) -> String {
    let size = |digest| image.content.blobs[digest].len();
    let blobs = image.blobs();
    let largest = blobs.iter().max_by_key(|digest| size(digest)).unwrap();
    format!("/blobs/{largest}")
}

#[test]
fn an_image_that_is_not_there() {
    let (publisher, image) = Publisher::of_web();
    publisher
        .upstream
        .fault("/manifests/", Fault::Status(404), ALWAYS);
    publisher
        .refuses(&["web"], 4, "it does not exist there")
        .says(&format!(
            "where: {}/web:1.0@{}",
            publisher.upstream.host(),
            image.digest()
        ));
}

#[test]
fn a_registry_that_wants_a_password() {
    let (publisher, _) = Publisher::of_web();
    publisher
        .upstream
        .fault("/v2/web/", Fault::Unauthorized, ALWAYS);
    publisher
        .refuses(&["web"], 5, "gives no access without credentials")
        .says("HTTP status 401")
        .says("hint: if ")
        .says("--registry-config");
}

#[test]
fn small_troubles_are_overcome() {
    let (publisher, image) = Publisher::of_web();
    publisher.create(&["web"]).ok();
    let calm = std::fs::read(publisher.scratch.path("site.tar")).unwrap();
    let upstream = &publisher.upstream;
    upstream.fault("/manifests/sha256:", Fault::TooMany(0), 1);
    upstream.fault("/index.yaml", Fault::Status(503), 1);
    upstream.fault(&layer(&image), Fault::CutBody, 1);
    publisher.create(&["web", "--force"]).ok();
    let troubled = std::fs::read(publisher.scratch.path("site.tar")).unwrap();
    assert!(calm == troubled, "trouble on the way shows in the file");
    // the second half was asked for alone
    let seen = upstream.seen();
    let resumed = |seen: &&kubepkg_test_support::Seen| {
        let range = seen.range.as_deref().unwrap_or("bytes=0-");
        seen.path.contains(&layer(&image)) && !range.starts_with("bytes=0-")
    };
    assert_eq!(seen.iter().filter(resumed).count(), 1);
}

#[test]
fn a_layer_with_other_bytes() {
    let (publisher, image) = Publisher::of_web();
    publisher
        .upstream
        .fault(&layer(&image), Fault::WrongBytes, ALWAYS);
    publisher
        .refuses(&["web"], 3, "the content received has digest sha256:")
        .says("hint: what the other side serves is damaged");
    let (publisher, image) = Publisher::of_web();
    publisher
        .upstream
        .fault(&layer(&image), Fault::LongBody, ALWAYS);
    publisher.refuses(&["web"], 3, "its descriptor says");
}

#[test]
fn a_manifest_with_other_bytes() {
    let (publisher, image) = Publisher::of_web();
    publisher
        .upstream
        .fault("/manifests/sha256:", Fault::WrongBytes, ALWAYS);
    publisher
        .refuses(&["web"], 3, "the content received has digest sha256:")
        .says(&format!("not {}", image.digest()));
}

#[test]
fn a_manifest_that_is_too_large() {
    let publisher = Publisher::new();
    let filler = "x".repeat(4 << 20);
    let image = manifest(
        media_type::OCI_INDEX,
        &json!({"schemaVersion": 2, "manifests": [], "annotations": {"filler": filler}}),
    );
    let web = publisher.image("web", "1", &image);
    publisher.publish(&[Package::new("web", "1.0.0").image(&web)]);
    publisher
        .refuses(&["web"], 3, "larger than the limit of 4194304 bytes")
        .says("/web:1@sha256:");
}

#[test]
fn an_index_whose_child_is_missing() {
    let publisher = Publisher::new();
    let child = ImageBuilder::new(1).build();
    let mut both = index(&[child.clone(), ImageBuilder::new(2).build()]);
    both.content.manifests.remove(&child.digest());
    let web = publisher.image("web", "1", &both);
    publisher.publish(&[Package::new("web", "1.0.0").image(&web)]);
    publisher
        .refuses(&["web"], 4, "it does not exist there")
        .says(&format!("web@{}", child.digest()));
}

#[test]
fn a_child_that_is_not_as_its_index_says() {
    let publisher = Publisher::new();
    let mut child = ImageBuilder::new(1).build();
    child.descriptor.size += 1;
    let web = publisher.image("web", "1", &index(&[child]));
    publisher.publish(&[Package::new("web", "1.0.0").image(&web)]);
    publisher.refuses(&["web"], 3, "is not as the manifest above it says");
}

#[test]
fn signatures_that_cannot_be_looked_up() {
    // an answer to HEAD, with which tags are looked up, has no words
    for (part, status, words) in [
        ("/referrers/", 403, ": scripted"),
        ("/manifests/sha256-", 403, ""),
        ("/referrers/", 500, ": scripted"),
    ] {
        let (publisher, _) = Publisher::of_web();
        publisher
            .upstream
            .fault(part, Fault::Status(status), ALWAYS);
        publisher
            .refuses(&["web"], 5, &format!("HTTP status {status}"))
            .says(words);
    }
}

#[test]
fn a_referrer_that_is_listed_and_missing() {
    let (publisher, image) = Publisher::of_web();
    let mut sbom = artifact(&image.descriptor, "application/spdx+json", b"{}");
    sbom.content.blobs.clear();
    publisher.upstream.put_image("web", &[], &sbom);
    publisher.refuses(&["web"], 4, "it does not exist there");
}

#[test]
fn a_referrer_that_cannot_be_carried_leaves_a_hole_only_when_allowed() {
    let (publisher, image) = Publisher::of_web();
    let good = artifact(&image.descriptor, "application/spdx+json", b"{}");
    publisher.upstream.put_image("web", &[], &good);
    let tag = format!("sha256-{}", image.digest().hex());
    // an entry of the tag's index that does not say itself what it is about
    let stray = ImageBuilder::new(7).build();
    publisher.upstream.put_image("web", &[], &stray);
    publisher
        .upstream
        .put_image("web", &[&tag], &index(&[stray]));
    publisher
        .refuses(&["web"], 3, "attached to")
        .says("it does not say itself")
        .says("--allow-missing-referrers");
    let allowed = ["web", "--allow-missing-referrers"];
    publisher
        .create(&allowed)
        .ok()
        .says("left out: referrers of");
    let head = publisher.head();
    assert_eq!(head["referrers"].as_array().unwrap().len(), 1);
    let hole = &head["holes"][0];
    let of = format!("{}/web@{}", publisher.upstream.host(), image.digest());
    assert_eq!(
        (&hole["kind"], &hole["of"]),
        (&json!("referrers"), &json!(of))
    );
    assert!(
        hole["why"]
            .as_str()
            .unwrap()
            .contains("does not say itself")
    );
    let key = ["--public-key", "release.pub"];
    let verify = [&["bundle", "verify", "site.tar"][..], &key].concat();
    let run = publisher.scratch.run(&verify).ok();
    assert!(run.stdout.contains("1 hole"), "{}", run.stdout);
    let import = ["bundle", "import", "site.tar", "--store", "mirror"];
    publisher.scratch.run(&[&import[..], &key].concat()).ok();
}

#[test]
fn referrers_that_cannot_be_looked_up_leave_a_hole_when_allowed() {
    let (publisher, _) = Publisher::of_web();
    publisher
        .upstream
        .fault("/referrers/", Fault::Status(403), ALWAYS);
    publisher
        .create(&["web", "--allow-missing-referrers"])
        .ok()
        .says("HTTP status 403");
    assert_eq!(publisher.head()["holes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_chart_that_was_replaced() {
    let publisher = Publisher::new();
    let chart = Chart::new("web", "1.0.0", "web:1");
    let repository = publisher.chart(&chart);
    let package = Package::new("web", "1.0.0").chart(
        &repository,
        "web",
        "1.0.0",
        Some(Chart::new("web", "1.0.0", "web:0").digest()),
    );
    publisher.publish(&[package]);
    publisher
        .refuses(
            &["web", "--no-images", "web"],
            3,
            "its package pins sha256:",
        )
        .says(&chart.digest().to_string())
        .says("hint: the repository has replaced a published chart");
}

#[test]
fn a_chart_that_is_gone() {
    let publisher = Publisher::new();
    let chart = Chart::new("web", "1.0.0", "web:1");
    let repository = publisher.chart(&chart);
    let digest = Some(chart.digest());
    for (name, version, why) in [
        ("web", "2.0.0", "2.0.0"),
        ("db", "1.0.0", "the repository has no chart \"db\""),
    ] {
        publisher.publish(&[Package::new("web", "1.0.0").chart(
            &repository,
            name,
            version,
            digest,
        )]);
        publisher.refuses(&["web", "--no-images", "web"], 4, why);
    }
}

#[test]
fn plain_http_is_for_this_machine_only() {
    let publisher = Publisher::new();
    let chart = Chart::new("web", "1.0.0", "web:1");
    let package = Package::new("web", "1.0.0").chart(
        "http://charts.example.invalid",
        "web",
        "1.0.0",
        Some(chart.digest()),
    );
    publisher.publish(&[package]);
    publisher
        .refuses(
            &["web", "--no-images", "web"],
            2,
            "this would be plain HTTP",
        )
        .says("where: http://charts.example.invalid/index.yaml")
        .says("--plain-http charts.example.invalid");
    let call = [
        "bundle",
        "create",
        "web",
        "-o",
        "x.tar",
        "--public-key",
        "release.pub",
    ];
    let repo = ["--repo", "http://packages.example.invalid/index.yaml"];
    publisher
        .scratch
        .run(&[&call[..], &repo].concat())
        .fails(2, "this would be plain HTTP to packages.example.invalid")
        .says(
            "hint: if that is what you want, allow it with --plain-http packages.example.invalid",
        );
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let (publisher, image) = Publisher::of_web();
    publisher
        .upstream
        .fault(&layer(&image), Fault::Silence, ALWAYS);
    let before = publisher.scratch.names();
    let repo = publisher.repo();
    let call = ["bundle", "create", "web", "-o", "site.tar", "--repo", &repo];
    let key = ["--public-key", "release.pub"];
    for signal in [Signal::INT, Signal::TERM] {
        let already = publisher.upstream.count(&layer(&image));
        let create = Running::start(&publisher.scratch, &[&call[..], &key].concat());
        publisher.upstream.wait_for(&layer(&image), already + 1);
        create.signal(signal);
        let (code, lines) = create.end();
        assert_eq!(code, Some(130), "{lines:#?}");
        let said = lines.join("\n");
        assert!(said.contains("error: interrupted"), "{said}");
        assert!(said.contains("hint: nothing was left behind"), "{said}");
        assert_eq!(publisher.scratch.names(), before);
    }
}

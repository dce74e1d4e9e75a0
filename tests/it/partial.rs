//! Bundles that leave something out: other platforms, layers that may not be distributed,
//! attestations that do not exist. What is left out is said, and never what was asked for.

use kubepkg_core::Algorithm;
use kubepkg_core::descriptor::{Descriptor, media_type};
use kubepkg_test_support::image::{index, platform};
use kubepkg_test_support::{Content, Image, ImageBuilder, Package, Upstream};
use serde_json::json;

use crate::command::Run;
use crate::maker::Maker;
use crate::publisher::{Publisher, hours_ago};

fn on(seed: u64, text: &str) -> Image {
    ImageBuilder::new(seed)
        .layers(1, 3_000)
        .platform(text)
        .build()
}

/// An image for three platforms.
fn wide() -> (Image, Vec<Image>) {
    let parts = vec![
        on(1, "linux/amd64"),
        on(2, "linux/arm64/v8"),
        on(3, "linux/arm/v6"),
    ];
    (index(&parts), parts)
}

/// An upstream with `image` in `repository`, under the tag 1.
fn upstream_of(repository: &str, image: &Image) -> Maker {
    let maker = Maker::new();
    maker.image(repository, &["1"], image);
    maker
}

/// Makes a bundle of that image.
fn create(maker: &Maker, repository: &str, flags: &[&str]) -> Run {
    let reference = format!("{}/{repository}:1", maker.upstream.host());
    maker.create(&[&["--image", &reference], flags].concat())
}

// Complaints 38 and 57: the index keeps its digest, and the platform is what was asked for.
#[test]
fn one_platform_of_an_index_keeps_its_digest() {
    let (image, parts) = wide();
    let maker = upstream_of("web", &image);
    create(&maker, "web", &["--platform", "linux/arm64"])
        .ok()
        .says("made for linux/arm64")
        .says("linux/amd64 (1 image)");
    for absent in [0, 2] {
        let path = format!("/manifests/{}", parts[absent].digest());
        assert_eq!(maker.upstream.count(&path), 0, "it was asked for");
    }
    maker.import_on_its_word().says("made for linux/arm64");
    let mirror = maker.serve();
    let place = maker.place("web");
    assert!(mirror.body(&format!("{place}manifests/1")) == image.manifest());
    assert!(mirror.body(&format!("{place}manifests/{}", parts[1].digest())) == parts[1].manifest());
    assert_eq!(
        mirror
            .get(&format!("{place}manifests/{}", parts[0].digest()))
            .status,
        404
    );
    // the store is sound, collects and is copied
    let check = maker.scratch.run(&["mirror", "check", "--store", "store"]);
    check.ok();
    // all of it brings the rest
    create(&maker, "web", &[]).ok();
    maker.import_on_its_word();
    assert!(mirror.body(&format!("{place}manifests/{}", parts[0].digest())) == parts[0].manifest());
}

#[test]
fn an_image_for_other_platforms_only_is_refused() {
    let (image, _) = wide();
    let maker = upstream_of("web", &image);
    maker
        .upstream
        .put_image("single", &["1"], &on(9, "linux/s390x"));
    create(&maker, "web", &["--platform", "linux/riscv64"])
        .fails(4, "has nothing for the platforms asked for")
        .says("linux/amd64, linux/arm/v6, linux/arm64/v8")
        .says("--platform linux/amd64");
    create(&maker, "single", &["--platform", "linux/amd64"]).fails(4, "it is for linux/s390x");
    create(
        &maker,
        "single",
        &["--platform", "linux/amd64", "--platform", "linux/s390x"],
    )
    .ok();
    create(&maker, "web", &["--platform", "linux/x86_64"]).fails(2, "images call that linux/amd64");
    create(&maker, "web", &["--platform", "amd64"]).fails(2, "OS/ARCH");
}

#[test]
fn a_site_that_wants_a_platform_gets_it_or_is_told() {
    let publisher = Publisher::new();
    let (image, _) = wide();
    let web = publisher.image("web", "1", &image);
    publisher.publish(&[Package::new("web", "1.0.0").image(&web)]);
    let trust = |platform: &str| {
        let text = format!(
            "apiVersion: kubepkg.dev/v1\nkind: Trust\nentries:\n- url: {}\n  keys: \
             [release.pub]\n  platforms: [{platform}]\n",
            publisher.repo()
        );
        publisher.scratch.write("trust.yaml", text);
    };
    let import = || {
        let call = [
            "bundle",
            "import",
            "site.tar",
            "--store",
            "store",
            "--trust",
            "trust.yaml",
        ];
        publisher
            .scratch
            .run(&[&call[..], &["--change-trust"]].concat())
    };
    publisher.create(&["web", "--platform", "linux/amd64"]).ok();
    for wanted in ["linux/arm64", "linux/arm", "linux/arm/v6"] {
        trust(wanted);
        import().fails(3, "was carried without").says(wanted);
    }
    trust("linux/amd64");
    import().ok();
    // one of two variants is not enough
    let two = index(&[on(1, "linux/arm/v6"), on(2, "linux/arm/v7")]);
    let web = publisher.image("web", "2", &two);
    let newer = Package::new("web", "1.0.1").image(&web);
    publisher.publish_at(&[newer], hours_ago(5));
    publisher
        .create(&["web", "--platform", "linux/arm/v7", "--force"])
        .ok();
    trust("linux/arm");
    import().fails(3, "was carried without linux/arm/v6");
}

// Complaint 36: an index names an attestation its registry does not have.
#[test]
fn an_attestation_that_does_not_exist_is_a_hole() {
    let image = on(1, "linux/amd64");
    let mut content = image.content.clone();
    let mut ghost = Descriptor::new(
        media_type::OCI_MANIFEST,
        kubepkg_core::Digest::sha256("ghost"),
        7,
    );
    ghost.platform = Some(platform("unknown/unknown"));
    let list = json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_INDEX,
        "manifests": [image.descriptor, ghost],
    });
    let descriptor = content.add_manifest(Algorithm::Sha256, media_type::OCI_INDEX, &list);
    let whole = Image {
        descriptor,
        content,
    };
    let maker = upstream_of("web", &whole);
    create(&maker, "web", &[])
        .ok()
        .says("left out: attestation of")
        .says(&ghost.digest.to_string());
    maker.import_on_its_word().says("attestation of");
    let mirror = maker.serve();
    assert!(mirror.body(&format!("{}manifests/1", maker.place("web"))) == whole.manifest());
    // a manifest that runs is no attestation
    let mut runs = ghost.clone();
    runs.platform = Some(platform("linux/arm64"));
    let mut content = image.content.clone();
    let list = json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_INDEX,
        "manifests": [image.descriptor, runs],
    });
    let descriptor = content.add_manifest(Algorithm::Sha256, media_type::OCI_INDEX, &list);
    let maker = upstream_of(
        "web",
        &Image {
            descriptor,
            content,
        },
    );
    create(&maker, "web", &[]).fails(4, "does not exist there");
}

/// An image whose base layer is at `url` only.
fn windows(url: &str, layer: &[u8]) -> Image {
    let mut content = Content::default();
    let config = json!({"os": "windows", "architecture": "amd64"}).to_string();
    let kind = "application/vnd.oci.image.config.v1+json";
    let config = content.add_blob(Algorithm::Sha256, kind, config.into_bytes());
    let own = content.add_blob(
        Algorithm::Sha256,
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        b"own layer".to_vec(),
    );
    let mut foreign = Descriptor::new(
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        kubepkg_core::Digest::sha256(layer),
        layer.len() as u64,
    );
    foreign.urls = vec![url.to_owned()];
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": media_type::DOCKER_MANIFEST,
        "config": config,
        "layers": [foreign, own],
    });
    let kind = media_type::DOCKER_MANIFEST;
    let descriptor = content.add_manifest(Algorithm::Sha256, kind, &manifest);
    Image {
        descriptor,
        content,
    }
}

#[test]
fn an_attestation_that_another_registry_has_is_no_hole() {
    let image = on(1, "linux/amd64");
    let mut about = on(2, "linux/amd64");
    about.descriptor.platform = Some(platform("unknown/unknown"));
    let whole = index(&[image.clone(), about.clone()]);
    let maker = upstream_of("web", &whole);
    // a copy without its attestations
    let copy = Upstream::start();
    let mut poor = whole.clone();
    poor.content.manifests.remove(&about.digest());
    copy.put_image("web", &["1"], &poor);
    let other = format!("{}/web:1", copy.host());
    let made = create(&maker, "web", &["--image", &other]).ok();
    assert!(!made.stderr.contains("attestation"), "{}", made.stderr);
    maker.import_on_its_word();
    create(&maker, "web", &[]).ok();
}

#[test]
fn trees_and_referrers_are_carried_whole() {
    let (image, _) = wide();
    let maker = upstream_of("web", &image);
    let about = kubepkg_test_support::image::artifact(&image.descriptor, "application/x", b"sbom");
    maker.upstream.put_image("web", &[], &about);
    create(&maker, "web", &["--platform", "linux/amd64"]).ok();
    maker.import_on_its_word();
    let mirror = maker.serve();
    let list = format!("{}referrers/{}", maker.place("web"), image.digest());
    let list = mirror.json(&list);
    assert_eq!(
        list["manifests"][0]["digest"],
        about.digest().to_string().as_str()
    );
}

// Complaint 51: what is outside is said, and carried on request.
#[test]
fn foreign_layers_stay_where_they_are_unless_asked_for() {
    let elsewhere = Upstream::start();
    let layer = vec![7u8; 300_000];
    elsewhere.put_file("/windows/base", layer.clone());
    let url = elsewhere.url("/windows/base");
    let image = windows(&url, &layer);
    let maker = upstream_of("win", &image);
    create(&maker, "win", &[])
        .ok()
        .says("may not be distributed and is not in the bundle")
        .says(&url);
    assert_eq!(elsewhere.seen().len(), 0, "it was asked for");
    maker.import_on_its_word().says(&url);
    let mirror = maker.serve();
    let place = maker.place("win");
    assert!(mirror.body(&format!("{place}manifests/1")) == image.manifest());
    let blob = format!("{place}blobs/{}", kubepkg_core::Digest::sha256(&layer));
    assert_eq!(mirror.get(&blob).status, 404);
    maker
        .scratch
        .run(&["mirror", "check", "--store", "store"])
        .ok();

    create(&maker, "win", &["--foreign-layers"]).ok();
    maker.import_on_its_word();
    assert!(mirror.body(&blob) == layer);
    // what lies there is something else by now
    elsewhere.put_file("/windows/base", vec![8u8; 300_000]);
    create(&maker, "win", &["--foreign-layers"]).fails(3, "the content received has digest");
}

// Complaint 50.
#[test]
fn sha512_manifests_and_layers_travel() {
    let image = ImageBuilder::new(4)
        .algorithm(Algorithm::Sha512)
        .layers(2, 4_000)
        .build();
    let maker = upstream_of("web", &image);
    let reference = format!("{}/web@{}", maker.upstream.host(), image.digest());
    let call = [
        "bundle",
        "create",
        "-o",
        "site.tar",
        "--no-progress",
        "--image",
        &reference,
    ];
    maker.scratch.run(&call).ok();
    maker.import_on_its_word();
    let mirror = maker.serve();
    let place = maker.place("web");
    assert!(mirror.body(&format!("{place}manifests/{}", image.digest())) == image.manifest());
    for blob in image.blobs() {
        let body = mirror.body(&format!("{place}blobs/{blob}"));
        assert!(body == image.content.blobs[&blob]);
    }
}

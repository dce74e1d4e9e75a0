//! Bundles whose indexes are signed and whose maker lies about the rest.

use kubepkg_core::bundle::head::{Class, HeadReferrer};
use kubepkg_core::descriptor::{Descriptor, media_type};
use kubepkg_core::error::{Classify as _, Kind};
use kubepkg_core::keys::PrivateKey;
use kubepkg_importer::Trusted;
use kubepkg_test_support::image::{artifact, cosign_signature, cosign_tag};
use kubepkg_test_support::package::index;
use kubepkg_test_support::{Chart, Forge, Image, ImageBuilder, Package};
use serde_json::json;

use super::site::{App, Publisher, Site, URL, app, hours_ago, into};

const WHERE: &str = "registry.example.com/web/app";
const CHARTS: &str = "https://charts.example.com/stable";

/// The bundle does not come in, for this reason, and the store is as it was.
async fn refused(site: &Site, forge: &Forge, trusted: &Trusted, says: &str) {
    let before = site.files();
    let error = into(&site.store(), &site.carry(forge), trusted)
        .await
        .unwrap_err();
    assert!(error.to_string().contains(says), "\"{error}\": {says}");
    assert_eq!(error.kind(), Kind::Refused, "{error:?}");
    assert_eq!(site.files(), before);
}

fn honest() -> (Publisher, App, Forge) {
    let publisher = Publisher::new(URL);
    let app = app("web", "1.0.0", &format!("{WHERE}:1.0.0"));
    let forge = publisher.bundle(hours_ago(1), &[&app], &[&app]);
    (publisher, app, forge)
}

/// Lists `image` as something about `subject`, under `tag`.
fn attach(forge: &mut Forge, subject: &Descriptor, image: &Image, tag: &str) {
    forge.image("x.example.com/x", image, &[]);
    forge.head.images.pop();
    let manifest = &image.descriptor;
    forge.head.referrers.push(HeadReferrer {
        repository: WHERE.to_owned(),
        subject: subject.digest,
        manifest: Descriptor::new(manifest.media_type.clone(), manifest.digest, manifest.size),
        tag: Some(tag.parse().unwrap()),
    });
}

#[tokio::test]
async fn a_referrer_cannot_set_the_tag_of_an_image() {
    let (publisher, app, honest) = honest();
    let site = Site::new();
    let subject = &app.image.descriptor;
    let own = cosign_tag(&subject.digest, "sig");
    for evil in [
        artifact(subject, "application/evil", b"evil"),
        cosign_signature(b"evil"),
    ] {
        for tag in ["latest", "1.0.0", "2.0.0"] {
            let mut forge = honest.clone();
            attach(&mut forge, subject, &evil, tag);
            let says = format!("claims the tag {tag}");
            refused(&site, &forge, &publisher.trusted(), &says).await;
        }
        let mut forge = honest.clone();
        attach(&mut forge, subject, &evil, &own);
        let fresh = Site::new();
        fresh.import(&publisher, &forge).await.unwrap();
        assert_eq!(fresh.tag(WHERE, &own).await, Some(evil.digest()));
    }
}

#[tokio::test]
async fn an_image_cannot_be_robbed_of_its_tag() {
    let (publisher, _, mut forge) = honest();
    forge.head.images[0].untagged = true;
    let says = "no other image of a package takes that";
    refused(&Site::new(), &forge, &publisher.trusted(), says).await;
}

#[tokio::test]
async fn what_belongs_to_no_package_takes_no_tag_of_one() {
    let (publisher, _, mut forge) = honest();
    let pinned = forge.head.images[0].reference.clone();
    let evil = ImageBuilder::new(99).build();
    let tagged = pinned.tagged(pinned.tag().unwrap().clone()).to_string();
    forge.image(&tagged, &evil, &[]);
    forge.head.images.last_mut().unwrap().pinned = false;
    forge.head.images[0].untagged = true;
    forge.head.requires.push("unpackaged-content".to_owned());
    let mut trusted = publisher.trusted();
    // beside packages the flag lets nothing else in
    trusted.allow_unpinned_images = true;
    refused(&Site::new(), &forge, &trusted, "nobody vouches for them").await;
    // nor does who signs the bundle give it away
    let key = PrivateKey::generate().unwrap();
    forge.signers = vec![key.to_pem().unwrap().to_string()];
    trusted.bundle_keys = vec![key.public().unwrap()];
    let says = "no other image of a package takes that";
    refused(&Site::new(), &forge, &trusted, says).await;
}

#[tokio::test]
async fn a_tag_that_goes_to_another_image_is_said() {
    let publisher = Publisher::new(URL);
    let tag = format!("{WHERE}:1");
    let (one, two) = (app("one", "1.0.0", &tag), app("two", "1.0.0", &tag));
    let mut forge = publisher.bundle(hours_ago(1), &[&one, &two], &[&one, &two]);
    forge.head.images[0].untagged = true;
    let site = Site::new();
    let imported = site.import(&publisher, &forge).await.unwrap();
    let said = imported.receipt.warnings.join("\n");
    assert!(said.contains("comes without its tag"), "{said}");
    assert!(said.contains(&two.digest().to_string()), "{said}");
    assert_eq!(site.tag(WHERE, "1").await, Some(two.digest()));
}

#[tokio::test]
async fn a_second_image_of_an_unpinned_tag_is_extra() {
    let publisher = Publisher::new(URL);
    let tag = format!("{WHERE}:1");
    let mut app = app("web", "1.0.0", &tag);
    let mut forge = publisher.bundle(hours_ago(1), &[&app], &[]);
    // our own tools index no image by tag, so this is the index of another program
    let by_digest = app.package.clone();
    app.package = Package::new("web", "1.0.0").image(&tag);
    let spec = |package: &Package| package.source().spec.digest().to_string();
    let index = String::from_utf8(index(std::slice::from_ref(&by_digest), hours_ago(1), None))
        .unwrap()
        .replace(&format!("@{}", app.digest()), "")
        .replace(&spec(&by_digest), &spec(&app.package));
    publisher.sign(&mut forge, index.as_bytes());
    forge.package(URL, &app.package);
    forge.image(&tag, &app.image, &["web"]);
    forge.head.images[0].pinned = false;
    let trusted = Trusted {
        allow_unpinned_images: true,
        ..publisher.trusted()
    };
    let fresh = Site::new();
    into(&fresh.store(), &fresh.carry(&forge), &trusted)
        .await
        .unwrap();
    forge.image(&tag, &ImageBuilder::new(2).build(), &["web"]);
    for image in &mut forge.head.images {
        image.pinned = false;
    }
    forge.head.images[1].untagged = true;
    refused(&Site::new(), &forge, &trusted, "no signed package pins it").await;
}

/// A package with one chart, and the bundle of it.
fn with_chart(repository: &str) -> (Publisher, Chart, Forge) {
    let publisher = Publisher::new(URL);
    let chart = Chart::new("web", "1.0.0", "registry.example.com/web/app:1.0.0");
    let app = app("web", "1.0.0", &format!("{WHERE}:1.0.0"));
    let pinned = app
        .package
        .clone()
        .chart(repository, "web", "1.0.0", Some(chart.digest()));
    let app = App {
        package: pinned,
        ..app
    };
    let mut forge = publisher.bundle(hours_ago(1), &[&app], &[&app]);
    forge.chart(repository, &chart, &["web"]);
    (publisher, chart, forge)
}

/// Gives the chart of `forge` a manifest of these blobs.
fn replace_manifest(forge: &mut Forge, config: &[u8], layers: &[(&str, &[u8])]) {
    let old = forge.head.charts[0].manifest.digest;
    forge.drop_blob(&old);
    // the config of the computed manifest is named by nobody then
    let left: Vec<_> = forge
        .head
        .blobs
        .iter()
        .filter(|blob| blob.class == Class::Config)
        .map(|blob| blob.digest)
        .filter(|digest| forge.content[digest].starts_with(b"{\"name\":\"web\""))
        .collect();
    left.iter().for_each(|digest| forge.drop_blob(digest));
    let config = Descriptor::new(
        media_type::HELM_CONFIG,
        forge.blob(Class::Config, config),
        config.len() as u64,
    );
    let layers: Vec<Descriptor> = layers
        .iter()
        .map(|(kind, bytes)| {
            Descriptor::new(*kind, forge.blob(Class::Chart, bytes), bytes.len() as u64)
        })
        .collect();
    let manifest = json!({"schemaVersion": 2, "mediaType": media_type::OCI_MANIFEST,
        "config": config, "layers": layers})
    .to_string();
    let digest = forge.blob(Class::Manifest, manifest.as_bytes());
    let size = manifest.len() as u64;
    forge.head.charts[0].manifest = Descriptor::new(media_type::OCI_MANIFEST, digest, size);
}

#[tokio::test]
async fn a_chart_cannot_bring_another_archive_or_config() {
    let own = br#"{"name":"web","version":"1.0.0","apiVersion":"v2"}"#;
    let bank = br#"{"name":"bank","version":"9.0.0","apiVersion":"v2"}"#;
    let evil = Chart::new("web", "1.0.0", "evil.example.com/x:1");
    for repository in [CHARTS, "oci://registry.example.com/charts"] {
        let (publisher, chart, honest) = with_chart(repository);
        let site = Site::new();
        let good = (media_type::HELM_CHART, &*chart.archive);
        let bad = (media_type::HELM_CHART, &*evil.archive);
        let legacy = ("application/tar+gzip", &*evil.archive);
        for layers in [[bad, good], [good, bad], [legacy, good]] {
            let mut forge = honest.clone();
            replace_manifest(&mut forge, own, &layers);
            let says = "more than one chart archive";
            refused(&site, &forge, &publisher.trusted(), says).await;
        }
        let mut forge = honest.clone();
        replace_manifest(&mut forge, bank, &[good]);
        let says = "does not carry the archive";
        refused(&site, &forge, &publisher.trusted(), says).await;
        // with its own config it is a chart somebody pushed, but not what follows from one
        // that was never in a registry
        let mut forge = honest.clone();
        replace_manifest(&mut forge, own, &[good]);
        match repository {
            CHARTS => refused(&site, &forge, &publisher.trusted(), says).await,
            _ => drop(site.import(&publisher, &forge).await.unwrap()),
        }
        let site = Site::new();
        site.import(&publisher, &honest).await.unwrap();
    }
}

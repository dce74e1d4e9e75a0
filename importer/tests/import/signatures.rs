//! Tags of signatures, which nobody signs.

use kubepkg_core::bundle::head::{Class, HeadReferrer};
use kubepkg_core::{Descriptor, Digest};
use kubepkg_test_support::Forge;

use super::site::{App, Publisher, Site, URL, app, hours_ago};

const WEB: &str = "registry.example.com/web";
const IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";

fn web(version: &str) -> App {
    app("web", version, &format!("{WEB}:{version}"))
}

/// The tag cosign keeps the signatures of `image` under.
fn tag_of(image: &Digest) -> String {
    format!("sha256-{}.sig", image.hex())
}

/// Puts a manifest with these signatures of `image` into the bundle.
fn sign(forge: &mut Forge, image: &Digest, signatures: &[&str]) -> Digest {
    let mut descriptor = |class, bytes: &[u8], kind: &str| {
        let digest = forge.blob(class, bytes);
        serde_json::json!({"mediaType": kind, "digest": digest, "size": bytes.len()})
    };
    let config = format!("{{\"layers\":{}}}", signatures.len());
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": IMAGE,
        "config": descriptor(
            Class::Config,
            config.as_bytes(),
            "application/vnd.oci.image.config.v1+json",
        ),
        "layers": signatures
            .iter()
            .map(|text| {
                descriptor(
                    Class::Layer,
                    text.as_bytes(),
                    "application/vnd.dev.cosign.simplesigning.v1+json",
                )
            })
            .collect::<Vec<_>>(),
    })
    .to_string();
    let digest = forge.blob(Class::Manifest, manifest.as_bytes());
    forge.head.referrers.push(HeadReferrer {
        repository: WEB.to_owned(),
        subject: *image,
        manifest: Descriptor::new(IMAGE.to_owned(), digest, manifest.len() as u64),
        tag: Some(tag_of(image).parse().unwrap()),
    });
    digest
}

#[tokio::test]
async fn bundles_that_differ_over_a_signature_do_not_take_turns() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web("1.0.0");
    let image = web.digest();
    let mut a = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    let mut b = a.clone();
    let first = sign(&mut a, &image, &["one"]);
    sign(&mut b, &image, &["two"]);
    site.import(&publisher, &a).await.unwrap();
    let imported = site.import(&publisher, &b).await.unwrap();
    let said = imported.receipt.warnings.join("\n");
    assert!(said.contains("it holds what this one lacks"), "{said}");
    let before = site.files();
    for forge in [&a, &b] {
        let again = site.import(&publisher, forge).await.unwrap();
        assert_eq!(again.commit, None);
    }
    assert_eq!(site.files(), before);
    assert_eq!(site.tag(WEB, &tag_of(&image)).await, Some(first));
    let names = site.names().await;
    let tag = &names.repositories[WEB].tags[tag_of(&image).as_str()];
    assert_eq!(tag.origin.as_ref().unwrap().package, "web");
}

#[tokio::test]
async fn signatures_are_added_in_any_order_and_never_taken_away() {
    let publisher = Publisher::new(URL);
    let web = web("1.0.0");
    let image = web.digest();
    let mut fewer = publisher.bundle(hours_ago(1), &[&web], &[&web]);
    let mut more = fewer.clone();
    sign(&mut fewer, &image, &["one"]);
    let wanted = sign(&mut more, &image, &["one", "two"]);
    for order in [[&fewer, &more], [&more, &fewer]] {
        let site = Site::new();
        for forge in order {
            site.import(&publisher, forge).await.unwrap();
        }
        assert_eq!(site.tag(WEB, &tag_of(&image)).await, Some(wanted));
        let again = site.import(&publisher, &fewer).await.unwrap();
        assert_eq!(again.commit, None);
    }
}

#[tokio::test]
async fn an_older_bundle_takes_no_signature_tag_back() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let (old, mut new) = (web("1.0.0"), web("1.1.0"));
    // both releases have one image
    new.image = old.image.clone();
    new.reference = old.reference.clone();
    let pinned = format!("{}@{}", new.reference, new.digest());
    new.package = kubepkg_test_support::Package::new("web", "1.1.0").image(&pinned);
    let image = old.digest();
    let mut newer = publisher.bundle(hours_ago(1), &[&old, &new], &[&new]);
    let wanted = sign(&mut newer, &image, &["new"]);
    let mut older = publisher.bundle(hours_ago(2), &[&old], &[&old]);
    sign(&mut older, &image, &["old", "new", "more"]);
    site.import(&publisher, &newer).await.unwrap();
    let imported = site.import(&publisher, &older).await.unwrap();
    let said = imported.receipt.warnings.join("\n");
    assert!(said.contains("set by the newer web 1.1.0"), "{said}");
    assert_eq!(site.tag(WEB, &tag_of(&image)).await, Some(wanted));
}

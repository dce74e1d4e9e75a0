//! Files of perfect form whose head says what no signed package says, or whose content is
//! not all there.

use kubepkg_core::Digest;
use kubepkg_core::bundle::head::{Class, HeadTree, Hole};
use kubepkg_core::manifest::Manifest;
use kubepkg_test_support::{Forge, ImageBuilder, Package, package};

use super::site::{APP, BASE, CHARTS, Site, Told, URL, honest, sign_into};

/// The bundle after `lie` is refused in these words.
#[track_caller]
fn lie(site: &Site, says: &str, lie: impl FnOnce(&mut Forge)) -> Told {
    let mut forge = honest().forge.clone();
    // in the order of the file, so that entries can be picked by number
    forge.head.sort();
    lie(&mut forge);
    site.refuses_by(&forge.bytes(), says)
}

const NOT_OURS: &str = "this file was not made by kubepkg from these packages";

#[test]
fn packages_are_those_of_the_signed_index() {
    let site = Site::new();
    lie(&site, "web 9.9.9", |forge| {
        forge.head.packages[1].version = "9.9.9".into()
    })
    .why("is not in the signed index")
    .at(URL)
    .hints("make the bundle again");
    lie(&site, "web 1.0.0 build 7", |forge| {
        forge.head.packages[1].build = 7
    })
    .why("is not in the signed index");
    lie(&site, "evil 1.0.0", |forge| {
        forge.package(URL, &Package::new("evil", "1.0.0"));
    })
    .why("is not in the signed index");
    let other = Digest::sha256("another spec");
    let listed = honest().packages[1].source().spec.digest();
    lie(&site, &format!("the digest {other}"), |forge| {
        forge.head.packages[1].digest = other
    })
    .why(&listed.to_string())
    .at(URL);
    lie(&site, "package web has no variant \"gpu\"", |forge| {
        forge.head.packages[1].variants.push("gpu".into());
    })
    .at("site.tar");
    lie(&site, "package web is said to have no images", |forge| {
        forge.head.packages[1].no_images = true;
    });
}

#[test]
fn charts_are_exactly_those_that_packages_pin() {
    let site = Site::new();
    let elsewhere = "https://charts.example.com/evil";
    lie(&site, &format!("chart web 1.0.0 of {elsewhere}"), |forge| {
        forge.head.charts[0].repository = elsewhere.parse().unwrap();
    })
    .why("no signed package pins it")
    .why(&format!(
        "chart web 1.0.0 of {CHARTS} is missing; web pins it"
    ))
    .at("site.tar")
    .hints(NOT_OURS);
    lie(&site, "chart web 1.0.1 of", |forge| {
        forge.head.charts[0].version = "1.0.1".into()
    });
    lie(
        &site,
        &format!("chart web 1.0.0 of {CHARTS} is missing; web pins it"),
        |forge| {
            forge.head.charts.clear();
        },
    );
    lie(
        &site,
        "is said to belong to base; it belongs to web",
        |forge| {
            forge.head.charts[0].packages = vec!["base".parse().unwrap()];
        },
    );
    // the manifest of an image as that of the chart
    lie(&site, "does not carry the archive", |forge| {
        let app = Manifest::parse(&honest().app.manifest(), None).unwrap();
        let child = &app.children()[0];
        forge.head.charts[0].manifest.digest = child.digest;
        forge.head.charts[0].manifest.size = child.size;
    });
}

#[test]
fn trees_are_exactly_those_that_packages_pin() {
    let site = Site::new();
    lie(&site, "is in the bundle, but no signed package", |forge| {
        let manifest = forge.head.charts[0].manifest.clone();
        let reference = format!("ghcr.io/evil/tree@{}", manifest.digest);
        forge.head.trees.push(HeadTree {
            reference: reference.parse().unwrap(),
            manifest,
            packages: vec!["web".parse().unwrap()],
        });
    })
    .why("ghcr.io/evil/tree")
    .hints(NOT_OURS);
    let tree = format!("ghcr.io/org/web@{}", Digest::sha256("tree"));
    let package = Package::new("web", "1.0.0").tree(&format!("oci://{tree}"), "charts/web");
    // newer than the index that the site has accepted
    let generated = honest().generated.plus(60);
    let index = package::index(std::slice::from_ref(&package), generated, None);
    let mut forge = Forge::default();
    sign_into(&mut forge, URL, &index, &honest().key);
    forge.package(URL, &package);
    site.refuses_by(&forge.bytes(), &format!("{tree} is missing; web pins it"))
        .hints(NOT_OURS);
}

#[test]
fn images_are_exactly_those_that_packages_pin() {
    let site = Site::new();
    let evil = ImageBuilder::new(99).build();
    let extra = format!("image registry.example.com/evil:1@{}", evil.digest());
    lie(
        &site,
        &format!("{extra} is in the bundle, but no signed package pins it"),
        |forge| {
            forge.image("registry.example.com/evil:1", &evil, &["web"]);
        },
    )
    .at("site.tar")
    .hints(NOT_OURS);
    // another image under a name that is pinned
    lie(
        &site,
        &format!(
            "image {BASE}@{} is missing; base pins it",
            honest().base.digest()
        ),
        |forge| {
            forge
                .head
                .images
                .retain(|image| image.reference.path() != "base");
            forge.image(BASE, &evil, &["base"]);
        },
    )
    .why(&format!(
        "image {BASE}@{} is in the bundle, but no signed package",
        evil.digest()
    ));
    lie(
        &site,
        &format!(
            "image {APP}@{} is missing; web pins it",
            honest().app.digest()
        ),
        |forge| {
            forge
                .head
                .images
                .retain(|image| image.reference.path() != "web/app");
        },
    );
    // the bundle's own word for an image that is pinned
    lie(&site, "registry.example.com/base:2", |forge| {
        forge
            .head
            .images
            .iter_mut()
            .for_each(|image| image.pinned = false);
    })
    .why("is missing; base pins it");
}

#[test]
fn a_graph_is_whole_down_to_the_last_layer() {
    let site = Site::new();
    let honest = honest();
    let index = honest.app.digest();
    let of_index = Manifest::parse(&honest.app.manifest(), None).unwrap();
    let child = of_index.children()[1].digest;
    lie(
        &site,
        &format!("manifest {child} is missing; manifest {index} names it"),
        |forge| {
            forge.drop_blob(&child);
        },
    )
    .at("site.tar")
    .hints("create the bundle anew");
    let base = Manifest::parse(&honest.base.manifest(), None).unwrap();
    for (what, blob) in [("config", base.blobs()[0]), ("layer", base.blobs()[1])] {
        let digest = blob.digest;
        let says = format!(
            "{what} {digest} is missing; manifest {} names it",
            honest.base.digest()
        );
        lie(&site, &says, |forge| forge.drop_blob(&digest));
    }
    // everything missing is named at once
    lie(&site, &base.blobs()[0].digest.to_string(), |forge| {
        forge.drop_blob(&base.blobs()[0].digest);
        forge.drop_blob(&base.blobs()[1].digest);
        forge.drop_blob(&child);
    })
    .why(&base.blobs()[1].digest.to_string())
    .why(&child.to_string());
    lie(&site, "is a blob nobody names", |forge| {
        forge.blob(Class::Layer, b"stowaway");
    });
    let layer = base.blobs()[1].digest;
    lie(
        &site,
        &format!("{layer} has 17 bytes; manifest {}", honest.base.digest()),
        |forge| {
            let blob = forge.head.blobs.iter_mut().find(|b| b.digest == layer);
            blob.unwrap().size = 17;
            forge.content.get_mut(&layer).unwrap().truncate(17);
        },
    );
    lie(&site, "is listed as Layer, its uses say Config", |forge| {
        let config = base.blobs()[0].digest;
        let blob = forge.head.blobs.iter_mut().find(|b| b.digest == config);
        blob.unwrap().class = Class::Layer;
    });
    lie(&site, "is none", |forge| {
        forge.head.holes.push(Hole {
            kind: "referrers".into(),
            of: format!("registry.example.com/web/app@{layer}"),
            why: "no answer".into(),
        });
    });
}

#[test]
fn content_is_what_its_digest_says() {
    let site = Site::new();
    let honest = honest();
    let layout = honest.forge.layout();
    let base = Manifest::parse(&honest.base.manifest(), None).unwrap();
    for digest in [
        base.blobs()[1].digest,
        honest.chart.digest(),
        honest.base.digest(),
    ] {
        let member = layout.blob_member(&digest).unwrap();
        let path = &member.path;
        lie(
            &site,
            &format!("{path} at byte {} is damaged", member.data_at),
            |forge| {
                let bytes = forge.content.get_mut(&digest).unwrap();
                bytes.iter_mut().for_each(|byte| *byte ^= 0xff);
            },
        )
        .why(&format!("the head says {digest}"))
        .at(path);
    }
}

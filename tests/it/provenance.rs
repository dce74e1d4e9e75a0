//! Provenance files of charts: taken along from beside their archive, and served there again.

use kubepkg_core::descriptor::media_type;
use kubepkg_core::{Algorithm, Digest};
use kubepkg_test_support::{Chart, Content, Fault, Image, ImageBuilder, Package};
use serde_json::json;

use crate::publisher::Publisher;
use crate::served::Mirror;

const BESIDE: &str = "/stable/web-1.0.0.tgz.prov";

/// A provenance file for these bytes, as Helm writes it.
fn signed(archive: &[u8]) -> String {
    format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\napiVersion: v2\nname: web\nversion: 1.0.0\n\n\
         ...\nfiles:\n  web-1.0.0.tgz: sha256:{}\n-----BEGIN PGP SIGNATURE-----\n\nwsFcBAEBCgAQ\n=x\n\
         -----END PGP SIGNATURE-----\n",
        Digest::sha256(archive).hex()
    )
}

/// A package of one chart in a classic repository, and one image.
fn publisher(beside: Option<&[u8]>) -> (Publisher, Chart) {
    let publisher = Publisher::new();
    let image = ImageBuilder::new(1).build();
    let image = publisher.image("team/web", "1", &image);
    let chart = Chart::new("web", "1.0.0", &image);
    let repository = publisher.chart(&chart);
    let package = Package::new("web", "1.0.0")
        .chart(&repository, "web", "1.0.0", Some(chart.digest()))
        .image(&image);
    publisher.publish(&[package]);
    if let Some(file) = beside {
        publisher.upstream.put_file(BESIDE, file.to_vec());
    }
    (publisher, chart)
}

fn import(publisher: &Publisher) -> Mirror {
    let call = ["bundle", "import", "site.tar", "--store", "mirror"];
    let key = ["--public-key", "release.pub"];
    publisher.scratch.run(&[&call[..], &key].concat()).ok();
    Mirror::start(&publisher.scratch, "mirror")
}

fn folder(publisher: &Publisher) -> String {
    format!("/charts/{}/stable", publisher.upstream.host())
}

#[test]
fn a_provenance_file_travels_with_its_chart() {
    let (publisher, chart) = publisher(None);
    publisher.upstream.put_file(BESIDE, signed(&chart.archive));
    publisher.upstream.fault(".prov", Fault::Status(503), 1);
    let run = publisher.create(&["web"]).ok();
    assert!(!run.stderr.contains("provenance"), "{}", run.stderr);
    let first = std::fs::read(publisher.scratch.path("site.tar")).unwrap();
    publisher.create(&["web", "--force"]).ok();
    let again = std::fs::read(publisher.scratch.path("site.tar")).unwrap();
    assert!(first == again, "the same files give another bundle");

    let mirror = import(&publisher);
    let folder = folder(&publisher);
    let archive = mirror.body(&format!("{folder}/web-1.0.0.tgz"));
    assert_eq!(archive, chart.archive);
    let file = mirror.body(&format!("{folder}/web-1.0.0.tgz.prov"));
    assert_eq!(file, signed(&chart.archive).as_bytes());
    // in the registry it is the second layer
    let path = publisher.upstream.host().replace(':', "_");
    let manifest = mirror.json(&format!("/v2/{path}/stable/web/manifests/1.0.0"));
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers[0]["mediaType"], media_type::HELM_CHART);
    assert_eq!(layers[1]["mediaType"], media_type::HELM_PROVENANCE);
    assert_eq!(layers.len(), 2);

    // a bundle made from that mirror is the same chart again
    let through = ["web", "--force", "--mirror", &mirror.url("")];
    publisher.create(&through).ok();
    let again = std::fs::read(publisher.scratch.path("site.tar")).unwrap();
    assert!(first == again, "the mirror gives another chart");
}

#[test]
fn a_chart_without_one_is_as_it_was() {
    let (publisher, chart) = publisher(None);
    publisher.create(&["web"]).ok();
    let form = kubepkg_core::chart::oci_form(&chart.archive).unwrap();
    let digest = form.manifest_descriptor.digest.to_string();
    assert_eq!(publisher.head()["charts"][0]["manifest"]["digest"], digest);
    let mirror = import(&publisher);
    let path = format!("{}/web-1.0.0.tgz.prov", folder(&publisher));
    assert_eq!(mirror.get(&path).status, 404);
    // signed later, it gets its file with the next bundle
    publisher.upstream.put_file(BESIDE, signed(&chart.archive));
    publisher.create(&["web", "--force"]).ok();
    drop(mirror);
    let mirror = import(&publisher);
    assert_eq!(mirror.body(&path), signed(&chart.archive).as_bytes());
}

#[test]
fn a_provenance_file_for_other_bytes_is_refused() {
    let (publisher, chart) = publisher(Some(signed(b"other").as_bytes()));
    let (named, ours) = (Digest::sha256(b"other"), chart.digest());
    publisher
        .refuses(&["web"], 3, "is signed for other bytes")
        .says(BESIDE)
        .says(&named.hex())
        .says(&ours.to_string());
}

#[test]
fn what_is_no_provenance_is_said_and_left_out() {
    let (publisher, _) = publisher(Some(b"<html>welcome</html>"));
    publisher.create(&["web"]).ok().says("is no signed text");
    publisher.upstream.fault(".prov", Fault::Status(403), 1);
    publisher
        .create(&["web", "--force"])
        .ok()
        .says("HTTP status 403")
        .says("object stores say so of what does not exist");
    for status in [401, 405, 501] {
        publisher.upstream.fault(".prov", Fault::Status(status), 1);
        publisher
            .create(&["web", "--force"])
            .ok()
            .says(&format!("{BESIDE}: "))
            .says(&status.to_string());
    }
    // a server in trouble may have one: nobody is told there is none
    publisher.upstream.fault(".prov", Fault::Status(500), 100);
    std::fs::remove_file(publisher.scratch.path("site.tar")).unwrap();
    publisher.refuses(&["web"], 5, ".prov").says("500");
}

/// A package of a chart in a registry, with this provenance file for the archive's bytes.
fn pushed(file: impl Fn(&[u8]) -> String) -> (Publisher, String, Digest) {
    let publisher = Publisher::new();
    let image = publisher.image("team/web", "1", &ImageBuilder::new(1).build());
    let chart = Chart::new("web", "1.0.0", &image);
    let file = file(&chart.archive);
    let mut content = Content::default();
    let mut blob =
        |kind: &str, bytes: &[u8]| content.add_blob(Algorithm::Sha256, kind, bytes.to_vec());
    let config = json!({"name": "web", "version": "1.0.0"}).to_string();
    let config = blob(media_type::HELM_CONFIG, config.as_bytes());
    // Helm sorts them by digest: either may be the first
    let layers = [
        blob(media_type::HELM_PROVENANCE, file.as_bytes()),
        blob(media_type::HELM_CHART, &chart.archive),
    ];
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
    let descriptor = content.add_manifest(Algorithm::Sha256, media_type::OCI_MANIFEST, &manifest);
    let digest = descriptor.digest;
    let pushed = Image {
        descriptor,
        content,
    };
    publisher
        .upstream
        .put_image("stable/web", &["1.0.0"], &pushed);
    let repository = format!("oci://{}/stable", publisher.upstream.host());
    let package = Package::new("web", "1.0.0")
        .chart(&repository, "web", "1.0.0", Some(chart.digest()))
        .image(&image);
    publisher.publish(&[package]);
    (publisher, file, digest)
}

#[test]
fn a_chart_in_a_registry_with_one_for_other_bytes_is_refused() {
    let (publisher, _, _) = pushed(|_| signed(b"other"));
    publisher
        .refuses(&["web"], 3, "is signed for other bytes")
        .says("stable/web@sha256:")
        .says(&Digest::sha256(b"other").hex());
}

#[test]
fn a_chart_in_a_registry_brings_its_own() {
    let (publisher, file, digest) = pushed(signed);
    publisher.create(&["web"]).ok();
    let mirror = import(&publisher);
    let folder = folder(&publisher);
    let served = mirror.body(&format!("{folder}/web-1.0.0.tgz.prov"));
    assert_eq!(served, file.as_bytes());
    let path = publisher.upstream.host().replace(':', "_");
    let manifest = mirror.body(&format!("/v2/{path}/stable/web/manifests/1.0.0"));
    assert!(digest.matches(&manifest), "its manifest stays as it was");
}

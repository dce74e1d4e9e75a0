//! Makes the golden files: run by hand, once for each version of a format.

use base64::Engine as _;
use kubepkg_core::keys::PrivateKey;
use kubepkg_core::time::Time;
use kubepkg_test_support::image::{artifact, index};
use kubepkg_test_support::package;
use kubepkg_test_support::{Chart, Image, ImageBuilder, Package, Upstream};

use super::{INDEX, KEPT, asked, copy, golden, import};
use crate::command::Scratch;
use crate::served::Mirror;

/// When the golden index was made: 2026-01-01. It has no expiry, or it could not be imported
/// for ever.
const GENERATED: i64 = 1_767_225_600;

/// Begins an ed25519 private key in PKCS#8 form; 32 bytes of seed follow.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
];

/// A key everybody can have; what it signs is nothing but a test.
fn key() -> PrivateKey {
    let bytes = [&PKCS8[..], &[7; 32]].concat();
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    PrivateKey::from_pem(&pem).unwrap()
}

/// Makes `site.tar` from what the mirror at `upstream` holds.
pub(super) fn bundle(scratch: &Scratch, upstream: &str, key: &str) {
    let call = ["bundle", "create", "web", "-o", "site.tar", "--repo", INDEX];
    let more = ["--public-key", key, "--mirror", upstream, "--no-progress"];
    scratch.run(&[&call[..], &more].concat()).ok();
}

/// What the bundle holds: repository in a mirror, tags, image.
struct Held(&'static str, &'static [&'static str], Image);

fn held(db_chart: &Chart) -> Vec<Held> {
    let amd = ImageBuilder::new(1).build();
    let both = index(&[amd, ImageBuilder::new(2).platform("linux/arm64/v8").build()]);
    let sbom = artifact(&both.descriptor, "application/spdx+json", b"{}");
    let docker = ImageBuilder::new(3).docker().build();
    vec![
        Held("registry.example.com/apps/web", &["1.2"], both),
        Held("registry.example.com/apps/web", &[], sbom),
        Held("registry.example.com/apps/db", &["2.0"], docker),
        Held(
            "registry.example.com/bare",
            &[],
            ImageBuilder::new(4).build(),
        ),
        Held(
            "registry.example.com/charts/db",
            &["2.0.0"],
            db_chart.image(),
        ),
    ]
}

fn packages(held: &[Held], web_chart: &Chart, db_chart: &Chart) -> [Package; 2] {
    let reference = |held: &Held| {
        let Held(repository, tags, image) = held;
        let tag = tags.first().map(|tag| format!(":{tag}"));
        format!("{repository}{}@{}", tag.unwrap_or_default(), image.digest())
    };
    let (classic, registry) = (
        "https://packages.example.com/charts",
        "oci://registry.example.com/charts",
    );
    let web = Package::new("web", "1.2.3")
        .build(2)
        .chart(classic, "web", "1.2.3", Some(web_chart.digest()))
        .image(&reference(&held[0]))
        .image(&reference(&held[3]))
        .requires("db", ">=1");
    let db = Package::new("db", "2.0.0")
        .chart(registry, "db", "2.0.0", Some(db_chart.digest()))
        .image(&reference(&held[2]));
    [web, db]
}

/// An upstream laid out like a mirror, with everything under the names of the golden files.
fn upstream(held: &[Held], web_chart: Chart, db_chart: &Chart) -> Upstream {
    let upstream = Upstream::start();
    upstream.put_file("/healthz", r#"{"service":"kubepkg-mirror"}"#);
    let text = package::index(
        &packages(held, &web_chart, db_chart),
        Time::from_unix(GENERATED),
        None,
    );
    let place = "/repositories/packages.example.com/index.yaml";
    upstream.put_file(&format!("{place}.sig"), package::sign(&text, &key()));
    upstream.put_file(place, text);
    upstream.put_charts("/charts/packages.example.com/charts", &[web_chart]);
    for Held(repository, tags, image) in held {
        upstream.put_image(repository, tags, image);
    }
    upstream
}

/// Everything whose bytes are another's, so that no later kubepkg may answer otherwise.
fn questions(held: &[Held]) -> Vec<String> {
    let chart = "/v2/packages.example.com/charts/web";
    let mut paths = vec![
        "/repositories/packages.example.com/index.yaml".to_owned(),
        "/repositories/packages.example.com/index.yaml.sig".to_owned(),
        "/charts/packages.example.com/charts/web-1.2.3.tgz".to_owned(),
        format!("{chart}/manifests/1.2.3"),
        format!("{chart}/tags/list"),
        "/v2/_catalog".to_owned(),
    ];
    for Held(repository, tags, image) in held {
        let at = |rest: String| format!("/v2/{repository}/{rest}");
        paths.extend(tags.iter().map(|tag| at(format!("manifests/{tag}"))));
        paths.push(at("tags/list".to_owned()));
        for digest in image.content.manifests.keys() {
            paths.push(at(format!("manifests/{digest}")));
            paths.push(at(format!("referrers/{digest}")));
        }
        let blobs = image.content.blobs.keys();
        paths.extend(blobs.map(|digest| at(format!("blobs/{digest}"))));
    }
    paths.sort();
    paths.dedup();
    paths
}

#[test]
#[ignore = "writes tests/golden: see the README there"]
fn make_the_golden_files() {
    let place = golden("");
    assert!(!place.exists(), "golden files are only added to");
    let (web, db) = (
        Chart::new("web", "1.2.3", "registry.example.com/apps/web:1.2"),
        Chart::new("db", "2.0.0", "registry.example.com/apps/db:2.0"),
    );
    let held = held(&db);
    let upstream = upstream(&held, web, &db);
    let scratch = Scratch::new();
    let public = key().public().unwrap().to_pem();
    scratch.write("release.pub", &public);
    bundle(&scratch, &upstream.url(""), "release.pub");

    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(golden("release.pub"), &public).unwrap();
    std::fs::copy(scratch.path("site.tar"), golden("site.tar")).unwrap();
    import(&scratch);
    for folder in KEPT {
        copy(
            &scratch.path("store").join(folder),
            &golden("store").join(folder),
        );
    }
    for file in ["kubepkg-store.json", "generation"] {
        std::fs::copy(scratch.path("store").join(file), golden("store").join(file)).unwrap();
    }
    let mirror = Mirror::start(&scratch, "store");
    let mut answers = String::new();
    for path in questions(&held) {
        let recorded = asked(&mirror.host, &path);
        assert_eq!(recorded.status, 200, "{path}");
        answers.push_str(&serde_json::to_string(&recorded).unwrap());
        answers.push('\n');
    }
    std::fs::write(golden("answers.jsonl"), answers).unwrap();
}

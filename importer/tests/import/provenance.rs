//! Provenance files of charts, which no package pins: within one release none is taken away.

use kubepkg_core::Digest;
use kubepkg_core::error::Classify as _;
use kubepkg_test_support::{Chart, Forge};

use super::site::{App, Publisher, Site, URL, app, hours_ago, into};

const CHARTS: &str = "https://charts.example.com/stable";
const REPOSITORY: &str = "charts.example.com/stable/web";

/// A provenance file for `bytes`, made by `who`.
fn signed(bytes: &[u8], who: &str) -> Vec<u8> {
    format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nname: web\n\n...\nfiles:\n  \
         web-1.0.0.tgz: sha256:{}\n-----BEGIN PGP SIGNATURE-----\n\n{who}\n-----END PGP \
         SIGNATURE-----\n",
        Digest::sha256(bytes).hex()
    )
    .into_bytes()
}

fn chart() -> Chart {
    Chart::new("web", "1.0.0", "registry.example.com/web:1")
}

/// A release of the package of that chart.
fn web(version: &str) -> App {
    let mut web = app(
        "web",
        version,
        &format!("registry.example.com/web:{version}"),
    );
    let digest = chart().digest();
    web.package = web.package.chart(CHARTS, "web", "1.0.0", Some(digest));
    web
}

/// A bundle of `web`, and the digest of the manifest of its chart.
fn carrying(publisher: &Publisher, hours: i64, web: &App, file: Option<&[u8]>) -> (Forge, Digest) {
    let mut forge = publisher.bundle(hours_ago(hours), &[web], &[web]);
    let manifest = forge.signed_chart(CHARTS, &chart(), file, &["web"]);
    (forge, manifest)
}

#[tokio::test]
async fn within_a_release_a_provenance_file_stays() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web("1.0.0");
    let file = signed(&chart().archive, "one");
    let (bare, without) = carrying(&publisher, 1, &web, None);
    let (first, with) = carrying(&publisher, 1, &web, Some(&file));
    let other = signed(&chart().archive, "two");
    let (other, replaced) = carrying(&publisher, 1, &web, Some(&other));
    // what has none gets one
    site.import(&publisher, &bare).await.unwrap();
    assert_eq!(site.tag(REPOSITORY, "1.0.0").await, Some(without));
    site.import(&publisher, &first).await.unwrap();
    assert_eq!(site.tag(REPOSITORY, "1.0.0").await, Some(with));
    // neither none nor another takes its place, however often it comes
    for forge in [&bare, &other, &bare, &other] {
        let imported = site.import(&publisher, forge).await.unwrap();
        let said = imported.receipt.warnings.join("\n");
        assert!(
            said.contains("a provenance file that this one lacks"),
            "{said}"
        );
        assert!(said.contains(REPOSITORY), "{said}");
        assert_eq!(site.tag(REPOSITORY, "1.0.0").await, Some(with));
    }
    let names = site.names().await;
    assert!(
        names.repositories[REPOSITORY]
            .manifests
            .contains_key(&replaced)
    );
    // unless that is asked for
    let mut trusted = publisher.trusted();
    trusted.allow_tag_back = true;
    into(&site.store(), &site.carry(&other), &trusted)
        .await
        .unwrap();
    assert_eq!(site.tag(REPOSITORY, "1.0.0").await, Some(replaced));
}

#[tokio::test]
async fn a_newer_release_brings_its_own() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let file = signed(&chart().archive, "one");
    let (old, _) = carrying(&publisher, 2, &web("1.0.0"), Some(&file));
    let (new, bare) = carrying(&publisher, 1, &web("1.0.1"), None);
    site.import(&publisher, &old).await.unwrap();
    site.import(&publisher, &new).await.unwrap();
    assert_eq!(site.tag(REPOSITORY, "1.0.0").await, Some(bare));
}

#[tokio::test]
async fn a_bundle_with_a_provenance_file_for_other_bytes_is_refused() {
    let publisher = Publisher::new(URL);
    let site = Site::new();
    let web = web("1.0.0");
    for (file, why) in [
        (signed(b"other", "one"), "signed for other bytes"),
        (b"<html>".to_vec(), "no signed text"),
    ] {
        let (forge, _) = carrying(&publisher, 1, &web, Some(&file));
        let error = site.import(&publisher, &forge).await.unwrap_err();
        assert_eq!(error.kind(), kubepkg_core::Kind::Refused);
        let mut said = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            said = format!("{said}: {error}");
            cause = error.source();
        }
        assert!(said.contains(why), "{said}");
    }
}

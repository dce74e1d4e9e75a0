//! end-11: mounting.

use kubepkg_core::Digest;
use kubepkg_core::time::Time;
use kubepkg_mirror::http::PushSettings;
use kubepkg_mirror::source::Standing;
use kubepkg_mirror::store::Collecting;

use super::fixture::{Site, location, refused};

fn mount(digest: &Digest, from: &str) -> String {
    format!("/v2/to/here/blobs/uploads/?mount={digest}{from}")
}

#[tokio::test]
async fn mount_from_a_repository_that_has_it() {
    let site = Site::start().await;
    let digest = site.push_blob("from/there", b"blob").await;
    site.assert_no_blob("to/here", &digest).await;
    let mounted = site
        .send("POST", &mount(&digest, "&from=from/there"), &[], b"")
        .await;
    assert_eq!(
        mounted.header("docker-content-digest"),
        Some(&*digest.to_string())
    );
    assert_eq!(site.get(&location(&mounted, 201)).await.body, b"blob");
    assert_eq!(site.lying(), 0);
    // it is this repository's own from now on
    let there = format!("/v2/from/there/blobs/{digest}");
    assert_eq!(site.delete(&there).await.status, 202);
    site.assert_blob("to/here", &digest, b"blob").await;
}

#[tokio::test]
async fn mount_that_cannot_be_done_begins_an_upload() {
    let site = Site::start().await;
    let digest = site.push_blob("from/there", b"blob").await;
    let unknown = Digest::sha256("never pushed");
    for target in [
        mount(&unknown, "&from=from/there"),
        mount(&unknown, ""),
        mount(&digest, "&from=no/such"),
        mount(&digest, "&from=No%20Name"),
        mount(&digest, "&from=to/here"),
    ] {
        let upload = location(&site.send("POST", &target, &[], b"").await, 202);
        site.assert_no_blob("to/here", &digest).await;
        assert_eq!(site.get(&upload).await.status, 204, "{target}");
    }
    let upload = location(
        &site.send("POST", &mount(&unknown, ""), &[], b"").await,
        202,
    );
    assert_eq!(
        site.finish(&upload, &unknown, b"never pushed").await.status,
        201
    );
}

#[tokio::test]
async fn mount_without_from_where_it_is_on_and_off() {
    for on in [true, false] {
        let settings = PushSettings {
            mount_from_anywhere: on,
            ..PushSettings::default()
        };
        let site = Site::with(Some(settings)).await;
        let digest = site.push_blob("from/there", b"blob").await;
        let answer = site.send("POST", &mount(&digest, ""), &[], b"").await;
        assert_eq!(answer.status, if on { 201 } else { 202 });
        let named = site
            .send("POST", &mount(&digest, "&from=from/there"), &[], b"")
            .await;
        assert_eq!(named.status, 201);
    }
}

#[tokio::test]
async fn mount_of_what_is_here_already_is_done() {
    let site = Site::start().await;
    let digest = site.push_blob("to/here", b"blob").await;
    for from in ["", "&from=to/here"] {
        assert_eq!(
            site.send("POST", &mount(&digest, from), &[], b"")
                .await
                .status,
            201
        );
    }
}

#[tokio::test]
async fn mount_of_no_digest_is_400() {
    let site = Site::start().await;
    let target = "/v2/to/here/blobs/uploads/?mount=nothing&from=a";
    refused(
        &site.send("POST", target, &[], b"").await,
        400,
        "DIGEST_INVALID",
    );
}

#[tokio::test]
async fn a_blob_said_to_be_here_already_is_not_collected_next() {
    let site = Site::start().await;
    let blob = b"pushed before, and never named";
    let digest = site.push_blob("r/a", blob).await;
    let collecting = || Collecting {
        grace: std::time::Duration::ZERO,
        ..Collecting::new(Time::now())
    };
    // once by a mount that changes nothing, once by a PUT of an upload that is over
    let lost = "/v2/r/a/blobs/uploads/00000000-0000-4000-8000-000000000000";
    for (method, target) in [
        (
            "POST",
            format!("/v2/r/a/blobs/uploads/?mount={digest}&from=r/a"),
        ),
        ("PUT", format!("{lost}?digest={digest}")),
    ] {
        site.store.collect(collecting()).await.unwrap();
        site.store.names().await.unwrap();
        assert_eq!(site.store.standing(&digest), Standing::Condemned);
        let answer = site.send(method, &target, &[], b"").await;
        assert_eq!(answer.status, 201, "{method}");
        site.store.collect(collecting()).await.unwrap();
        site.assert_blob("r/a", &digest, blob).await;
    }
}

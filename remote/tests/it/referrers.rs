//! Finding what is attached to an image.

use axum::response::IntoResponse;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::{Descriptor, Digest};
use kubepkg_remote::registry::{MAX_REFERRERS, Referrer};

use crate::server::{Server, client, manifest, serve_manifest, status};

const OCI: &str = media_type::OCI_MANIFEST;

fn index(manifests: &[Descriptor]) -> Vec<u8> {
    let list = serde_json::to_string(manifests).unwrap();
    format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","manifests":{list}}}"#,
        media_type::OCI_INDEX
    )
    .into_bytes()
}

fn untagged(manifest: Descriptor) -> Referrer {
    Referrer {
        manifest,
        tag: None,
    }
}

#[tokio::test]
async fn all_ways_are_looked_at() {
    let subject = Digest::sha256(b"subject");
    let tag = format!("sha256-{}", subject.hex());
    let [by_api, by_both, by_schema] = ["api", "both", "schema"].map(|n| manifest(n).1);
    let (signature, signed) = manifest("signature");
    let api = index(&[by_api.clone(), by_both.clone()]);
    let schema = index(&[by_both.clone(), by_schema.clone(), signed.clone()]);
    let (api_path, schema_path, sig_path) = (
        format!("/v2/a/referrers/{subject}"),
        format!("/v2/a/manifests/{tag}"),
        format!("/v2/a/manifests/{tag}.sig"),
    );
    let server = Server::start(move |seen| match &seen.path {
        path if *path == api_path => {
            ([("content-type", media_type::OCI_INDEX)], api.clone()).into_response()
        }
        path if *path == schema_path => serve_manifest(&schema, media_type::OCI_INDEX),
        path if *path == sig_path => serve_manifest(&signature, OCI),
        _ => status(404),
    })
    .await;
    let found = client()
        .registry()
        .referrers(&server.image("a:1"), &subject)
        .await
        .unwrap();
    let tagged = Referrer {
        manifest: signed,
        tag: Some(format!("{tag}.sig").parse().unwrap()),
    };
    let want = vec![
        untagged(by_api),
        untagged(by_both),
        untagged(by_schema),
        tagged,
    ];
    assert_eq!(found, want);
}

#[tokio::test]
async fn not_there_means_none() {
    let subject = Digest::sha256(b"subject");
    for api in [404, 405, 501] {
        let server = Server::start(move |seen| match seen.path.contains("/referrers/") {
            true => status(api),
            false => status(404),
        })
        .await;
        let found = client()
            .registry()
            .referrers(&server.image("a:1"), &subject)
            .await;
        assert_eq!(found.unwrap(), []);
    }
}

#[tokio::test]
async fn a_failed_look_up_is_no_answer() {
    let subject = Digest::sha256(b"subject");
    for part in ["/referrers/", ".sig", ".att", ".sbom", &subject.hex()] {
        let part = part.to_owned();
        for (code, kind) in [
            (429, Kind::Remote),
            (403, Kind::Remote),
            (400, Kind::Remote),
        ] {
            let part = part.clone();
            let server = Server::start(move |seen| match seen.path.contains(&part) {
                true => status(code),
                false => status(404),
            })
            .await;
            let error = client()
                .registry()
                .referrers(&server.image("a:1"), &subject)
                .await
                .unwrap_err();
            assert_eq!(error.kind(), kind, "{code}: {error}");
        }
    }
}

#[tokio::test]
async fn a_list_goes_on_over_pages() {
    let subject = Digest::sha256(b"subject");
    let pages = ["1", "2", "3"].map(|n| manifest(n).1);
    let lists = pages.clone().map(|page| index(&[page]));
    let first = format!("/v2/a/referrers/{subject}");
    let server = Server::start(move |seen| {
        let Some(rest) = seen.path.strip_prefix(first.as_str()) else {
            return status(404);
        };
        let page = match rest {
            "" => 0,
            "?page=1" => 1,
            _ => 2,
        };
        let mut response = lists[page].clone().into_response();
        if page < 2 {
            let link = format!("<{first}?page={}>; rel=\"next\"", page + 1);
            response.headers_mut().insert("link", link.parse().unwrap());
        }
        response
    })
    .await;
    let found = client()
        .registry()
        .referrers(&server.image("a:1"), &subject)
        .await
        .unwrap();
    assert_eq!(found, pages.map(untagged));
}

#[tokio::test]
async fn lists_that_are_no_lists() {
    let subject = Digest::sha256(b"subject");
    let many = vec![manifest("x").1; MAX_REFERRERS + 1];
    let foreign = "<http://127.0.0.2:9/next>; rel=\"next\"";
    for (body, link) in [
        (b"<html></html>".to_vec(), ""),
        (
            br#"{"schemaVersion":2,"manifests":[{"digest":"md5:x"}]}"#.to_vec(),
            "",
        ),
        (index(&many), ""),
        (index(&[]), foreign),
        (index(&[]), "<?again>; rel=\"next\""),
    ] {
        let server = Server::start(move |seen| {
            if !seen.path.contains("/referrers/") {
                return status(404);
            }
            let mut response = body.clone().into_response();
            if !link.is_empty() {
                response.headers_mut().insert("link", link.parse().unwrap());
            }
            response
        })
        .await;
        let error = client()
            .registry()
            .referrers(&server.image("a:1"), &subject)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Refused, "{error}");
        assert!(server.seen().len() < 120);
    }
}

//! `tags/list` and `_catalog`.

use serde_json::json;

use super::fixture::{Running, image};

const R: &str = "ghcr.io/org/app";

async fn with_tags(tags: &[&str]) -> Running {
    let server = Running::start().await;
    server
        .store
        .manifest_in(R, &image(&server.store, R, "a"), tags);
    server
}

#[tokio::test]
async fn tags_are_sorted_in_byte_order_and_never_null() {
    let server = with_tags(&["b", "a", "B", "1.0_build", "_x"]).await;
    let got = server.get(&format!("/v2/{R}/tags/list")).await;
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(
        got.json(),
        json!({"name": R, "tags": ["1.0_build", "B", "_x", "a", "b"]})
    );
    assert_eq!(got.header("link"), None);
    let head = server.head(&format!("/v2/{R}/tags/list")).await;
    assert_eq!(head.lasting_headers(), got.lasting_headers());
    let empty = with_tags(&[]).await;
    let got = empty.get(&format!("/v2/{R}/tags/list")).await;
    assert_eq!(got.json(), json!({"name": R, "tags": []}));
    let unknown = empty.get("/v2/ghcr.io/none/tags/list").await;
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "NAME_UNKNOWN")
    );
}

#[tokio::test]
async fn pages_follow_each_other_to_the_end() {
    let server = with_tags(&["a", "b", "c", "d", "e"]).await;
    // through a namespace: the link has to keep it
    let mut target = "/v2/org/app/tags/list?n=2&ns=ghcr.io".to_owned();
    let mut pages = Vec::new();
    loop {
        let got = server.get(&target).await;
        pages.push(got.json()["tags"].clone());
        let Some(link) = got.header("link") else {
            break;
        };
        let (url, rel) = link.split_once(';').unwrap();
        assert_eq!(rel.trim(), "rel=\"next\"");
        target = url.trim_matches(['<', '>']).to_owned();
        assert!(target.starts_with("/v2/org/app/tags/list?"), "{target}");
    }
    assert_eq!(pages, [json!(["a", "b"]), json!(["c", "d"]), json!(["e"])]);
}

#[tokio::test]
async fn edges_of_pages() {
    let server = with_tags(&["a", "b", "c"]).await;
    for (query, tags, link) in [
        ("n=0", json!([]), false),
        ("n=3", json!(["a", "b", "c"]), false),
        ("n=2", json!(["a", "b"]), true),
        ("last=a", json!(["b", "c"]), false),
        ("last=aa", json!(["b", "c"]), false),
        ("last=c", json!([]), false),
        ("n=1&last=a", json!(["b"]), true),
        ("n=100000000000000000000000", json!(["a", "b", "c"]), false),
    ] {
        let got = server.get(&format!("/v2/{R}/tags/list?{query}")).await;
        assert_eq!(got.json()["tags"], tags, "{query}");
        assert_eq!(got.header("link").is_some(), link, "{query}");
    }
    for bad in ["n=-1", "n=x"] {
        let got = server.get(&format!("/v2/{R}/tags/list?{bad}")).await;
        assert_eq!(
            (got.status, got.code().as_str()),
            (400, "UNSUPPORTED"),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn the_catalog_is_sorted_and_paged() {
    let server = Running::start().await;
    for name in ["quay.io/b", "docker.io/library/a", "quay.io/a"] {
        server
            .store
            .manifest_in(name, &image(&server.store, name, "x"), &["v1"]);
    }
    let got = server.get("/v2/_catalog").await;
    assert_eq!(
        got.json(),
        json!({"repositories": ["docker.io/library/a", "quay.io/a", "quay.io/b"]})
    );
    let got = server.get("/v2/_catalog?n=2").await;
    let link = got.header("link").unwrap();
    let next = link.split_once('>').unwrap().0.trim_start_matches('<');
    assert_eq!(
        server.get(next).await.json(),
        json!({"repositories": ["quay.io/b"]})
    );
    assert_eq!(server.get("/v2/_catalog?n=-1").await.status, 400);
}

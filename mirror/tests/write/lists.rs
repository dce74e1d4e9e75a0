//! end-8 and the catalogue after pushes: sorted, in pages, without what is gone.

use serde_json::json;

use super::fixture::{Site, refused};

#[tokio::test]
async fn tags_in_pages() {
    let site = Site::start().await;
    let image = site.image("a", "x").await;
    for tag in ["b", "a", "B", "_1", "10", "9"] {
        assert_eq!(site.put_manifest("a", tag, &image).await.status, 201);
    }
    let sorted = ["10", "9", "B", "_1", "a", "b"];
    let all = site.get("/v2/a/tags/list").await;
    assert_eq!(all.json(), json!({"name": "a", "tags": sorted}));
    assert_eq!(all.header("link"), None);
    let mut next = "/v2/a/tags/list?n=2".to_owned();
    let mut seen: Vec<String> = Vec::new();
    loop {
        let page = site.get(&next).await;
        let tags: Vec<String> = serde_json::from_value(page.json()["tags"].clone()).unwrap();
        assert_eq!(tags.len(), 2);
        seen.extend(tags);
        match page.header("link") {
            Some(link) => {
                let (target, rel) = link.split_once("; ").unwrap();
                assert_eq!(rel, "rel=\"next\"");
                target.trim_matches(['<', '>']).clone_into(&mut next);
            }
            None => break,
        }
    }
    assert_eq!(seen, sorted);
    let none = site.get("/v2/a/tags/list?n=0").await;
    assert_eq!(
        (none.json()["tags"].clone(), none.header("link")),
        (json!([]), None)
    );
    let after = site.get("/v2/a/tags/list?last=A").await;
    assert_eq!(after.json()["tags"], json!(["B", "_1", "a", "b"]));
    for n in ["-1", "x"] {
        refused(
            &site.get(&format!("/v2/a/tags/list?n={n}")).await,
            400,
            "UNSUPPORTED",
        );
    }
}

#[tokio::test]
async fn tags_of_a_repository_of_blobs_and_of_none() {
    let site = Site::start().await;
    site.push_blob("a", b"blob").await;
    let tags = site.get("/v2/a/tags/list").await;
    assert_eq!(tags.json(), json!({"name": "a", "tags": []}));
    refused(&site.get("/v2/none/tags/list").await, 404, "NAME_UNKNOWN");
    // an upload alone makes no repository
    site.begin("begun").await;
    refused(&site.get("/v2/begun/tags/list").await, 404, "NAME_UNKNOWN");
}

#[tokio::test]
async fn catalogue_in_pages() {
    let site = Site::start().await;
    let long = "a/b/c/d/e/f/g/h/i/j";
    for repository in ["z", "docker.io/library/x", long, "a"] {
        site.push_image(repository, "v1", "x").await;
    }
    let all = site.get("/v2/_catalog").await.json();
    assert_eq!(
        all["repositories"],
        json!(["a", long, "docker.io/library/x", "z"])
    );
    let page = site.get("/v2/_catalog?n=2&last=a").await;
    assert_eq!(
        page.json()["repositories"],
        json!([long, "docker.io/library/x"])
    );
    assert!(
        page.header("link")
            .unwrap()
            .starts_with("</v2/_catalog?n=2&last=docker.io")
    );
}

//! Where a push may go: one shape of a path, and not on a server that only reads.

use kubepkg_core::Digest;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::fixture::{Body, OCI_IMAGE, Site, location, noise, refused, send};

fn digest() -> Digest {
    Digest::sha256("x")
}

/// Every write there is, to the repository `a`.
fn writes() -> Vec<(&'static str, String)> {
    let id = "00000000-0000-4000-8000-000000000000";
    let d = digest();
    vec![
        ("POST", "/v2/a/blobs/uploads/".to_owned()),
        ("POST", "/v2/a/blobs/uploads".to_owned()),
        ("POST", format!("/v2/a/blobs/uploads/?digest={d}")),
        ("POST", format!("/v2/a/blobs/uploads/?mount={d}&from=b")),
        ("PATCH", format!("/v2/a/blobs/uploads/{id}")),
        ("PUT", format!("/v2/a/blobs/uploads/{id}?digest={d}")),
        ("DELETE", format!("/v2/a/blobs/uploads/{id}")),
        ("PUT", "/v2/a/manifests/v1".to_owned()),
        ("PUT", format!("/v2/a/manifests/{d}")),
        ("DELETE", "/v2/a/manifests/v1".to_owned()),
        ("DELETE", format!("/v2/a/manifests/{d}")),
        ("DELETE", format!("/v2/a/blobs/{d}")),
    ]
}

#[tokio::test]
async fn read_only_server_answers_405_with_allow() {
    let site = Site::with(None).await;
    for (method, target) in writes() {
        let answer = site
            .send(method, &target, &[("Content-Type", OCI_IMAGE)], b"x")
            .await;
        refused(&answer, 405, "UNSUPPORTED");
        assert_eq!(
            answer.header("allow"),
            Some("GET, HEAD"),
            "{method} {target}"
        );
        let message = answer.json()["errors"][0]["message"].to_string();
        assert!(message.contains("read-only"), "{message}");
    }
    // a body of any length is no reason to answer something else
    let long = noise(1, 3_000_000);
    let answer = send(
        site.address,
        "PUT",
        "/v2/a/manifests/v1",
        &[],
        Body::Whole(&long),
    )
    .await;
    refused(&answer, 405, "UNSUPPORTED");
    assert!(site.store.names().await.unwrap().repositories.is_empty());
    assert_eq!(site.lying(), 0);
}

/// A client may read no answer before it has sent all: what is refused is read, and the
/// connection stays in order for the next request.
#[tokio::test]
async fn a_refusal_reaches_who_is_still_sending() {
    let (closed, open) = (Site::with(None).await, Site::start().await);
    let body = noise(2, 6 << 20);
    for (site, method, target, status) in [
        (&closed, "PUT", "/v2/a/manifests/v1", 405),
        (&open, "PUT", "/v2/a/tags/list", 405),
        (&open, "PUT", "/v2/a/nothing", 404),
        (&open, "PUT", "/v2/a/manifests/v1?ns=docker.io", 400),
        (&open, "POST", "/charts/a/index.yaml", 405),
        (&open, "POST", "/token", 404),
    ] {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        let (mut read, mut write) = stream.split();
        let refused = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let next = "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let sending = async {
            for bytes in [refused.as_bytes(), &body, next.as_bytes()] {
                write.write_all(bytes).await.expect(target);
            }
        };
        let receiving = async {
            let mut all = Vec::new();
            read.read_to_end(&mut all).await.expect(target);
            String::from_utf8(all).unwrap()
        };
        let ((), said) = tokio::join!(sending, receiving);
        let heads: Vec<&str> = said.split("HTTP/1.1 ").skip(1).collect();
        let [first, second] = heads[..] else {
            panic!("{method} {target}: {said}");
        };
        assert!(first.starts_with(&status.to_string()), "{target}: {first}");
        assert!(second.starts_with("200"), "{target}: {second}");
    }
}

#[tokio::test]
async fn methods_an_endpoint_does_not_have_are_405_with_allow() {
    let site = Site::start().await;
    for (method, target, allow) in [
        ("POST", "/v2/", "GET, HEAD"),
        ("DELETE", "/v2/_catalog", "GET, HEAD"),
        ("PUT", "/v2/a/tags/list", "GET, HEAD"),
        ("PUT", "/v2/a/blobs/uploads/", "POST"),
        ("POST", "/v2/a/manifests/v1", "GET, HEAD, PUT, DELETE"),
        ("PATCH", "/v2/a/manifests/v1", "GET, HEAD, PUT, DELETE"),
        (
            "POST",
            "/v2/a/blobs/uploads/1",
            "GET, HEAD, PATCH, PUT, DELETE",
        ),
    ] {
        let answer = site.send(method, target, &[], b"").await;
        refused(&answer, 405, "UNSUPPORTED");
        assert_eq!(answer.header("allow"), Some(allow), "{method} {target}");
    }
}

#[tokio::test]
async fn writes_by_other_url_shapes_are_refused() {
    let site = Site::start().await;
    for (method, target) in writes() {
        let mark = if target.contains('?') { '&' } else { '?' };
        let own = format!("{target}{mark}ns=docker.io");
        let before = target.replace("/v2/a/", "/docker.io/v2/a/");
        let doubled = target.replace("/v2/a/", "/v2/docker.io/v2/a/");
        for target in [own, before, doubled] {
            let answer = site
                .send(method, &target, &[("Content-Type", OCI_IMAGE)], b"x")
                .await;
            refused(&answer, 400, "UNSUPPORTED");
        }
    }
    assert!(site.store.names().await.unwrap().repositories.is_empty());
    assert_eq!(site.lying(), 0);
}

#[tokio::test]
async fn invalid_names_are_400() {
    let site = Site::start().await;
    let long = "a".repeat(300);
    for name in [
        "UPPER", "a..b", "-a", "a/", "a//b", "a%2fB", "a_", &long, "%ff",
    ] {
        for (method, target) in writes() {
            let target = target.replace("/v2/a/", &format!("/v2/{name}/"));
            let answer = site
                .send(method, &target, &[("Content-Type", OCI_IMAGE)], b"x")
                .await;
            refused(&answer, 400, "NAME_INVALID");
        }
    }
    assert_eq!(site.lying(), 0);
}

#[tokio::test]
async fn names_that_look_like_endpoints_and_deep_ones_can_be_pushed_to() {
    let site = Site::start().await;
    for name in [
        "manifests",
        "a/blobs",
        "a/tags",
        "uploads",
        "a/referrers",
        "blobs/uploads",
        "a/b/c/d/e/f/g/h/i/j/k/l",
        "team/v2/app",
        "registry.example_5000/a",
    ] {
        let (digest, manifest) = site.push_image(name, "v1", "x").await;
        for reference in ["v1", &digest.to_string()] {
            let got = site.get(&format!("/v2/{name}/manifests/{reference}")).await;
            assert_eq!(got.body, manifest.to_string().as_bytes(), "{name}");
        }
        let upload = site.begin(name).await;
        assert_eq!(
            site.finish(&upload, &digest, manifest.to_string().as_bytes())
                .await
                .status,
            201
        );
    }
}

#[tokio::test]
async fn hosts_are_pushed_to_under_their_mirror_name() {
    let site = Site::start().await;
    for (written, stored) in [
        ("registry.example:5000/a", "registry.example_5000/a"),
        ("Registry.Example%3A5000/b", "registry.example_5000/b"),
        ("index.docker.io/library/x", "docker.io/library/x"),
        ("docker.io/y", "docker.io/library/y"),
    ] {
        let digest = site.push_blob(written, b"x").await;
        let target = format!("/v2/{written}/blobs/uploads/");
        let upload = location(&site.send("POST", &target, &[], b"").await, 202);
        assert_eq!(
            site.finish(&upload, &digest, b"x").await.status,
            201,
            "{written}"
        );
        let names = site.store.names().await.unwrap();
        assert!(names.repositories.contains_key(stored), "{written}");
        site.assert_blob(written, &digest, b"x").await;
        site.assert_blob(stored, &digest, b"x").await;
    }
    let repositories = site.get("/v2/_catalog").await.json();
    assert_eq!(
        repositories["repositories"],
        json!([
            "docker.io/library/x",
            "docker.io/library/y",
            "registry.example_5000/a",
            "registry.example_5000/b"
        ])
    );
}

//! The base endpoint, the shapes of a URL, and what is refused.

use kubepkg_mirror::serve::Limits;

use super::fixture::{Running, image};

const R: &str = "docker.io/library/x";

#[tokio::test]
async fn the_base_says_that_this_is_a_registry() {
    let server = Running::start().await;
    for target in ["/v2/", "/v2", "/docker.io/v2/"] {
        let got = server.get(target).await;
        assert_eq!(
            (got.status, got.body.as_slice()),
            (200, &b"{}"[..]),
            "{target}"
        );
        assert_eq!(
            got.header("docker-distribution-api-version"),
            Some("registry/2.0")
        );
        let head = server.head(target).await;
        assert_eq!(head.lasting_headers(), got.lasting_headers());
    }
}

#[tokio::test]
async fn five_shapes_and_their_namespace_header() {
    let server = Running::start().await;
    let digest = server
        .store
        .manifest_in(R, &image(&server.store, R, "a"), &["v1"]);
    for (path, namespace) in [
        ("/v2/docker.io/library/x/manifests/v1", None),
        ("/v2/library/x/manifests/v1?ns=docker.io", Some("docker.io")),
        (
            "/v2/x/manifests/v1?ns=registry-1.docker.io",
            Some("docker.io"),
        ),
        (
            "/v2/docker.io/library/x/manifests/v1?ns=docker.io",
            Some("docker.io"),
        ),
        ("/docker.io/v2/library/x/manifests/v1", None),
        ("/v2/docker.io/v2/library/x/manifests/v1", None),
    ] {
        let got = server.get(path).await;
        assert_eq!(got.status, 200, "{path}");
        let want = digest.to_string();
        assert_eq!(got.header("docker-content-digest"), Some(want.as_str()));
        assert_eq!(got.header("oci-namespace"), namespace, "{path}");
    }
}

#[tokio::test]
async fn an_unknown_namespace_is_404() {
    let server = Running::start().await;
    server
        .store
        .manifest_in(R, &image(&server.store, R, "a"), &["v1"]);
    for ns in ["quay.io", "docker.io:5000", "%00", "http://docker.io"] {
        let got = server.get(&format!("/v2/{R}/manifests/v1?ns={ns}")).await;
        assert_eq!(
            (got.status, got.code().as_str()),
            (404, "NAME_UNKNOWN"),
            "{ns}"
        );
    }
}

#[tokio::test]
async fn own_names_are_the_host_asked_for_and_the_configured_ones() {
    let server = Running::with(Limits::default(), |s| s.own_names(["Mirror.lan:5000"])).await;
    server
        .store
        .manifest_in("team/app", &image(&server.store, "team/app", "a"), &["v1"]);
    for (ns, host, status) in [
        ("mirror.lan%3A5000", "10.0.0.5:5000", 200),
        ("10.0.0.5:5000", "10.0.0.5:5000", 200),
        ("10.0.0.6:5000", "10.0.0.5:5000", 404),
    ] {
        let target = format!("/v2/team/app/manifests/v1?ns={ns}");
        let got = server.send("GET", &target, &[("Host", host)]).await;
        assert_eq!(got.status, status, "{ns} at {host}");
    }
}

#[tokio::test]
async fn deep_names_and_names_made_of_api_words() {
    let server = Running::start().await;
    for name in [
        "registry.example.com/a/b/c/d/e/f/g/h/i/j",
        "quay.io/x/manifests",
        "quay.io/x/blobs/uploads",
        "quay.io/x/tags/list",
        "quay.io/referrers",
    ] {
        let digest = server
            .store
            .manifest_in(name, &image(&server.store, name, "a"), &["v1"]);
        for target in [
            format!("/v2/{name}/manifests/v1"),
            format!("/v2/{name}/manifests/{digest}"),
            format!("/v2/{name}/tags/list"),
            format!("/v2/{name}/referrers/{digest}"),
        ] {
            assert_eq!(server.get(&target).await.status, 200, "{target}");
        }
    }
}

#[tokio::test]
async fn writes_are_refused_with_a_reason() {
    let server = Running::start().await;
    for (method, target) in [
        ("POST", "/v2/a/blobs/uploads/"),
        ("POST", "/v2/a/blobs/uploads"),
        ("PATCH", "/v2/a/blobs/uploads/1"),
        ("PUT", "/v2/a/manifests/v1"),
        ("DELETE", "/v2/a/manifests/v1"),
        ("POST", "/charts/a/index.yaml"),
        ("PUT", "/repositories/a/index.yaml"),
    ] {
        let body = [("Content-Length", "0")];
        let got = server.send(method, target, &body).await;
        assert_eq!(
            (got.status, got.code().as_str()),
            (405, "UNSUPPORTED"),
            "{target}"
        );
        assert_eq!(got.header("allow"), Some("GET, HEAD"));
        let text = String::from_utf8(got.body).unwrap();
        assert!(
            text.contains("read-only") && text.contains(method),
            "{text}"
        );
    }
}

//! A machine without certificate authorities. The system's are found by environment
//! variables, so the test proper runs in a process of its own.

use std::process::Command;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use kubepkg_core::error::Classify;
use kubepkg_remote::Fault;

use crate::server::{Server, client, manifest, serve_manifest};

#[test]
fn a_machine_without_authorities() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "certificates::inside"])
        .env("SSL_CERT_FILE", "/does/not/exist")
        .env("SSL_CERT_DIR", "/does/not/exist")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[tokio::test]
#[ignore = "runs in a process without certificate authorities, started by the test above"]
async fn inside() {
    let client = client();
    // What needs no TLS works.
    let open = Server::start(|_| {
        serve_manifest(
            &manifest("x").0,
            kubepkg_core::descriptor::media_type::OCI_MANIFEST,
        )
    })
    .await;
    client
        .registry()
        .manifest(&open.image("a:1"))
        .await
        .unwrap();

    let url = "https://packages.example.com/index.yaml".parse().unwrap();
    let error = client.fetch(&url, 100).await.unwrap_err();
    assert!(matches!(error.fault(), Fault::NoCertificates), "{error}");
    assert!(error.hint().unwrap().contains("--ca-file"));

    // Nor does a token.
    let own: std::sync::Arc<std::sync::OnceLock<String>> = std::sync::Arc::default();
    let address = std::sync::Arc::clone(&own);
    let wants_token = Server::start(move |seen| {
        if seen.path.starts_with("/token") {
            return r#"{"access_token":"t"}"#.into_response();
        }
        if seen.header("authorization") == "Bearer t" {
            return serve_manifest(
                &manifest("x").0,
                kubepkg_core::descriptor::media_type::OCI_MANIFEST,
            );
        }
        let realm = address.get().map_or("", String::as_str);
        let headers = [(
            "www-authenticate",
            format!("Bearer realm=\"{realm}/token\""),
        )];
        (StatusCode::UNAUTHORIZED, headers).into_response()
    })
    .await;
    own.set(wants_token.url("")).unwrap();
    client
        .registry()
        .manifest(&wants_token.image("a:1"))
        .await
        .unwrap();
}

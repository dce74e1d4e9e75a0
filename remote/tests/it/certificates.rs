//! A machine without certificate authorities. The system's are found by environment
//! variables, so the test proper runs in a process of its own.

use std::process::Command;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use kubepkg_core::error::{Classify, Kind};
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

    let wants_token = Server::start(|_| {
        let headers = [(
            "www-authenticate",
            r#"Bearer realm="http://127.0.0.1:9/token""#,
        )];
        (StatusCode::UNAUTHORIZED, headers).into_response()
    })
    .await;
    let error = client
        .registry()
        .manifest(&wants_token.image("a:1"))
        .await
        .unwrap_err();
    assert!(
        matches!(error.fault(), Fault::NoSystemCertificates),
        "{error}"
    );
    assert_eq!(error.kind(), Kind::Failed);
}

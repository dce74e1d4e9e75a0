//! Programs that keep credentials, web servers behind a password.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_remote::{Client, Fault, Given, Options};

use crate::server::{Server, manifest, options, serve_manifest, status};

const OCI: &str = kubepkg_core::descriptor::media_type::OCI_MANIFEST;

fn wants_password() -> Response {
    let headers = [("www-authenticate", "Basic realm=\"x\"")];
    (StatusCode::UNAUTHORIZED, headers).into_response()
}

/// A file of some text.
fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// The program is found by `PATH`, so the test proper runs in a process of its own.
#[test]
fn a_program_keeps_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("docker-credential-kubepkg-test");
    let text = "#!/bin/sh\nread -r server\necho \"$1 $server\" >>\"$0.log\"\n\
        case $server in *:1) echo 'credentials not found in native keychain'; exit 1;; esac\n\
        echo '{\"ServerURL\":\"'$server'\",\"Username\":\"u\",\"Secret\":\"p\"}'\n";
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "access::with_the_program"])
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    let log = std::fs::read_to_string(folder.path().join("docker-credential-kubepkg-test.log"));
    let log = log.unwrap();
    let asked: Vec<&str> = log.lines().collect();
    assert_eq!(asked.len(), 2, "asked once for each server: {log}");
    assert!(
        asked.iter().all(|line| line.starts_with("get 127.0.0.1:")),
        "{log}"
    );
}

#[tokio::test]
#[ignore = "runs in a process that finds the program, started by the test above"]
async fn with_the_program() {
    let server = Server::start(|seen| match seen.header("authorization") {
        "Basic dTpw" => serve_manifest(&manifest("x").0, OCI),
        _ => wants_password(),
    })
    .await;
    for config in [
        r#"{"credsStore":"kubepkg-test"}"#.to_owned(),
        format!(
            r#"{{"credHelpers":{{"{}":"kubepkg-test"}}}}"#,
            server.host()
        ),
    ] {
        let config = file(&config);
        let (mut options, _) = options();
        options.registry_configs = vec![config.path().to_owned()];
        let registry = Client::new(options).unwrap().registry();
        for image in ["a:1", "a:2", "b:1"] {
            registry.manifest(&server.image(image)).await.unwrap();
        }
    }
}

fn helm_repository(password: &'static str) -> impl Fn(&crate::server::Seen) -> Response {
    move |seen| {
        if seen.header("authorization") != password {
            return wants_password();
        }
        match seen.path.as_str() {
            "/charts/index.yaml" => "entries:\n  web:\n  - {version: 1.0.0, urls: [web.tgz]}\n"
                .to_owned()
                .into_response(),
            "/charts/web.tgz" => "archive".into_response(),
            _ => status(404),
        }
    }
}

async fn fetch_chart(
    server: &Server,
    options: Options,
) -> Result<Vec<u8>, kubepkg_remote::RemoteError> {
    let repository: CanonicalUrl = server.url("/charts").parse().unwrap();
    let client = Client::new(options)?;
    let chart = client.chart(&repository, "web", "1.0.0").await?;
    Ok(chart.archive.to_vec())
}

fn helm_list(url: &str) -> tempfile::NamedTempFile {
    file(&format!(
        "repositories:\n- name: x\n  url: {url}\n  username: u\n  password: p\n"
    ))
}

#[tokio::test]
async fn a_helm_repository_behind_a_password() {
    let server = Server::start(helm_repository("Basic dTpw")).await;
    let list = helm_list(&server.url("/charts"));
    let (mut given, _) = options();
    given.helm_configs = vec![list.path().to_owned()];
    assert_eq!(fetch_chart(&server, given).await.unwrap(), b"archive");
    // one refusal, then the password goes along unasked
    assert_eq!(server.seen().len(), 3);

    let config = file(&format!(
        r#"{{"auths":{{"{}":{{"auth":"dTpw"}}}}}}"#,
        server.host()
    ));
    let (mut given, _) = options();
    given.registry_configs = vec![config.path().to_owned()];
    assert_eq!(fetch_chart(&server, given).await.unwrap(), b"archive");
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_told_apart() {
    let server = Server::start(helm_repository("Basic other")).await;
    let list = helm_list(&server.url("/charts"));
    for (lists, want) in [
        (vec![list.path().to_owned()], Given::Own),
        (vec![], Given::None),
    ] {
        let (mut given, _) = options();
        given.helm_configs = lists;
        let error = fetch_chart(&server, given).await.unwrap_err();
        match error.fault() {
            Fault::Denied { given, status, .. } => assert_eq!((given, *status), (&want, 401)),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_password_stays_where_it_belongs() {
    let other = Server::start(|_| "archive".into_response()).await;
    let elsewhere = other.url("/web.tgz");
    let server = Server::start(move |seen| {
        if seen.header("authorization") != "Basic dTpw" {
            return wants_password();
        }
        format!("entries:\n  web:\n  - {{version: 1.0.0, urls: ['{elsewhere}']}}\n").into_response()
    })
    .await;
    let list = helm_list(&server.url("/charts"));
    let (mut given, _) = options();
    given.helm_configs = vec![list.path().to_owned()];
    assert_eq!(fetch_chart(&server, given).await.unwrap(), b"archive");
    for seen in other.seen() {
        assert_eq!(seen.header("authorization"), "");
    }
    assert!(Path::new(list.path()).exists());
}

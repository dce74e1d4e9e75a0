//! HTTP proxies that lead nowhere. They are named in the environment, so the tests proper run in
//! a process of their own.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use kubepkg_core::error::{Classify, Kind};
use kubepkg_remote::Fault;

use crate::server::client;

/// A proxy that gives this answer to every request.
fn proxy(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head = BufReader::new(stream.try_clone().unwrap()).lines();
            // to the empty line after the headers
            let _ = head.map_while(Result::ok).find(String::is_empty);
            let _ = write!(
                stream,
                "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
        }
    });
    address
}

/// Runs `test` of this module with proxies in the environment.
fn run(test: &str, variable: &str, proxy: SocketAddr) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &format!("proxies::{test}")])
        .env(variable, format!("http://ann:secret@{proxy}"))
        .env("EXPECTED_PROXY", proxy.to_string())
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

/// The failure to reach `url`, in which the proxy is named and its password is not.
async fn failure(url: &str) -> kubepkg_remote::RemoteError {
    let error = client().fetch(&url.parse().unwrap(), 9).await.unwrap_err();
    let told = format!("{error} {:?} {:?}", error.place(), error.hint());
    assert!(
        told.contains(&std::env::var("EXPECTED_PROXY").unwrap()),
        "{told}"
    );
    assert!(told.contains("packages.example.com"), "{told}");
    assert!(!told.contains("secret"), "{told}");
    assert_eq!(error.kind(), Kind::Remote);
    error
}

#[test]
fn a_proxy_that_refuses_is_named() {
    run("refused", "HTTPS_PROXY", proxy("403 Filtered"));
}

#[tokio::test]
#[ignore = "runs in a process with a proxy, started by the test above"]
async fn refused() {
    let error = failure("https://packages.example.com/index.yaml").await;
    assert!(
        matches!(error.fault(), Fault::Proxy { login: false, .. }),
        "{error:?}"
    );
    assert!(
        error
            .hint()
            .unwrap()
            .contains("NO_PROXY=packages.example.com")
    );
}

#[test]
fn a_proxy_that_wants_a_password_is_named() {
    let answer = "407 Proxy Authentication Required";
    run("login", "HTTPS_PROXY", proxy(answer));
    run("plain_login", "HTTP_PROXY", proxy(answer));
}

#[tokio::test]
#[ignore = "runs in a process with a proxy, started by the test above"]
async fn login() {
    let error = failure("https://packages.example.com/index.yaml").await;
    assert!(
        matches!(error.fault(), Fault::Proxy { login: true, .. }),
        "{error:?}"
    );
    assert!(!error.retry());
}

#[tokio::test]
#[ignore = "runs in a process with a proxy, started by the test above"]
async fn plain_login() {
    let (mut options, _) = crate::server::options();
    options.plain_http = vec!["packages.example.com".to_owned()];
    let client = kubepkg_remote::Client::new(options).unwrap();
    let url = "http://packages.example.com/index.yaml".parse().unwrap();
    let error = client.fetch(&url, 9).await.unwrap_err();
    assert!(
        matches!(error.fault(), Fault::Proxy { login: true, .. }),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .contains(&std::env::var("EXPECTED_PROXY").unwrap()),
        "{error}"
    );
}

#[test]
fn a_proxy_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    run("away", "HTTPS_PROXY", address);
}

#[tokio::test]
#[ignore = "runs in a process with a proxy, started by the test above"]
async fn away() {
    let error = failure("https://packages.example.com/index.yaml").await;
    assert!(
        matches!(error.fault(), Fault::Proxy { login: false, .. }),
        "{error:?}"
    );
    assert!(error.retry());
}

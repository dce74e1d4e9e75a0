//! Access tokens and credentials.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use kubepkg_core::error::{Classify, Kind};
use kubepkg_remote::{Client, Fault};

use crate::server::{Server, blob, client, manifest, options, serve_blob, serve_manifest, status};

const OCI: &str = kubepkg_core::descriptor::media_type::OCI_MANIFEST;

fn challenge(text: String) -> Response {
    let body = r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}"#;
    let headers = [
        ("www-authenticate", text),
        ("content-type", "application/json".to_owned()),
    ];
    let mut response = (headers, body).into_response();
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
}

/// A registry that wants tokens of its own token server. `good` says how many tokens were
/// given out when only the newest one is accepted.
async fn token_registry(
    accept: impl Fn(usize, &str) -> bool + Send + Sync + 'static,
    token: impl Fn(usize) -> Response + Send + Sync + 'static,
) -> Server {
    let own: Arc<OnceLock<String>> = Arc::default();
    let address = Arc::clone(&own);
    let requests = AtomicUsize::new(0);
    let server = Server::start(move |seen| {
        if seen.path.starts_with("/token") {
            return token(seen.before);
        }
        if seen.path.starts_with("/v2/a") {
            let n = requests.fetch_add(1, Ordering::Relaxed);
            if accept(n, seen.header("authorization")) {
                return serve_manifest(&manifest("x").0, OCI);
            }
        }
        let realm = address.get().map_or("", String::as_str);
        challenge(format!(r#"Bearer realm="{realm}/token",service="test""#))
    })
    .await;
    own.set(server.url("")).unwrap();
    server
}

fn token(text: &str) -> Response {
    format!(r#"{{"token":"{text}"}}"#).into_response()
}

fn docker_config(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn client_with(config: &tempfile::NamedTempFile) -> Client {
    let (mut options, _) = options();
    options.registry_configs = vec![config.path().to_owned()];
    Client::new(options).unwrap()
}

#[tokio::test]
async fn one_token_serves_a_repository() {
    let server = token_registry(|_, auth| auth == "Bearer t1", |_| token("t1")).await;
    let registry = client().registry();
    for tag in ["1", "2", "3"] {
        registry
            .manifest(&server.image(&format!("a:{tag}")))
            .await
            .unwrap();
    }
    let tokens: Vec<_> = server
        .seen()
        .into_iter()
        .filter(|s| s.path.starts_with("/token"))
        .collect();
    assert_eq!(tokens.len(), 1);
    assert!(
        tokens[0].path.contains("repository%3Aa%3Apull"),
        "{}",
        tokens[0].path
    );
    assert_eq!(tokens[0].header("authorization"), "", "anonymous");
}

#[tokio::test]
async fn the_next_repository_is_asked_for_with_a_token_at_once() {
    let server = token_registry(|_, auth| auth == "Bearer t1", |_| token("t1")).await;
    let registry = client().registry();
    for repository in ["a/one", "a/two", "a/three"] {
        let image = server.image(&format!("{repository}:1"));
        registry.manifest(&image).await.unwrap();
    }
    let asked: Vec<String> = server.seen().into_iter().map(|seen| seen.path).collect();
    let of = |part: &str| asked.iter().filter(|path| path.contains(part)).count();
    // a token for each, and one refusal in all
    assert_eq!((of("/token"), of("/v2/")), (3, 4), "{asked:?}");
    for name in ["one", "two", "three"] {
        assert_eq!(
            of(&format!("repository%3Aa%2F{name}%3Apull")),
            1,
            "{asked:?}"
        );
    }
}

#[tokio::test]
async fn a_token_that_is_not_what_the_next_repository_wants_ends_nothing() {
    // another server answers for the second repository, and the first one gives it none
    let others: Arc<OnceLock<String>> = Arc::default();
    let address = Arc::clone(&others);
    let server = Server::start(move |seen| {
        let url = address.get().map_or("", String::as_str);
        let (own, token_path) = match seen.path.starts_with("/v2/b") {
            true => ("Bearer for-b", "token-of-b"),
            false => ("Bearer for-a", "token"),
        };
        match seen.path.as_str() {
            path if path.starts_with("/token-of-b") => token("for-b"),
            path if path.starts_with("/token") && path.contains("repository%3Aa") => token("for-a"),
            path if path.starts_with("/token") => status(403),
            _ if seen.header("authorization") == own => serve_manifest(&manifest("x").0, OCI),
            _ => challenge(format!(
                r#"Bearer realm="{url}/{token_path}",service="test""#
            )),
        }
    })
    .await;
    others.set(server.url("")).unwrap();
    let registry = client().registry();
    for image in ["a:1", "b:1", "b:2"] {
        registry.manifest(&server.image(image)).await.unwrap();
    }
    assert_eq!(server.count("/token-of-b"), 1);
}

#[tokio::test]
async fn parallel_requests_share_one_token() {
    let server = token_registry(|_, auth| auth == "Bearer t1", |_| token("t1")).await;
    let registry = client().registry();
    let pull = |n: usize| {
        let (registry, image) = (registry.clone(), server.image(&format!("a:{n}")));
        async move { registry.manifest(&image).await }
    };
    futures_util::future::try_join_all((0..8).map(pull))
        .await
        .unwrap();
    assert_eq!(server.count("/token"), 1);
}

#[tokio::test]
async fn a_token_that_ran_out_is_renewed() {
    let accept = |n: usize, auth: &str| match n {
        0..=1 => auth == "Bearer t0",
        _ => auth == "Bearer t1",
    };
    let server = token_registry(accept, |n| token(&format!("t{n}"))).await;
    let registry = client().registry();
    for tag in ["1", "2", "3"] {
        registry
            .manifest(&server.image(&format!("a:{tag}")))
            .await
            .unwrap();
    }
    assert_eq!(server.count("/token"), 2);
}

#[tokio::test]
async fn a_token_server_in_trouble_is_asked_again() {
    let answer = |n| match n {
        0 => (StatusCode::BAD_GATEWAY, "<html>bad gateway</html>").into_response(),
        1 => {
            let text = r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}"#;
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "33")], text).into_response()
        }
        _ => token("t1"),
    };
    let server = token_registry(|_, auth| auth == "Bearer t1", answer).await;
    let (options, pauses) = options();
    let registry = Client::new(options).unwrap().registry();
    registry.manifest(&server.image("a:1")).await.unwrap();
    assert_eq!(server.count("/token"), 3);
    let longest = pauses.longest();
    assert!(
        longest.as_secs() >= 32 && longest.as_secs() <= 33,
        "{longest:?}"
    );
}

#[tokio::test]
async fn credentials_go_to_the_token_server_only() {
    let server = token_registry(|_, auth| auth == "Bearer t1", |_| token("t1")).await;
    let config = docker_config(&format!(
        r#"{{"auths":{{"{}":{{"auth":"dTpw"}}}}}}"#,
        server.host()
    ));
    let registry = client_with(&config).registry();
    registry.manifest(&server.image("a:1")).await.unwrap();
    for seen in server.seen() {
        let want = match seen.path.as_str() {
            path if path.starts_with("/token") => "Basic dTpw",
            path if path.starts_with("/v2/a") && seen.before == 1 => "Bearer t1",
            _ => "",
        };
        assert_eq!(seen.header("authorization"), want, "{}", seen.path);
    }
}

#[tokio::test]
async fn a_wrong_password_is_said_at_once() {
    let answer = |_| {
        let text = r#"{"details":"incorrect username or password"}"#;
        (StatusCode::UNAUTHORIZED, text).into_response()
    };
    let server = token_registry(|_, _| false, answer).await;
    let config = docker_config(&format!(
        r#"{{"auths":{{"{}":{{"auth":"dTpw"}}}}}}"#,
        server.host()
    ));
    let registry = client_with(&config).registry();
    let error = registry.manifest(&server.image("a:1")).await.unwrap_err();
    assert!(error.to_string().contains("incorrect username"), "{error}");
    assert!(error.hint().unwrap().contains("docker login"));
    assert_eq!(server.count("/token"), 1);
}

#[tokio::test]
async fn basic_credentials() {
    let server = Server::start(|seen| match seen.header("authorization") {
        "Basic dTpw" => serve_manifest(&manifest("x").0, OCI),
        _ => challenge("Basic realm=\"x\"".to_owned()),
    })
    .await;
    let config = docker_config(&format!(
        r#"{{"auths":{{"http://{}/v2/":{{"username":"u","password":"p"}}}}}}"#,
        server.host()
    ));
    let registry = client_with(&config).registry();
    registry.manifest(&server.image("a:1")).await.unwrap();
    registry.manifest(&server.image("a:2")).await.unwrap();
    assert_eq!(server.seen().len(), 3, "the first 401 was enough");

    let error = client()
        .registry()
        .manifest(&server.image("a:1"))
        .await
        .unwrap_err();
    assert!(
        matches!(error.fault(), Fault::Denied { status: 401, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn access_denied_for_ever_ends_with_advice() {
    // Every token is new and none is accepted.
    let server = token_registry(|_, _| false, |n| token(&format!("t{n}"))).await;
    let error = client()
        .registry()
        .manifest(&server.image("a:1"))
        .await
        .unwrap_err();
    assert_eq!((error.kind(), error.retry()), (Kind::Remote, false));
    let text = error.to_string();
    assert!(
        text.contains(&server.host()) && text.contains("401"),
        "{text}"
    );
    assert!(text.contains("authentication required"), "{text}");
    assert!(error.hint().unwrap().contains("--registry-config"));
    assert!(server.seen().len() <= 6, "{}", server.seen().len());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let server = Server::start(|_| challenge("Basic realm=\"x\"".to_owned())).await;
    let config = docker_config(r#"{"auths":{},"credsStore":"kubepkg-none"}"#);
    let registry = client_with(&config).registry();
    let error = registry.manifest(&server.image("a:1")).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("docker-credential-kubepkg-none"), "{text}");
    assert!(text.contains("not installed"), "{text}");
}

#[tokio::test]
async fn an_identity_token_is_exchanged() {
    let server = token_registry(
        |_, auth| auth == "Bearer t1",
        |_| r#"{"access_token":"t1"}"#.into_response(),
    )
    .await;
    let config = docker_config(&format!(
        r#"{{"auths":{{"{}":{{"auth":"dTo=","identitytoken":"i&1"}}}}}}"#,
        server.host()
    ));
    let registry = client_with(&config).registry();
    registry.manifest(&server.image("a:1")).await.unwrap();
    let token = server.seen().into_iter().find(|s| s.path == "/token");
    let body = String::from_utf8(token.unwrap().body).unwrap();
    for part in [
        "grant_type=refresh_token",
        "refresh_token=i%261",
        "scope=repository%3Aa%3Apull",
        "service=test",
    ] {
        assert!(body.contains(part), "{part} in {body}");
    }
}

#[tokio::test]
async fn forbidden_is_not_asked_again() {
    let server = Server::start(|_| status(403)).await;
    let error = client()
        .registry()
        .manifest(&server.image("a:1"))
        .await
        .unwrap_err();
    assert!(
        matches!(error.fault(), Fault::Denied { status: 403, .. }),
        "{error}"
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn credentials_stay_off_foreign_hosts() {
    let content = b"layer".to_vec();
    let descriptor = blob(&content);
    let store = Server::start(move |seen| serve_blob(seen, b"layer", usize::MAX)).await;
    let target = store.url("/somewhere?signature=secret");
    let registry = Server::start(move |seen| match seen.header("authorization") {
        "Basic dTpw" => {
            let mut response = status(307);
            let headers = response.headers_mut();
            headers.insert("location", target.parse().unwrap());
            response
        }
        _ => challenge("Basic realm=\"x\"".to_owned()),
    })
    .await;
    let config = docker_config(&format!(
        r#"{{"auths":{{"{}":{{"auth":"dTpw"}}}}}}"#,
        registry.host()
    ));
    let client = client_with(&config);
    let image = registry.image("a:1");
    let got = client
        .registry()
        .blob(&image, &descriptor, 100)
        .await
        .unwrap();
    assert_eq!(got, content);
    let seen = store.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].header("authorization"), "");
    assert_eq!(seen[0].header("referer"), "");
}

#[tokio::test]
async fn a_token_server_without_encryption_gets_nothing() {
    let server = Server::start(|_| {
        challenge(r#"Bearer realm="http://auth.example.com/token",service="x""#.to_owned())
    })
    .await;
    let error = client()
        .registry()
        .manifest(&server.image("a:1"))
        .await
        .unwrap_err();
    assert!(matches!(error.fault(), Fault::PlainHttp { .. }), "{error}");
    assert_eq!(
        error.hint().unwrap().split(' ').next_back(),
        Some("auth.example.com")
    );
}

#[test]
fn a_broken_config_is_named() {
    let config = docker_config("not json");
    let (mut options, _) = options();
    options.registry_configs = vec![config.path().to_owned()];
    let Err(error) = Client::new(options) else {
        panic!("accepted");
    };
    assert_eq!(error.kind(), Kind::Failed);
    assert_eq!(error.place().unwrap(), config.path().display().to_string());
}

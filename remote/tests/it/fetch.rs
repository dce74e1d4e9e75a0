//! Files by URL, directly and through a mirror.

use axum::response::IntoResponse;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_remote::{Client, Fault};

use crate::server::{Server, client, options, status};

/// What the mirror of this workspace answers at `/healthz`.
const HEALTH: &str = r#"{"service":"kubepkg-mirror","status":"ok"}"#;

fn url(text: &str) -> CanonicalUrl {
    text.parse().unwrap()
}

fn through(mirror: &Server) -> Client {
    let (mut options, _) = options();
    options.mirror = Some(url(&mirror.url("")));
    Client::new(options).unwrap()
}

/// A kubepkg mirror with these files.
async fn mirror(files: Vec<(String, &'static str)>) -> Server {
    Server::start(move |seen| {
        if seen.path == "/healthz" {
            return HEALTH.into_response();
        }
        let file = files.iter().find(|(path, _)| *path == seen.path);
        file.map_or_else(|| status(404), |(_, text)| text.into_response())
    })
    .await
}

#[tokio::test]
async fn files_of_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("an index%20.yaml");
    std::fs::write(&path, "content").unwrap();
    let file = url(&format!("file://{}", path.display()));
    let client = client();
    assert_eq!(client.fetch(&file, 7).await.unwrap().bytes, "content");

    let error = client.fetch(&file, 6).await.unwrap_err();
    assert!(
        matches!(error.fault(), Fault::TooLarge { limit: 6 }),
        "{error}"
    );
    let missing = url(&format!("file://{}/none", dir.path().display()));
    let error = client.fetch(&missing, 7).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.place().unwrap().ends_with("/none"));
    let folder = url(&format!("file://{}", dir.path().display()));
    assert_eq!(
        client.fetch(&folder, 7).await.unwrap_err().kind(),
        Kind::Failed
    );
}

#[tokio::test]
async fn files_of_others() {
    let server = Server::files(vec![("/r/index.yaml".to_owned(), b"text".to_vec())]).await;
    let client = client();
    let got = client
        .fetch(&url(&server.url("/r/index.yaml")), 4)
        .await
        .unwrap();
    assert_eq!(got.bytes, "text");
    assert_eq!(got.url, server.url("/r/index.yaml"));
    assert!(
        server.seen()[0]
            .header("user-agent")
            .starts_with("kubepkg/")
    );
    assert_eq!(
        server.seen()[0].header("accept-encoding"),
        "",
        "bytes as they are"
    );

    let error = client
        .fetch(&url(&server.url("/r/index.yaml")), 3)
        .await
        .unwrap_err();
    assert!(
        matches!(error.fault(), Fault::TooLarge { limit: 3 }),
        "{error}"
    );
    let error = client
        .fetch(&url(&server.url("/none")), 4)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert_eq!(error.place().unwrap(), server.url("/none"));
}

#[tokio::test]
async fn what_wants_a_login_says_so() {
    let server = Server::start(|_| status(401)).await;
    let error = client()
        .fetch(&url(&server.url("/x")), 4)
        .await
        .unwrap_err();
    assert!(matches!(error.fault(), Fault::Denied { .. }), "{error}");
    assert!(error.to_string().contains("without credentials"), "{error}");
    assert!(error.hint().unwrap().contains("helm repo add"));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn no_encryption_no_request() {
    let error = client()
        .fetch(&url("http://packages.example.com/index.yaml"), 4)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(
        error
            .hint()
            .unwrap()
            .ends_with("--plain-http packages.example.com")
    );

    let (mut options, _) = options();
    options.mirror = Some(url("http://mirror.example.com"));
    let Err(error) = Client::new(options) else {
        panic!("accepted");
    };
    assert!(
        error
            .hint()
            .unwrap()
            .contains("--plain-http mirror.example.com")
    );
}

#[tokio::test]
async fn a_kubepkg_mirror_has_repository_files() {
    let upstream = Server::files(vec![("/r/index.yaml".to_owned(), b"direct".to_vec())]).await;
    let location = format!("/repositories/127.0.0.1_{}/r", upstream.address.port());
    let mirror = mirror(vec![
        (format!("{location}/index.yaml"), "mirrored"),
        (format!("{location}/root/1.yaml"), "root"),
    ])
    .await;
    let client = through(&mirror);
    let fetch = |path: &str| {
        let (client, url) = (client.clone(), url(&upstream.url(path)));
        async move { client.fetch(&url, 100).await }
    };
    assert_eq!(fetch("/r/index.yaml").await.unwrap().bytes, "mirrored");
    // What belongs to that index comes from the same place or not at all.
    assert_eq!(fetch("/r/root/1.yaml").await.unwrap().bytes, "root");
    let error = fetch("/r/index.yaml.sig").await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().contains(&mirror.host()), "{error}");
    assert_eq!(upstream.seen().len(), 0);
    assert_eq!(mirror.count("/healthz"), 1);
}

#[tokio::test]
async fn what_the_mirror_lacks_comes_from_its_own_place() {
    let upstream = Server::files(vec![
        ("/r/index.yaml".to_owned(), b"direct".to_vec()),
        ("/r/index.yaml.sig".to_owned(), b"signature".to_vec()),
    ])
    .await;
    let empty = mirror(Vec::new()).await;
    // A registry that is no kubepkg mirror may answer anything with its web page.
    let other = Server::start(|_| "<html></html>".into_response()).await;
    for (server, asked) in [(empty, 2), (other, 1)] {
        let client = through(&server);
        for (path, want) in [
            ("/r/index.yaml", "direct"),
            ("/r/index.yaml.sig", "signature"),
        ] {
            let got = client.fetch(&url(&upstream.url(path)), 100).await.unwrap();
            assert_eq!(got.bytes, want);
        }
        assert_eq!(server.seen().len(), asked);
    }
}

#[tokio::test]
async fn a_mirror_in_trouble_is_not_walked_around() {
    let upstream = Server::files(vec![("/r/index.yaml".to_owned(), b"direct".to_vec())]).await;
    let mirror = Server::start(|seen| match seen.path.as_str() {
        "/healthz" => HEALTH.into_response(),
        _ => status(500),
    })
    .await;
    let client = through(&mirror);
    let error = client
        .fetch(&url(&upstream.url("/r/index.yaml")), 100)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Remote);
    assert_eq!(upstream.seen().len(), 0);
}

#[tokio::test]
async fn files_of_two_imports_are_not_taken_for_one_repository() {
    let upstream = Server::files(Vec::new()).await;
    let location = format!("/repositories/127.0.0.1_{}/r", upstream.address.port());
    // an import comes in after the index was read for the first time
    let mirror = Server::start(move |seen| {
        let set = match (seen.path.strip_prefix(&location), seen.before) {
            (Some("/index.yaml"), 0) => "7",
            (Some(_), _) => "8",
            (None, _) => return HEALTH.into_response(),
        };
        ([("kubepkg-set", set)], set).into_response()
    })
    .await;
    let client = through(&mirror);
    let fetch = |path: &str| {
        let (client, url) = (client.clone(), url(&upstream.url(path)));
        async move { client.fetch(&url, 100).await }
    };
    assert_eq!(fetch("/r/index.yaml").await.unwrap().bytes, "7");
    let error = fetch("/r/index.yaml.sig").await.unwrap_err();
    assert!(error.has_changed_meanwhile() && error.retry(), "{error}");
    // read anew from the first file on, both are of one set
    for path in ["/r/index.yaml", "/r/index.yaml.sig", "/r/root/1.yaml"] {
        assert_eq!(fetch(path).await.unwrap().bytes, "8", "{path}");
    }
    assert_eq!(upstream.seen().len(), 0);
}

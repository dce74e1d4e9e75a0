//! Logins and rules: who may read, push, delete and mount, and what others are told.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubepkg_core::Digest;
use kubepkg_core::file::{FileName, HOST};
use kubepkg_mirror::access::{AccessFiles, Gate};
use serde_json::Value;

use super::client::Answer;
use super::fixture::{OCI_IMAGE, Site, location, refused};

const HEAD: &str = "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\n";

/// alice and bob, whose password is their name and "-secret"; with rules, if there are any.
async fn site(rules: &str) -> Site {
    Site::gated(tempfile::tempdir().unwrap(), gate(rules)).await
}

fn gate(rules: &str) -> Arc<Gate> {
    // read once; nothing here changes them
    let settings = tempfile::tempdir().unwrap();
    let (users, access) = (
        settings.path().join("users"),
        settings.path().join("access"),
    );
    let lines: String = ["alice", "bob"]
        .map(|user| {
            format!(
                "{user}:{}\n",
                bcrypt::hash(format!("{user}-secret"), 4).unwrap()
            )
        })
        .concat();
    std::fs::write(&users, lines).unwrap();
    std::fs::write(&access, format!("{HEAD}{rules}")).unwrap();
    let files = AccessFiles {
        passwords: Some(users),
        users: None,
        rules: Some(access.clone()),
    };
    Arc::new(Gate::open(files, false, 5).unwrap())
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// A request of somebody; `None`: without a login.
async fn ask(site: &Site, who: Option<&str>, method: &str, target: &str, body: &[u8]) -> Answer {
    let login = who.map(|who| basic(who, &format!("{who}-secret")));
    let lines: Vec<(&str, &str)> = login.iter().map(|l| ("Authorization", &**l)).collect();
    site.send(method, target, &lines, body).await
}

async fn push(site: &Site, who: Option<&str>, repository: &str, bytes: &[u8]) -> Answer {
    let digest = Digest::sha256(bytes);
    let target = format!("/v2/{repository}/blobs/uploads/?digest={digest}");
    ask(site, who, "POST", &target, bytes).await
}

fn blob(repository: &str, bytes: &[u8]) -> String {
    format!("/v2/{repository}/blobs/{}", Digest::sha256(bytes))
}

#[tokio::test]
async fn everybody_reads_and_users_push() {
    let site = site("").await;
    let bytes = b"layer";
    let nobody = push(&site, None, "a/b", bytes).await;
    refused(&nobody, 401, "UNAUTHORIZED");
    let challenge = nobody.header("www-authenticate").unwrap();
    let base = format!("http://{}", site.address);
    assert_eq!(
        challenge,
        format!(
            "Bearer realm=\"{base}/token\",service=\"{}\",scope=\"repository:a/b:pull,push\"",
            site.address
        )
    );
    assert_eq!(push(&site, Some("alice"), "a/b", bytes).await.status, 201);
    for who in [None, Some("bob")] {
        let got = ask(&site, who, "GET", &blob("a/b", bytes), b"").await;
        assert_eq!((got.status, &*got.body), (200, &bytes[..]));
    }
    // what is not here is not here, with or without a login
    let absent = blob("a/b", b"other");
    refused(
        &ask(&site, None, "GET", &absent, b"").await,
        404,
        "BLOB_UNKNOWN",
    );
    refused(
        &ask(&site, None, "DELETE", &blob("a/b", bytes), b"").await,
        401,
        "UNAUTHORIZED",
    );
    let gone = ask(&site, Some("bob"), "DELETE", &blob("a/b", bytes), b"").await;
    assert_eq!(gone.status, 202);
}

#[tokio::test]
async fn the_base_says_that_there_are_logins() {
    let site = site("").await;
    let nobody = site.get("/v2/").await;
    refused(&nobody, 401, "UNAUTHORIZED");
    let challenge = nobody.header("www-authenticate").unwrap();
    assert!(challenge.starts_with("Bearer realm=\"") && !challenge.contains("scope"));
    assert_eq!(
        ask(&site, Some("alice"), "GET", "/v2/", b"").await.status,
        200
    );
    for wrong in [
        basic("alice", "x"),
        basic("eve", "x"),
        "Nonsense".to_owned(),
    ] {
        let got = site
            .send("GET", "/v2/", &[("Authorization", &wrong)], b"")
            .await;
        refused(&got, 401, "UNAUTHORIZED");
    }
    // the host of a request comes into the answer only where it is one
    let odd = [("Host", "a\"b,evil"), ("X", "y")];
    let got = site.send("GET", "/v2/", &odd, b"").await;
    assert!(got.status == 400 || !got.header("www-authenticate").unwrap().contains("evil"));
}

/// A proxy that speaks TLS may stand before it: clients are not sent to an address without TLS.
#[tokio::test]
async fn passwords_are_not_asked_for_at_an_address_that_may_be_wrong() {
    let site = Site::gated_somewhere(tempfile::tempdir().unwrap(), gate("")).await;
    let claims = [("X-Forwarded-Proto", "https"), ("Forwarded", "proto=https")];
    for (method, target) in [("GET", "/v2/"), ("POST", "/v2/a/blobs/uploads/")] {
        let got = site.send(method, target, &claims, b"").await;
        refused(&got, 401, "UNAUTHORIZED");
        let challenges = got.header("www-authenticate");
        assert_eq!(challenges, Some("Basic realm=\"kubepkg mirror\""));
    }
    assert_eq!(push(&site, Some("alice"), "a", b"x").await.status, 201);
    let got = site.get(&blob("a", b"x")).await;
    assert_eq!(got.status, 200, "reading needs no login all the same");
}

fn token_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    let said: Value = answer.json();
    assert_eq!(said["token"], said["access_token"]);
    assert!(said["expires_in"].as_u64().unwrap() >= 60);
    format!("Bearer {}", said["token"].as_str().unwrap())
}

#[tokio::test]
async fn a_token_stands_for_its_user() {
    let site = site("").await;
    let target = "/token?service=x&scope=repository%3Aa%2Fb%3Apull%2Cpush&account=alice";
    let alice = token_of(&ask(&site, Some("alice"), "GET", target, b"").await);
    let form = b"grant_type=password&username=bob&password=bob-secret&service=x&client_id=y";
    let lines = [("Content-Type", "application/x-www-form-urlencoded")];
    let bob = token_of(&site.send("POST", "/token", &lines, form).await);
    let nobody = token_of(&site.get("/token?scope=repository:a/b:pull").await);

    let bytes = b"layer";
    let digest = Digest::sha256(bytes);
    let begin = format!("/v2/a/b/blobs/uploads/?digest={digest}");
    for (token, status) in [(&nobody, 401), (&alice, 201), (&bob, 201)] {
        let lines = [("Authorization", token.as_str())];
        let got = site.send("POST", &begin, &lines, bytes).await;
        assert_eq!(got.status, status, "{got:?}");
        let got = site.send("GET", "/v2/", &lines, b"").await;
        assert_eq!(got.status, 200);
        let read = site.send("HEAD", &blob("a/b", bytes), &lines, b"").await;
        assert_eq!(read.status, if status == 201 { 200 } else { 404 });
    }
    let changed = alice.replace(&alice[10..14], "AAAA");
    let got = site
        .send("GET", "/v2/", &[("Authorization", &changed)], b"")
        .await;
    refused(&got, 401, "UNAUTHORIZED");

    let wrong = site
        .send(
            "GET",
            "/token",
            &[("Authorization", &basic("alice", "x"))],
            b"",
        )
        .await;
    refused(&wrong, 401, "UNAUTHORIZED");
    let refresh = site
        .send("POST", "/token", &lines, b"grant_type=refresh_token")
        .await;
    assert_eq!(refresh.status, 400);
    let flood = site
        .send("POST", "/token", &lines, &vec![b'x'; 100_000])
        .await;
    assert_eq!(flood.status, 400);
}

#[tokio::test]
async fn rules_say_who_may_what_where() {
    let site = site(
        "rules:\n\
         - {path: team/**, pull: [alice], push: [alice], delete: []}\n\
         - {path: sandbox/**, push: [anyone]}\n\
         - {path: docker.io/**, push: []}\n",
    )
    .await;
    let bytes = b"secret layer";
    refused(
        &push(&site, Some("bob"), "team/app", bytes).await,
        403,
        "DENIED",
    );
    assert_eq!(
        push(&site, Some("alice"), "team/app", bytes).await.status,
        201
    );
    let target = blob("team/app", bytes);
    refused(
        &ask(&site, None, "GET", &target, b"").await,
        401,
        "UNAUTHORIZED",
    );
    refused(
        &ask(&site, Some("bob"), "GET", &target, b"").await,
        403,
        "DENIED",
    );
    assert_eq!(
        ask(&site, Some("alice"), "GET", &target, b"").await.status,
        200
    );
    refused(
        &ask(&site, Some("alice"), "DELETE", &target, b"").await,
        403,
        "DENIED",
    );
    // whether it is there is nobody's business either
    let absent = blob("team/other", bytes);
    refused(
        &ask(&site, Some("bob"), "GET", &absent, b"").await,
        403,
        "DENIED",
    );

    // a mount brings nobody what they may not read
    let digest = Digest::sha256(bytes);
    for from in ["", "&from=team/app"] {
        let mount = format!("/v2/sandbox/x/blobs/uploads/?mount={digest}{from}");
        let got = ask(&site, Some("bob"), "POST", &mount, b"").await;
        location(&got, 202);
        refused(
            &ask(&site, Some("bob"), "GET", &blob("sandbox/x", bytes), b"").await,
            404,
            "NAME_UNKNOWN",
        );
    }
    let mount = format!("/v2/sandbox/x/blobs/uploads/?mount={digest}&from=team/app");
    assert_eq!(
        ask(&site, Some("alice"), "POST", &mount, b"").await.status,
        201
    );

    assert_eq!(push(&site, None, "sandbox/y", b"open").await.status, 201);
    refused(
        &push(&site, Some("alice"), "docker.io/x", b"x").await,
        403,
        "DENIED",
    );
    refused(
        &push(&site, None, "elsewhere/x", b"x").await,
        401,
        "UNAUTHORIZED",
    );

    let catalog = async |who| {
        let answer = ask(&site, who, "GET", "/v2/_catalog", b"").await;
        answer.json()["repositories"].to_string()
    };
    assert!(!catalog(Some("bob")).await.contains("team"));
    assert!(catalog(Some("alice")).await.contains("team/app"));
}

#[tokio::test]
async fn nobody_reads_without_a_login_where_that_is_said() {
    let site = site("anonymous: none\n").await;
    push(&site, Some("alice"), "a", b"x").await;
    refused(
        &ask(&site, None, "GET", &blob("a", b"x"), b"").await,
        401,
        "UNAUTHORIZED",
    );
    assert_eq!(
        ask(&site, Some("bob"), "GET", &blob("a", b"x"), b"")
            .await
            .status,
        200
    );
    for ruled in [
        "/charts/a/index.yaml",
        "/repositories/a/index.yaml",
        "/files/a",
    ] {
        refused(
            &ask(&site, None, "GET", ruled, b"").await,
            401,
            "UNAUTHORIZED",
        );
        assert_eq!(ask(&site, Some("bob"), "GET", ruled, b"").await.status, 404);
    }
    for open in ["/healthz", "/readyz", "/livez"] {
        assert_eq!(site.get(open).await.status, 200, "{open}");
    }
}

#[tokio::test]
async fn files_are_for_who_may_read_their_repository() {
    let names = ["open.iso", "secret.iso"].map(|name| name.parse::<FileName>().unwrap());
    let [open, secret] = names.each_ref().map(|name| {
        let repository = format!("{HOST}/{}", name.repository());
        (repository, format!("/files/{name}"))
    });
    let site = site(&format!(
        "rules:\n- {{path: {}, pull: [alice]}}\n",
        secret.0
    ))
    .await;
    let who = Some("alice");
    for (name, (repository, _)) in names.iter().zip([&open, &secret]) {
        let content = name.to_string().into_bytes();
        for bytes in [&b"{}"[..], &content] {
            assert_eq!(push(&site, who, repository, bytes).await.status, 201);
        }
        let manifest = name.manifest(&Digest::sha256(&content), content.len() as u64);
        let target = format!("/v2/{repository}/manifests/latest");
        let login = basic("alice", "alice-secret");
        let lines = [
            ("Authorization", login.as_str()),
            ("Content-Type", OCI_IMAGE),
        ];
        let got = site.send("PUT", &target, &lines, &manifest).await;
        assert_eq!(got.status, 201, "{got:?}");
    }
    let listed = async |who| {
        let answer = ask(&site, who, "GET", "/files/", b"").await;
        let said: Value = answer.json();
        let files = said["files"].as_array().unwrap();
        let names = files.iter().map(|file| file["name"].to_string());
        names.collect::<Vec<String>>()
    };
    for (who, status) in [(None, 401), (Some("bob"), 403)] {
        for method in ["GET", "HEAD"] {
            let got = ask(&site, who, method, &secret.1, b"").await;
            assert_eq!(
                (got.status, got.body.is_empty()),
                (status, method == "HEAD")
            );
            assert_eq!(ask(&site, who, method, &open.1, b"").await.status, 200);
        }
        assert_eq!(listed(who).await, ["\"open.iso\""]);
    }
    let got = ask(&site, who, "GET", &secret.1, b"").await;
    assert_eq!((got.status, &*got.body), (200, &b"secret.iso"[..]));
    assert_eq!(listed(who).await.len(), 2);
}

#[tokio::test]
async fn many_wrong_logins_are_sent_away() {
    let site = site("").await;
    assert_eq!(
        ask(&site, Some("alice"), "GET", "/v2/", b"").await.status,
        200
    );
    let wrong = basic("bob", "guess");
    let guess = async || {
        site.send("GET", "/v2/", &[("Authorization", &wrong)], b"")
            .await
    };
    for _ in 0..5 {
        refused(&guess().await, 401, "UNAUTHORIZED");
    }
    let later = guess().await;
    refused(&later, 429, "TOOMANYREQUESTS");
    let wait: u64 = later.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait));
    assert_eq!(
        ask(&site, Some("alice"), "GET", "/v2/", b"").await.status,
        200
    );
    assert_eq!(site.get("/token").await.status, 200);
}

/// The body of a request that is refused is read or the connection ends: it is never taken for
/// the next request.
#[tokio::test]
async fn a_refused_push_leaves_its_connection_in_order() {
    let site = site("").await;
    let bytes = vec![b'x'; 12 * 1024 * 1024];
    let got = push(&site, None, "a", &bytes).await;
    refused(&got, 401, "UNAUTHORIZED");
    let digest = Digest::sha256(&bytes);
    assert_eq!(push(&site, Some("alice"), "a", &bytes).await.status, 201);
    let got = site.get(&format!("/v2/a/blobs/{digest}")).await;
    assert!(got.body == bytes);
}

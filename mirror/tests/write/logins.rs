//! Logins and rules: who may read, push, delete and mount, and what others are told.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubepkg_core::Digest;
use kubepkg_core::file::{FileName, HOST};
use kubepkg_mirror::access::{AccessFiles, Gate, TokenKey};
use kubepkg_mirror::http::{Network, Server};
use serde_json::{Value, json};

use super::client::Answer;
use super::fixture::{CONFIG, OCI_IMAGE, Site, described, location, refused};

const HEAD: &str = "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\n";

/// alice and bob, whose password is their name and "-secret"; with rules, if there are any.
async fn site(rules: &str) -> Site {
    Site::gated(tempfile::tempdir().unwrap(), gate(rules)).await
}

fn gate(rules: &str) -> Arc<Gate> {
    gate_with(rules, TokenKey::Memory)
}

fn gate_with(rules: &str, token_key: TokenKey) -> Arc<Gate> {
    // read once; nothing here changes them
    let settings = tempfile::tempdir().unwrap();
    let users = settings.path().join("users");
    let lines: String = ["alice", "bob"]
        .map(|user| {
            format!(
                "{user}:{}\n",
                bcrypt::hash(format!("{user}-secret"), 4).unwrap()
            )
        })
        .concat();
    std::fs::write(&users, lines).unwrap();
    gate_of(settings.path(), Some(users), rules, token_key)
}

fn gate_of(
    settings: &Path,
    passwords: Option<PathBuf>,
    rules: &str,
    token_key: TokenKey,
) -> Arc<Gate> {
    let access = settings.join("access");
    std::fs::write(&access, format!("{HEAD}{rules}")).unwrap();
    let files = AccessFiles {
        passwords,
        users: None,
        rules: Some(access),
        token_key,
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

/// The challenge that a server gives who asks for `/v2/` with these headers.
async fn challenge(site: &Site, lines: &[(&str, &str)]) -> String {
    let got = site.send("GET", "/v2/", lines, b"").await;
    refused(&got, 401, "UNAUTHORIZED");
    got.header("www-authenticate").unwrap().to_owned()
}

/// Where who runs it says that clients speak plain HTTP they get tokens, and so docker reads
/// without a login there.
#[tokio::test]
async fn tokens_are_had_over_plain_http_where_that_is_said() {
    let site = Site::set_up(|server| server.gate(gate("")).plain_http(true)).await;
    let said = challenge(&site, &[("Host", "mirror.lan:5000")]).await;
    let want = "Bearer realm=\"http://mirror.lan:5000/token\",service=\"mirror.lan:5000\"";
    assert_eq!(said, want);
    // who is not trusted says nothing
    let claims = [("Host", "mirror.lan"), ("X-Forwarded-Proto", "https")];
    assert!(
        challenge(&site, &claims)
            .await
            .contains("\"http://mirror.lan/token")
    );
    let nobody = token_of(&site.get("/token?service=x").await);
    let lines = [("Authorization", nobody.as_str())];
    assert_eq!(site.send("GET", "/v2/", &lines, b"").await.status, 200);
}

#[tokio::test]
async fn a_trusted_proxy_says_how_clients_came() {
    let trusting = |server: Server| {
        let proxies: Vec<Network> = vec!["127.0.0.0/8".parse().unwrap()];
        server
            .gate(gate(""))
            .plain_http(true)
            .trusted_proxies(proxies)
    };
    let site = Site::set_up(trusting).await;
    let host = ("Host", "mirror.lan");
    for (proto, want) in [
        ("https", "Bearer realm=\"https://mirror.lan/token\""),
        ("http", "Bearer realm=\"http://mirror.lan/token\""),
        // one that does not say it may have spoken TLS
        ("", "Basic realm"),
    ] {
        let said = challenge(&site, &[host, ("X-Forwarded-Proto", proto)]).await;
        assert!(said.starts_with(want), "{proto}: {said}");
    }
    // wrong logins are those of the client the proxy names, and of no other one
    let guess = basic("bob", "guess");
    let right = basic("bob", "bob-secret");
    let from = async |client: &str, login: &str| {
        let lines = [("X-Forwarded-For", client), ("Authorization", login)];
        site.send("GET", "/v2/", &lines, b"").await.status
    };
    for n in 0..5 {
        // what a client says of itself stands before that
        let client = format!("203.0.113.{n}, 198.51.100.1");
        assert_eq!(from(&client, &guess).await, 401);
    }
    assert_eq!(from("198.51.100.1", &right).await, 429);
    assert_eq!(from("198.51.100.2", &right).await, 200);
}

/// A balancer sends a client now here, now there; and a mirror is started again in the middle.
#[tokio::test]
async fn a_token_of_one_mirror_counts_at_the_next() {
    let shared = tempfile::tempdir().unwrap();
    let key = shared.path().join("token-key");
    let users = tempfile::tempdir().unwrap();
    let line = format!("alice:{}\n", bcrypt::hash("alice-secret", 4).unwrap());
    std::fs::write(users.path().join("users"), line).unwrap();
    let gate = |token_key| {
        let files = AccessFiles {
            passwords: Some(users.path().join("users")),
            token_key,
            ..AccessFiles::default()
        };
        Arc::new(Gate::open(files, false, 5).unwrap())
    };
    let (one, two) = (
        Site::gated(
            tempfile::tempdir().unwrap(),
            gate(TokenKey::Made(key.clone())),
        )
        .await,
        Site::gated(
            tempfile::tempdir().unwrap(),
            gate(TokenKey::Made(key.clone())),
        )
        .await,
    );
    let token = token_of(&ask(&one, Some("alice"), "GET", "/token", b"").await);
    let lines = [("Authorization", token.as_str())];
    let begun = two.send("POST", "/v2/a/blobs/uploads/", &lines, b"").await;
    let target = location(&begun, 202);
    drop(one);
    // the same store, served anew in the middle of a push
    let two = two
        .restart_as(|server| server.gate(gate(TokenKey::Given(key.clone()))))
        .await;
    let digest = Digest::sha256(b"layer");
    let end = format!("{target}?digest={digest}");
    assert_eq!(two.send("PUT", &end, &lines, b"layer").await.status, 201);
    let other = Site::gated(tempfile::tempdir().unwrap(), gate(TokenKey::Memory)).await;
    refused(
        &other.send("GET", "/v2/", &lines, b"").await,
        401,
        "UNAUTHORIZED",
    );
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
    // a token is none for another token, or one that was stolen would last for ever
    for (token, method, body) in [
        (&alice, "GET", &b""[..]),
        (&alice, "POST", b"a=b"),
        (&nobody, "GET", b""),
    ] {
        let got = site
            .send(method, "/token", &[("Authorization", token)], body)
            .await;
        refused(&got, 401, "UNAUTHORIZED");
    }
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

/// As docker logs in: it asks without a login, and shows the password where it is told to.
#[tokio::test]
async fn a_login_with_a_wrong_password_fails() {
    let plain = Site::set_up(|server| server.gate(gate("")).plain_http(true)).await;
    let unknown = Site::gated_somewhere(tempfile::tempdir().unwrap(), gate("")).await;
    for (site, target) in [
        (&plain, "/token?account=alice&service=x"),
        (&unknown, "/v2/"),
    ] {
        let asked = challenge(site, &[]).await;
        assert_eq!(asked.contains("/token\""), target != "/v2/", "{asked}");
        for (login, status) in [
            (basic("alice", "alice-secret"), 200),
            (basic("alice", "bob-secret"), 401),
            (basic("eve", "alice-secret"), 401),
            (basic("alice", ""), 401),
        ] {
            let lines = [("Authorization", login.as_str())];
            assert_eq!(site.send("GET", target, &lines, b"").await.status, status);
        }
    }
}

#[tokio::test]
async fn nobody_pushes_where_a_rule_for_everything_says_so() {
    let site = site("rules:\n- {path: \"**\", push: []}\n").await;
    for who in [None, Some("alice")] {
        let got = push(&site, who, "a/b", b"x").await;
        refused(&got, 405, "UNSUPPORTED");
        let got = ask(&site, who, "DELETE", &blob("a/b", b"x"), b"").await;
        refused(&got, 405, "UNSUPPORTED");
    }
    assert_eq!(site.get("/readyz").await.status, 200);
    let site =
        self::site("rules:\n- {path: a/b, push: [alice]}\n- {path: \"**\", push: []}\n").await;
    assert_eq!(push(&site, Some("alice"), "a/b", b"x").await.status, 201);
    refused(
        &push(&site, Some("alice"), "a/c", b"x").await,
        403,
        "DENIED",
    );
    refused(&push(&site, Some("bob"), "a/b", b"x").await, 403, "DENIED");
}

/// One repository has several names; by none of them a client learns of what it may not read.
#[tokio::test]
async fn no_shape_of_a_url_leads_around_a_rule_or_tells_what_is_here() {
    let rules = "rules:\n- {path: docker.io/library/secret, pull: [alice]}\n\
                 - {path: ghcr.io/v2/open, pull: [anyone]}\n\
                 - {path: ghcr.io/**, pull: [alice]}\n";
    let site = site(rules).await;
    let who = Some("alice");
    let names = ["docker.io/library/secret", "ghcr.io/secret", "ghcr.io/open"];
    for name in names {
        assert_eq!(push(&site, who, name, b"x").await.status, 201);
    }
    let tail = format!("blobs/{}", Digest::sha256(b"x"));
    for (path, query) in [
        ("/v2/docker.io/library/secret", ""),
        ("/v2/docker.io/secret", ""),
        ("/v2/Docker.IO/library/secret", ""),
        ("/v2/index.docker.io/secret", ""),
        ("/v2/docker.io%2Flibrary/secret", ""),
        ("/v2/%64ocker.io/library/secret", ""),
        ("/docker.io/v2/library/secret", ""),
        ("/docker.io/v2/secret", ""),
        ("/v2/docker.io/v2/secret", ""),
        ("/v2/library/secret", "ns=docker.io"),
        ("/v2/secret", "ns=docker.io"),
        ("/v2/secret", "ns=registry-1.docker.io"),
        ("/v2/docker.io/library/secret", "ns=docker.io"),
        ("/v2/docker.io/library/secret", "ns=docker.io:443"),
        ("/v2/docker.io/library/secret", "ns=127.0.0.1"),
        ("/v2/secret", "ns=ghcr.io&ns=docker.io"),
        ("/v2/ghcr.io/secret", "ns=GHCR.io"),
        // the best name may be read, the one that is here may not
        ("/v2/ghcr.io/v2/open", ""),
    ] {
        for end in [tail.as_str(), "tags/list", "manifests/latest"] {
            let target = format!("{path}/{end}?{query}");
            let got = ask(&site, None, "GET", &target, b"").await;
            assert!(matches!(got.status, 401 | 404), "{target}: {}", got.status);
            // what is not here is refused in the same way
            let absent = target.replace("secret", "absent").replace("open", "other");
            if path != "/v2/ghcr.io/v2/open" && absent.contains("ghcr.io") {
                assert_eq!(
                    ask(&site, None, "GET", &absent, b"").await.status,
                    got.status
                );
            }
        }
    }
    for (path, query) in [("/v2/docker.io/secret", ""), ("/v2/secret", "ns=docker.io")] {
        let target = format!("{path}/{tail}?{query}");
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
        assert_eq!(ask(&site, who, "GET", &target, b"").await.status, 200);
    }
    let hidden = ask(
        &site,
        Some("bob"),
        "GET",
        "/v2/ghcr.io/v2/open/tags/list",
        b"",
    )
    .await;
    refused(&hidden, 403, "DENIED");
}

#[tokio::test]
async fn a_path_comes_into_a_challenge_only_as_a_name() {
    let site = site("anonymous: none\n").await;
    let target = "/repositories/a%22,error=%22b/index.yaml";
    let got = ask(&site, None, "GET", target, b"").await;
    let challenge = got.header("www-authenticate").unwrap();
    assert!(
        challenge.starts_with("Basic ") && !challenge.contains("error"),
        "{challenge}"
    );
}

/// A store that ought to be written and cannot be is read, and its mirror says so.
#[tokio::test]
async fn a_mirror_that_cannot_write_though_it_should_is_not_ready() {
    let site = Site::set_up(|server| server.unwritable()).await;
    let got = site.get("/readyz").await;
    assert_eq!(got.status, 503);
    let reason = got.json()["reason"].to_string();
    assert!(reason.contains("opened for writing"), "{reason}");
    // and so it stands in what alerts are made of
    let metrics = site.get("/metrics").await.body;
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    assert!(
        metrics.contains("kubepkg_mirror_store_writable 0\n"),
        "{metrics}"
    );
    for path in ["/healthz", "/livez", "/v2/"] {
        assert_eq!(site.get(path).await.status, 200, "{path}");
    }
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
async fn where_there_are_no_users_nobody_is_asked_to_log_in() {
    let settings = tempfile::tempdir().unwrap();
    let rules = "anonymous: none\n";
    let gate = gate_of(settings.path(), None, rules, TokenKey::Memory);
    let site = Site::gated(tempfile::tempdir().unwrap(), gate).await;
    for target in ["/", "/metrics", "/files/a", "/v2/a/tags/list"] {
        let got = ask(&site, None, "GET", target, b"").await;
        refused(&got, 403, "DENIED");
        assert!(got.header("www-authenticate").is_none(), "{target}");
    }
}

/// Who may not read all charts of a folder learns that, and not which those are.
#[tokio::test]
async fn a_refused_folder_of_charts_names_nothing_that_is_hidden() {
    let site = site("rules:\n- {path: h.example/charts/secret, pull: [alice]}\n").await;
    for name in ["open", "secret", "other/deeper"] {
        let repository = format!("h.example/charts/{name}");
        assert_eq!(
            push(&site, Some("alice"), &repository, b"x").await.status,
            201
        );
    }
    let target = "/charts/h.example/charts/index.yaml";
    for (who, status, code) in [(None, 401, "UNAUTHORIZED"), (Some("bob"), 403, "DENIED")] {
        let got = ask(&site, who, "GET", target, b"").await;
        refused(&got, status, code);
        let said = format!("{:?} {}", got.headers, String::from_utf8_lossy(&got.body));
        assert!(
            said.contains("h.example/charts") && !said.contains("secret"),
            "{said}"
        );
    }
    // there is no chart
    assert_eq!(
        ask(&site, Some("alice"), "GET", target, b"").await.status,
        404
    );
    let other = "/charts/h.example/charts/other/index.yaml";
    assert_eq!(ask(&site, None, "GET", other, b"").await.status, 404);
}

/// Browsers, wget, Helm and Prometheus know no tokens; registry clients do.
#[tokio::test]
async fn outside_the_registry_a_password_is_asked_for() {
    let site = site("anonymous: none\n").await;
    let unreadable = [("Authorization", "Nonsense")];
    for lines in [&[][..], &unreadable] {
        for target in [
            "/",
            "/metrics",
            "/charts/a/index.yaml",
            "/repositories/a/index.yaml",
            "/files/a",
        ] {
            let got = site.send("GET", target, lines, b"").await;
            refused(&got, 401, "UNAUTHORIZED");
            let challenge = got.header("www-authenticate").unwrap();
            assert!(challenge.starts_with("Basic "), "{target}: {challenge}");
        }
        for target in [
            "/v2/",
            "/v2/a/tags/list",
            "/%762/a/tags/list",
            "/docker.io/v2/library/x/tags/list",
        ] {
            let got = site.send("GET", target, lines, b"").await;
            refused(&got, 401, "UNAUTHORIZED");
            let challenge = got.header("www-authenticate").unwrap();
            assert!(challenge.starts_with("Bearer "), "{target}: {challenge}");
        }
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

/// One client may send as slowly as it likes and announce what it likes: others push on.
#[tokio::test]
async fn one_client_does_not_keep_the_others_from_pushing() {
    let site = site("rules:\n- {path: \"**\", push: [anyone]}\n").await;
    let bytes = b"{}";
    let put = async |who: Option<&str>| {
        let manifest = json!({
            "schemaVersion": 2, "mediaType": OCI_IMAGE, "layers": [],
            "config": described(CONFIG, bytes),
        });
        let login = basic("alice", "alice-secret");
        let mut lines = vec![("Content-Type", OCI_IMAGE)];
        lines.extend(who.map(|_| ("Authorization", login.as_str())));
        let body = manifest.to_string();
        site.send("PUT", "/v2/a/manifests/v1", &lines, body.as_bytes())
            .await
    };
    assert_eq!(push(&site, None, "a", bytes).await.status, 201);
    let waiting = site.manifests_that_never_come(16).await;
    let until = Instant::now() + Duration::from_secs(60);
    let refusal = loop {
        let got = put(None).await;
        if got.status != 201 {
            break got;
        }
        assert!(Instant::now() < until, "never refused");
    };
    refused(&refusal, 429, "TOOMANYREQUESTS");
    assert_eq!(put(Some("alice")).await.status, 201);
    drop(waiting);
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

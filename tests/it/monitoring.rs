//! What a mirror tells of itself: the metrics, and the samples that use them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kubepkg_core::time::Time;
use kubepkg_test_support::package::index;
use kubepkg_test_support::{ImageBuilder, Package};
use rustls::pki_types::pem::PemObject as _;

use crate::command::wait_for;
use crate::publisher::{Publisher, hours_ago};
use crate::secure::Client;
use crate::served::{Mirror, get, send, send_as};

/// Values by name and labels, as in the text.
type Values = BTreeMap<String, f64>;

fn metrics(mirror: &Mirror) -> Values {
    values(mirror.body("/metrics"))
}

fn values(text: Vec<u8>) -> Values {
    let text = String::from_utf8(text).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let value = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    lines.map(value).collect()
}

/// When the index expires: 30 days and an hour from now.
fn expires() -> Time {
    hours_ago(-(30 * 24 + 1))
}

/// A publisher whose index expires then, and `mirror`, a store its package was imported
/// into.
fn imported() -> Publisher {
    let publisher = Publisher::new();
    let image = ImageBuilder::new(1).layers(2, 20_000).build();
    let web = publisher.image("web", "1.0", &image);
    let packages = [Package::new("web", "1.0.0").image(&web)];
    publisher.publish_text(&index(&packages, hours_ago(10), Some(expires())));
    publisher.create(&["web"]).ok();
    let import = ["bundle", "import", "site.tar", "--store", "mirror"];
    let key = ["--public-key", "release.pub"];
    publisher.scratch.run(&[&import[..], &key].concat()).ok();
    publisher
}

fn element(publisher: &Publisher) -> String {
    publisher.upstream.host().replace(':', "_")
}

#[test]
fn metrics_count_what_was_asked_and_tell_what_is_here() {
    let publisher = imported();
    let mirror = Mirror::start(&publisher.scratch, "mirror");
    let at = format!("/v2/{}/web", element(&publisher));
    let manifest = mirror.body(&format!("{at}/manifests/1.0"));
    for _ in 0..2 {
        let head = send(
            &mirror.host,
            "HEAD",
            &format!("{at}/manifests/1.0"),
            "",
            b"",
        );
        assert_eq!(head.status, 200);
    }
    assert_eq!(mirror.get(&format!("{at}/manifests/2.0")).status, 404);
    assert_eq!(
        send(&mirror.host, "PUT", &format!("{at}/manifests/1"), "", b"").status,
        405
    );
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let layer = &manifest["layers"][0];
    let blob = format!("{at}/blobs/{}", layer["digest"].as_str().unwrap());
    let size = mirror.body(&blob).len();
    mirror.body("/healthz");

    let values = metrics(&mirror);
    let of = |name: &str| *values.get(&format!("kubepkg_mirror_{name}")).expect(name);
    for (labels, count) in [
        (r#"{kind="manifest",status="2xx"}"#, 3.0),
        (r#"{kind="manifest",status="4xx"}"#, 1.0),
        (r#"{kind="push",status="4xx"}"#, 1.0),
        (r#"{kind="blob",status="2xx"}"#, 1.0),
        (r#"{kind="blob",status="4xx"}"#, 0.0),
        (r#"{kind="health",status="2xx"}"#, 1.0),
        // this one is counted when it is answered
        (r#"{kind="metrics",status="2xx"}"#, 0.0),
    ] {
        assert_eq!(of(&format!("requests_total{labels}")), count, "{labels}");
    }
    assert_eq!(of(r#"misses_total{kind="manifest"}"#), 1.0);
    assert_eq!(of(r#"misses_total{kind="blob"}"#), 0.0);
    assert!(of("sent_bytes_total") > size as f64);
    assert!(of("received_bytes_total") > 300.0);
    assert!(of("connections") >= 1.0);
    assert!(of("connections_accepted_total") >= 7.0);
    assert_eq!(
        (of("repositories"), of("tags"), of("manifests")),
        (1.0, 1.0, 1.0)
    );
    assert_eq!((of("blobs"), of("imports")), (3.0, 1.0));
    assert!(of("content_bytes") > 40_000.0);
    assert!(of("disk_free_bytes") < of("disk_size_bytes"));
    assert_eq!(
        (of("store_readable"), of("quarantined_contents")),
        (1.0, 0.0)
    );
    let until = of(&format!(
        "index_acceptable_until_timestamp_seconds{{url=\"{}\"}}",
        publisher.repo()
    ));
    let expires = expires().unix() as f64;
    assert!((until - expires).abs() < 3600.0, "{until} {expires}");
    assert_eq!(
        metrics(&mirror)[r#"kubepkg_mirror_requests_total{kind="metrics",status="2xx"}"#],
        1.0
    );
}

#[test]
fn metrics_are_text_that_is_not_kept() {
    let publisher = imported();
    let mirror = Mirror::start(&publisher.scratch, "mirror");
    let answer = get(&mirror.host, "/metrics");
    let head = send(&mirror.host, "HEAD", "/metrics", "", b"");
    for answer in [&answer, &head] {
        assert_eq!(answer.status, 200);
        let media_type = answer.header("content-type");
        assert_eq!(media_type, Some("text/plain; version=0.0.4; charset=utf-8"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    assert!(head.body.is_empty());
    let text = String::from_utf8(answer.body).unwrap();
    let mut documented = BTreeSet::new();
    for line in text.lines() {
        // a name is documented and typed before its first value
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            documented.insert(name.to_owned());
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(documented.contains(name), "{line}");
        }
    }
    assert_eq!(send(&mirror.host, "POST", "/metrics", "", b"").status, 405);
}

/// Names of metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let words = text.split(word);
    words
        .filter(|word| word.starts_with("kubepkg_mirror_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn samples_and_documentation_name_metrics_that_are_there() {
    let publisher = imported();
    publisher
        .scratch
        .run(&["mirror", "gc", "--store", "mirror"])
        .ok();
    let mirror = Mirror::start_with(&publisher.scratch, "mirror", &["--self-signed", "x.lan"]);
    let client = Client::trusting(&publisher.scratch.path("mirror/tls/ca.crt"));
    // the scrub of a store as small as this comes to its end at once
    let scrub = publisher.scratch.path("mirror").join("scrub");
    let finished = || std::fs::read_to_string(&scrub).is_ok_and(|t| t.contains("\"finished\""));
    wait_for("the scrub's first round", finished);
    let all = values(client.get(&mirror.host, "/metrics").unwrap().body);
    // the certificate it made for itself holds for ten years
    let until = all["kubepkg_mirror_certificate_not_after_timestamp_seconds"];
    assert!(until > (Time::now().unix() + 9 * 365 * 86_400) as f64);
    let told: BTreeSet<String> = all
        .into_keys()
        .map(|key| key.split('{').next().unwrap().to_owned())
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(root.join(file)).expect(file);
    for file in ["alerts.yaml", "alerts.test.yaml", "dashboard.json"] {
        let names = named(&read(&format!("samples/monitoring/{file}")));
        assert!(names.len() > 8, "{file}");
        assert_eq!(names.difference(&told).count(), 0, "{file}: {names:?}");
    }
    assert_eq!(named(&read("docs/monitoring.md")), told);

    // with a CA nobody knows the page says how it comes to clients, and each command uses it
    let text = String::from_utf8(client.get(&mirror.host, "/").unwrap().body).unwrap();
    let ca = std::fs::read_to_string(publisher.scratch.path("mirror/tls/ca.crt")).unwrap();
    let ca = rustls::pki_types::CertificateDer::from_pem_slice(ca.as_bytes()).unwrap();
    let pairs = kubepkg_core::Digest::sha256(&*ca).hex().to_uppercase();
    let pairs: Vec<&str> = (0..32).map(|at| &pairs[2 * at..2 * at + 2]).collect();
    assert!(text.contains(&pairs.join(":")), "{text}");
    for command in [
        "curl -fsSk -o kubepkg-mirror-ca.crt https://localhost/node-config/ca.crt",
        "curl -fsS --cacert kubepkg-mirror-ca.crt https://localhost/node-config/containerd | tar",
        "curl -fsS --cacert kubepkg-mirror-ca.crt -o registry-mirrors.yaml https://localhost/",
        "/etc/docker/certs.d/localhost/ca.crt",
        "kubepkg mirror serve --check",
    ] {
        assert!(text.contains(command), "{command}\n{text}");
    }

    let dashboard: serde_json::Value =
        serde_json::from_str(&read("samples/monitoring/dashboard.json")).unwrap();
    let ids = |panel: &serde_json::Value| panel["id"].as_u64().unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let different: BTreeSet<u64> = panels.iter().map(ids).collect();
    assert_eq!(different.len(), panels.len());
    assert!(read("samples/monitoring/prometheus.yml").contains("- alerts.yaml"));
}

#[test]
fn what_ends_a_mirror_is_told_while_it_still_serves() {
    let publisher = imported();
    let scratch = &publisher.scratch;
    scratch.write("password", "long enough");
    let add = ["mirror", "user", "add", "alice", "--store", "mirror"];
    let file = ["--password-file", "password"];
    scratch.run(&[&add[..], &file].concat()).ok();
    let more = ["--reload-every", "1s"];
    let mirror = Mirror::start_with(scratch, "mirror", &more);
    let wrong = send_as(&mirror.host, "alice:wrong", "GET", "/v2/", "", b"");
    assert_eq!(wrong.status, 401);
    let before = metrics(&mirror);
    assert_eq!(before["kubepkg_mirror_login_failures_total"], 1.0);
    assert_eq!(before["kubepkg_mirror_store_writable"], 1.0);
    let users = r#"kubepkg_mirror_settings_reload_failed{file="users"}"#;
    assert_eq!(before[users], 0.0);
    let said = "The file of the users was changed and cannot be used";
    assert!(!page(&mirror, "/").contains(said));

    std::fs::write(scratch.path("mirror/users"), "alice:no hash\n").unwrap();
    wait_for("the broken file", || metrics(&mirror)[users] == 1.0);
    let text = page(&mirror, "/");
    assert!(text.contains("id=\"problems\""), "{text}");
    assert!(text.contains(said), "{text}");
    std::fs::remove_file(scratch.path("mirror/users")).unwrap();
    wait_for("no users", || metrics(&mirror)[users] == 0.0);
    assert!(!page(&mirror, "/").contains(said));
    assert_eq!(mirror.stop().0, Some(0));

    // more has to stay free than is
    let mirror = Mirror::start_with(scratch, "mirror", &["--min-free", "99"]);
    assert_eq!(metrics(&mirror)["kubepkg_mirror_store_writable"], 0.0);
    assert!(page(&mirror, "/").contains("Nothing can be pushed: the disk is full"));
}

/// Text of the page, which must be there.
fn page(mirror: &Mirror, path: &str) -> String {
    String::from_utf8(mirror.body(path)).unwrap()
}

#[test]
fn the_page_says_what_is_here_and_how_to_pull_it() {
    let publisher = imported();
    let mirror = Mirror::start(&publisher.scratch, "mirror");
    let at = format!("{}/web", element(&publisher));
    assert_eq!(mirror.get(&format!("/v2/{at}/manifests/9.9")).status, 404);
    let text = page(&mirror, "/");
    let key = publisher.key.public().unwrap().id().to_string();
    for part in [
        // packages and images, with commands
        "<th scope=\"row\">web</th>",
        "<span class=\"version\">1.0.0</span>",
        &format!("docker pull {}/{at}:1.0", mirror.host),
        // the import, its receipt and keys; freshness and expiry
        "<span class=\"version\">web 1.0.0</span>",
        ", of which ",
        &key,
        &publisher.repo(),
        "(in 30 days)",
        "(10 hours ago)",
        // misses
        &format!("{}/web:9.9", publisher.upstream.host()),
        "127.0.0.1",
        // disk, and settings for nodes
        "Free disk",
        &format!("curl -fsS http://{}/node-config/containerd", mirror.host),
        &format!("http://{}/node-config/talos", mirror.host),
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // what is shown to be copied works
    mirror.body("/node-config/containerd");
    mirror.body(&format!("/v2/{at}/manifests/1.0"));

    let found = page(&mirror, "/?q=WEB");
    assert!(found.contains("docker pull") && !found.contains("id=\"imports\""));
    assert!(found.contains("value=\"web\""));
    let nothing = page(&mirror, "/?q=absent");
    assert!(!nothing.contains("docker pull") && nothing.contains("No repository"));
    assert_eq!(mirror.get("/index.html").status, 404);
}

#[test]
fn the_page_lets_nothing_in() {
    let publisher = imported();
    let mirror = Mirror::start(&publisher.scratch, "mirror");
    let answer = mirror.get("/");
    let policy = answer.header("content-security-policy").unwrap().to_owned();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let text = String::from_utf8(answer.body).unwrap();
    // the style is the one the policy names
    let (_, rest) = text.split_once("<style>").unwrap();
    let (style, _) = rest.split_once("</style>").unwrap();
    let digest = kubepkg_core::Digest::sha256(style);
    let digest = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, digest.as_bytes());
    assert!(policy.contains(&format!("'sha256-{digest}'")), "{policy}");
    for absent in [
        "<script",
        "<img",
        "<link",
        " style=",
        " src=",
        "javascript:",
        "@import",
        "url(",
    ] {
        assert!(!text.contains(absent), "{absent}");
    }
    // what people type, and what clients say they call the mirror, is text
    let hostile = page(&mirror, "/?q=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    assert!(!hostile.contains("<script"), "{hostile}");
    assert!(hostile.contains("&lt;script&gt;"));
    let mut stream = std::net::TcpStream::connect(&mirror.host).unwrap();
    let head = "GET / HTTP/1.1\r\nHost: <script>;reboot\r\nConnection: close\r\n\r\n";
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    assert!(
        !text.contains("reboot") && !text.contains("<script"),
        "{text}"
    );

    let head = send(&mirror.host, "HEAD", "/", "", b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert!(head.header("content-security-policy").is_some());
    assert_eq!(send(&mirror.host, "POST", "/", "", b"").status, 405);
}

/// The `h1` to `h6` of a page, in order.
fn headings(text: &str) -> Vec<usize> {
    let tags = text.match_indices("<h").filter_map(|(at, _)| {
        let level = text.as_bytes()[at + 2];
        let next = text.as_bytes()[at + 3];
        (level.is_ascii_digit() && matches!(next, b'>' | b' ')).then(|| usize::from(level - b'0'))
    });
    tags.collect()
}

#[test]
fn the_page_can_be_read_without_looking() {
    let publisher = imported();
    let mirror = Mirror::start(&publisher.scratch, "mirror");
    for path in ["/", "/?q=web", "/?q=absent", "/?page=7"] {
        let text = page(&mirror, path);
        assert!(
            text.starts_with("<!DOCTYPE html><html lang=\"en\">"),
            "{path}"
        );
        for landmark in [
            "<header>",
            "<main id=\"main\"",
            "<footer>",
            "<title>",
            "<label for=\"q\"",
        ] {
            assert_eq!(text.matches(landmark).count(), 1, "{path}: {landmark}");
        }
        let headings = headings(&text);
        assert_eq!(headings.iter().filter(|level| **level == 1).count(), 1);
        let steps = headings.windows(2).all(|pair| pair[1] <= pair[0] + 1);
        assert!(headings[0] == 1 && steps, "{path}: {headings:?}");
        assert_eq!(
            text.matches("<th").count() - text.matches("<thead").count(),
            text.matches(" scope=\"").count(),
            "{path}"
        );
        let ids: Vec<&str> = text
            .split(" id=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let different: BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{path}: {ids:?}");
        for target in text.split("href=\"#").skip(1) {
            let id = target.split('"').next().unwrap();
            assert!(ids.contains(&id), "{path}: no {id}");
        }
    }
}

#[test]
fn the_page_shows_what_its_reader_may_read() {
    let publisher = imported();
    let scratch = &publisher.scratch;
    for name in ["alice", "bob"] {
        scratch.write("password", "long enough");
        let add = ["mirror", "user", "add", name, "--store", "mirror"];
        let file = ["--password-file", "password"];
        scratch.run(&[&add[..], &file].concat()).ok();
    }
    let host = element(&publisher);
    let rules = format!(
        "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\nrules:\n\
         - path: {host}/web\n  pull: [alice]\n- path: other/**\n  pull: [alice, bob]\n"
    );
    scratch.write("access.yaml", rules);
    let mirror = Mirror::start_with(scratch, "mirror", &["--access", "access.yaml"]);
    for path in ["/", "/?q=web", "/metrics"] {
        let nobody = mirror.get(path);
        assert_eq!(nobody.status, 401, "{path}");
        let challenge = nobody.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Basic "), "{challenge}");
    }
    let page_of = |login: &str, path: &str| {
        let answer = send_as(&mirror.host, login, "GET", path, "", b"");
        assert_eq!(answer.status, 200, "{login} {path}");
        String::from_utf8(answer.body).unwrap()
    };
    let alice = page_of("alice:long enough", "/");
    assert!(alice.contains("docker pull") && alice.contains("id=\"imports\""));
    let bob = page_of("bob:long enough", "/");
    for absent in [
        "docker pull",
        "id=\"imports\"",
        "id=\"misses\"",
        "id=\"store\"",
    ] {
        assert!(!bob.contains(absent), "{absent}\n{bob}");
    }
    assert!(bob.contains("what you may read"));
    let found = page_of("bob:long enough", "/?q=1.0");
    assert!(!found.contains("docker pull"), "{found}");
    // nor do metrics and settings for nodes tell bob, or nobody, where it comes from
    let url = "index_acceptable_until_timestamp_seconds{url=";
    assert!(page_of("alice:long enough", "/metrics").contains(url));
    let metrics = page_of("bob:long enough", "/metrics");
    assert!(!metrics.contains(url), "{metrics}");
    assert!(metrics.contains("kubepkg_mirror_imports 1"), "{metrics}");
    let upstream = publisher.upstream.host();
    let talos = page_of("alice:long enough", "/node-config/talos");
    assert!(talos.contains(&upstream.to_string()), "{talos}");
    let status = |login: &str| send_as(&mirror.host, login, "GET", "/node-config/talos", "", b"");
    assert_eq!(status("bob:long enough").status, 404);
    assert_eq!(mirror.get("/node-config/talos").status, 401);
}

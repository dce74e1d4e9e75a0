//! `mirror serve` as a service: settings in a file, TLS, users, what it says of itself.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kubepkg_core::Digest;
use rustix::process::Signal;

use crate::command::Scratch;
use crate::secure::Client;
use crate::served::{Mirror, Running, get, send, send_as};

const HEAD: &str = "apiVersion: kubepkg.dev/v1\nkind: MirrorSettings\n";

/// Settings of a new store `mirror` on a free port.
pub fn settings(scratch: &Scratch, more: &str) {
    let text = format!("{HEAD}store: mirror\nlisten: \"127.0.0.1:0\"\nreloadEvery: 1s\n{more}");
    scratch.write("mirror.yaml", text);
}

fn serve(scratch: &Scratch, more: &[&str]) -> Mirror {
    let call = ["mirror", "serve", "--config", "mirror.yaml", "--new-store"];
    Mirror::of(Running::start(scratch, &[&call[..], more].concat()))
}

fn check(scratch: &Scratch) -> crate::command::Run {
    scratch.run(&[
        "mirror",
        "serve",
        "--config",
        "mirror.yaml",
        "--check",
        "--new-store",
    ])
}

/// The command did what was asked and answered with this in it.
#[track_caller]
fn answers(run: crate::command::Run, text: &str) {
    let run = run.ok();
    assert!(run.stdout.contains(text), "no {text:?} in {}", run.stdout);
}

pub fn user(scratch: &Scratch, name: &str, password: &str) {
    scratch.write("password", password);
    let call = ["mirror", "user", "add", name, "--store", "mirror"];
    let file = ["--password-file", "password"];
    scratch
        .run(&[&call[..], &file].concat())
        .ok()
        .says("may log in now");
}

fn push(host: &str, login: &str, bytes: &[u8]) -> u16 {
    let digest = Digest::sha256(bytes);
    let path = format!("/v2/a/b/blobs/uploads/?digest={digest}");
    send_as(
        host,
        login,
        "POST",
        &path,
        "application/octet-stream",
        bytes,
    )
    .status
}

/// Asks until it is so, which takes as long as a change of a file takes to be noticed.
#[track_caller]
pub fn until(holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed().as_secs() < 60, "it did not come about");
        thread::yield_now();
    }
}

#[test]
fn the_sample_has_every_setting_and_is_one() {
    let scratch = Scratch::new();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let text = std::fs::read_to_string(samples.join("mirror.yaml")).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/serving.md");
    let page = std::fs::read_to_string(page).unwrap();
    let help = scratch.run(&["mirror", "serve", "--help"]).ok().stdout;
    let flags = help
        .lines()
        .filter_map(|line| line.trim_start().split_once("--"));
    let flags = flags.filter(|(before, _)| before.is_empty() || before.ends_with(", "));
    let mut settings = 0;
    for (_, flag) in flags {
        let flag: String = flag
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '-')
            .collect();
        if [
            "config",
            "check",
            "new-store",
            "help",
            "no-progress",
            "color",
        ]
        .contains(&&*flag)
        {
            continue;
        }
        let mut words = flag.split('-');
        let mut key = words.next().unwrap().to_owned();
        for word in words {
            key.push_str(&word[..1].to_uppercase());
            key.push_str(&word[1..]);
        }
        let there = |line: &str| {
            line.trim_start_matches("# ")
                .starts_with(&format!("{key}:"))
        };
        assert!(text.lines().any(there), "samples/mirror.yaml has no {key}");
        let row = format!("| `{key}` | `--{flag}` |");
        assert!(page.contains(&row), "docs/serving.md has no row {row}");
        settings += 1;
    }
    assert!(settings > 25, "{settings}");
    // every setting there is is one, also those that are behind a #
    let all: Vec<String> = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.split_once(": ").is_some_and(|(key, _)| is_key(key)) => {
                rest.to_owned()
            }
            _ => line.to_owned(),
        })
        // what does not go with what is set
        .filter(|line| {
            ["tls", "clientCa", "local"]
                .iter()
                .all(|other| !line.starts_with(other))
        })
        .map(|line| {
            line.replace("/srv/mirror", "store")
                .replace("0.0.0.0:5000", "127.0.0.1:0")
        })
        .collect();
    scratch.write("mirror.yaml", all.join("\n"));
    scratch.write(
        "mirror-access.yaml",
        std::fs::read(samples.join("mirror-access.yaml")).unwrap(),
    );
    scratch.write("users", "");
    scratch.write("token-key", "0123456789abcdef".repeat(4));
    check(&scratch).fails(2, "\"robot\" is neither a user nor a group");
    for name in ["robot", "alice", "bob"] {
        let call = ["mirror", "user", "add", name, "--htpasswd", "users"];
        scratch.write("password", "long enough");
        scratch
            .run(&[&call[..], &["--password-file", "password"]].concat())
            .ok();
    }
    let said = check(&scratch).ok().stdout;
    for part in [
        "https://127.0.0.1:0",
        "3 users",
        "as the rules say",
        "a CA and a certificate",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert!(!scratch.path("store").exists(), "--check changes nothing");
}

fn is_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// The unit starts it with the settings of the sample, and leaves it the time they give it.
#[test]
fn the_unit_calls_what_there_is() {
    let scratch = Scratch::new();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let unit = std::fs::read_to_string(samples.join("kubepkg-mirror.service")).unwrap();
    let value = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key}")).to_owned()
    };
    settings(&scratch, "");
    for key in ["ExecStartPre=", "ExecStart="] {
        let call = value(key);
        let call = call.trim_start_matches('-');
        let call = call.strip_prefix("/usr/local/bin/kubepkg ").unwrap();
        let call = call.replace("/etc/kubepkg/mirror.yaml", "mirror.yaml");
        let mut call: Vec<&str> = call.split(' ').collect();
        // the store of the test is new, and asking for the check twice is wrong
        call.push("--new-store");
        if !call.contains(&"--check") {
            call.push("--check");
        }
        scratch.run(&call).ok();
    }
    let text = std::fs::read_to_string(samples.join("mirror.yaml")).unwrap();
    let within = text
        .lines()
        .find_map(|line| line.strip_prefix("stopWithin: "));
    let within: u64 = within.unwrap().strip_suffix('s').unwrap().parse().unwrap();
    // 6 s for a disk that hangs, 5 for work that is left, 5 for the runtime
    let limit: u64 = value("TimeoutStopSec=").parse().unwrap();
    assert!(limit > within + 16);
    assert!(text.contains(&format!("store: {}", value("ReadWritePaths="))));
}

#[test]
fn a_setting_that_is_none_is_named_with_its_line() {
    let scratch = Scratch::new();
    settings(&scratch, "minfree: 3\n");
    check(&scratch)
        .fails(2, "there is no setting \"minfree\"")
        .says("where: mirror.yaml: line 6")
        .says("hint: did you mean minFree?");
    settings(&scratch, "gcEvery: sometimes\n");
    check(&scratch)
        .fails(2, "gcEvery: \"sometimes\"")
        .says("mirror.yaml: line 6");
    settings(&scratch, "tlsKey: x\n");
    check(&scratch).fails(2, "TLS, which is not spoken");
    settings(&scratch, "tlsCert: nothing.crt\n");
    check(&scratch)
        .fails(4, "cannot read the certificate")
        .says("nothing.crt");
    settings(&scratch, "access: rules.yaml\n");
    scratch.write(
        "rules.yaml",
        "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\nrule: []\n",
    );
    check(&scratch)
        .fails(2, "unknown member \"rule\"")
        .says("rules.yaml: line 3");
    settings(&scratch, "htpasswd: users\n");
    scratch.write("users", "alice:$apr1$x$y\n");
    check(&scratch)
        .fails(2, "only bcrypt")
        .says("users: line 1");
    scratch
        .run(&["mirror", "serve", "--config", "none.yaml"])
        .fails(4, "cannot read the settings");
}

#[test]
fn a_flag_comes_before_a_variable_and_that_before_the_file() {
    let scratch = Scratch::new();
    settings(&scratch, "minFree: 3\ngcEvery: 12h\n");
    let call = [
        "mirror",
        "serve",
        "--config",
        "mirror.yaml",
        "--check",
        "--new-store",
    ];
    let flag = [&call[..], &["--min-free", "7"]].concat();
    answers(scratch.run(&call), "3 % stay free");
    answers(scratch.run(&call), "every 12 h");
    let variable = [("KUBEPKG_MIN_FREE", "5")];
    answers(scratch.run_with(&variable, &call), "5 % stay free");
    answers(scratch.run_with(&variable, &flag), "7 % stay free");
}

#[test]
fn plain_http_is_for_this_machine() {
    let scratch = Scratch::new();
    let call = [
        "mirror",
        "serve",
        "--store",
        "m",
        "--new-store",
        "--check",
        "--listen",
    ];
    let open = [&call[..], &["127.0.0.1:0", "--listen", "0.0.0.0:0"]].concat();
    scratch
        .run(&open)
        .fails(2, "plain HTTP would be served")
        .says("0.0.0.0:0");
    let with = |flag: &'static [&str]| scratch.run(&[&open[..], flag].concat());
    answers(
        with(&["--insecure-http"]),
        "other machines too, without TLS",
    );
    answers(with(&["--self-signed", "mirror.lan"]), "https://0.0.0.0:0");
    with(&["--self-signed", "http://mirror.lan"]).fails(2, "it is a URL");
}

#[test]
fn a_mirror_makes_a_certificate_nodes_can_trust() {
    let scratch = Scratch::new();
    settings(
        &scratch,
        "selfSigned: [mirror.example.com, 10.0.0.5]\nanonymousPush: true\n",
    );
    let mirror = serve(&scratch, &[]);
    let said = mirror.process.line("SHA-256");
    let ca = scratch.path("mirror/tls/ca.crt");
    let client = Client::trusting(&ca);
    assert_eq!(client.get(&mirror.host, "/v2/").unwrap().status, 200);
    let served = client.get(&mirror.host, "/node-config/ca.crt").unwrap();
    assert_eq!(served.body, std::fs::read(&ca).unwrap());
    // who speaks no TLS is told what is wrong
    let plain = send(&mirror.host, "GET", "/v2/", "", b"");
    assert_eq!(plain.status, 400);
    assert!(String::from_utf8(plain.body).unwrap().contains("https://"));
    assert_eq!(mirror.stop().0, Some(0));

    // the next start uses the same, and other names the same CA
    let again = serve(&scratch, &[]);
    let line = again.process.line("SHA-256");
    let fingerprint = |line: &str| line.rsplit(' ').next().unwrap().to_owned();
    assert!(line.contains("using the certificate made before"));
    assert_eq!(fingerprint(&line), fingerprint(&said));
    assert_eq!(again.stop().0, Some(0));
    settings(&scratch, "selfSigned: [other.example.com]\n");
    let other = serve(&scratch, &[]);
    let line = other.process.line("SHA-256");
    assert!(line.contains("a new certificate of the same CA"), "{line}");
    assert_eq!(client.get(&other.host, "/v2/").unwrap().status, 200);
    // the store stays one
    scratch.run(&["mirror", "check", "--store", "mirror"]).ok();
}

#[test]
fn a_new_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let scratch = Scratch::new();
    // two certificates, each with a CA of its own
    for store in ["one", "two"] {
        let call = [
            "mirror",
            "serve",
            "--store",
            store,
            "--new-store",
            "--listen",
        ];
        let made = [&call[..], &["127.0.0.1:0", "--self-signed", "x.lan"]].concat();
        assert_eq!(
            Mirror::of(Running::start(&scratch, &made)).stop().0,
            Some(0)
        );
    }
    let pem = |store: &str| {
        let files = std::fs::read_dir(scratch.path(format!("{store}/tls"))).unwrap();
        let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let name = names.find(|name| name.starts_with("server-"));
        scratch.read(&format!("{store}/tls/{}", name.unwrap()))
    };
    scratch.write("server.pem", pem("one"));
    let ca = |store: &str| scratch.read(&format!("{store}/tls/ca.crt"));
    scratch.write("ca.crt", ca("one"));
    settings(&scratch, "tlsCert: server.pem\ntlsCa: ca.crt\n");
    let mirror = serve(&scratch, &[]);
    // each time a new one, that has no session to go on with
    let served_to = |store: &str| {
        let client = Client::trusting(&scratch.path(format!("{store}/tls/ca.crt")));
        client
            .get(&mirror.host, "/v2/")
            .is_ok_and(|answer| answer.status == 200)
    };
    assert!(served_to("one") && !served_to("two"));

    scratch.write("server.pem", "-----BEGIN CERTIFICATE-----\nhalf");
    mirror
        .process
        .line("cannot be used; the one before goes on");
    assert!(served_to("one"));
    scratch.write("server.pem", pem("two"));
    mirror.process.line("the certificate was read again");
    assert!(served_to("two") && !served_to("one"));

    // so is the CA nodes are given
    let client = Client::trusting(&scratch.path("two/tls/ca.crt"));
    let given = || {
        client
            .get(&mirror.host, "/node-config/ca.crt")
            .unwrap()
            .body
    };
    assert_eq!(given(), ca("one").into_bytes());
    scratch.write("ca.crt", ca("two"));
    until(|| given() == ca("two").into_bytes());
}

#[test]
fn who_may_do_what_is_told_with_the_rule_that_says_so() {
    let scratch = Scratch::new();
    scratch.write("password", "correct horse");
    let users = ["--htpasswd", "users"];
    let add = [
        "mirror",
        "user",
        "add",
        "alice",
        "--password-file",
        "password",
    ];
    scratch.run(&[&add[..], &users].concat()).ok();
    scratch.write(
        "access.yaml",
        "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\nrules:\n\
         - {path: docker.io/library/*, push: []}\n- {path: team/**, pull: [alice], push: [bob]}\n",
    );
    let may = |name: &str, repository: &str, more: &[&str]| {
        let call = ["mirror", "user", "may", name, repository];
        scratch.run(&[&call[..], &users, more].concat())
    };
    let told = |name: &str, repository: &str, more: &[&str]| {
        let json = ["--access", "access.yaml", "-o", "json"];
        let told = may(name, repository, &[&json[..], more].concat())
            .ok()
            .json();
        assert_eq!(told["user"].as_str(), (name != "anyone").then_some(name));
        let actions = told["actions"].as_array().unwrap().iter();
        let allowed: Vec<bool> = actions.map(|a| a["allowed"].as_bool().unwrap()).collect();
        (told, allowed)
    };
    let (team, allowed) = told("alice", "team/app", &[]);
    assert_eq!(allowed, [true, false, false]);
    let by = |at: usize| (&team["actions"][at]["rule"], &team["actions"][at]["path"]);
    assert_eq!(by(0), (&"rules[1].pull".into(), &"team/**".into()));
    assert_eq!(by(2), (&"rules[1].push".into(), &"team/**".into()));
    assert_eq!(told("anyone", "team/app", &[]).1, [false; 3]);
    assert_eq!(told("alice", "other/app", &[]).1, [true; 3]);
    assert_eq!(told("anyone", "other/app", &[]).1, [true, false, false]);
    assert_eq!(
        told("anyone", "other/app", &["--anonymous-push"]).1,
        [true; 3]
    );
    // as the mirror stores it
    let (busybox, allowed) = told("alice", "docker.io/busybox", &[]);
    assert_eq!(busybox["repository"], "docker.io/library/busybox");
    assert_eq!(allowed, [true, false, false]);

    answers(
        may("alice", "team/app", &["--access", "access.yaml"]),
        "rules[1].push (team/**)",
    );
    answers(may("alice", "team/app", &[]), "no rule");
    may("eve", "team/app", &[]).fails(4, "no user \"eve\"");
}

#[test]
fn users_come_and_go_while_it_serves() {
    let scratch = Scratch::new();
    settings(&scratch, "");
    let mirror = serve(&scratch, &[]);
    assert_eq!(push(&mirror.host, "", b"layer"), 405, "nobody may push");
    assert_eq!(mirror.get("/v2/").status, 200);

    user(&scratch, "alice", "correct horse");
    until(|| push(&mirror.host, "alice:correct horse", b"layer") == 201);
    assert_eq!(push(&mirror.host, "", b"other"), 401);
    assert_eq!(push(&mirror.host, "alice:wrong horse", b"other"), 401);
    assert_eq!(
        mirror.get("/v2/").status,
        401,
        "clients learn that there are logins"
    );
    let path = format!("/v2/a/b/blobs/{}", Digest::sha256(b"layer"));
    assert_eq!(mirror.body(&path), b"layer");

    let list = ["mirror", "user", "list", "--store", "mirror"];
    assert_eq!(scratch.run(&list).ok().stdout, "alice\n");
    scratch
        .run(&["mirror", "user", "rm", "alice", "--store", "mirror"])
        .ok();
    until(|| push(&mirror.host, "alice:correct horse", b"third") != 201);
    scratch
        .run(&["mirror", "user", "rm", "alice", "--store", "mirror"])
        .fails(4, "there is no user \"alice\"");
    let add = ["mirror", "user", "add", "eve", "--store", "mirror"];
    scratch.write("password", "short");
    scratch
        .run(&[&add[..], &["--password-file", "password"]].concat())
        .fails(2, "shorter than 8");
}

#[test]
fn rules_are_read_again_and_broken_ones_do_not_open_anything() {
    let scratch = Scratch::new();
    let rules = |text: &str| {
        let head = "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\n";
        scratch.write("access.yaml", format!("{head}{text}"));
    };
    rules("anonymous: none\n");
    settings(&scratch, "access: access.yaml\nanonymousPush: true\n");
    let mirror = serve(&scratch, &[]);
    let path = format!("/v2/a/b/blobs/{}", Digest::sha256(b"x"));
    assert_eq!(push(&mirror.host, "", b"x"), 201);
    assert_eq!(mirror.get(&path).status, 403);
    rules("anonymous: everything\n");
    mirror.process.line("cannot be used; those before go on");
    assert_eq!(mirror.get(&path).status, 403);
    rules("rules:\n- {path: a/*, push: []}\n");
    until(|| mirror.get(&path).status == 200);
    assert_eq!(push(&mirror.host, "", b"y"), 403);
}

/// A user who goes is gone, also one the rules name; and the rules still hold then.
#[test]
fn a_user_whom_rules_name_can_be_taken_away() {
    let scratch = Scratch::new();
    let head = "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\n";
    let rules = "rules:\n- {path: a/**, push: [bob]}\n";
    scratch.write("access.yaml", format!("{head}{rules}"));
    settings(&scratch, "access: access.yaml\n");
    let mirror = serve(&scratch, &[]);
    user(&scratch, "alice", "correct horse");
    user(&scratch, "bob", "battery staple");
    until(|| push(&mirror.host, "bob:battery staple", b"layer") == 201);
    answers(check(&scratch), "2 users");
    let rm = ["mirror", "user", "rm", "bob", "--store", "mirror"];
    scratch.run(&rm).ok();
    until(|| push(&mirror.host, "bob:battery staple", b"other") == 401);
    assert_eq!(push(&mirror.host, "alice:correct horse", b"other"), 403);
    mirror.process.line("\"bob\" is neither a user nor a group");

    // users without an address clients can be sent to
    let mirror_url = "externalUrl: https://mirror.example.com\n";
    settings(&scratch, "");
    check(&scratch).ok().says("--external-url");
    settings(&scratch, mirror_url);
    let run = check(&scratch).ok();
    assert!(!run.stderr.contains("--external-url"), "{}", run.stderr);
    settings(&scratch, "access: access.yaml\n");

    // a check is where one looks for it, and a start is not
    check(&scratch).fails(2, "\"bob\" is neither a user nor a group");
    drop(mirror);
    let mirror = serve(&scratch, &[]);
    assert_eq!(push(&mirror.host, "alice:correct horse", b"other"), 403);
}

#[test]
fn requests_are_lines_of_json_with_their_id() {
    let scratch = Scratch::new();
    settings(&scratch, "logFormat: json\nverbose: 1\n");
    let mirror = serve(&scratch, &[]);
    let id = mirror
        .get("/v2/nothing/tags/list")
        .header("x-request-id")
        .unwrap()
        .to_owned();
    let line = mirror.process.line("\"answered\"");
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    let fields = &said["fields"];
    assert_eq!(fields["id"], id.as_str());
    assert_eq!(
        (&fields["status"], &fields["method"]),
        (&404.into(), &"GET".into())
    );
    assert_eq!(fields["uri"], "/v2/nothing/tags/list");
    assert_eq!(fields["client"], "127.0.0.1");
    assert_eq!(fields["whole"], true);
    assert!(fields["sent"].as_u64().unwrap() > 10);
}

#[test]
fn a_line_says_how_much_of_an_answer_went_and_causes_carry_the_id() {
    let scratch = Scratch::new();
    settings(
        &scratch,
        "logFormat: json\nverbose: 1\nanonymousPush: true\n",
    );
    let mirror = serve(&scratch, &[]);
    let bytes = vec![7; 64 * 1024 * 1024];
    let digest = Digest::sha256(&bytes);
    let upload = format!("/v2/a/b/blobs/uploads/?digest={digest}");
    let octets = "application/octet-stream";
    assert_eq!(
        send(&mirror.host, "POST", &upload, octets, &bytes).status,
        201
    );
    let blob = format!("/v2/a/b/blobs/{digest}");
    assert_eq!(mirror.get(&blob).body.len(), bytes.len());
    let of = |what: &str| -> serde_json::Value {
        let line = mirror.process.line(what);
        serde_json::from_str(&line).unwrap()
    };
    let whole = of(&format!("\"uri\":\"{blob}\""));
    assert_eq!(whole["fields"]["sent"], bytes.len());
    assert_eq!(whole["fields"]["whole"], true);

    // who hangs up after the first bytes
    let mut stream = std::net::TcpStream::connect(&mirror.host).unwrap();
    let head = format!("GET {blob} HTTP/1.1\r\nHost: x\r\n\r\n");
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    std::io::Read::read_exact(&mut stream, &mut [0; 1000]).unwrap();
    drop(stream);
    let broken = of(&format!("\"uri\":\"{blob}\""));
    assert_eq!(broken["fields"]["status"], 200);
    assert_eq!(broken["fields"]["whole"], false);
    let sent = broken["fields"]["sent"].as_u64().unwrap();
    assert!(sent < bytes.len() as u64, "{sent}");
    assert_eq!(mirror.stop().0, Some(0));

    // without lines for requests the cause of a failure still carries the id
    scratch.write("password", "correct horse");
    let add = ["mirror", "user", "add", "alice", "--store", "mirror"];
    scratch
        .run(&[&add[..], &["--password-file", "password"]].concat())
        .ok();
    settings(&scratch, "logFormat: json\n");
    let mirror = serve(&scratch, &[]);
    let answer = send_as(&mirror.host, "alice:wrong", "GET", "/v2/", "", b"");
    assert_eq!(answer.status, 401);
    let line: serde_json::Value =
        serde_json::from_str(&mirror.process.line("wrong login")).unwrap();
    assert_eq!(line["span"]["id"], answer.header("x-request-id").unwrap());
}

#[test]
fn settings_for_nodes_carry_the_ca() {
    let scratch = Scratch::new();
    let image = kubepkg_test_support::ImageBuilder::new(1).build();
    settings(&scratch, "selfSigned: localhost\nanonymousPush: true\n");
    let mirror = serve(&scratch, &[]);
    assert_eq!(mirror.stop().0, Some(0));
    let plain = Mirror::start_with(&scratch, "mirror", &["--anonymous-push"]);
    let repository = "/v2/docker.io/library/web";
    for (digest, bytes) in &image.content.blobs {
        let path = format!("{repository}/blobs/uploads/?digest={digest}");
        send(
            &plain.host,
            "POST",
            &path,
            "application/octet-stream",
            bytes,
        );
    }
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let path = format!("{repository}/manifests/1");
    assert_eq!(
        send(&plain.host, "PUT", &path, kind, &image.manifest()).status,
        201
    );
    // a mirror without TLS has no CA to give
    assert_eq!(get(&plain.host, "/node-config/ca.crt").status, 404);
    drop(plain);
    let ca = scratch.read("mirror/tls/ca.crt");
    let call = [
        "node-config",
        "containerd",
        "--store",
        "mirror",
        "-o",
        "certs.d",
        "--mirror",
    ];
    let with = |url: &'static str| scratch.run(&[&call[..], &[url, "--force"]].concat()).ok();
    with("http://m:5000");
    assert!(!scratch.path("certs.d/kubepkg-mirror-ca.crt").exists());
    with("https://m:5000").says("mirror/tls/ca.crt");
    assert_eq!(scratch.read("certs.d/kubepkg-mirror-ca.crt"), ca);
    let toml = scratch.read("certs.d/docker.io/hosts.toml");
    assert!(toml.contains("ca = \"/etc/containerd/certs.d/kubepkg-mirror-ca.crt\""));
    let key = scratch.path("mirror/tls/ca.key");
    let call = [
        "node-config",
        "talos",
        "--store",
        "mirror",
        "-o",
        "talos",
        "--mirror",
    ];
    let more = ["https://m:5000", "--ca-file", key.to_str().unwrap()];
    scratch
        .run(&[&call[..], &more].concat())
        .fails(2, "a private key, which others must not get");
    scratch.run(&[&call[..], &more[..1]].concat()).ok();
    assert!(
        scratch
            .read("talos/registry-mirrors.yaml")
            .contains("tls:\n          ca: \"LS0t")
    );
}

/// Whatever was answered before the end is there afterwards.
#[test]
fn a_stop_under_load_loses_no_push_that_was_acknowledged() {
    let scratch = Scratch::new();
    settings(&scratch, "anonymousPush: true\n");
    let mirror = serve(&scratch, &[]);
    let host = mirror.host.clone();
    let stopped = AtomicBool::new(false);
    let acknowledged: Vec<Vec<u8>> = thread::scope(|scope| {
        let pusher = |client: u8| {
            let (host, stopped) = (&host, &stopped);
            move || {
                let mut done = Vec::new();
                for n in 0_u32.. {
                    let bytes = [&[client; 20_000][..], &n.to_be_bytes()].concat();
                    match try_push(host, &bytes) {
                        Some(201) => done.push(bytes),
                        // cut off, or nobody listens any more
                        _ if stopped.load(Ordering::SeqCst) => return done,
                        other => assert!(other.is_none(), "{other:?}"),
                    }
                }
                done
            }
        };
        let pushers: Vec<_> = (0..4).map(|client| scope.spawn(pusher(client))).collect();
        until(|| get(&host, "/v2/_catalog").body.len() > 20);
        stopped.store(true, Ordering::SeqCst);
        assert_eq!(mirror.stop().0, Some(0));
        let done = pushers.into_iter().map(|pusher| pusher.join().unwrap());
        done.flatten().collect()
    });
    assert!(!acknowledged.is_empty());
    let again = serve(&scratch, &[]);
    for bytes in acknowledged {
        let path = format!("/v2/a/b/blobs/{}", Digest::sha256(&bytes));
        assert!(again.body(&path) == bytes);
    }
}

/// The status of a push; nothing when there was no whole answer.
fn try_push(host: &str, bytes: &[u8]) -> Option<u16> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(host).ok()?;
    let digest = Digest::sha256(bytes);
    let head = format!(
        "POST /v2/a/b/blobs/uploads/?digest={digest} HTTP/1.1\r\nHost: {host}\r\nConnection: \
         close\r\nContent-Length: {}\r\n\r\n",
        bytes.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(bytes).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let complete = answer.contains("\r\n\r\n");
    answer.split(' ').nth(1).filter(|_| complete)?.parse().ok()
}

#[test]
fn a_pull_under_way_may_end_after_a_stop() {
    let scratch = Scratch::new();
    settings(&scratch, "anonymousPush: true\nstopWithin: 1m\n");
    let mirror = serve(&scratch, &[]);
    // more than sockets hold
    let bytes = vec![b'x'; 24 * 1024 * 1024];
    assert_eq!(push(&mirror.host, "", &bytes), 201);
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(&mirror.host).unwrap();
    let digest = Digest::sha256(&bytes);
    let head =
        format!("GET /v2/a/b/blobs/{digest} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    mirror.process.signal(Signal::TERM);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(&bytes));
    assert_eq!(mirror.process.end().0, Some(0));
}

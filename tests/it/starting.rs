//! What `mirror serve` makes of its settings: which layer counts, what `--check` says a start
//! would do, who may write, and what two mirrors of one store know of each other.

use std::collections::BTreeMap;
use std::path::Path;

use kubepkg_core::Digest;

use crate::command::{Run, Scratch};
use crate::served::{Mirror, Running, get, send_as, send_with};
use crate::service::{settings, user};

const CALL: [&str; 4] = ["mirror", "serve", "--config", "mirror.yaml"];

fn check(scratch: &Scratch, variables: &[(&str, &str)], more: &[&str]) -> Run {
    let call = [&CALL[..], &["--check", "--new-store"], more].concat();
    scratch.run_with(variables, &call)
}

fn serve(scratch: &Scratch, more: &[&str]) -> Mirror {
    Mirror::of(Running::start(scratch, &[&CALL[..], more].concat()))
}

/// A certificate and its key in one file, `NAME.pem`, and the CA in `NAME/tls/ca.crt`.
fn certificate(scratch: &Scratch, name: &str) {
    let call = [
        "mirror",
        "serve",
        "--store",
        name,
        "--new-store",
        "--listen",
    ];
    let more = ["127.0.0.1:0", "--self-signed", "x.lan"];
    let mirror = Mirror::of(Running::start(scratch, &[&call[..], &more].concat()));
    assert_eq!(mirror.stop().0, Some(0));
    let files = scratch.path(format!("{name}/tls")).read_dir().unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let is_it = |file: &std::path::PathBuf| file.extension().is_some_and(|end| end == "pem");
    let pem = std::fs::read(files.find(is_it).unwrap()).unwrap();
    scratch.write(&format!("{name}.pem"), pem);
}

/// Everything below a folder, and what is in files.
fn tree(folder: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(tree(&path));
        }
        // a socket cannot be read
        let bytes = path.is_file().then(|| std::fs::read(&path).unwrap());
        all.insert(path, bytes.unwrap_or_default());
    }
    all
}

#[test]
fn a_layer_that_says_something_of_tls_says_all_of_it() {
    let scratch = Scratch::new();
    certificate(&scratch, "one");
    let given = ["--tls-cert", "one.pem", "--tls-ca", "one/tls/ca.crt"];
    let own = "a certificate would be made for 127.0.0.1, ";
    let has = |run: Run, text: &str| {
        let run = run.ok();
        assert!(run.stdout.contains(text), "no {text:?} in {}", run.stdout);
    };
    // a flag, a variable, the file
    settings(&scratch, "selfSigned: [file.lan]\n");
    has(check(&scratch, &[], &given), "one.pem is used");
    has(
        check(&scratch, &[], &["--insecure-http"]),
        "http://127.0.0.1:0",
    );
    let variable = [("KUBEPKG_SELF_SIGNED", "variable.lan")];
    has(check(&scratch, &variable, &[]), "variable.lan");
    has(check(&scratch, &variable, &given), "one.pem is used");
    settings(
        &scratch,
        "tlsCert: none.pem\ntlsKey: none.key\ntlsCa: none.crt\n",
    );
    for (variables, flags) in [
        (&variable[..], &[][..]),
        (&[], &["--self-signed", "variable.lan"]),
    ] {
        let run = check(&scratch, variables, flags).ok();
        assert!(run.stdout.contains(own) && run.stdout.contains("variable.lan"));
    }
    let variable = [("KUBEPKG_TLS_CERT", "one.pem")];
    settings(&scratch, "insecureHttp: true\n");
    has(
        check(&scratch, &variable, &["--listen", "0.0.0.0:0"]),
        "https://0.0.0.0:0",
    );

    // within one layer they stand against each other
    for (file, flags, names) in [
        (
            "",
            &["--self-signed", "x", "--tls-cert", "one.pem"][..],
            "--tls-cert, --self-signed",
        ),
        (
            "",
            &["--self-signed", "x", "--insecure-http"],
            "--self-signed, --insecure-http",
        ),
        (
            "selfSigned: x\ntlsCert: one.pem\n",
            &[],
            "--tls-cert, --self-signed",
        ),
        (
            "insecureHttp: true\ntlsCert: one.pem\n",
            &[],
            "--tls-cert, --insecure-http",
        ),
    ] {
        settings(&scratch, file);
        check(&scratch, &[], flags)
            .fails(2, "two things of TLS")
            .says(names);
    }
    // whom the file lets in by their certificates is not let in without
    settings(&scratch, "selfSigned: x\nclientCa: one/tls/ca.crt\n");
    has(
        check(&scratch, &[], &given),
        "only clients with a certificate of",
    );
    check(&scratch, &[], &["--insecure-http"])
        .fails(2, "TLS, which is not spoken")
        .says("--client-ca");
    // half of an answer is none
    settings(&scratch, "tlsCert: one.pem\n");
    check(&scratch, &[], &["--tls-ca", "one/tls/ca.crt"]).fails(2, "TLS, which is not spoken");
}

#[test]
fn a_check_says_what_a_start_would_do_and_leaves_no_trace() {
    let scratch = Scratch::new();
    scratch.write("client-ca.crt", "no certificate");
    settings(&scratch, "selfSigned: [mirror.lan]\n");
    let made = check(&scratch, &[], &[]).ok().stdout;
    for part in [
        "mirror (a new one would be made)",
        "a CA and a certificate would be made for 127.0.0.1, ::1, localhost, mirror.lan",
        "mirror/token-key (would be made)",
        "nobody can log in",
        "standard error",
    ] {
        assert!(made.contains(part), "no {part:?} in {made}");
    }
    assert!(!scratch.path("mirror").exists());
    let without = [&CALL[..], &["--check"]].concat();
    scratch
        .run(&without)
        .fails(1, "there is no store in this folder");

    assert_eq!(serve(&scratch, &["--new-store"]).stop().0, Some(0));
    let before = tree(&scratch.path("mirror"));
    let used = scratch.run(&without).ok().stdout;
    for part in [
        "mirror (0 repositories)",
        "the certificate made before is used",
        "mirror/token-key (is there)",
    ] {
        assert!(used.contains(part), "no {part:?} in {used}");
    }
    let other = scratch.run(&[&without[..], &["--self-signed", "other.lan"]].concat());
    assert!(
        other
            .ok()
            .stdout
            .contains("a new certificate of the same CA would be made for")
    );
    assert_eq!(tree(&scratch.path("mirror")), before);
}

/// Settings are looked at before the mirror that has the port is restarted with them.
#[test]
fn a_port_that_a_mirror_has_is_not_refused() {
    let scratch = Scratch::new();
    for more in [&[][..], &["--self-signed", "x.lan"], &["--read-only"]] {
        settings(&scratch, "");
        let store = scratch.path("mirror").exists();
        let new = if store { &[][..] } else { &["--new-store"] };
        let mirror = serve(&scratch, &[more, new].concat());
        let run = scratch.run(&[&CALL[..], &["--check", "--listen", &mirror.host], more].concat());
        let told = run.ok().stdout;
        assert!(told.contains("a mirror has it now"), "{told}");
        assert_eq!(mirror.stop().0, Some(0));
    }
    // another program's port is refused, also while a mirror serves the store
    let mirror = serve(&scratch, &[]);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = other.local_addr().unwrap().to_string();
    check(&scratch, &[], &["--listen", &busy]).fails(1, "cannot listen");
    assert_eq!(mirror.stop().0, Some(0));
}

#[test]
fn a_check_refuses_what_a_start_would_and_says_all_of_it_at_once() {
    let scratch = Scratch::new();
    certificate(&scratch, "one");
    certificate(&scratch, "two");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = listener.local_addr().unwrap().to_string();
    settings(&scratch, "");
    check(&scratch, &[], &["--listen", &busy])
        .fails(1, "cannot listen")
        .says(&busy);
    let twice = ["--listen", "127.0.0.2:0", "--listen", &busy];
    check(&scratch, &[], &twice)
        .fails(1, "cannot listen")
        .says("http://127.0.0.2:0");
    // a key of another certificate, one that is none, none
    scratch.write("none.key", "nothing");
    for (key, why) in [
        ("two.pem", "does not belong to the certificate"),
        ("none.key", "no private key"),
    ] {
        settings(&scratch, &format!("tlsCert: one.pem\ntlsKey: {key}\n"));
        check(&scratch, &[], &[]).fails(2, why).says(key);
    }
    settings(&scratch, "selfSigned: [x.lan]\nclientCa: none.key\n");
    check(&scratch, &[], &[])
        .fails(2, "no certificate")
        .says("none.key");
    // a folder with other people's files, and a store of another version
    scratch.write("mirror.yaml.d", "");
    let other = ["--store", "."];
    settings(&scratch, "");
    check(&scratch, &[], &other).fails(1, "name an empty folder");
    let marker = "one/kubepkg-store.json";
    let newer = scratch
        .read(marker)
        .replace("\"version\":1", "\"version\":9");
    scratch.write(marker, newer);
    check(&scratch, &[], &["--store", "one"]).fails(1, "a newer kubepkg made it");
    // all of it is said, whatever comes first
    settings(&scratch, "tokenKeyFile: short\nhtpasswd: users\n");
    scratch.write("short", "secret");
    scratch.write("users", "");
    let run = check(&scratch, &[], &["--store", "one", "--listen", &busy]);
    let run = run
        .fails(1, "a newer kubepkg made it")
        .says("cannot listen");
    run.says("shorter than 32 characters");
}

#[test]
fn a_store_that_is_not_to_be_changed_is_served_and_ready() {
    let scratch = Scratch::new();
    settings(&scratch, "anonymousPush: true\n");
    let mirror = serve(&scratch, &["--new-store"]);
    let bytes = b"layer";
    let push = |mirror: &Mirror, bytes: &[u8]| {
        let path = format!("/v2/a/blobs/uploads/?digest={}", Digest::sha256(bytes));
        let kind = "application/octet-stream";
        send_as(&mirror.host, "", "POST", &path, kind, bytes).status
    };
    assert_eq!(push(&mirror, bytes), 201);
    assert_eq!(mirror.stop().0, Some(0));
    std::fs::remove_file(scratch.path("mirror/token-key")).unwrap();
    let before = tree(&scratch.path("mirror"));

    // the flag counts before the file, which lets everybody push
    let mirror = serve(&scratch, &["--read-only"]);
    assert_eq!(mirror.get("/readyz").status, 200);
    assert_eq!(push(&mirror, b"other"), 405);
    let path = format!("/v2/a/blobs/{}", Digest::sha256(bytes));
    assert_eq!(mirror.body(&path), bytes);
    assert_eq!(mirror.stop().0, Some(0));
    assert_eq!(tree(&scratch.path("mirror")), before);

    let with = |more: &[&str]| scratch.run(&[&CALL[..], &["--check"], more].concat());
    let said = with(&["--read-only"]).ok().stdout;
    assert!(said.contains("1 repository, only read") && said.contains("nobody: the store"));
    for flag in ["--anonymous-push", "--new-store"] {
        with(&["--read-only", flag])
            .fails(2, "is not written")
            .says(flag);
    }
    with(&["--read-only", "--self-signed", "x.lan"]).fails(2, "no certificate can be made");
    settings(&scratch, "readOnly: true\n");
    assert!(with(&[]).ok().stdout.contains("only read"));
    assert!(
        with(&["--anonymous-push"])
            .ok()
            .stdout
            .contains("everybody, without a login")
    );
}

/// Two mirrors behind one address, and one that is started again in the middle.
#[test]
fn a_token_counts_at_every_mirror_of_a_store_and_outlives_a_restart() {
    let scratch = Scratch::new();
    settings(&scratch, "");
    let one = serve(&scratch, &["--new-store"]);
    user(&scratch, "alice", "correct horse");
    let two = serve(&scratch, &[]);
    crate::service::until(|| one.get("/v2/").status == 401);
    let answer = send_as(&one.host, "alice:correct horse", "GET", "/token", "", b"");
    let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let token = format!(
        "Authorization: Bearer {}\r\n",
        answer["token"].as_str().unwrap()
    );
    let asks = |mirror: &Mirror| send_with(&mirror.host, &token, "GET", "/v2/").status;
    assert_eq!((asks(&one), asks(&two)), (200, 200));
    assert_eq!(one.stop().0, Some(0));
    let one = serve(&scratch, &[]);
    assert_eq!((asks(&one), asks(&two)), (200, 200));
    scratch.run(&["mirror", "check", "--store", "mirror"]).ok();

    // a new key within seconds, for all of them
    std::fs::remove_file(scratch.path("mirror/token-key")).unwrap();
    crate::service::until(|| asks(&one) == 401 && asks(&two) == 401);
    // and a copy of the store is no copy of the key
    let call = ["mirror", "backup", "copy", "--store", "mirror"];
    scratch.run(&call).ok();
    assert!(!scratch.path("copy/token-key").exists());
}

#[test]
fn a_login_over_plain_http_is_asked_for_where_clients_are() {
    let scratch = Scratch::new();
    settings(
        &scratch,
        "insecureHttp: true\ntrustedProxy: [192.0.2.0/24]\n",
    );
    let mirror = serve(&scratch, &["--new-store"]);
    user(&scratch, "alice", "correct horse");
    crate::service::until(|| mirror.get("/v2/").status == 401);
    let challenge = get(&mirror.host, "/v2/")
        .header("www-authenticate")
        .unwrap()
        .to_owned();
    let realm = format!("Bearer realm=\"http://{}/token\"", mirror.host);
    assert!(challenge.starts_with(&realm), "{challenge}");
    check(&scratch, &[], &["--trusted-proxy", "mirror.lan"]).fails(2, "it is no address");
}

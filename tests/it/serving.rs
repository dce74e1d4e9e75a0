//! A mirror that serves while the store changes under it, is killed, and is stopped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use kubepkg_core::index::signature::Signatures;
use kubepkg_core::keys::PublicKey;
use kubepkg_test_support::{Image, ImageBuilder, Package};
use rustix::process::Signal;

use crate::command::Run;
use crate::publisher::{Publisher, hours_ago};
use crate::served::{Mirror, Running, get};

/// Clients that ask without pause.
const CLIENTS: usize = 3;

/// A publisher who tagged `web` 1.0.0 and then 2.0.0 with the same tag: `old.tar`, `new.tar`.
fn two_releases() -> (Publisher, Image, Image) {
    let publisher = Publisher::new();
    let old = ImageBuilder::new(1).layers(2, 50_000).build();
    let new = ImageBuilder::new(2).layers(2, 50_000).build();
    let repo = publisher.repo();
    let release = |version, image| {
        Package::new("web", version).image(&publisher.image("web", "stable", image))
    };
    let (first, second) = (release("1.0.0", &old), release("2.0.0", &new));
    let releases = [first, second];
    for (file, released, hours) in [("old.tar", 1, 20), ("new.tar", 2, 10)] {
        publisher.publish_at(&releases[..released], hours_ago(hours));
        let call = ["bundle", "create", "web", "-o", file, "--repo", &repo];
        let key = ["--public-key", "release.pub"];
        publisher.scratch.run(&[&call[..], &key].concat()).ok();
    }
    (publisher, old, new)
}

fn import(publisher: &Publisher, file: &str) -> Run {
    let call = ["bundle", "import", file, "--store", "mirror"];
    let key = ["--public-key", "release.pub"];
    publisher.scratch.run(&[&call[..], &key].concat()).ok()
}

fn tag_path(publisher: &Publisher) -> String {
    let host = publisher.upstream.host().replace(':', "_");
    format!("/v2/{host}/web/manifests/stable")
}

fn file_path(publisher: &Publisher, file: &str) -> String {
    let host = publisher.upstream.host().replace(':', "_");
    format!("/repositories/{host}/{file}")
}

/// Both files of the index as one set, fetched as the server documents it: when the two
/// answers name different sets, an import came in between, and both are fetched again.
fn index_and_signature(host: &str, publisher: &Publisher) -> (Vec<u8>, Vec<u8>) {
    loop {
        let index = get(host, &file_path(publisher, "index.yaml"));
        let signature = get(host, &file_path(publisher, "index.yaml.sig"));
        assert_eq!((index.status, signature.status), (200, 200));
        let set = index.header("kubepkg-set").unwrap();
        if signature.header("kubepkg-set").unwrap() == set {
            return (index.body, signature.body);
        }
    }
}

#[test]
fn readers_see_the_old_or_the_new_and_nothing_between() {
    let (publisher, old, new) = two_releases();
    import(&publisher, "old.tar");
    let mirror = Mirror::start(&publisher.scratch, "mirror");
    let path = tag_path(&publisher);
    let key = PublicKey::from_pem(&publisher.scratch.read("release.pub")).unwrap();
    let over = AtomicBool::new(false);
    let asked = AtomicUsize::new(0);
    thread::scope(|scope| {
        let follow_tag = || {
            let mut seen_new = false;
            loop {
                let last = over.load(Ordering::SeqCst);
                let answer = get(&mirror.host, &path);
                assert_eq!(answer.status, 200);
                let is_new = answer.body == new.manifest();
                assert!(is_new || answer.body == old.manifest());
                assert!(is_new || !seen_new, "the tag went back");
                seen_new = is_new;
                asked.fetch_add(1, Ordering::SeqCst);
                if last {
                    assert!(is_new, "import has ended and the old image is served");
                    return;
                }
            }
        };
        let follow_index = || {
            while !over.load(Ordering::SeqCst) {
                let (index, signature) = index_and_signature(&mirror.host, &publisher);
                let signatures = Signatures::parse(&signature).unwrap();
                let signed = signatures.signed_by(&index, std::slice::from_ref(&key));
                assert_eq!(signed.len(), 1, "index and signature do not fit");
                asked.fetch_add(1, Ordering::SeqCst);
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(follow_tag)).collect();
        let reader = scope.spawn(follow_index);
        while asked.load(Ordering::SeqCst) <= CLIENTS {
            assert!(!reader.is_finished() && !clients.iter().any(|c| c.is_finished()));
            thread::yield_now();
        }
        import(&publisher, "new.tar");
        // the very first request after the import's end
        assert!(mirror.body(&path) == new.manifest());
        over.store(true, Ordering::SeqCst);
    });
    // what the tag pointed at before is still there by digest
    let by_digest = path.replace("stable", &old.digest().to_string());
    assert!(mirror.body(&by_digest) == old.manifest());
    let (index, _) = index_and_signature(&mirror.host, &publisher);
    assert!(String::from_utf8(index).unwrap().contains("2.0.0"));
    // and the older bundle takes nothing back
    import(&publisher, "old.tar").says("stable");
    assert!(mirror.body(&path) == new.manifest());
    let carried = mirror.json(&file_path(&publisher, "carried.json"));
    assert!(!carried["packages"]["web"].as_array().unwrap().is_empty());
}

#[test]
fn a_killed_server_comes_back_with_everything() {
    let (publisher, old, _) = two_releases();
    import(&publisher, "old.tar");
    let mirror = Mirror::start(&publisher.scratch, "mirror");
    let path = tag_path(&publisher);
    assert!(mirror.body(&path) == old.manifest());
    mirror.process.signal(Signal::KILL);
    assert_eq!(mirror.process.end().0, None);
    let again = Mirror::start(&publisher.scratch, "mirror");
    assert!(again.body(&path) == old.manifest());
    for (digest, bytes) in &old.content.blobs {
        let blob = path.replace("manifests/stable", &format!("blobs/{digest}"));
        assert!(again.body(&blob) == *bytes);
    }
}

#[test]
fn ctrl_c_is_how_a_server_ends() {
    for signal in [Signal::INT, Signal::TERM] {
        let (publisher, ..) = two_releases();
        import(&publisher, "old.tar");
        let mirror = Mirror::start(&publisher.scratch, "mirror");
        // what it lacks it says in the registry's words
        let missing = mirror.get("/v2/docker.io/library/web/manifests/1");
        assert_eq!(missing.status, 404);
        let (code, lines) = {
            mirror.process.signal(signal);
            mirror.process.end()
        };
        assert_eq!(code, Some(0), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("stopped")));
    }
}

#[test]
fn a_store_that_cannot_be_read_is_said_at_start() {
    let publisher = Publisher::new();
    let scratch = &publisher.scratch;
    let serve = |store: &str| {
        let call = ["mirror", "serve", "--store", store, "--listen"];
        scratch.run(&[&call[..], &["127.0.0.1:0"]].concat())
    };
    scratch.write("file", "no folder");
    serve("file").fails(1, "it is not a folder").says("file");
    // as a disk that is not mounted looks
    for nothing in ["nothing", "empty"] {
        if nothing == "empty" {
            std::fs::create_dir(scratch.path(nothing)).unwrap();
        }
        serve(nothing)
            .fails(1, "there is no store in this folder")
            .says("hint: is its disk mounted?");
    }
    assert!(!scratch.path("nothing").exists());
    assert_eq!(scratch.path("empty").read_dir().unwrap().count(), 0);
    serve("http://mirror:5000").fails(2, "--store takes a folder");
    scratch.write("documents/thesis.txt", "precious");
    serve("documents").fails(1, "documents");
    assert_eq!(scratch.read("documents/thesis.txt"), "precious");
    scratch.write(
        "newer/kubepkg-store.json",
        r#"{"format":"kubepkg store","version":99}"#,
    );
    serve("newer").fails(1, "a newer kubepkg made it");
    scratch.write("broken/kubepkg-store.json", "{");
    serve("broken").fails(1, "broken/kubepkg-store.json");
}

#[test]
fn a_new_store_is_made_where_that_is_asked_for() {
    let publisher = Publisher::new();
    let scratch = &publisher.scratch;
    let call = ["mirror", "serve", "--store", "fresh", "--new-store"];
    let fresh = Running::start(scratch, &[&call[..], &["--listen", "127.0.0.1:0"]].concat());
    fresh.line("empty so far");
    fresh.signal(Signal::INT);
    assert_eq!(fresh.end().0, Some(0));
    // once made, it is a store like any other, and asking again does no harm
    let mirror = Mirror::start(scratch, "fresh");
    assert_eq!(mirror.get("/v2/").status, 200);
    scratch.write("documents/thesis.txt", "precious");
    let call = ["mirror", "serve", "--store", "documents", "--new-store"];
    scratch
        .run(&[&call[..], &["--listen", "127.0.0.1:0"]].concat())
        .fails(1, "documents");
}

#[test]
fn only_an_import_that_is_accepted_makes_a_store() {
    let (publisher, ..) = two_releases();
    let scratch = &publisher.scratch;
    scratch.run(&["repo", "keygen", "other"]).ok();
    let with = |store: &str, key: &str| {
        let call = ["bundle", "import", "old.tar", "--store", store];
        scratch.run(&[&call[..], &["--public-key", key]].concat())
    };
    with("mirror", "other.pub").fails(3, "hint:");
    assert!(!scratch.path("mirror").exists());
    with("http://mirror:5000", "release.pub").fails(2, "--store takes a folder");
    let said = "made a new store in mirror; nothing was accepted here before";
    with("mirror", "release.pub").ok().says(said);
    assert!(!with("mirror", "release.pub").ok().stderr.contains(said));
}

#[test]
fn an_address_that_is_taken_is_said_at_start() {
    let publisher = Publisher::new();
    let taken = publisher.upstream.host();
    let call = ["mirror", "serve", "--store", "mirror", "--listen", &taken];
    publisher
        .scratch
        .run(&call)
        .fails(1, "cannot listen")
        .says(&format!("where: {taken}"))
        .says("hint: another program listens there");
}

/// Wherever the kill hits, names are those from before or those from after.
#[test]
fn a_killed_import_is_simply_run_again() {
    let (publisher, old, new) = two_releases();
    import(&publisher, "old.tar");
    let mirror = Mirror::start(&publisher.scratch, "mirror");
    let call = ["bundle", "import", "new.tar", "--store", "mirror"];
    let key = ["--public-key", "release.pub"];
    let import = Running::start(&publisher.scratch, &[&call[..], &key].concat());
    import.signal(Signal::KILL);
    import.end();
    let served = mirror.body(&tag_path(&publisher));
    assert!(served == old.manifest() || served == new.manifest());
    self::import(&publisher, "new.tar");
    assert!(mirror.body(&tag_path(&publisher)) == new.manifest());
}

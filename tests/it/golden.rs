//! What was written once is read for ever: the files of `tests/golden/`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kubepkg_core::Digest;
use serde::{Deserialize, Serialize};

use crate::command::Scratch;
use crate::served::{Mirror, get};

mod make;

/// The index in the golden bundle. Nothing is ever fetched from there.
const INDEX: &str = "https://packages.example.com/index.yaml";

/// Folders of a store that a server has no reason to change.
const KEPT: [&str; 5] = ["blobs", "names", "sites", "commits", "trust"];

/// What a mirror answered when the golden files were made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    path: String,
    status: u16,
    media_type: String,
    /// The header that names the content.
    content_digest: Option<String>,
    /// Digest of the body.
    body: Digest,
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/v1")
        .join(name)
}

fn shown(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn asked(host: &str, path: &str) -> Recorded {
    let answer = get(host, path);
    let header = |name| answer.header(name).map(str::to_owned);
    Recorded {
        path: path.to_owned(),
        status: answer.status,
        media_type: header("content-type").unwrap_or_default(),
        content_digest: header("docker-content-digest"),
        body: Digest::sha256(&answer.body),
    }
}

/// `store` of the scratch folder answers as recorded.
#[track_caller]
fn answers_as_recorded(scratch: &Scratch) {
    let mirror = Mirror::start(scratch, "store");
    let recorded = std::fs::read_to_string(golden("answers.jsonl")).unwrap();
    assert!(recorded.lines().count() > 30);
    for line in recorded.lines() {
        let recorded: Recorded = serde_json::from_str(line).unwrap();
        assert_eq!(asked(&mirror.host, &recorded.path), recorded);
    }
    assert_eq!(mirror.stop().0, Some(0));
}

/// All files below `folder`.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(contents(&path));
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

/// All files below `folder`, by their path in it.
fn relative(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let inner = |path: &Path| path.strip_prefix(folder).unwrap().to_owned();
    let all = contents(folder).into_iter();
    all.map(|(path, bytes)| (inner(&path), bytes)).collect()
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in relative(from) {
        let place = to.join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, bytes).unwrap();
    }
}

/// A scratch folder with a copy of the golden store.
fn with_store() -> Scratch {
    let scratch = Scratch::new();
    copy(&golden("store"), &scratch.path("store"));
    scratch
}

fn import(scratch: &Scratch) -> String {
    let (bundle, key) = (shown(&golden("site.tar")), shown(&golden("release.pub")));
    let call = ["bundle", "import", &bundle, "--store", "store"];
    let run = scratch.run(&[&call[..], &["--public-key", &key]].concat());
    run.ok().stdout
}

#[test]
fn the_bundle_is_verified_imported_and_served() {
    let scratch = Scratch::new();
    let (bundle, key) = (shown(&golden("site.tar")), shown(&golden("release.pub")));
    let verify = ["bundle", "verify", &bundle, "--public-key", &key];
    scratch.run(&verify).ok();
    assert!(import(&scratch).contains("as commit 1"));
    answers_as_recorded(&scratch);
}

#[test]
fn the_store_is_served_and_not_changed() {
    let scratch = with_store();
    answers_as_recorded(&scratch);
    for folder in KEPT {
        let (old, new) = (
            golden("store").join(folder),
            scratch.path("store").join(folder),
        );
        let same = relative(&old) == relative(&new);
        assert!(same, "{folder} changed");
    }
}

/// What the store remembers of the bundle and of its index still means the same.
#[test]
fn the_store_knows_the_bundle() {
    let scratch = with_store();
    // a store of a release that did not keep whom it trusts learns that once, and no content
    let told = import(&scratch);
    assert!(told.contains("0 B are new"), "{told}");
    let told = import(&scratch);
    assert!(told.contains("nothing was changed"), "{told}");
}

/// The same packages from the same upstream give the same bytes: a site that compares bundles
/// by their id depends on it.
#[test]
fn the_bundle_made_again_is_the_same() {
    let scratch = with_store();
    let upstream = Mirror::start(&scratch, "store");
    make::bundle(&scratch, &upstream.url(""), &shown(&golden("release.pub")));
    let made = std::fs::read(scratch.path("site.tar")).unwrap();
    let same = made == std::fs::read(golden("site.tar")).unwrap();
    assert!(same, "other bytes than the golden bundle");
}

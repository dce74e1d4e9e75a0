//! Little space and none: on a small disk of their own, which a process in a namespace of its
//! own may mount.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kubepkg_core::Digest;
use kubepkg_mirror::http::PushSettings;

use super::fixture::{Body, Site, noise, refused};

const DISK: &str = "KUBEPKG_TEST_DISK";

/// Size of the disk. A store takes 8 MiB for its reserve.
const SIZE: usize = 24 << 20;

/// Per mille that stay free: 2.4 MiB.
const MIN_FREE: u32 = 100;

/// Runs a command line where [`DISK`] is a small disk.
fn mounted(disk: &std::path::Path, line: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    let mount = format!("mount -t tmpfs -o size={SIZE} none \"${DISK}\" && exec \"$0\" \"$@\"");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount])
        .args(line)
        .env(DISK, disk)
        .stdout(Stdio::null());
    command
}

/// Runs an ignored test on a small disk.
fn on_a_small_disk(test: &str) {
    let disk = tempfile::tempdir().unwrap();
    let tried = mounted(disk.path(), &["true"])
        .stderr(Stdio::null())
        .status();
    if !tried.is_ok_and(|status| status.success()) {
        println!("left out: unshare is missing or may not mount");
        assert!(std::env::var_os("CI").is_none(), "unshare must work here");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let line = [
        this.to_str().unwrap(),
        "--exact",
        "--ignored",
        "--nocapture",
        test,
    ];
    assert!(
        mounted(disk.path(), &line).status().unwrap().success(),
        "{test}"
    );
}

/// A server on the small disk.
async fn site(min_free: u32) -> Site {
    let disk = PathBuf::from(std::env::var_os(DISK).unwrap());
    let folder = tempfile::tempdir_in(disk).unwrap();
    Site::at(folder, Some(PushSettings::default()), min_free).await
}

/// Takes all space that is left.
fn fill(site: &Site) {
    let path = site.folder.path().with_extension("fill");
    let mut file = std::fs::File::create(path).unwrap();
    for size in [1 << 20, 4096] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

#[test]
fn below_min_free_an_old_partial_upload_goes_first_and_then_it_is_507() {
    on_a_small_disk("disk::little_space");
}

#[tokio::test]
#[ignore = "run by the test above, on a disk of its own"]
async fn little_space() {
    let site = site(MIN_FREE).await;
    let part = noise(1, 4 << 20);
    let old = site.begin("a").await;
    assert_eq!(site.patch(&old, 0, &part).await.status, 202);
    let young = site.begin("a").await;
    assert_eq!(site.patch(&young, 0, &part).await.status, 202);

    // what got bytes lately never makes room, so one of them was left long ago
    let site = site.restart().await;
    let id = old.rsplit('/').next().unwrap();
    let path = site.folder.path().join("uploads").join(id);
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    file.set_modified(long_ago).unwrap();
    drop(file);

    let bytes = noise(2, 6 << 20);
    let digest = site.push_blob("a", &bytes).await;
    refused(&site.get(&old).await, 404, "BLOB_UPLOAD_UNKNOWN");
    assert_eq!(site.received(&young).await, 4 << 20);

    let more = noise(3, 10 << 20);
    let target = format!("/v2/a/blobs/uploads/?digest={}", Digest::sha256(&more));
    let full = site.send("POST", &target, &[], &more).await;
    refused(&full, 507, "DENIED");
    let message = full.json()["errors"][0]["message"].to_string();
    assert!(
        message.contains("in a: the disk of this mirror is full"),
        "{message}"
    );
    assert_eq!(site.received(&young).await, 4 << 20);
    // a stream does not say how long it is
    let stream = site.begin("a").await;
    let full = site
        .send_body("PATCH", &stream, Body::Stream(&more, 1 << 20))
        .await;
    refused(&full, 507, "DENIED");
    assert_eq!(site.delete(&stream).await.status, 204);
    // what is here is served, and what fits is taken
    site.assert_blob("a", &digest, &bytes).await;
    site.push_image("a", "v1", "x").await;
    assert_eq!(site.delete(&young).await.status, 204);
    assert_eq!(site.lying(), 0);
}

#[test]
fn on_a_full_disk_pushes_are_507_and_deletes_work() {
    on_a_small_disk("disk::no_space");
    on_a_small_disk("disk::no_space_and_no_limit");
}

#[tokio::test]
#[ignore = "run by the test above, on a disk of its own"]
async fn no_space() {
    full(MIN_FREE).await;
}

#[tokio::test]
#[ignore = "run by the test above, on a disk of its own"]
async fn no_space_and_no_limit() {
    full(0).await;
}

async fn full(min_free: u32) {
    let site = site(min_free).await;
    let (digest, manifest) = site.push_image("a", "v1", "x").await;
    site.push_image("a", "v2", "y").await;
    let upload = site.begin("a").await;
    assert_eq!(site.patch(&upload, 0, b"abc").await.status, 202);
    fill(&site);

    let target = format!(
        "/v2/a/blobs/uploads/?digest={}",
        Digest::sha256(noise(1, 9000))
    );
    let answer = site.send("POST", &target, &[], &noise(1, 9000)).await;
    refused(&answer, 507, "DENIED");
    let mut other = manifest.clone();
    other["annotations"] = serde_json::json!({"a": "x".repeat(9000)});
    refused(&site.put_manifest("a", "v3", &other).await, 507, "DENIED");
    assert_eq!(site.head("/v2/a/manifests/v1").await.status, 200);

    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    for target in [
        "/v2/a/manifests/v1".to_owned(),
        format!("/v2/a/manifests/{digest}"),
        format!("/v2/a/blobs/{layer}"),
    ] {
        let deleted = site.delete(&target).await;
        assert_eq!(deleted.status, 202, "{deleted:?}");
        assert_eq!(site.head(&target).await.status, 404);
    }
    let cancelled = site.delete(&upload).await.status;
    // without room the oldest partial upload went
    assert!(matches!(cancelled, 204 | 404), "{cancelled}");
    assert_eq!(site.head("/v2/a/manifests/v2").await.status, 200);
}

/// Nothing is left free where all of the disk has to stay so.
#[tokio::test]
async fn a_disk_without_room_is_told_before_a_push_is() {
    let settings = Some(PushSettings::default());
    let full = Site::at(tempfile::tempdir().unwrap(), settings, 1000).await;
    let got = full.get("/readyz").await;
    assert_eq!(
        (got.status, got.json()["status"].clone()),
        (503, "failing".into())
    );
    let reason = got.json()["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("disk is full"), "{reason}");
    assert!(!reason.contains('/'), "no path of this machine: {reason}");
    // who asks whether it lives and can be read is told yes
    for well in ["/livez", "/healthz"] {
        assert_eq!(full.get(well).await.status, 200);
    }
    let roomy = Site::at(tempfile::tempdir().unwrap(), settings, 0).await;
    assert_eq!(roomy.get("/readyz").await.status, 200);
    // what was written to see it is gone
    let left = walked(roomy.folder.path());
    assert!(
        !left
            .iter()
            .any(|file| file.contains(".tmp-") && !file.ends_with("alive")),
        "{left:?}"
    );
}

/// All files below a folder.
fn walked(folder: &std::path::Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(walked(&path)),
            false => files.push(path.display().to_string()),
        }
    }
    files
}

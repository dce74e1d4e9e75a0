//! Uploads outlive the server: it ends in order, or is killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kubepkg_core::{Algorithm, Digest};
use kubepkg_mirror::http::PushSettings;
use kubepkg_mirror::serve::serve;
use tokio::net::TcpListener;

use super::fixture::{Body, Site, finishing, noise, open, refused, send, server};

const ROOT: &str = "KUBEPKG_TEST_SERVED";

#[tokio::test]
async fn resume_after_a_restart() {
    let site = Site::start().await;
    let bytes = noise(1, 2_000_000);
    let kept = site.begin("a").await;
    let given_up = site.begin("a").await;
    let wrong = site.begin("a").await;
    let streamed = Body::Stream(&bytes[..1_200_000], 50_000);
    assert_eq!(site.send_body("PATCH", &kept, streamed).await.status, 202);
    assert_eq!(site.patch(&wrong, 0, b"other").await.status, 202);

    let site = site.restart().await;
    assert_eq!(site.received(&kept).await, 1_200_000);
    refused(
        &site.patch(&kept, 0, b"x").await,
        416,
        "BLOB_UPLOAD_INVALID",
    );
    assert_eq!(
        site.patch(&kept, 1_200_000, &bytes[1_200_000..1_500_000])
            .await
            .status,
        202
    );
    assert_eq!(site.delete(&given_up).await.status, 204);
    let digest = Digest::sha256(&bytes);
    refused(
        &site.finish(&wrong, &digest, b"").await,
        400,
        "DIGEST_INVALID",
    );

    let site = site.restart().await;
    assert_eq!(
        site.finish(&kept, &digest, &bytes[1_500_000..])
            .await
            .status,
        201
    );
    site.assert_blob("a", &digest, &bytes).await;
    assert_eq!(site.lying(), 0);

    let site = site.restart().await;
    site.assert_blob("a", &digest, &bytes).await;
    let upload = site.begin("a").await;
    site.patch(&upload, 0, b"abc").await;
    let site = site.restart().await;
    let long = Digest::of(Algorithm::Sha512, b"abc");
    assert_eq!(site.finish(&upload, &long, b"").await.status, 201);
}

#[tokio::test]
#[ignore = "run by the test below, in a process of its own"]
async fn serving_process() {
    let root = PathBuf::from(std::env::var_os(ROOT).unwrap());
    let store = open(&root.join("store"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    std::fs::write(root.join("address.new"), address.to_string()).unwrap();
    std::fs::rename(root.join("address.new"), root.join("address")).unwrap();
    let server = server(&store, Some(PushSettings::default()));
    serve(listener, server, std::future::pending())
        .await
        .unwrap();
}

/// A server in a process of its own, killed when it is dropped.
struct Process(Child, std::net::SocketAddr);

impl Process {
    async fn start(root: &Path) -> Process {
        let place = root.join("address");
        let _ = std::fs::remove_file(&place);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "--ignored", "resume::serving_process"])
            .env(ROOT, root)
            .stdout(Stdio::null());
        let unknown = std::net::SocketAddr::from(([0; 4], 0));
        let mut process = Process(command.spawn().unwrap(), unknown);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Ok(address) = std::fs::read_to_string(&place) {
                process.1 = address.parse().unwrap();
                return process;
            }
            assert!(Instant::now() < deadline, "no server");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn resume_after_kill_9() {
    let root = tempfile::tempdir().unwrap();
    let bytes = noise(2, 3_000_000);
    let digest = Digest::sha256(&bytes);
    let whole = noise(3, 1000);
    let upload;
    {
        let first = Process::start(root.path()).await;
        let begun = send(
            first.1,
            "POST",
            "/v2/a/blobs/uploads/",
            &[],
            Body::Whole(b""),
        )
        .await;
        upload = begun.header("location").unwrap().to_owned();
        let part = Body::Whole(&bytes[..1_700_000]);
        assert_eq!(send(first.1, "PATCH", &upload, &[], part).await.status, 202);
        let target = format!("/v2/a/blobs/uploads/?digest={}", Digest::sha256(&whole));
        let put = send(first.1, "POST", &target, &[], Body::Whole(&whole)).await;
        assert_eq!(put.status, 201);
    }
    let second = Process::start(root.path()).await;
    let target = format!("/v2/a/blobs/{}", Digest::sha256(&whole));
    let read = send(second.1, "GET", &target, &[], Body::Whole(b"")).await;
    assert_eq!(read.body, whole);
    let state = send(second.1, "GET", &upload, &[], Body::Whole(b"")).await;
    assert_eq!(state.header("range"), Some("0-1699999"));
    let rest = Body::Whole(&bytes[1_700_000..]);
    let done = send(second.1, "PUT", &finishing(&upload, &digest), &[], rest).await;
    assert_eq!(done.status, 201);
    let target = format!("/v2/a/blobs/{digest}");
    let read = send(second.1, "GET", &target, &[], Body::Whole(b"")).await;
    assert!(read.body == bytes);
}

#[tokio::test]
async fn what_nobody_goes_on_with_expires() {
    let site = Site::start().await;
    let old = site.begin("a").await;
    site.patch(&old, 0, b"12345").await;
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(site.store.expire_uploads(day).await.unwrap(), (0, 0));
    assert_eq!(site.received(&old).await, 5);
    assert_eq!(
        site.store.expire_uploads(Duration::ZERO).await.unwrap(),
        (1, 5)
    );
    refused(&site.get(&old).await, 404, "BLOB_UPLOAD_UNKNOWN");
    refused(&site.patch(&old, 5, b"6").await, 404, "BLOB_UPLOAD_UNKNOWN");
    assert_eq!(site.lying(), 0);
}

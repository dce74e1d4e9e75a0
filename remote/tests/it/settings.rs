//! Settings for each host in containerd's form: mirrors, headers, addresses.

use axum::response::IntoResponse;
use kubepkg_core::Reference;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_remote::{Client, Options, Registry};

use crate::server::{Server, blob, manifest, noise, options, serve_blob, serve_manifest, status};

const OCI: &str = kubepkg_core::descriptor::media_type::OCI_MANIFEST;

/// Options with settings for `host`.
fn with(host: &str, text: &str) -> (Options, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let of_host = folder.path().join(host);
    std::fs::create_dir(&of_host).unwrap();
    std::fs::write(of_host.join("hosts.toml"), text).unwrap();
    let (mut options, _) = options();
    options.hosts_dir = Some(folder.path().to_owned());
    (options, folder)
}

/// A registry at `origin`, with a mirror before it.
fn behind(mirror: &Server, origin: &Server) -> (Registry, tempfile::TempDir) {
    let text = format!(
        "server = \"http://{}\"\n[host.\"http://{}\"]\n",
        origin.address, mirror.address
    );
    let (options, folder) = with("registry.example.com", &text);
    (Client::new(options).unwrap().registry(), folder)
}

#[tokio::test]
async fn a_mirror_is_asked_first_and_told_for_whom() {
    let mirror = Server::start(|seen| match seen.path.as_str() {
        "/v2/hub/team/a/manifests/1?ns=registry.example.com" => {
            serve_manifest(&manifest("x").0, OCI)
        }
        _ => status(404),
    })
    .await;
    let text = format!(
        "[host.\"http://{}/v2/hub\"]\noverride_path = true\n[host.\"http://{}/v2/hub\".header]\n\
         x-site = \"plant 7\"\n",
        mirror.address, mirror.address
    );
    let (options, _folder) = with("registry.example.com", &text);
    let registry = Client::new(options).unwrap().registry();
    let image: Reference = "registry.example.com/team/a:1".parse().unwrap();
    let got = registry.manifest(&image).await.unwrap();
    assert_eq!(got.bytes, manifest("x").0);
    assert_eq!(mirror.seen()[0].header("x-site"), "plant 7");
}

#[tokio::test]
async fn what_a_mirror_lacks_or_cannot_give_comes_from_the_next() {
    let origin = Server::start(|_| serve_manifest(&manifest("x").0, OCI)).await;
    for code in [404, 401, 500] {
        let mirror = Server::start(move |_| status(code)).await;
        let text = format!(
            "server = \"http://{}\"\n[host.\"http://127.0.0.1:9\"]\n[host.\"http://{}\"]\n",
            origin.address, mirror.address
        );
        let (options, _folder) = with("registry.example.com", &text);
        let registry = Client::new(options).unwrap().registry();
        let image: Reference = "registry.example.com/team/a:1".parse().unwrap();
        registry.manifest(&image).await.unwrap();
        assert!(
            mirror
                .seen()
                .iter()
                .all(|s| s.header("authorization").is_empty())
        );
    }
}

#[tokio::test]
async fn the_registry_itself_has_the_last_word() {
    let mirror = Server::start(|_| status(404)).await;
    let origin = Server::start(|_| status(404)).await;
    let (registry, _folder) = behind(&mirror, &origin);
    let image: Reference = "registry.example.com/a:1".parse().unwrap();
    let error = registry.manifest(&image).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    let place = error.place().unwrap();
    assert!(place.starts_with(&image.to_string()), "{place}");
    assert!(place.contains(&origin.host()), "{place}");
}

#[tokio::test]
async fn a_download_goes_on_at_the_next_server() {
    let content = noise(3 << 20);
    let descriptor = blob(&content);
    let (body, whole) = (content.clone(), content.clone());
    let mirror = Server::start(move |seen| match seen.before {
        0 => serve_blob(seen, &body, 1 << 20),
        _ => status(502),
    })
    .await;
    let origin = Server::start(move |seen| serve_blob(seen, &whole, usize::MAX)).await;
    let (registry, _folder) = behind(&mirror, &origin);
    let image: Reference = "registry.example.com/a:1".parse().unwrap();
    let got = registry.blob(&image, &descriptor, 8 << 20).await.unwrap();
    assert_eq!(got, content);
    let range = origin.seen()[0].header("range").to_owned();
    assert!(
        range.starts_with("bytes=") && range != "bytes=0-",
        "{range}"
    );
}

#[tokio::test]
async fn headers_of_a_host_do_not_follow_a_redirect() {
    let content = b"layer".to_vec();
    let descriptor = blob(&content);
    let store = Server::start(|seen| serve_blob(seen, b"layer", usize::MAX)).await;
    let target = store.url("/blob");
    let registry = Server::start(move |_| {
        let mut response = status(307).into_response();
        let headers = response.headers_mut();
        headers.insert("location", target.parse().unwrap());
        response
    })
    .await;
    let text = "[header]\nx-token = \"secret\"\n";
    let (options, _folder) = with(&registry.host(), text);
    let client = Client::new(options).unwrap();
    let image = registry.image("a:1");
    client
        .registry()
        .blob(&image, &descriptor, 9)
        .await
        .unwrap();
    assert_eq!(registry.seen()[0].header("x-token"), "secret");
    assert_eq!(store.seen()[0].header("x-token"), "");
}

#[tokio::test]
async fn a_busy_place_behind_a_redirect_is_given_time() {
    let content = b"layer".to_vec();
    let descriptor = blob(&content);
    let store = Server::start(|seen| match seen.before {
        0 => {
            let mut response = status(429);
            let headers = response.headers_mut();
            headers.insert("retry-after", "21".parse().unwrap());
            response
        }
        _ => serve_blob(seen, b"layer", usize::MAX),
    })
    .await;
    let target = store.url("/blob");
    let registry = Server::start(move |_| {
        let mut response = status(302).into_response();
        let headers = response.headers_mut();
        headers.insert("location", target.parse().unwrap());
        response
    })
    .await;
    let (options, pauses) = options();
    let client = Client::new(options).unwrap();
    let image = registry.image("a:1");
    client
        .registry()
        .blob(&image, &descriptor, 9)
        .await
        .unwrap();
    assert!(pauses.longest().as_secs() >= 20);
    // addresses of stores run out, so a fresh one is asked for
    assert!(registry.seen().len() >= 2);
}

#[tokio::test]
async fn a_mirror_with_damaged_content_does_not_hide_the_registry() {
    let content = noise(300_000);
    let descriptor = blob(&content);
    let mut damaged = content.clone();
    damaged[1000] ^= 1;
    let mirror = Server::start(move |seen| serve_blob(seen, &damaged, usize::MAX)).await;
    let whole = content.clone();
    let origin = Server::start(move |seen| serve_blob(seen, &whole, usize::MAX)).await;
    let (registry, _folder) = behind(&mirror, &origin);
    let image: Reference = "registry.example.com/a:1".parse().unwrap();
    let got = registry.blob(&image, &descriptor, 1 << 20).await.unwrap();
    assert_eq!(got, content);
    assert_eq!((mirror.seen().len(), origin.seen().len()), (1, 1));
}

#[tokio::test]
async fn a_dead_mirror_is_noticed_once() {
    let mirror = Server::start(|_| status(502)).await;
    let origin = Server::start(|_| serve_manifest(&manifest("x").0, OCI)).await;
    let (registry, _folder) = behind(&mirror, &origin);
    for tag in 1..=20 {
        let image: Reference = format!("registry.example.com/a:{tag}").parse().unwrap();
        registry.manifest(&image).await.unwrap();
    }
    assert_eq!(mirror.seen().len(), 1);
}

#[tokio::test]
async fn what_is_attached_is_asked_of_the_registry_itself() {
    let mirror = Server::start(|_| status(404)).await;
    let origin = Server::start(|_| status(404)).await;
    let (registry, _folder) = behind(&mirror, &origin);
    let image: Reference = "registry.example.com/a:1".parse().unwrap();
    let subject = kubepkg_core::Digest::sha256(b"x");
    let found = registry.referrers(&image, &subject).await.unwrap();
    assert!(found.is_empty());
    assert!(mirror.seen().is_empty());
    // one request finds out that it answers, whatever hangs on how many manifests
    assert_eq!(origin.seen().len(), 1 + 5);
    let other = kubepkg_core::Digest::sha256(b"y");
    registry.referrers(&image, &other).await.unwrap();
    assert_eq!(origin.seen().len(), 1 + 5 + 5);
    assert_eq!(origin.seen()[0].path, "/v2/");
}

#[tokio::test]
async fn a_registry_that_is_away_is_noticed_once_and_its_mirror_tells_what_is_attached() {
    let subject = kubepkg_core::Digest::sha256(b"x");
    let tag = format!("sha256-{}.sig", subject.hex());
    let mirror = Server::start(move |seen| match seen.path.contains(&tag) {
        true => serve_manifest(&manifest("signature").0, OCI),
        false => status(404),
    })
    .await;
    let origin = Server::start(|_| status(502)).await;
    let (registry, _folder) = behind(&mirror, &origin);
    let image: Reference = "registry.example.com/a:1".parse().unwrap();
    for _ in 0..20 {
        let found = registry.referrers(&image, &subject).await.unwrap();
        assert_eq!(found.len(), 1);
    }
    // the tries of one request
    assert_eq!(origin.seen().len(), 5);
}

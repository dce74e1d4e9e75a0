//! `/charts/…`: charts of the registry as a classic Helm repository.

use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::Change;
use serde_json::{Value, json};

use super::fixture::{Memory, Running, image};

const FOLDER: &str = "charts.example.com_8443/stable";

fn chart(store: &Memory, repository: &str, metadata: &Value, archive: &[u8]) -> Value {
    let config = metadata.to_string();
    let descriptor = |kind: &str, bytes: &[u8]| {
        json!({"mediaType": format!("application/vnd.cncf.helm.{kind}"),
            "digest": store.blob_in(repository, bytes), "size": bytes.len()})
    };
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("config.v1+json", config.as_bytes()),
        "layers": [
            descriptor("chart.provenance.v1.prov", b"signed"),
            descriptor("chart.content.v1.tar+gzip", archive),
        ],
    })
}

fn add(store: &Memory, name: &str, version: &str, archive: &[u8]) -> kubepkg_core::Digest {
    let repository = format!("{FOLDER}/{name}");
    let metadata = json!({"apiVersion": "v2", "name": name, "version": version,
        "appVersion": "012", "dependencies": [{"name": "d", "version": ">1"}]});
    let manifest = chart(store, &repository, &metadata, archive);
    store.manifest_in(&repository, &manifest, &[&version.replace('+', "_")])
}

#[tokio::test]
async fn the_index_lists_the_charts_and_the_archives_are_their_blobs() {
    let server = Running::start().await;
    let store = &server.store;
    add(store, "web", "1.0.0", b"web one");
    add(store, "web", "1.1.0+build", b"web two");
    add(store, "db", "0.1.0", b"db");
    // neither an image beside them nor a chart further down belongs to this folder
    let beside = format!("{FOLDER}/image");
    store.manifest_in(&beside, &image(store, &beside, "x"), &["1.0.0"]);
    add(store, "deeper/chart", "1.0.0", b"deeper");

    let got = server.get(&format!("/charts/{FOLDER}/index.yaml")).await;
    assert_eq!(got.header("content-type"), Some("application/yaml"));
    let index = got.json();
    assert_eq!(index["apiVersion"], "v1");
    let names: Vec<&String> = index["entries"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["db", "web"]);
    let web = index["entries"]["web"].as_array().unwrap();
    assert_eq!(web.len(), 2);
    assert_eq!(web[0]["appVersion"], "012");
    assert_eq!(web[0]["dependencies"][0]["name"], "d");

    for (entry, archive) in [(&web[0], "web one"), (&web[1], "web two")] {
        let url = entry["urls"][0].as_str().unwrap();
        let target = format!("/charts/{FOLDER}/{url}");
        let got = server.get(&target).await;
        assert_eq!(got.body, archive.as_bytes(), "{url}");
        assert_eq!(got.header("content-type"), Some("application/gzip"));
        let digest = format!("sha256:{}", entry["digest"].as_str().unwrap());
        assert_eq!(got.header("etag"), Some(format!("\"{digest}\"").as_str()));
        assert_eq!(server.get(&format!("{target}.prov")).await.body, b"signed");
        let head = server.head(&target).await;
        assert_eq!(head.lasting_headers(), got.lasting_headers());
    }
    let spelled = "/charts/charts.example.com:8443/Stable/web-1.1.0%2Bbuild.tgz";
    assert_eq!(server.get(spelled).await.body, b"web two");
    for absent in [
        "charts/none/index.yaml",
        &format!("charts/{FOLDER}/web-9.tgz"),
        "charts/x",
    ] {
        assert_eq!(
            server.get(&format!("/{absent}")).await.status,
            404,
            "{absent}"
        );
    }
}

#[tokio::test]
async fn the_index_follows_the_names_and_keeps_its_tag_meanwhile() {
    let server = Running::start().await;
    add(&server.store, "web", "1.0.0", b"web one");
    let target = format!("/charts/{FOLDER}/index.yaml");
    let etag = server.get(&target).await.header("etag").unwrap().to_owned();
    let opened = server
        .store
        .opened
        .load(std::sync::atomic::Ordering::SeqCst);
    let again = server
        .send("GET", &target, &[("If-None-Match", &etag)])
        .await;
    assert_eq!(again.status, 304);
    let now = server
        .store
        .opened
        .load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(now, opened, "built once per state of the names");
    add(&server.store, "web", "2.0.0", b"web three");
    let again = server
        .send("GET", &target, &[("If-None-Match", &etag)])
        .await;
    assert_eq!(again.status, 200);
    assert_eq!(again.json()["entries"]["web"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_change_elsewhere_reads_nothing_again_and_one_here_only_what_changed() {
    let server = Running::start().await;
    for name in ["a", "b", "c"] {
        add(&server.store, name, "1.0.0", name.as_bytes());
    }
    let target = format!("/charts/{FOLDER}/index.yaml");
    let opened = || {
        server
            .store
            .opened
            .load(std::sync::atomic::Ordering::SeqCst)
    };
    let read = async || {
        let before = opened();
        let index = server.get(&target).await.json();
        (
            opened() - before,
            index["entries"].as_object().unwrap().len(),
        )
    };
    assert_eq!(read().await, (6, 3), "manifest and config of each");
    add(&server.store, "d", "1.0.0", b"x");
    assert_eq!(read().await, (2, 4));
    let beside = "charts.example.com_8443/other/x";
    server
        .store
        .manifest_in(beside, &image(&server.store, beside, "x"), &["1"]);
    assert_eq!(read().await, (0, 4));
    add(&server.store, "b", "2.0.0", b"new");
    assert_eq!(read().await, (4, 4), "both versions of b");
    server.store.commit(&[Change::Tag {
        repository: format!("{FOLDER}/c").parse().unwrap(),
        tag: "1.0.0".parse().unwrap(),
        new: None,
    }]);
    assert_eq!(read().await, (0, 3));
}

#[tokio::test]
async fn an_index_of_thousands_of_charts_is_right() {
    let server = Running::start().await;
    for n in 0..3000 {
        let version = format!("1.0.{n}");
        add(
            &server.store,
            &format!("chart-{}", n % 300),
            &version,
            version.as_bytes(),
        );
    }
    let target = format!("/charts/{FOLDER}/index.yaml");
    let index = server.get(&target).await.json();
    let entries = index["entries"].as_object().unwrap();
    assert_eq!(entries.len(), 300);
    for (name, versions) in entries {
        let versions = versions.as_array().unwrap();
        assert_eq!(versions.len(), 10, "{name}");
        for version in versions {
            let version = version["version"].as_str().unwrap();
            let n: usize = version.rsplit('.').next().unwrap().parse().unwrap();
            assert_eq!(*name, format!("chart-{}", n % 300));
        }
    }
    let archive = format!("/charts/{FOLDER}/chart-299-1.0.2999.tgz");
    assert_eq!(server.get(&archive).await.body, b"1.0.2999");
}

#[tokio::test]
async fn of_two_manifests_of_one_version_the_tagged_one_counts() {
    let server = Running::start().await;
    add(&server.store, "web", "1.0.0", b"first build");
    add(&server.store, "web", "1.0.0", b"second build");
    let index = server
        .get(&format!("/charts/{FOLDER}/index.yaml"))
        .await
        .json();
    assert_eq!(index["entries"]["web"].as_array().unwrap().len(), 1);
    let got = server.get(&format!("/charts/{FOLDER}/web-1.0.0.tgz")).await;
    assert_eq!(got.body, b"second build");
}

#[tokio::test]
async fn charts_that_cannot_be_listed_do_not_hide_the_others() {
    let server = Running::start().await;
    let store = &server.store;
    add(store, "good", "1.0.0", b"good");
    for (name, metadata) in [
        ("climbs", json!({"name": "../climbs", "version": "1.0.0"})),
        ("slash", json!({"name": "slash", "version": "1/0"})),
        ("nameless", json!({"version": "1.0.0"})),
        ("list", json!(["name"])),
    ] {
        let repository = format!("{FOLDER}/{name}");
        let manifest = chart(store, &repository, &metadata, name.as_bytes());
        store.manifest_in(&repository, &manifest, &["1.0.0"]);
    }
    // an archive that is not a member of its repository
    let repository = format!("{FOLDER}/foreign");
    let metadata = json!({"name": "foreign", "version": "1.0.0"});
    let manifest = chart(store, &repository, &metadata, b"foreign");
    store.manifest_in(&repository, &manifest, &["1.0.0"]);
    store.commit(&[Change::Blob {
        repository: repository.parse().unwrap(),
        digest: kubepkg_core::Digest::sha256(b"foreign"),
        new: None,
    }]);
    let index = server
        .get(&format!("/charts/{FOLDER}/index.yaml"))
        .await
        .json();
    let names: Vec<&String> = index["entries"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["good"]);
}

#[tokio::test]
async fn what_is_attached_to_a_chart_is_no_chart_of_the_repository() {
    let server = Running::start().await;
    let store = &server.store;
    let signed = add(store, "web", "1.0.0", b"signed");
    let repository = format!("{FOLDER}/web");
    let evil = |version: &str| {
        let metadata = json!({"apiVersion": "v2", "name": "web", "version": version});
        chart(store, &repository, &metadata, b"evil")
    };
    // by digest only, about the chart, and under a tag that is none of its version
    store.manifest_in(&repository, &evil("9.0.0"), &[]);
    let mut about = evil("9.0.1");
    about["subject"] = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": signed, "size": 1});
    store.manifest_in(&repository, &about, &["9.0.1"]);
    let tag = format!("sha256-{}.sig", signed.hex());
    store.manifest_in(&repository, &evil("9.0.2"), &[&tag]);
    let index = server
        .get(&format!("/charts/{FOLDER}/index.yaml"))
        .await
        .json();
    let listed = index["entries"]["web"].as_array().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["version"], "1.0.0");
}

#[tokio::test]
async fn a_second_archive_in_a_manifest_is_not_served() {
    let server = Running::start().await;
    let store = &server.store;
    add(store, "web", "1.0.0", b"web one");
    let repository = format!("{FOLDER}/web");
    let metadata = json!({"apiVersion": "v2", "name": "web", "version": "2.0.0"});
    let mut manifest = chart(store, &repository, &metadata, b"signed");
    let mut evil = manifest["layers"][1].clone();
    evil["digest"] = json!(store.blob_in(&repository, b"evil"));
    evil["size"] = json!(4);
    manifest["layers"].as_array_mut().unwrap().insert(0, evil);
    store.manifest_in(&repository, &manifest, &["2.0.0"]);
    let served = |version: &str| format!("/charts/{FOLDER}/web-{version}.tgz");
    assert_eq!(server.get(&served("2.0.0")).await.status, 404);
    assert_eq!(server.get(&served("1.0.0")).await.body, b"web one");
}

#[tokio::test]
async fn a_legacy_chart_is_listed() {
    let server = Running::start().await;
    let store = &server.store;
    let repository = format!("{FOLDER}/web");
    let metadata = json!({"apiVersion": "v1", "name": "web", "version": "v1.0.0"});
    let mut manifest = chart(store, &repository, &metadata, b"old");
    manifest["layers"][1]["mediaType"] = json!("application/tar+gzip");
    // a package may name the version without its "v"
    store.manifest_in(&repository, &manifest, &["1.0.0"]);
    let got = server
        .get(&format!("/charts/{FOLDER}/web-v1.0.0.tgz"))
        .await;
    assert_eq!(got.body, b"old");
}

#[tokio::test]
async fn a_chart_whose_archive_is_set_aside_is_not_here() {
    let server = Running::start().await;
    let store = &server.store;
    add(store, "web", "1.0.0", b"web one");
    add(store, "web", "2.0.0", b"web two");
    let index = format!("/charts/{FOLDER}/index.yaml");
    let versions = async || {
        let index = server.get(&index).await.json();
        let web = index["entries"]["web"].as_array().unwrap().clone();
        let version = |entry: &Value| entry["version"].as_str().unwrap().to_owned();
        web.iter().map(version).collect::<Vec<String>>()
    };
    assert_eq!(versions().await, ["1.0.0", "2.0.0"]);
    let etag = server.get(&index).await.header("etag").unwrap().to_owned();

    let archive = kubepkg_core::Digest::sha256(b"web one");
    let standing = kubepkg_mirror::source::Standing::Quarantined;
    store.standings.lock().unwrap().insert(archive, standing);
    assert_eq!(versions().await, ["2.0.0"]);
    let target = format!("/charts/{FOLDER}/web-1.0.0.tgz");
    assert_eq!(server.get(&target).await.status, 404);
    assert_eq!(server.head(&target).await.status, 404);
    let other = format!("/charts/{FOLDER}/web-2.0.0.tgz");
    assert_eq!(server.get(&other).await.body, b"web two");
    let changed = server
        .send("GET", &index, &[("If-None-Match", &etag)])
        .await;
    assert_eq!(changed.status, 200);

    // brought again
    store.standings.lock().unwrap().clear();
    assert_eq!(versions().await, ["1.0.0", "2.0.0"]);
    assert_eq!(server.get(&target).await.body, b"web one");
}

/// A chart in a folder of its own.
fn folder_of(store: &Memory, n: usize) -> String {
    let folder = format!("charts.example.com/f{n}");
    let name = format!("{folder}/web");
    let metadata = json!({"apiVersion": "v2", "name": "web", "version": "1.0.0", "description": n});
    let manifest = chart(store, &name, &metadata, b"archive");
    store.manifest_in(&name, &manifest, &["1.0.0"]);
    format!("/charts/{folder}/index.yaml")
}

#[tokio::test]
async fn of_more_folders_than_are_kept_the_oldest_is_forgotten() {
    let server = Running::start().await;
    let all: Vec<String> = (0..33).map(|n| folder_of(&server.store, n)).collect();
    let read = async |target: &str| {
        let opened = &server.store.opened;
        let before = opened.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(server.get(target).await.status, 200);
        opened.load(std::sync::atomic::Ordering::SeqCst) - before
    };
    for target in &all[..32] {
        assert_eq!(read(target).await, 2, "{target}");
    }
    assert_eq!(read(&all[0]).await, 0);
    assert_eq!(read(&all[32]).await, 2);
    // asked for longest ago: the second
    assert_eq!(read(&all[0]).await, 0);
    assert_eq!(read(&all[31]).await, 0);
    assert_eq!(read(&all[1]).await, 2);
    // folders without charts take no place
    for n in 0..40 {
        let absent = format!("/charts/charts.example.com/none{n}/index.yaml");
        assert_eq!(server.get(&absent).await.status, 404);
    }
    assert_eq!(read(&all[1]).await, 0);
}

#[tokio::test]
async fn a_folder_that_takes_long_holds_up_no_other() {
    let server = Running::start().await;
    let (slow, quick) = (folder_of(&server.store, 1), folder_of(&server.store, 2));
    let (go_on, held) = std::sync::mpsc::channel();
    let name: RepositoryName = "charts.example.com/f1/web".parse().unwrap();
    let manifest = *server.store.names_now().repositories[&name]
        .manifests
        .keys()
        .next()
        .unwrap();
    *server.store.held.lock().unwrap() = Some((manifest, held));
    let building = server.get(&slow);
    let other = async {
        while server.store.held.lock().unwrap().is_some() {
            tokio::task::yield_now().await;
        }
        // while the first is held up
        assert_eq!(server.get(&quick).await.status, 200);
        go_on.send(()).unwrap();
    };
    let (built, ()) = tokio::join!(building, other);
    assert_eq!(built.status, 200);
}

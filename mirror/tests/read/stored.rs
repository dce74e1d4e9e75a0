//! A server on a file store that somebody else fills meanwhile, as an import does: through
//! another opening of the same folder.

use std::net::SocketAddr;

use kubepkg_core::Digest;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::store::{
    Batch, Body, Cause, Change, Committed, ManifestEntry, SiteEntry, SiteFile, Store as _, TagEntry,
};
use kubepkg_core::time::Time;
use kubepkg_mirror::http::Server;
use kubepkg_mirror::serve::serve;
use kubepkg_mirror::store::{FileStore, OpenMode};
use tokio::net::TcpListener;

use super::client::{Answer, send};

const R: &str = "registry.example.com/team/app";
const SITE: &str = "https://packages.example.com/stable/index.yaml";

async fn server_on(folder: &std::path::Path) -> SocketAddr {
    let store = FileStore::open(folder, OpenMode::ReadOnly).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, Server::new(store), std::future::pending()));
    address
}

async fn get(address: SocketAddr, target: &str) -> Answer {
    send(address, "GET", target, &[]).await
}

/// Fills a store as an import does: content first, then all names in one commit.
async fn import(store: &FileStore, note: &str) -> Digest {
    let config = format!("{{\"note\":\"{note}\"}}");
    let config_digest = Digest::sha256(&config);
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": config_digest, "size": config.len()},
        "layers": [],
    })
    .to_string();
    let digest = Digest::sha256(&manifest);
    let index = format!("index of {note}\n");
    let signature = format!("signature of {note}\n");

    let mut staged = Vec::new();
    for content in [&config, &manifest, &index, &signature] {
        let body = Body::Bytes(content.clone().into());
        let stage = store.stage(Digest::sha256(content), content.len() as u64, body);
        staged.push(stage.await.unwrap());
    }
    store.publish(staged).await.unwrap();

    let repository = || R.parse().unwrap();
    let file = |content: &str| SiteFile {
        digest: Digest::sha256(content),
        size: content.len() as u64,
    };
    let url: kubepkg_core::location::CanonicalUrl = SITE.parse().unwrap();
    let changes = vec![
        Change::Blob {
            repository: repository(),
            digest: config_digest,
            new: Some(config.len() as u64),
        },
        Change::Manifest {
            repository: repository(),
            digest,
            new: Some(ManifestEntry {
                media_type: media_type::OCI_MANIFEST.into(),
                size: manifest.len() as u64,
                subject: None,
                artifact_type: None,
                annotations: Default::default(),
            }),
        },
        Change::Tag {
            repository: repository(),
            tag: "v1".parse().unwrap(),
            new: Some(TagEntry {
                digest,
                origin: None,
            }),
        },
        Change::Site {
            folder: url.folder(),
            new: Some(SiteEntry {
                url,
                set: 0,
                files: [
                    ("index.yaml".to_owned(), file(&index)),
                    ("index.yaml.sig".to_owned(), file(&signature)),
                ]
                .into(),
            }),
        },
    ];
    let batch = Batch {
        at: Time::from_unix(0),
        cause: Cause::Push,
        changes,
    };
    let expected = store.sequence().await.unwrap();
    let committed = store.commit(expected, batch).await.unwrap();
    assert_eq!(committed, Committed::Done(expected + 1));
    digest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_request_after_an_import_sees_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
    let address = server_on(folder.path()).await;
    let tag = format!("/v2/{R}/manifests/v1");
    assert_eq!(get(address, &tag).await.code(), "NAME_UNKNOWN");
    for note in ["one", "two"] {
        let digest = import(&store, note).await;
        let got = get(address, &tag).await;
        assert!(digest.matches(&got.body), "{note}");
        let config = got.json()["config"]["digest"].clone();
        let blob = get(
            address,
            &format!("/v2/{R}/blobs/{}", config.as_str().unwrap()),
        )
        .await;
        assert_eq!(blob.body, format!("{{\"note\":\"{note}\"}}").as_bytes());
        let at = "/repositories/packages.example.com/stable";
        let index = get(address, &format!("{at}/index.yaml")).await;
        assert_eq!(index.body, format!("index of {note}\n").as_bytes());
        let signature = get(address, &format!("{at}/index.yaml.sig")).await;
        assert_eq!(signature.body, format!("signature of {note}\n").as_bytes());
        assert_eq!(index.header("kubepkg-set"), signature.header("kubepkg-set"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_the_old_or_the_new_never_neither() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
    import(&store, "0").await;
    let address = server_on(folder.path()).await;
    let writing = tokio::spawn(async move {
        for round in 1..20 {
            import(&store, &round.to_string()).await;
        }
    });
    let at = "/repositories/packages.example.com/stable";
    let mut matched = 0;
    while !writing.is_finished() || matched == 0 {
        let got = get(address, &format!("/v2/{R}/manifests/v1")).await;
        assert_eq!(got.status, 200);
        let digest: Digest = got
            .header("docker-content-digest")
            .unwrap()
            .parse()
            .unwrap();
        assert!(digest.matches(&got.body));
        let index = get(address, &format!("{at}/index.yaml")).await;
        let signature = get(address, &format!("{at}/index.yaml.sig")).await;
        assert_eq!((index.status, signature.status), (200, 200));
        if index.header("kubepkg-set") == signature.header("kubepkg-set") {
            let index = String::from_utf8(index.body).unwrap();
            let signature = String::from_utf8(signature.body).unwrap();
            assert_eq!(signature, index.replace("index", "signature"));
            matched += 1;
        }
    }
    writing.await.unwrap();
}

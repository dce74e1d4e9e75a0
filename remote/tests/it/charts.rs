//! Charts from Helm repositories and registries.

use axum::response::{IntoResponse, Response};
use kubepkg_core::Digest;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_remote::{Client, Fault, Provenance};

use crate::server::{Server, client, options, serve_manifest, status};

/// What the mirror of this workspace answers at `/healthz`.
const HEALTH: &str = r#"{"service":"kubepkg-mirror","status":"ok"}"#;

const INDEX: &str = "\
apiVersion: v1
entries:
  web:
  - version: 1.2.0
    urls: [charts/web-1.2.0.tgz]
  - version: v1.1.0
    urls: [web-1.1.0.tgz]
";

async fn helm_repository() -> Server {
    Server::files(vec![
        ("/stable/index.yaml".to_owned(), INDEX.into()),
        (
            "/stable/charts/web-1.2.0.tgz".to_owned(),
            b"archive".to_vec(),
        ),
        ("/stable/web-1.1.0.tgz".to_owned(), b"older".to_vec()),
    ])
    .await
}

fn url(text: &str) -> CanonicalUrl {
    text.parse().unwrap()
}

#[tokio::test]
async fn from_a_helm_repository() {
    let server = helm_repository().await;
    let client = client();
    let repository = url(&server.url("/stable/"));
    let got = client.chart(&repository, "web", "1.2.0").await.unwrap();
    assert_eq!(got.archive, "archive");
    assert_eq!(got.digest, Digest::sha256(b"archive"));
    assert_eq!(got.url, server.url("/stable/charts/web-1.2.0.tgz"));
    assert!(got.oci.is_none());
    let older = client.chart(&repository, "web", "1.1.0").await.unwrap();
    assert_eq!(
        (older.version.as_str(), &older.archive[..]),
        ("v1.1.0", &b"older"[..])
    );
    assert_eq!(
        server.count("/stable/index.yaml"),
        1,
        "one index for all charts"
    );

    for (name, version) in [("web", "9.9.9"), ("nothing", "1.0.0")] {
        let error = client.chart(&repository, name, version).await.unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn what_lies_beside_an_archive() {
    const PROV: &str = "/stable/charts/web-1.2.0.tgz.prov";
    type Said = fn(usize) -> Response;
    let answers: [(Said, &str); 17] = [
        (|_| "signed".into_response(), "file"),
        (|_| status(404), "none"),
        (|_| status(403), "withheld"),
        (|_| status(410), "none"),
        (|_| status(400), "withheld"),
        (|_| status(401), "withheld"),
        (|_| status(405), "withheld"),
        (|_| status(406), "withheld"),
        (|_| status(409), "withheld"),
        (|_| status(451), "withheld"),
        (|_| status(501), "withheld"),
        (
            |_| {
                let mut response = status(302);
                let to = "http://elsewhere.example/x".parse().unwrap();
                response.headers_mut().insert("location", to);
                response
            },
            "withheld",
        ),
        (|_| status(408), "error"),
        (|_| status(429), "error"),
        (|_| status(500), "error"),
        (
            |before| match before {
                0 => status(503),
                _ => "signed".into_response(),
            },
            "file",
        ),
        (|_| vec![b' '; (2 << 20) + 1].into_response(), "withheld"),
    ];
    for (answer, want) in answers {
        let server = Server::start(move |seen| match seen.path.as_str() {
            "/stable/index.yaml" => INDEX.into_response(),
            "/stable/charts/web-1.2.0.tgz" => "archive".into_response(),
            PROV => answer(seen.before),
            _ => status(404),
        })
        .await;
        let (client, repository) = (client(), url(&server.url("/stable")));
        let chart = client.chart(&repository, "web", "1.2.0").await.unwrap();
        assert_eq!(server.count(PROV), 0, "only for whoever wants it");
        let got = match client.provenance(&chart).await {
            Ok(Provenance::None) => "none",
            Ok(Provenance::Withheld { url, why }) => {
                assert_eq!(url, server.url(PROV));
                assert!(!why.is_empty());
                "withheld"
            }
            Ok(Provenance::File { url, bytes }) => {
                assert_eq!((url, &*bytes), (server.url(PROV), &b"signed"[..]));
                "file"
            }
            Err(error) => {
                assert_eq!(error.place(), Some(server.url(PROV)));
                "error"
            }
        };
        assert_eq!(got, want);
    }
}

#[tokio::test]
async fn from_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("my charts");
    std::fs::create_dir_all(folder.join("charts")).unwrap();
    std::fs::write(folder.join("index.yaml"), INDEX).unwrap();
    std::fs::write(folder.join("charts/web-1.2.0.tgz"), "archive").unwrap();
    let repository = url(&format!("file://{}", folder.display()));
    let client = client();
    let got = client.chart(&repository, "web", "1.2.0").await.unwrap();
    assert_eq!(got.archive, "archive");
    let beside = client.provenance(&got).await.unwrap();
    assert_eq!(beside, Provenance::None);
    let file = folder.join("charts/web-1.2.0.tgz.prov");
    std::fs::create_dir(&file).unwrap();
    let beside = client.provenance(&got).await.unwrap();
    assert!(matches!(beside, Provenance::Withheld { why, .. } if why == "it is a folder"));
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(file, "signed").unwrap();
    let beside = client.provenance(&got).await.unwrap();
    assert!(matches!(beside, Provenance::File { bytes, .. } if bytes == "signed"));
}

#[tokio::test]
async fn what_is_no_helm_repository() {
    let server = Server::files(vec![("/a/index.yaml".to_owned(), b"<html>".to_vec())]).await;
    let client = client();
    let error = client
        .chart(&url(&server.url("/a")), "web", "1")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    let error = client
        .chart(&url(&server.url("/b")), "web", "1")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert_eq!(error.place().unwrap(), server.url("/b/index.yaml"));
}

#[tokio::test]
async fn from_a_kubepkg_mirror() {
    let upstream = helm_repository().await;
    let area = format!("/charts/127.0.0.1_{}/stable", upstream.address.port());
    let index = format!("{area}/index.yaml");
    let archive = format!("{area}/charts/web-1.2.0.tgz");
    let mirror = Server::start(move |seen| match seen.path.as_str() {
        "/healthz" => HEALTH.into_response(),
        path if path == index => INDEX.into_response(),
        path if path == archive => "archive".into_response(),
        _ => status(404),
    })
    .await;
    let (mut options, _) = options();
    options.mirror = Some(url(&mirror.url("")));
    let client = Client::new(options).unwrap();
    let got = client
        .chart(&url(&upstream.url("/stable")), "web", "1.2.0")
        .await
        .unwrap();
    assert_eq!(got.archive, "archive");
    assert_eq!(upstream.seen().len(), 0);
    // Another repository, of which the mirror has nothing.
    let other = helm_repository().await;
    client
        .chart(&url(&other.url("/stable")), "web", "1.2.0")
        .await
        .unwrap();
    assert_eq!(other.seen().len(), 2);
}

fn chart_manifest(config_type: &str, archives: usize) -> Vec<u8> {
    let layer = format!(
        r#"{{"mediaType":"{}","digest":"{}","size":7}}"#,
        media_type::HELM_CHART,
        Digest::sha256(b"archive")
    );
    let layers = vec![layer; archives].join(",");
    format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"{config_type}","digest":"{}","size":2}},"layers":[{layers}]}}"#,
        Digest::sha256(b"{}")
    )
    .into_bytes()
}

async fn chart_registry(manifest: Vec<u8>) -> Server {
    Server::start(move |seen| {
        let blob = |text: &str| format!("/blobs/{}", Digest::sha256(text));
        match seen.path.as_str() {
            path if path.ends_with("/manifests/1.2.0_up1") => {
                serve_manifest(&manifest, media_type::OCI_MANIFEST)
            }
            path if path.ends_with(&blob("archive")) => "archive".into_response(),
            path if path.ends_with(&blob("{}")) => "{}".into_response(),
            _ => status(404),
        }
    })
    .await
}

#[tokio::test]
async fn from_a_registry() {
    let manifest = chart_manifest(media_type::HELM_CONFIG, 1);
    let server = chart_registry(manifest.clone()).await;
    let repository = url(&format!("oci://{}/charts", server.host()));
    let client = client();
    let got = client.chart(&repository, "web", "1.2.0+up1").await.unwrap();
    assert_eq!(
        (&got.archive[..], got.version.as_str()),
        (&b"archive"[..], "1.2.0+up1")
    );
    assert_eq!(got.digest, Digest::sha256(b"archive"));
    let oci = got.oci.unwrap();
    assert_eq!(
        (&oci.manifest[..], &oci.config[..]),
        (&manifest[..], &b"{}"[..])
    );
    assert_eq!(oci.descriptor.digest, Digest::sha256(&manifest));
    assert_eq!(oci.reference, server.image("charts/web:1.2.0_up1"));

    let error = client.chart(&repository, "web", "2.0.0").await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().contains("web 2.0.0"), "{error}");
}

#[tokio::test]
async fn from_a_registry_through_a_mirror() {
    let server = chart_registry(chart_manifest(media_type::HELM_CONFIG, 1)).await;
    let (mut options, _) = options();
    options.mirror = Some(url(&server.url("/proxy")));
    let client = Client::new(options).unwrap();
    let repository = url("oci://registry.example.com:5000/charts");
    client.chart(&repository, "web", "1.2.0+up1").await.unwrap();
    let place = "/v2/proxy/registry.example.com_5000/charts/web/";
    assert_eq!(server.count(place), 3);
    let error = client.chart(&repository, "web", "2").await.unwrap_err();
    assert!(
        error.to_string().contains("registry.example.com:5000"),
        "{error}"
    );
}

#[tokio::test]
async fn what_is_no_chart() {
    for (manifest, word) in [
        (
            chart_manifest("application/vnd.oci.image.config.v1+json", 1),
            "no chart",
        ),
        (
            chart_manifest(media_type::HELM_CONFIG, 0),
            "no chart archive",
        ),
        (chart_manifest(media_type::HELM_CONFIG, 2), "more than one"),
    ] {
        let server = chart_registry(manifest).await;
        let repository = url(&format!("oci://{}", server.host()));
        let error = client()
            .chart(&repository, "web", "1.2.0+up1")
            .await
            .unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert!(matches!(error.fault(), Fault::Shape(_)));
        assert_eq!(error.kind(), Kind::Refused);
    }
}

/// An index as tools write it, of some megabytes.
fn long_index(charts: usize) -> String {
    use std::fmt::Write as _;
    let mut text = "apiVersion: v1\nentries:\n".to_owned();
    for chart in 0..charts {
        let _ = writeln!(text, "  chart-{chart}:");
        for version in 0..20 {
            let _ = writeln!(
                text,
                "  - apiVersion: v2\n    description: {}\n    name: chart-{chart}\n    urls:\n    - \
                 missing-{version}.tgz\n    - c-{version}.tgz\n    version: {version}.0.0",
                "x".repeat(200)
            );
        }
    }
    text
}

#[tokio::test]
async fn a_long_index_comes_packed_and_the_next_address_is_tried() {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(long_index(400).as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let server = Server::start(move |seen| match seen.path.as_str() {
        "/charts/index.yaml" => {
            assert_eq!(seen.header("accept-encoding"), "gzip");
            // cut once, and begun again
            let until = if seen.before == 0 { 10_000 } else { usize::MAX };
            let headers = [("content-encoding", "gzip")];
            (headers, crate::server::broken_body(&packed, until)).into_response()
        }
        "/charts/c-7.tgz" => "archive".into_response(),
        _ => status(404),
    })
    .await;
    let repository = server.url("/charts").parse().unwrap();
    let client = client();
    let chart = client
        .chart(&repository, "chart-399", "7.0.0")
        .await
        .unwrap();
    assert_eq!(chart.archive, "archive");
    assert_eq!(server.count("/charts/index.yaml"), 2);
    // another chart of the same repository needs no other look at the index
    let error = client
        .chart(&repository, "chart-1", "21.0.0")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert_eq!(server.count("/charts/index.yaml"), 2);
    let error = client
        .chart(&repository, "chart-1", "1.0.0.0")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no version"), "{error}");
}

#[tokio::test]
async fn an_index_that_looks_different_is_read_all_the_same() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/charts/index.yaml" => {
            r#"{"entries": {"web": [{"version": "1.0.0", "urls": ["web.tgz"]}]}}"#.into_response()
        }
        "/charts/web.tgz" => "archive".into_response(),
        _ => status(404),
    })
    .await;
    let repository = server.url("/charts").parse().unwrap();
    let chart = client().chart(&repository, "web", "1.0.0").await.unwrap();
    assert_eq!(chart.archive, "archive");
}

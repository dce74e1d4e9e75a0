//! TLS: the same bytes, certificates that change, clients that do not speak it, limits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubepkg_core::time::Time;
use kubepkg_mirror::serve::Limits;
use kubepkg_mirror::tls::{Own, Tls, TlsFiles};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::client::parse;
use super::fixture::Running;

const R: &str = "docker.io/library/x";

/// A CA and a certificate for `host` in a folder of their own.
fn own(folder: &Path, host: &str) -> Own {
    let own = Own::new(folder.to_owned(), [host]).unwrap();
    own.renew(Time::now()).unwrap();
    own
}

fn files(file: &Path) -> TlsFiles {
    TlsFiles {
        certificate: file.to_owned(),
        key: file.to_owned(),
        client_ca: None,
        ca: None,
    }
}

fn client(ca: &str, certificate: Option<&Path>, protocols: &[&str]) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(ca.as_bytes()).unwrap();
    roots.add(ca).unwrap();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).unwrap().collect();
            let key = PrivateKeyDer::from_pem_file(file).unwrap();
            builder.with_client_auth_cert(chain.unwrap(), key).unwrap()
        }
    };
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    Arc::new(config)
}

async fn connect(
    server: &Running,
    config: &Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("mirror.lan").unwrap();
    TlsConnector::from(Arc::clone(config))
        .connect(name, stream)
        .await
}

fn head(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: mirror.lan\r\nConnection: close\r\n\r\n").into_bytes()
}

async fn get(server: &Running, config: &Arc<ClientConfig>, target: &str) -> Vec<u8> {
    let mut stream = connect(server, config).await.unwrap();
    stream.write_all(&head(target)).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    answer
}

struct Secure {
    _folder: tempfile::TempDir,
    file: PathBuf,
    ca: String,
    tls: Arc<Tls>,
    server: Running,
}

async fn secure(limits: Limits) -> Secure {
    let folder = tempfile::tempdir().unwrap();
    let own = own(&folder.path().join("own"), "mirror.lan");
    let file = own.file();
    let tls = Arc::new(Tls::open(files(&file)).unwrap());
    let (server, _) = Running::on(1, Some(Arc::clone(&tls)), limits, |s| s).await;
    Secure {
        file,
        ca: own.ca_pem().unwrap(),
        tls,
        server,
        _folder: folder,
    }
}

#[tokio::test]
async fn the_same_bytes_come_encrypted_and_clients_come_back_quickly() {
    let site = secure(Limits::default()).await;
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let digest = site.server.store.blob_in(R, &bytes);
    let config = client(&site.ca, None, &["h2", "http/1.1"]);
    let target = format!("/v2/{R}/blobs/{digest}");
    assert!(parse(&get(&site.server, &config, &target).await).body == bytes);
    // a client that came before has a ticket
    let stream = connect(&site.server, &config).await.unwrap();
    let (_, session) = stream.get_ref();
    assert_eq!(session.handshake_kind(), Some(HandshakeKind::Resumed));
    assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn every_length_and_pace_gets_the_bytes_encrypted() {
    let site = secure(Limits::default()).await;
    let config = client(&site.ca, None, &[]);
    let mut slow = connect(&site.server, &config).await.unwrap();
    // around a record, what waits for a socket, and a read of a file
    for around in [0_usize, 16, 128, 256, 1024].map(|kib| kib * 1024) {
        for len in [around.max(1) - 1, around, around + 1, around + 4097] {
            let bytes: Vec<u8> = (0..len).map(|n| (n * 31 % 251) as u8).collect();
            let digest = site.server.store.blob_in(R, &bytes);
            let request = format!("GET /v2/{R}/blobs/{digest} HTTP/1.1\r\nHost: x\r\n\r\n");
            slow.write_all(request.as_bytes()).await.unwrap();
            let mut got = Vec::new();
            let end = loop {
                let mut piece = [0; 1000];
                let n = slow.read(&mut piece).await.unwrap();
                assert!(n > 0, "{len}");
                got.extend_from_slice(&piece[..n]);
                let head = got.windows(4).position(|w| w == b"\r\n\r\n");
                match head.map(|at| at + 4 + len) {
                    Some(all) if got.len() >= all => break all,
                    _ => {}
                }
            };
            assert!(got.len() == end && got.ends_with(&bytes), "{len}");
        }
    }
}

#[tokio::test]
async fn streams_of_http_2_come_encrypted_side_by_side() {
    let site = secure(Limits::default()).await;
    let bytes: Vec<u8> = (0..4_000_001_u32).map(|n| (n % 249) as u8).collect();
    let digest = site.server.store.blob_in(R, &bytes);
    let config = client(&site.ca, None, &["h2"]);
    let stream = connect(&site.server, &config).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (client, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let asked = (0..4).map(|_| {
        let uri = format!("https://mirror.lan/v2/{R}/blobs/{digest}");
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let (mut client, bytes) = (client.clone(), &bytes);
        async move {
            let answer = client.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            let body = axum::body::to_bytes(Body::new(answer.into_body()), usize::MAX);
            assert!(body.await.unwrap() == bytes);
        }
    });
    futures_util::future::join_all(asked).await;
}

#[tokio::test]
async fn a_new_certificate_disturbs_no_pull_and_a_broken_one_nobody() {
    let site = secure(Limits::default()).await;
    // more than sockets hold: it cannot be under way unread and already sent
    let bytes = vec![7; 32 * 1024 * 1024];
    let digest = site.server.store.blob_in(R, &bytes);
    let config = client(&site.ca, None, &[]);
    let mut pull = connect(&site.server, &config).await.unwrap();
    let target = format!("/v2/{R}/blobs/{digest}");
    pull.write_all(&head(&target)).await.unwrap();
    let mut first = [0; 1];
    pull.read_exact(&mut first).await.unwrap();

    std::fs::write(&site.file, "-----BEGIN CERTIFICATE-----\nhalf").unwrap();
    assert!(site.tls.reload().is_err());
    let fresh = || client(&site.ca, None, &[]);
    assert_eq!(
        parse(&get(&site.server, &fresh(), "/v2/").await).status,
        200
    );

    let folder = tempfile::tempdir().unwrap();
    let other = own(&folder.path().join("other"), "mirror.lan");
    std::fs::copy(other.file(), &site.file).unwrap();
    site.tls.reload().unwrap();
    assert!(
        connect(&site.server, &fresh()).await.is_err(),
        "the old CA vouches for it no more"
    );
    let new = client(&other.ca_pem().unwrap(), None, &[]);
    assert_eq!(parse(&get(&site.server, &new, "/v2/").await).status, 200);

    let mut answer = first.to_vec();
    pull.read_to_end(&mut answer).await.unwrap();
    assert!(parse(&answer).body == bytes);
}

#[tokio::test]
async fn who_does_not_speak_tls_is_told_so_and_who_says_nothing_is_closed() {
    let limits = Limits {
        handshake: Duration::from_millis(100),
        ..Limits::default()
    };
    let site = secure(limits).await;
    let mut plain = TcpStream::connect(site.server.address).await.unwrap();
    plain.write_all(&head("/v2/")).await.unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).await.unwrap();
    let answer = parse(&answer);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.code(), "UNSUPPORTED");

    for said in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01"] {
        let mut slow = TcpStream::connect(site.server.address).await.unwrap();
        slow.write_all(said).await.unwrap();
        let mut rest = Vec::new();
        // an alert may come first; then it ends
        let ended = slow.read_to_end(&mut rest).await;
        assert!(ended.is_err() || rest.len() < 64, "{rest:?}");
    }
    let fresh = client(&site.ca, None, &[]);
    assert_eq!(parse(&get(&site.server, &fresh, "/v2/").await).status, 200);
}

#[tokio::test]
async fn a_client_has_to_show_a_certificate_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server_own = own(&folder.path().join("server"), "mirror.lan");
    let clients = own(&folder.path().join("clients"), "node.lan");
    let strangers = own(&folder.path().join("strangers"), "node.lan");
    let ca = server_own.ca_pem().unwrap();
    let client_ca = Own::ca_file(&folder.path().join("clients"));
    let tls = Tls::own(server_own, Some(client_ca)).unwrap();
    let (server, _) = Running::on(1, Some(Arc::new(tls)), Limits::default(), |s| s).await;

    let asks = async |certificate: Option<&Path>| {
        let config = client(&ca, certificate, &[]);
        let mut stream = connect(&server, &config).await?;
        stream.write_all(&head("/v2/")).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    // made for servers, and this server looks at what it is for
    assert!(asks(Some(&clients.file())).await.is_err());
    assert!(asks(Some(&strangers.file())).await.is_err());
    assert!(asks(None).await.is_err());
    let node = node_certificate(&folder.path().join("clients"));
    let answer = asks(Some(&node)).await.unwrap();
    assert_eq!(parse(&answer).status, 200);
}

/// A certificate for a client, of the CA in this folder.
fn node_certificate(folder: &Path) -> PathBuf {
    use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};
    let ca = std::fs::read_to_string(folder.join("ca.key")).unwrap();
    let key = &ca[ca.find("-----BEGIN PRIVATE KEY").unwrap()..];
    let name = Own::new(folder.to_owned(), ["x"])
        .unwrap()
        .ca()
        .unwrap()
        .subject;
    let mut issuer = CertificateParams::new(Vec::new()).unwrap();
    issuer.distinguished_name = rcgen::DistinguishedName::new();
    let name = name.strip_prefix("CN=").unwrap();
    issuer
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    let issuer = Issuer::new(issuer, KeyPair::from_pem(key).unwrap());
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["node.lan".to_owned()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let file = folder.join("node.pem");
    std::fs::write(&file, certificate.pem() + &key.serialize_pem()).unwrap();
    file
}

#[tokio::test]
async fn several_addresses_are_served() {
    let (server, addresses) = Running::on(3, None, Limits::default(), |s| s).await;
    for address in addresses {
        let answer = super::client::send(address, "GET", "/v2/", &[]).await;
        assert_eq!(answer.status, 200);
    }
    server.stop().await;
}

#[tokio::test]
async fn every_answer_names_its_request() {
    let server = Running::start().await;
    let made = server.get("/v2/").await;
    assert!(!made.header("x-request-id").unwrap().is_empty());
    let given = server
        .send("GET", "/nothing", &[("X-Request-Id", "abc")])
        .await;
    assert_eq!(given.header("x-request-id"), Some("abc"));
}

#[tokio::test]
async fn readiness_tells_a_store_that_cannot_be_read() {
    let server = Running::start().await;
    for path in ["/livez", "/readyz"] {
        let got = server.get(path).await;
        assert_eq!(
            (got.status, got.json()["status"].clone()),
            (200, "ok".into())
        );
    }
    let broken = &server.store.broken;
    broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let got = server.get("/readyz").await;
    assert_eq!(got.status, 503);
    assert!(got.json()["reason"].as_str().unwrap().contains("read"));
    assert_eq!(server.get("/livez").await.status, 200);
}

#[tokio::test]
async fn more_connections_than_there_may_be_are_closed_without_plain_words() {
    let limits = Limits {
        connections: 1,
        ..Limits::default()
    };
    let site = secure(limits).await;
    let config = client(&site.ca, None, &[]);
    let _one = connect(&site.server, &config).await.unwrap();
    let mut second = TcpStream::connect(site.server.address).await.unwrap();
    let mut said = Vec::new();
    // closed in one way or the other
    let _ = second.read_to_end(&mut said).await;
    assert!(said.is_empty(), "{said:?}");
}

//! How content gets from files to clients of every pace: byte for byte, whatever way it takes.

use axum::body::Body;
use http::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubepkg_core::Digest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::client::parse;
use super::fixture::Running;

const R: &str = "docker.io/library/x";

/// No byte of it is 0, as those of memory nobody wrote are, and no page is like another.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8 + 1).collect()
}

fn blob(digest: &Digest) -> String {
    format!("/v2/{R}/blobs/{digest}")
}

/// A connection whose buffers hold little, to both sides.
async fn narrow(server: &Running) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(server.address).await.unwrap()
}

async fn ask(stream: &mut TcpStream, target: &str, lines: &str) {
    let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
}

async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test]
async fn every_length_arrives_as_it_is() {
    let server = Running::start().await;
    // around what is copied, what is handed over at once, and several times that
    for around in [0, 16, 32, 64, 256, 512, 1024, 2560].map(|kib| kib * 1024) {
        for len in [around.max(1) - 1, around, around + 1, around + 4097] {
            let bytes = pattern(len);
            let digest = server.store.blob_in(R, &bytes);
            let got = server.get(&blob(&digest)).await;
            assert!(got.status == 200 && got.body == bytes, "{len}");
        }
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_every_byte() {
    let server = Running::start().await;
    let bytes = pattern(3 * 1024 * 1024 + 5);
    let digest = server.store.blob_in(R, &bytes);
    let mut stream = narrow(&server).await;
    ask(&mut stream, &blob(&digest), "Connection: close\r\n").await;
    let mut got = Vec::new();
    let mut piece = [0; 1500];
    loop {
        // others get their turn between any two reads
        tokio::task::yield_now().await;
        match stream.read(&mut piece).await.unwrap() {
            0 => break,
            n => got.extend_from_slice(&piece[..n]),
        }
    }
    assert!(parse(&got).body == bytes);
}

#[tokio::test]
async fn clients_that_never_read_hold_up_nobody() {
    let server = Running::start().await;
    let bytes = pattern(8 * 1024 * 1024);
    let digest = server.store.blob_in(R, &bytes);
    let mut stalled = Vec::new();
    for _ in 0..50 {
        let mut stream = narrow(&server).await;
        ask(&mut stream, &blob(&digest), "").await;
        stalled.push(stream);
    }
    assert!(server.get(&blob(&digest)).await.body == bytes);
    // they were not forgotten
    let mut late = stalled.pop().unwrap();
    let mut got = vec![0; bytes.len()];
    late.read_exact(&mut got).await.unwrap();
    assert!(got.windows(1000).any(|window| window == &bytes[..1000]));
}

#[tokio::test]
async fn a_client_that_leaves_midway_takes_nobody_with_it() {
    let server = Running::start().await;
    let bytes = pattern(4 * 1024 * 1024);
    let digest = server.store.blob_in(R, &bytes);
    for taken in [1, 1000, 600_000, 2_000_000] {
        let mut stream = narrow(&server).await;
        ask(&mut stream, &blob(&digest), "").await;
        stream.read_exact(&mut vec![0; taken]).await.unwrap();
        // with unread bytes: the server sees a reset
        drop(stream);
        assert!(server.get(&blob(&digest)).await.body == bytes);
    }
    server.stop().await;
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_order() {
    let server = Running::start().await;
    let large = pattern(1024 * 1024 + 3);
    let middle = pattern(100_001);
    let digests = [&large[..], &middle, b"small", b""].map(|b| server.store.blob_in(R, b));
    let mut stream = narrow(&server).await;
    let order = [0, 2, 1, 0, 3, 1, 1, 2, 0];
    for at in order {
        ask(&mut stream, &blob(&digests[at]), "").await;
    }
    let last = "Range: bytes=70000-900000\r\nConnection: close\r\n";
    ask(&mut stream, &blob(&digests[0]), last).await;
    let mut got = &rest(&mut stream).await[..];
    let wanted = order.map(|at| [&large[..], &middle, b"small", b""][at]);
    for want in wanted.into_iter().chain([&large[70_000..=900_000]]) {
        let head = got.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let length = parse(&got[..head]);
        assert_eq!(
            length.header("content-length"),
            Some(want.len().to_string().as_str())
        );
        assert!(&got[head..head + want.len()] == want);
        got = &got[head + want.len()..];
    }
    assert!(got.is_empty());
}

#[tokio::test]
async fn ranges_begin_and_end_where_they_were_asked() {
    let server = Running::start().await;
    let bytes = pattern(2 * 1024 * 1024 + 77);
    let digest = server.store.blob_in(R, &bytes);
    for (first, last) in [
        (0, 2_097_228),
        (1, 2_097_228),
        (65_537, 1_900_001),
        (2_000_000, 2_097_228),
        (524_287, 524_288),
    ] {
        let range = format!("bytes={first}-{last}");
        let got = server
            .send("GET", &blob(&digest), &[("Range", &range)])
            .await;
        assert_eq!(got.status, 206);
        assert!(got.body == bytes[first..=last], "{range}");
    }
}

#[tokio::test]
async fn parts_large_and_small_stand_between_their_boundaries() {
    let server = Running::start().await;
    let bytes = pattern(4 * 1024 * 1024);
    let digest = server.store.blob_in(R, &bytes);
    let spans = [
        (0, 99),
        (1000, 1_200_000),
        (1_300_000, 1_400_000),
        (1_400_001, 1_440_000),
        (1_500_000, 1_500_000),
        (2_000_000, 4_194_303),
    ];
    let specs: Vec<String> = spans.iter().map(|(a, b)| format!("{a}-{b}")).collect();
    let range = format!("Range: bytes={}\r\nConnection: close\r\n", specs.join(","));
    let mut stream = narrow(&server).await;
    ask(&mut stream, &blob(&digest), &range).await;
    let got = parse(&rest(&mut stream).await);
    let (_, boundary) = got.header("content-type").unwrap().split_once('=').unwrap();
    let mut want = Vec::new();
    for (first, last) in spans {
        let line = if want.is_empty() { "" } else { "\r\n" };
        let head = format!(
            "{line}--{boundary}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: bytes {first}-{last}/4194304\r\n\r\n"
        );
        want.extend_from_slice(head.as_bytes());
        want.extend_from_slice(&bytes[first..=last]);
    }
    want.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert!(got.body == want);
}

#[tokio::test]
async fn a_file_that_ends_early_ends_the_connection() {
    let server = Running::start().await;
    let bytes = pattern(3 * 1024 * 1024);
    for cut in [0, 1000, 600_000, 2_500_000] {
        let digest = server.store.blob_in(R, &bytes);
        server.store.cut(&digest, cut);
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        ask(&mut stream, &blob(&digest), "").await;
        let mut got = Vec::new();
        // the connection ends, and what came before is the file and nothing else
        let _ = stream.read_to_end(&mut got).await;
        let Some(head) = got.windows(4).position(|w| w == b"\r\n\r\n") else {
            continue;
        };
        let body = &got[head + 4..];
        assert!(body.len() as u64 <= cut && body == &bytes[..body.len()]);
    }
    // cut while it is being sent, and the socket is full
    let digest = server.store.blob_in(R, &pattern(16 * 1024 * 1024));
    let mut stream = narrow(&server).await;
    ask(&mut stream, &blob(&digest), "").await;
    stream.read_exact(&mut [0; 1]).await.unwrap();
    server.store.cut(&digest, 12 * 1024 * 1024);
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got).await;
    assert!(got.len() <= 12 * 1024 * 1024 + 1000);
    assert!(got[got.len() / 2..].iter().all(|byte| *byte != 0));
}

#[tokio::test]
async fn http_2_gets_the_same_bytes_on_streams_side_by_side() {
    let server = Running::start().await;
    let large = pattern(5 * 1024 * 1024 + 1);
    let small = pattern(100);
    let (a, b) = (
        server.store.blob_in(R, &large),
        server.store.blob_in(R, &small),
    );
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (client, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let asked = [(&a, &large), (&b, &small), (&a, &large), (&b, &small)].map(|(digest, want)| {
        let uri = format!("http://{}{}", server.address, blob(digest));
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let mut client = client.clone();
        async move {
            let answer = client.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            let body = axum::body::to_bytes(Body::new(answer.into_body()), usize::MAX);
            assert!(body.await.unwrap() == want);
        }
    });
    futures_util::future::join_all(asked).await;
}

#[tokio::test]
async fn http_1_0_gets_the_same_bytes() {
    let server = Running::start().await;
    let bytes = pattern(1024 * 1024 + 1);
    let digest = server.store.blob_in(R, &bytes);
    let mut stream = narrow(&server).await;
    let head = format!("GET {} HTTP/1.0\r\n\r\n", blob(&digest));
    stream.write_all(head.as_bytes()).await.unwrap();
    let got = parse(&rest(&mut stream).await);
    assert!(got.status == 200 && got.body == bytes);
}

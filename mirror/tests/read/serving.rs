//! The server itself: start, end, idle connections, broken stores, further routes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::routing::get;
use http::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kubepkg_mirror::http::Server;
use kubepkg_mirror::serve::{Limits, Peer, ServeError, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::client::parse;
use super::fixture::{Memory, Running};

const R: &str = "docker.io/library/x";

async fn request(server: &Running, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn healthz_says_what_this_is() {
    let server = Running::start().await;
    let got = server.get("/healthz").await;
    assert_eq!(got.status, 200);
    assert_eq!(got.json()["service"], "kubepkg-mirror");
    assert_eq!(got.json()["status"], "ok");
    server.store.broken.store(true, Ordering::SeqCst);
    let got = server.get("/healthz").await;
    assert_eq!(
        (got.status, got.json()["status"].clone()),
        (503, "failing".into())
    );
    // what a client sees of a broken store names no path of this machine
    let got = server.get("/v2/a/tags/list").await;
    assert_eq!((got.status, got.code().as_str()), (500, "UNKNOWN"));
    assert_eq!(server.get("/v2/").await.status, 200);
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_said_at_start() {
    let store = Arc::new(Memory::default());
    store.broken.store(true, Ordering::SeqCst);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let served = serve(listener, Server::new(store), std::future::pending()).await;
    assert!(matches!(served, Err(ServeError::Store(_))));
}

#[tokio::test]
async fn further_routes_stand_beside_the_registry() {
    let routes = Router::new().route("/node-config/{kind}", get(|| async { "settings" }));
    let server = Running::with(Limits::default(), |s| s.routes(routes)).await;
    assert_eq!(server.get("/node-config/talos").await.body, b"settings");
    assert_eq!(server.get("/v2/").await.status, 200);
    for absent in ["//", "/node-config", "/favicon.ico"] {
        assert_eq!(server.get(absent).await.status, 404, "{absent}");
    }
}

#[tokio::test]
async fn one_connection_answers_many_requests() {
    let server = Running::start().await;
    let mut stream = request(&server, "/v2/").await;
    for _ in 0..3 {
        let mut bytes = vec![0; 4096];
        let mut filled = 0;
        while !bytes[..filled].ends_with(b"{}") {
            filled += stream.read(&mut bytes[filled..]).await.unwrap();
        }
        assert_eq!(parse(&bytes[..filled]).status, 200);
        let again = b"GET /v2/ HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(again).await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_under_way_ends_before_the_server_does() {
    let server = Running::start().await;
    // more than sockets hold: it cannot be under way unread and already sent
    let bytes = vec![7; 32 * 1024 * 1024];
    let digest = server.store.blob_in(R, &bytes);
    let mut stream = request(&server, &format!("/v2/{R}/blobs/{digest}")).await;
    let mut first = [0; 1];
    stream.read_exact(&mut first).await.unwrap();
    let task = server.ask_to_stop();
    let mut rest = first.to_vec();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(parse(&rest).body == bytes);
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_answer_nobody_reads_does_not_hold_up_the_end() {
    let limits = Limits {
        drain: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = Running::with(limits, |s| s).await;
    let digest = server.store.blob_in(R, &vec![7; 32 * 1024 * 1024]);
    let mut stream = request(&server, &format!("/v2/{R}/blobs/{digest}")).await;
    stream.read_exact(&mut [0; 1]).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn idle_connections_are_closed_whether_waiting_or_not_reading() {
    let limits = Limits {
        idle: Duration::from_millis(100),
        ..Limits::default()
    };
    let server = Running::with(limits, |s| s).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert!(matches!(silent.read(&mut [0; 1]).await, Ok(0) | Err(_)));

    let bytes = vec![7; 32 * 1024 * 1024];
    let digest = server.store.blob_in(R, &bytes);
    let mut stalled = request(&server, &format!("/v2/{R}/blobs/{digest}")).await;
    // dropped by the server's timer alone: the end of serving is not waited for by draining
    stalled.read_exact(&mut [0; 1]).await.unwrap();
    server.stop().await;
    let mut rest = Vec::new();
    let read = stalled.read_to_end(&mut rest).await;
    assert!(read.is_err() || rest.len() < bytes.len());
}

#[tokio::test]
async fn a_connection_kept_after_its_answer_ends_when_nothing_moves() {
    let limits = Limits {
        idle: Duration::from_millis(100),
        ..Limits::default()
    };
    let server = Running::with(limits, |s| s).await;
    let mut kept = request(&server, "/v2/").await;
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(60), kept.read_to_end(&mut answer));
    // the server closes it; how it says so does not matter
    let _ = ended.await.expect("the connection is kept for ever");
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    server.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_told_to_come_again() {
    let limits = Limits {
        connections: 1,
        ..Limits::default()
    };
    let server = Running::with(limits, |s| s).await;
    let mut held = request(&server, "/v2/").await;
    held.read_exact(&mut [0; 1]).await.unwrap();
    let refused = server.get("/v2/").await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.code(), "TOOMANYREQUESTS");
    assert!(refused.header("retry-after").is_some());
    drop(held);
    // until the server has seen that the place is free
    let answers = async { while server.get("/v2/").await.status != 200 {} };
    let answered = tokio::time::timeout(Duration::from_secs(60), answers).await;
    assert!(answered.is_ok(), "the place never becomes free");
}

#[tokio::test]
async fn connections_on_which_nothing_is_asked_make_way_for_others() {
    let limits = Limits {
        connections: 2,
        yields: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = Running::with(limits, |s| s).await;
    let bytes = vec![7; 32 * 1024 * 1024];
    let digest = server.store.blob_in(R, &bytes);
    let mut busy = request(&server, &format!("/v2/{R}/blobs/{digest}")).await;
    busy.read_exact(&mut [0; 1]).await.unwrap();
    let mut quiet = request(&server, "/v2/").await;
    let mut answer = Vec::new();
    while !answer.ends_with(b"{}") {
        quiet.read_buf(&mut answer).await.unwrap();
    }
    // it may not have been quiet for long enough when it is wanted first
    let answers = async { while server.get("/v2/").await.status != 200 {} };
    let answered = tokio::time::timeout(Duration::from_secs(60), answers).await;
    assert!(answered.is_ok(), "nobody makes way");
    assert!(matches!(quiet.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    // who is being answered keeps its place
    let mut got = vec![0; bytes.len()];
    busy.read_exact(&mut got).await.unwrap();
}

#[tokio::test]
async fn clients_that_leave_early_leave_the_server_well() {
    let server = Running::start().await;
    let digest = server.store.blob_in(R, &vec![7; 8 * 1024 * 1024]);
    for _ in 0..20 {
        let mut stream = request(&server, &format!("/v2/{R}/blobs/{digest}")).await;
        stream.read_exact(&mut [0; 1]).await.unwrap();
    }
    assert_eq!(server.get("/v2/").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_request_knows_where_it_came_from() {
    let who = get(|Extension(Peer(peer)): Extension<Peer>| async move { peer.ip().to_string() });
    let routes = Router::new().route("/who", who);
    let server = Running::with(Limits::default(), |s| s.routes(routes)).await;
    assert_eq!(server.get("/who").await.body, b"127.0.0.1");
}

#[tokio::test]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let limits = Limits {
        head: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = Running::with(limits, |s| s).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"GET /v2/ HTTP/1.1\r\nHost:").await.unwrap();
    assert!(matches!(slow.read(&mut [0; 1]).await, Ok(0) | Err(_)));

    // an answer may take longer than that, and so may the time between two requests
    let bytes = vec![7; 32 * 1024 * 1024];
    let digest = server.store.blob_in(R, &bytes);
    let mut stream = request(&server, &format!("/v2/{R}/blobs/{digest}")).await;
    let mut taken = vec![0; 1 << 20];
    stream.read_exact(&mut taken).await.unwrap();
    let mut waiting = request(&server, "/v2/").await;
    let mut answered = Vec::new();
    while !answered.ends_with(b"{}") {
        waiting.read_buf(&mut answered).await.unwrap();
    }
    let closed = tokio::time::timeout(4 * limits.head, waiting.read(&mut [0; 1])).await;
    assert!(closed.is_err(), "{closed:?}");
    let mut rest = Vec::new();
    let again = b"GET /v2/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(again).await.unwrap();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() > bytes.len() - taken.len() && rest.ends_with(b"{}"));
}

#[tokio::test]
async fn a_client_of_http_2_keeps_no_place_with_pings() {
    let limits = Limits {
        idle: Duration::from_millis(400),
        ..Limits::default()
    };
    let server = Running::with(limits, |s| s).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut client, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_millis(50))
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let ask = || {
        let uri = format!("http://{}/v2/", server.address);
        Request::get(uri).body(Body::empty()).unwrap()
    };
    // as long as something is asked now and then it stays
    let mut asking = tokio::time::interval(limits.idle / 4);
    for _ in 0..12 {
        asking.tick().await;
        let answer = client.send_request(ask()).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    let ended = tokio::time::timeout(Duration::from_secs(60), connection).await;
    assert!(ended.is_ok(), "pings keep a connection for ever");
    server.stop().await;
}

#[tokio::test]
async fn a_head_too_long_for_any_client_is_refused() {
    let server = Running::start().await;
    let head = |len| {
        let long = "a".repeat(len);
        format!("GET /v2/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: {long}\r\n\r\n")
    };
    for (len, taken) in [(50_000, true), (300_000, false)] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // it may be refused, with 431, before all of it was sent; the answer may then be lost
        let _ = stream.write_all(head(len).as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(answer.starts_with(b"HTTP/1.1 200 "), taken, "{len}");
    }
}

//! Slow lines and silent ones, on a clock that jumps to the next moment anybody waits for.

use std::time::Duration;

use kubepkg_core::Reference;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_remote::{Client, Fault};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::server::{manifest, options};

/// Takes connections one after the other and reads a request from each.
struct Listener(TcpListener);

impl Listener {
    async fn new() -> (Listener, Reference) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let image = format!("{}/a:1", listener.local_addr().unwrap());
        (Listener(listener), image.parse().unwrap())
    }

    async fn request(&self) -> (TcpStream, String) {
        let (mut stream, _) = self.0.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        (stream, String::from_utf8(head).unwrap())
    }
}

fn client() -> Client {
    let (options, _) = options();
    Client::new(options).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_slow_line_is_no_error() {
    let (bytes, _) = manifest("slow");
    let (listener, image) = Listener::new().await;
    let body = bytes.clone();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.request().await;
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        for byte in body {
            sleep(Duration::from_secs(20)).await;
            stream.write_all(&[byte]).await.unwrap();
        }
    });
    let began = Instant::now();
    let got = client().registry().manifest(&image).await.unwrap();
    assert_eq!(got.bytes, bytes);
    assert!(
        began.elapsed() > Duration::from_secs(3600),
        "{:?}",
        began.elapsed()
    );
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_left() {
    let (listener, image) = Listener::new().await;
    let (asked, mut asks) = mpsc::unbounded_channel();
    let server = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(listener.request().await);
            asked.send(()).unwrap();
        }
    });
    let began = Instant::now();
    let error = client().registry().manifest(&image).await.unwrap_err();
    assert!(matches!(error.fault(), Fault::Network(_)), "{error:?}");
    assert_eq!((error.kind(), error.retry()), (Kind::Remote, true));
    let mut requests = 0;
    while asks.try_recv().is_ok() {
        requests += 1;
    }
    assert_eq!(requests, 5);
    let (least, most) = (Duration::from_secs(5 * 60), Duration::from_secs(5 * 80));
    assert!(
        began.elapsed() >= least && began.elapsed() < most,
        "{:?}",
        began.elapsed()
    );
    server.abort();
}

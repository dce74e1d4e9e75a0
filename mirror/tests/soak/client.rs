//! A client that keeps its connection, as clients that push do.

use std::net::SocketAddr;

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Bytes,
}

/// One connection.
pub struct Client {
    host: String,
    sender: SendRequest<Body>,
}

impl Client {
    pub async fn connect(to: SocketAddr) -> Client {
        let stream = TcpStream::connect(to).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Client {
            host: to.to_string(),
            sender,
        }
    }

    pub async fn send(&mut self, method: &str, target: &str, kind: &str, body: Bytes) -> Answer {
        let request = http::Request::builder()
            .method(method)
            .uri(target)
            .header("host", &self.host)
            .header("content-type", kind)
            .header("content-length", body.len())
            .body(Body::from(body))
            .unwrap();
        self.sender.ready().await.unwrap();
        let answer = self.sender.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = to_bytes(Body::new(answer.into_body()), 1 << 20).await;
        Answer {
            status,
            body: body.unwrap(),
        }
    }
}

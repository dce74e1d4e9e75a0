//! A client that sends one request per connection and hides nothing of the answer.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} twice");
        value
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The code of an error answer, whose form is checked.
    pub fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"));
        let error = &self.json()["errors"][0];
        assert!(!error["message"].as_str().unwrap().is_empty());
        error["code"].as_str().unwrap().to_owned()
    }

    /// Headers without the ones that name the moment or the request.
    pub fn lasting_headers(&self) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        headers.retain(|(key, _)| key != "date" && key != "x-request-id");
        headers.sort();
        headers
    }
}

/// Sends a request and reads the answer to the end of the connection.
pub async fn send(to: SocketAddr, method: &str, target: &str, lines: &[(&str, &str)]) -> Answer {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let host = match lines.iter().any(|(key, _)| *key == "Host") {
        true => String::new(),
        false => format!("Host: {to}\r\n"),
    };
    let lines: String = lines.iter().map(|(k, v)| format!("{k}: {v}\r\n")).collect();
    let request = format!("{method} {target} HTTP/1.1\r\n{host}Connection: close\r\n{lines}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let answer = parse(&bytes);
    assert_eq!(answer.header("transfer-encoding"), None, "{target}");
    if method == "HEAD" || answer.status == 304 {
        assert!(answer.body.is_empty(), "{method} {target}");
    } else {
        let length = answer.header("content-length").unwrap();
        assert_eq!(length, answer.body.len().to_string(), "{method} {target}");
    }
    answer
}

pub fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let header = |line: &str| {
        let (key, value) = line.split_once(':').unwrap();
        (key.to_ascii_lowercase(), value.trim().to_owned())
    };
    Answer {
        status: status.parse().unwrap(),
        headers: lines.map(header).collect(),
        body: bytes[end + 4..].to_vec(),
    }
}

//! usage: slow-line LISTEN SERVER MILLISECONDS
//!
//! A slow line to an HTTP server, for `benches/create`: hands every request on so many
//! milliseconds late, and counts requests by what they ask for. `GET /-/counts` gives the counts,
//! a line `kind number` each, and how many were under way at once, and begins anew.
//!
//! Plain HTTP/1.1 from clients that wait for an answer before they ask again on a connection, as
//! all do that are measured. Every connection has its own to the server, and answers pass as they
//! are, so that little of the processor goes into this.
#![expect(clippy::print_stderr, reason = "a command of its own")]

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Longest head of a request; ours have some hundred bytes.
const MAX_HEAD: u64 = 64 << 10;

/// What is read and written at once.
const PIECE: usize = 256 << 10;

/// Where counts are asked for.
const COUNTS: &str = "/-/counts";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, server, late] = &arguments[..] else {
        eprintln!("usage: slow-line LISTEN SERVER MILLISECONDS");
        return ExitCode::from(2);
    };
    let Ok(late) = late.parse().map(Duration::from_millis) else {
        eprintln!("{late} is no number of milliseconds");
        return ExitCode::from(2);
    };
    let listener = match TcpListener::bind(listen) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("{listen}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let counts = Arc::new(Counts::default());
    for client in listener.incoming().flatten() {
        let (server, counts) = (server.clone(), Arc::clone(&counts));
        thread::spawn(move || {
            // A client that leaves in the middle is none of our business.
            let served = serve(&client, &server, late, &counts);
            // Clients that try TLS first are told that this is none, in the way they know.
            if served.is_err_and(|error| error.kind() == io::ErrorKind::InvalidData) {
                let _ =
                    (&client).write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
            }
            let _ = client.shutdown(Shutdown::Both);
        });
    }
    ExitCode::SUCCESS
}

/// Requests by kind.
#[derive(Default)]
struct Counts {
    kinds: Mutex<BTreeMap<&'static str, u64>>,
    /// Requests that are being held up, and the most there were.
    held: AtomicU64,
    most: AtomicU64,
}

impl Counts {
    fn all(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request and holds it up.
    fn hold(&self, kind: &'static str, late: Duration) {
        *self.all().entry(kind).or_default() += 1;
        let now = self.held.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        thread::sleep(late);
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// The counts so far, which begin anew.
    fn take(&self) -> String {
        let kinds = std::mem::take(&mut *self.all());
        let most = self.most.swap(0, Ordering::Relaxed);
        let lines = kinds.iter().map(|(kind, n)| format!("{kind} {n}\n"));
        lines.chain([format!("at-once {most}\n")]).collect()
    }
}

/// All requests of one connection.
fn serve(client: &TcpStream, server: &str, late: Duration, counts: &Counts) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut requests = BufReader::new(client);
    let mut upstream: Option<TcpStream> = None;
    while let Some(head) = Head::read(&mut requests)? {
        if head.path() == COUNTS {
            let body = counts.take();
            let mut answer = client;
            write!(
                answer,
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )?;
            continue;
        }
        counts.hold(kind(head.method(), head.path()), late);
        let connection = match &mut upstream {
            Some(connection) => connection,
            None => {
                let connection = TcpStream::connect(server)?;
                connection.set_nodelay(true)?;
                let (from, to) = (connection.try_clone()?, client.try_clone()?);
                // Ends when either side does.
                thread::spawn(move || {
                    let _ = pass(&from, &to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                upstream.insert(connection)
            }
        };
        connection.write_all(&head.bytes)?;
        io::copy(&mut requests.by_ref().take(head.body()), connection)?;
    }
    if let Some(connection) = upstream {
        connection.shutdown(Shutdown::Both)?;
    }
    Ok(())
}

fn pass(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            n => to.write_all(&piece[..n])?,
        }
    }
}

/// A request up to its body, as it came.
struct Head {
    bytes: Vec<u8>,
}

impl Head {
    /// The next one; `None` when the client is done.
    fn read(requests: &mut impl BufRead) -> io::Result<Option<Head>> {
        // TLS begins with another byte.
        let first = requests.fill_buf()?.first();
        if first.is_some_and(|byte| !byte.is_ascii_uppercase()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = Vec::new();
        loop {
            let left = MAX_HEAD.saturating_sub(bytes.len() as u64);
            let line = requests.by_ref().take(left).read_until(b'\n', &mut bytes)?;
            match line {
                0 if bytes.is_empty() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                2 if bytes.ends_with(b"\r\n\r\n") => return Ok(Some(Head { bytes })),
                _ => {}
            }
        }
    }

    fn word(&self, place: usize) -> &str {
        let line = self.bytes.split(|byte| *byte == b'\r').next();
        let line = std::str::from_utf8(line.unwrap_or_default());
        line.unwrap_or_default()
            .split(' ')
            .nth(place)
            .unwrap_or_default()
    }

    fn method(&self) -> &str {
        self.word(0)
    }

    /// Without a query.
    fn path(&self) -> &str {
        self.word(1).split('?').next().unwrap_or_default()
    }

    /// Bytes that follow.
    fn body(&self) -> u64 {
        let text = String::from_utf8_lossy(&self.bytes);
        let lengths = text.lines().filter_map(|line| line.split_once(':'));
        lengths
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .find_map(|(_, length)| length.trim().parse().ok())
            .unwrap_or(0)
    }
}

/// What a request asks for.
fn kind(method: &str, path: &str) -> &'static str {
    let head = method == "HEAD";
    let tag = path.rsplit('/').next().unwrap_or_default();
    let attached = tag
        .strip_prefix("sha256-")
        .is_some_and(|rest| rest.len() >= 64);
    match path {
        "/v2/" | "/v2" => "front-door",
        _ if path.contains("/referrers/") => "referrers",
        _ if path.contains("/manifests/") && attached && tag.contains('.') => "signature-tag",
        _ if path.contains("/manifests/") && attached => "referrers-tag",
        _ if path.contains("/manifests/") && head => "manifest-head",
        _ if path.contains("/manifests/") => "manifest",
        _ if path.contains("/blobs/") && head => "blob-head",
        _ if path.contains("/blobs/") => "blob",
        _ if path.ends_with("/tags/list") => "tags",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_one_by_one_with_their_bodies_between() {
        let mut text =
            &b"POST /v2/a/x?b=c HTTP/1.1\r\nContent-Length: 2\r\n\r\nokGET /v2/ HTTP/1.1\r\n\r\n"[..];
        let first = Head::read(&mut text).unwrap().unwrap();
        assert_eq!(
            (first.method(), first.path(), first.body()),
            ("POST", "/v2/a/x", 2)
        );
        text = &text[2..];
        let second = Head::read(&mut text).unwrap().unwrap();
        assert_eq!(
            (second.method(), second.path(), second.body()),
            ("GET", "/v2/", 0)
        );
        assert!(Head::read(&mut text).unwrap().is_none());
        assert!(Head::read(&mut &b"GET / HTTP/1.1\r\n"[..]).is_err());
        assert!(Head::read(&mut &b"\x16\x03\x01"[..]).is_err());
    }

    #[test]
    fn what_is_asked_for() {
        let hex = "a".repeat(64);
        for (method, path, want) in [
            ("GET", "/v2/".to_owned(), "front-door"),
            ("GET", format!("/v2/a/manifests/sha256:{hex}"), "manifest"),
            ("HEAD", "/v2/a/manifests/v1".to_owned(), "manifest-head"),
            (
                "HEAD",
                format!("/v2/a/manifests/sha256-{hex}.sig"),
                "signature-tag",
            ),
            (
                "GET",
                format!("/v2/a/manifests/sha256-{hex}"),
                "referrers-tag",
            ),
            ("GET", format!("/v2/a/referrers/sha256:{hex}"), "referrers"),
            ("GET", format!("/v2/a/blobs/sha256:{hex}"), "blob"),
            ("GET", "/v2/a/tags/list".to_owned(), "tags"),
        ] {
            assert_eq!(kind(method, &path), want, "{method} {path}");
        }
    }
}

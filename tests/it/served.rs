//! A running `mirror serve`, and a client of it that hides nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};

use crate::command::Scratch;

/// Longest wait for a line or an answer; only a test that fails waits as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command in the background whose stderr is read line by line. Ends with the test.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts the command.
    pub fn start(scratch: &Scratch, arguments: &[&str]) -> Running {
        let mut command = scratch.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // who no longer listens has what was wanted
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Running { child, lines }
    }

    /// The next line that holds `part`.
    pub fn line(&self, part: &str) -> String {
        let mut passed = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => passed.push(line),
                Err(_) => panic!("no {part:?} in {passed:#?}"),
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end. Gives the exit code (`None`: ended by a signal) and the lines not
    /// yet read.
    pub fn end(mut self) -> (Option<i32>, Vec<String>) {
        let code = self.child.wait().unwrap().code();
        (code, self.lines.iter().collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `mirror serve` on a free port of loopback.
pub struct Mirror {
    pub process: Running,
    pub host: String,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Mirror {
    /// Serves `store` of the scratch folder.
    pub fn start(scratch: &Scratch, store: &str) -> Mirror {
        Mirror::start_with(scratch, store, &[])
    }

    /// With more flags.
    pub fn start_with(scratch: &Scratch, store: &str, more: &[&str]) -> Mirror {
        let call = ["mirror", "serve", "--store", store, "--listen"];
        let process = Running::start(scratch, &[&call[..], &["127.0.0.1:0"], more].concat());
        Mirror::of(process)
    }

    /// Started by other arguments.
    pub fn of(process: Running) -> Mirror {
        let line = process.line("serving ");
        let (_, host) = line.split_once("://").unwrap();
        let host = host.split(' ').next().unwrap().to_owned();
        Mirror { process, host }
    }

    /// `http://host`, then `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }

    pub fn get(&self, path: &str) -> Answer {
        get(&self.host, path)
    }

    /// The body of an answer that must be 200.
    #[track_caller]
    pub fn body(&self, path: &str) -> Vec<u8> {
        let answer = self.get(path);
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 200, "{path}: {text}");
        answer.body
    }

    /// The JSON of an answer that must be 200.
    #[track_caller]
    pub fn json(&self, path: &str) -> serde_json::Value {
        serde_json::from_slice(&self.body(path)).unwrap()
    }

    /// Ends it as Ctrl-C does; gives its exit code and last lines.
    pub fn stop(self) -> (Option<i32>, Vec<String>) {
        self.process.signal(Signal::INT);
        self.process.end()
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key == name);
        found.next().map(|(_, value)| value.as_str())
    }
}

/// Asks for `path` on a connection of its own.
pub fn get(host: &str, path: &str) -> Answer {
    let answer = send(host, "GET", path, "", b"");
    let length = answer.header("content-length").unwrap();
    assert_eq!(length, answer.body.len().to_string(), "{path} was cut");
    answer
}

/// Sends a request on a connection of its own.
pub fn send(host: &str, method: &str, path: &str, media_type: &str, body: &[u8]) -> Answer {
    send_as(host, "", method, path, media_type, body)
}

/// The same with a login, `name:password`.
pub fn send_as(
    host: &str,
    login: &str,
    method: &str,
    path: &str,
    media_type: &str,
    body: &[u8],
) -> Answer {
    let mut lines = String::new();
    if !media_type.is_empty() {
        let length = body.len();
        lines.push_str(&format!(
            "Content-Type: {media_type}\r\nContent-Length: {length}\r\n"
        ));
    }
    if !login.is_empty() {
        let login = STANDARD.encode(login);
        lines.push_str(&format!("Authorization: Basic {login}\r\n"));
    }
    exchange(host, method, path, &lines, body)
}

/// A request without a body, with these lines of a head.
pub fn send_with(host: &str, lines: &str, method: &str, path: &str) -> Answer {
    exchange(host, method, path, lines, b"")
}

fn exchange(host: &str, method: &str, path: &str, lines: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    parse(&bytes)
}

/// An answer as it came.
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

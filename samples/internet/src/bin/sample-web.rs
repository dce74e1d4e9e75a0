//! A small web server: the files of one folder over HTTP/1.1, for GET and HEAD.
//!
//! `sample-web FOLDER ADDRESS:PORT` serves until it is killed. It is what runs in the sample's
//! web image, so it needs nothing but the standard library, and everything a client can make it
//! hold is bounded.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Longest head of a request that is read; what browsers send fits many times.
const MAX_HEAD: usize = 8 * 1024;
/// Longest wait for a client to send or take bytes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most clients served at the same time; others are turned away.
const MAX_CLIENTS: usize = 64;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let served = match arguments.as_slice() {
        [folder, address] => start(Path::new(folder), address),
        _ => Err(io::Error::other("usage: sample-web FOLDER ADDRESS:PORT")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // there is nowhere else to say it
            let _ = writeln!(io::stderr(), "sample-web: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(folder: &Path, address: &str) -> io::Result<()> {
    let folder = folder.canonicalize()?;
    let listener = TcpListener::bind(address)?;
    let shown = listener.local_addr()?;
    writeln!(
        io::stdout(),
        "serving {} at http://{shown}",
        folder.display()
    )?;
    serve(&listener, folder)
}

fn serve(listener: &TcpListener, folder: PathBuf) -> io::Result<()> {
    let folder = Arc::new(folder);
    for client in listener.incoming() {
        let Ok(client) = client else { continue };
        // each client holds one more count of the folder
        if Arc::strong_count(&folder) > MAX_CLIENTS {
            continue;
        }
        let folder = Arc::clone(&folder);
        // a client that leaves early is its own loss, and a thread too many is turned away
        let _ = std::thread::Builder::new().spawn(move || answer(client, &folder));
    }
    Ok(())
}

fn answer(mut client: TcpStream, folder: &Path) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let head = head(&mut client)?;
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let (status, kind, size, body) = match method {
        Some("GET" | "HEAD") => match open(folder, target) {
            Some((file, kind, size)) => ("200 OK", kind, size, Some(file)),
            None => ("404 Not Found", "text/plain", 0, None),
        },
        _ => ("405 Method Not Allowed", "text/plain", 0, None),
    };
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\
         Allow: GET, HEAD\r\nConnection: close\r\n\r\n"
    )?;
    if let Some(file) = body.filter(|_| method == Some("GET")) {
        io::copy(&mut file.take(size), &mut client)?;
    }
    Ok(())
}

/// The head of a request, up to its empty line.
fn head(client: &mut TcpStream) -> io::Result<String> {
    let mut read = Vec::new();
    let mut buffer = [0; 1024];
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        let n = client.read(&mut buffer)?;
        if n == 0 || read.len() + n > MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        read.extend_from_slice(&buffer[..n]);
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

/// The file a request is for. Names are letters, digits, `-`, `_` and inner dots, so none leads
/// upwards or to a hidden file; neither does a link.
fn open(folder: &Path, target: &str) -> Option<(File, &'static str, u64)> {
    let path = target.split('?').next()?.strip_prefix('/')?;
    let path = match path {
        "" => "index.html".to_owned(),
        path if path.ends_with('/') => format!("{path}index.html"),
        path => path.to_owned(),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let fine = |name: &str| !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain);
    if !path.split('/').all(fine) {
        return None;
    }
    let found = folder.join(&path).canonicalize().ok()?;
    let file = File::open(found.starts_with(folder).then_some(&found)?).ok()?;
    let about = file.metadata().ok()?;
    let kind = match found.extension().and_then(|end| end.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    };
    about.is_file().then_some((file, kind, about.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is answered to `request` by a server of a folder with one page.
    fn asked(name: &str, request: &str) -> io::Result<String> {
        let outer = std::env::temp_dir().join(format!("sample-web-{}-{name}", std::process::id()));
        let folder = outer.join("served");
        std::fs::create_dir_all(folder.join("deep"))?;
        std::fs::write(outer.join("secret.txt"), "secret")?;
        std::fs::write(folder.join("index.html"), "<p>front")?;
        std::fs::write(folder.join("deep/index.html"), "<p>deep")?;
        std::fs::write(folder.join(".hidden"), "secret")?;
        std::os::unix::fs::symlink("../secret.txt", folder.join("link.txt"))?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        client.write_all(request.as_bytes())?;
        client.shutdown(std::net::Shutdown::Write)?;
        let answered = answer(listener.accept()?.0, &folder.canonicalize()?);
        let mut text = String::new();
        client.read_to_string(&mut text)?;
        std::fs::remove_dir_all(&outer)?;
        answered.map(|()| text)
    }

    #[test]
    fn pages_are_served() -> io::Result<()> {
        let front = asked("front", "GET / HTTP/1.1\r\nHost: x\r\n\r\n")?;
        assert!(front.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html"));
        assert!(front.ends_with("\r\n\r\n<p>front"), "{front}");
        let deep = asked("deep", "GET /deep/?q HTTP/1.1\r\n\r\n")?;
        assert!(deep.ends_with("\r\n\r\n<p>deep"), "{deep}");
        let head = asked("head", "HEAD /index.html HTTP/1.1\r\n\r\n")?;
        assert!(head.contains("Content-Length: 8\r\n"), "{head}");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        Ok(())
    }

    #[test]
    fn nothing_else_is() -> io::Result<()> {
        let targets = [
            "/none",
            "/deep",
            "/../secret.txt",
            "/%2e%2e/secret.txt",
            "//etc/passwd",
            "/.hidden",
            "/link.txt",
            "index.html",
            "",
        ];
        for target in targets {
            let text = asked("else", &format!("GET {target} HTTP/1.1\r\n\r\n"))?;
            assert!(text.starts_with("HTTP/1.1 404 "), "{target}: {text}");
            assert!(!text.contains("secret"), "{target}: {text}");
        }
        let text = asked("post", "POST / HTTP/1.1\r\n\r\n")?;
        assert!(text.starts_with("HTTP/1.1 405 "), "{text}");
        Ok(())
    }

    #[test]
    fn a_request_without_end_is_dropped() {
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(MAX_HEAD));
        assert!(asked("long", &long).is_err());
        assert!(asked("cut", "GET / HTTP/1.1\r\n").is_err());
    }
}

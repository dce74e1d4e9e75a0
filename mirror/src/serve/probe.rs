//! Whether a mirror answers at an address of this machine.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::socket::NO_TLS;

/// How long each step may take: it is this machine that answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest answer that is looked at; ours are far shorter.
const LONGEST: u64 = 16 * 1024;

/// Whether a mirror answers at `address`, with TLS or without. Of one with TLS the words are known
/// by which it refuses a request without, so no certificate comes into it.
#[must_use]
pub fn is_mirror(address: SocketAddr) -> bool {
    let answer = ask(address).unwrap_or_default();
    [NO_TLS, "\"service\":\"kubepkg-mirror\""]
        .iter()
        .any(|known| answer.contains(known))
}

fn ask(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET /livez HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer)?;
    Ok(answer)
}
